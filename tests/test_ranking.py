"""Filtered ranking against a ranking by dicts and sorts, and what a memory limit may and may not change."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from consmrf.errors import InputError
from consmrf.evaluation import ranking
from consmrf.evaluation.ranking import SIDES, ValidationScore, distinct, one_blas_thread, queries, rank
from table_model import TableModel, ids

Triple = tuple[int, int, int]
N_ENTITIES, N_RELATIONS = 6, 2
TRIPLES = st.sets(
    st.tuples(
        st.integers(0, N_ENTITIES - 1), st.integers(0, N_RELATIONS - 1), st.integers(0, N_ENTITIES - 1)
    ),
    max_size=25,
)


def naive_rank(table: np.ndarray, triple: Triple, side: str, facts: set[Triple]) -> tuple[int, int, int]:
    """Sort the candidates' scores; hand on its own first and last place, and their number."""
    s, r, o = triple
    scores = {}
    for e in range(table.shape[1]):
        rival = (s, r, e) if side == "objects" else (e, r, o)
        if rival == triple or rival not in facts:
            scores[rival] = table[rival[1], rival[0], rival[2]]
    ordered = sorted(scores.values(), reverse=True)
    own = scores[triple]
    return ordered.index(own) + 1, len(ordered) - ordered[::-1].index(own), len(ordered)


def random_table(
    seed: int, levels: int = 4, shape: tuple[int, int] = (N_RELATIONS, N_ENTITIES)
) -> np.ndarray:
    n_relations, n_entities = shape
    return (
        np.random.default_rng(seed).integers(0, levels, (n_relations, n_entities, n_entities)).astype(float)
    )


def random_triples(n: int, n_entities: int, n_relations: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, size, n) for size in (n_entities, n_relations, n_entities)]
    return distinct(np.stack(columns, axis=1).astype(np.int32))


@given(
    test=TRIPLES.filter(len),
    train=TRIPLES,
    other=TRIPLES,
    seed=st.integers(0, 99),
    side=st.sampled_from(SIDES),
)
def test_equals_a_ranking_by_dicts_and_sorts(
    test: set[Triple], train: set[Triple], other: set[Triple], seed: int, side: str
) -> None:
    table, triples = random_table(seed), distinct(ids(test))
    asked = queries(triples, [ids(train), ids(other)], side, N_ENTITIES)
    counted = rank(TableModel(table), asked)
    facts = test | train | other
    for i, triple in enumerate(map(tuple, triples.tolist())):
        lower, upper, candidates = naive_rank(table, triple, side, facts)
        assert (counted.lower[i], counted.upper[i], counted.candidates[i]) == (lower, upper, candidates)
        assert counted.rank[i] == (lower + upper) / 2


@pytest.mark.parametrize("side", SIDES)
def test_few_and_many_answers_are_counted_alike(side: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = TableModel(random_table(3, shape=(2, 60)))
    triples = random_triples(3000, 60, 2)
    asked = queries(triples, [random_triples(500, 60, 2, seed=1)], side, 60)
    assert np.diff(asked.indptr).max() >= ranking._SORT_FROM
    by_default = rank(model, asked)
    for threshold in (1, 10**6):
        monkeypatch.setattr(ranking, "_SORT_FROM", threshold)
        for one, other in zip(rank(model, asked), by_default, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("side", SIDES)
def test_each_distinct_query_is_scored_once(side: str) -> None:
    triples = ids({(s, r, o) for s in (0, 1) for r in (0, 1) for o in range(5)})
    model = TableModel(random_table(0))
    rank(model, queries(triples, [], side, N_ENTITIES))
    assert model.rows_asked == (4 if side == "objects" else 10)


@pytest.mark.parametrize("side", SIDES)
def test_the_memory_limit_changes_the_blocks_only(side: str) -> None:
    n = 2000
    model = TableModel(random_table(0, levels=300, shape=(1, n)))
    asked = queries(random_triples(300, n, 1), [random_triples(5000, n, 1, seed=1)], side, n)
    roomy = rank(model, asked, memory_mib=512)
    blocks, model.largest_block = model.largest_block, 0
    tight = rank(model, asked, memory_mib=1)
    assert model.largest_block * n * 4 < 2**20
    assert model.largest_block < blocks
    for one, other in zip(roomy, tight, strict=True):
        np.testing.assert_array_equal(one, other)


def test_memory_stays_under_the_limit() -> None:
    n, limit = 50_000, 16

    class Fresh:
        def object_scores(self, _relation: int, subjects: np.ndarray) -> np.ndarray:
            return np.multiply.outer(subjects + 1.0, np.arange(n)).astype(np.float32)

    asked = queries(random_triples(400, n, 1), [], "objects", n)
    tracemalloc.start()
    try:
        rank(Fresh(), asked, memory_mib=limit)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < limit << 20


def test_one_row_is_scored_whatever_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "_BYTES_PER_SCORE", 2**30)
    model = TableModel(random_table(0))
    rank(model, queries(ids([(0, 0, 1), (1, 0, 2)]), [], "objects", N_ENTITIES), memory_mib=1)
    assert (model.largest_block, model.rows_asked) == (1, 2)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("side", SIDES)
def test_scores_that_are_not_finite_have_no_rank(bad: float, side: str) -> None:
    table = random_table(0)
    table[1, 3, 3] = bad
    asked = queries(ids([(3, 0, 3), (3, 1, 2), (2, 1, 3)]), [], side, N_ENTITIES)
    with pytest.raises(InputError, match=rf"scores of {side} for relation 'likes' are not all finite"):
        rank(TableModel(table), asked, labels=["knows", "likes"])
    with pytest.raises(InputError, match="relation number 1 "):
        rank(TableModel(table), asked)


def test_distinct_orders_and_drops_repetitions() -> None:
    triples = ids([(2, 1, 0), (0, 1, 5), (9, 0, 1), (2, 1, 0), (0, 1, 4)])
    assert distinct(triples).tolist() == [[9, 0, 1], [0, 1, 4], [0, 1, 5], [2, 1, 0]]


# -- the validation score


def naive_mrr(table: np.ndarray, triples: set[Triple], facts: set[Triple]) -> float:
    bounds = [naive_rank(table, t, side, facts)[:2] for t in triples for side in SIDES]
    return float(np.mean([2 / (lower + upper) for lower, upper in bounds]))


@given(valid=TRIPLES.filter(len), train=TRIPLES, seed=st.integers(0, 99))
def test_validation_score_is_the_filtered_mrr_of_both_sides(
    valid: set[Triple], train: set[Triple], seed: int
) -> None:
    score = ValidationScore(ids(valid), ids(train), N_ENTITIES)
    table = random_table(seed)
    assert score(TableModel(table)) == pytest.approx(naive_mrr(table, valid, valid | train), rel=1e-12)


def test_a_sample_of_the_validation_triples_is_filtered_by_all_of_them() -> None:
    valid, table = random_triples(90, 12, 2), random_table(5, shape=(2, 12))
    score = ValidationScore(valid, ids([]), 12, limit=20, seed=3)
    sample = {(s, r, o) for s, r, o in score.triples.tolist()}
    facts = {(s, r, o) for s, r, o in valid.tolist()}
    assert len(sample) == 20
    assert sample < facts
    assert score(TableModel(table)) == pytest.approx(naive_mrr(table, sample, facts), rel=1e-12)


def test_the_sample_depends_on_the_seed_and_not_on_the_order() -> None:
    valid = random_triples(90, 12, 2)
    shuffled = np.random.default_rng(0).permutation(valid)
    one, same, other = (
        ValidationScore(v, ids([]), 12, limit=20, seed=seed).triples
        for v, seed in ((valid, 3), (shuffled, 3), (valid, 4))
    )
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


def test_nothing_to_validate_on_is_an_error() -> None:
    with pytest.raises(InputError, match="no validation triple"):
        ValidationScore(ids([]), ids([(0, 0, 1)]), 3)


def test_the_blas_limit_lasts_until_the_last_one_leaves():
    """Entered twice and left in the order of entering, as two evaluations at once do."""

    def threads():
        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    with threadpool_limits(limits=2, user_api="blas"):
        before = threads()
        first, second = one_blas_thread(), one_blas_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert set(threads()) <= {1}
        second.__exit__(None, None, None)
        assert threads() == before
