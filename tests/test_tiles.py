"""Ranking factors by tiles against dense scores in double, and what may not change a rank."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consmrf.consensus.scorers import SCORERS
from consmrf.errors import InputError
from consmrf.evaluation import products, ranking, tiles
from consmrf.evaluation.ranking import SIDES, distinct, queries, rank
from consmrf.model import Model
from consmrf.predictors import Counts, Factors
from table_model import vocabulary

R, K = 5, 6
# of the entities, by view: none has rows of its own, few (corrections), many (a view), all
SHARES = (0.0, 0.06, 0.5, 1.0, 0.1) * 2


def make_factors(
    seed=0, scorer="diagonal", dtype=np.float32, reciprocal=False, *, n=60, dim=K, whole=False, plain=False
):
    """Factors with all they may have, or without intercepts; whole numbers make many equal scores."""
    rng = np.random.default_rng(seed)
    views = 2 * R if reciprocal else R
    rows = [np.sort(rng.choice(n, int(n * share), replace=False)) for share in SHARES[:views]]
    entities = np.concatenate(rows).astype(np.int32)

    def draw(*shape):
        return (rng.integers(-2, 3, shape) if whole else rng.normal(size=shape)).astype(dtype)

    factors = Factors(
        scorer=scorer,
        z=draw(n, dim),
        w=draw(views, SCORERS[scorer].weights(dim)),
        delta_indptr=np.concatenate([[0], np.cumsum([len(r) for r in rows])]).astype(np.int64),
        delta_rows=entities,
        delta=draw(len(entities), dim),
        reciprocal=reciprocal,
        shared="z",
    )
    if plain:
        return factors
    intercepts = {"b": draw(n, 2), "delta_b": draw(len(entities)), "log_share": draw(n, 2)}
    if reciprocal:
        return replace(factors, beta=draw(views), **intercepts)
    # one view ranks both sides, with intercepts and weights of counts for each
    return replace(factors, beta=draw(2 * views), subject_b=draw(len(entities)), **intercepts)


def dense_scores(factors, relation, side):
    """[given, candidate] in double, one query at a time, from the dense view."""
    turned = bool(side and factors.reciprocal)
    view = relation + R if turned else relation
    a, w = factors.view(view).astype(np.float64), factors.w[view].astype(np.float64)
    asked = np.empty_like(a)
    for row, q in zip(a, asked, strict=True):
        SCORERS[factors.scorer].query(len(row), row, w, q)
    scores = asked @ a.T if side == 0 or turned else (asked @ a.T).T
    offset = np.zeros(len(a))
    if len(factors.b):
        offset += factors.b[:, side]
        beta = factors.beta[view if side == 0 or turned else R + view]
        offset += np.float64(beta) * factors.log_share[:, side]
        own = slice(factors.delta_indptr[view], factors.delta_indptr[view + 1])
        offset[factors.delta_rows[own]] += (factors.delta_b if side == 0 or turned else factors.subject_b)[
            own
        ]
    return scores + offset


def naive_bounds(factors, triples, facts, side, near=1e-4):
    """[n, 2]: first and last place of each triple among its candidates, `near` scores counting as equal."""
    s, r, o = (0, 1, 2) if side == 0 else (2, 1, 0)
    tables = {relation: dense_scores(factors, relation, side) for relation in set(triples[:, 1].tolist())}
    answers: dict[tuple[int, int], set[int]] = {}
    for fact in facts.tolist():
        answers.setdefault((fact[r], fact[s]), set()).add(fact[o])
    found = []
    for triple in triples.tolist():
        row = tables[triple[r]][triple[s]]
        others = np.delete(row, sorted(answers[triple[r], triple[s]]))
        own = row[triple[o]]
        found.append([1 + np.sum(others > own + near), 1 + np.sum(others >= own - near)])
    return np.array(found)


def random_triples(count, n, seed=0):
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, size, count) for size in (n, R, n)]
    return distinct(np.stack(columns, axis=1).astype(np.int32))


def bounds(counted):
    return np.stack([counted.lower, counted.upper], axis=1)


@given(
    seed=st.integers(0, 10**6),
    scorer=st.sampled_from(sorted(SCORERS)),
    dtype=st.sampled_from([np.float32, np.float64]),
    reciprocal=st.booleans(),
    side=st.sampled_from([0, 1]),
    plain=st.booleans(),
    width=st.sampled_from([1, 64]),
    height=st.sampled_from([products.ROWS, tiles.HEIGHT]),
    threads=st.integers(1, 3),
)
@settings(max_examples=60)
def test_ranks_are_those_of_dense_scores(
    seed, scorer, dtype, reciprocal, side, plain, width, height, threads
):
    factors = make_factors(seed, scorer, dtype, reciprocal, whole=True, plain=plain)
    test, known = random_triples(160, 60, seed), random_triples(300, 60, seed + 1)
    asked = queries(test, [known], SIDES[side], 60)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "HEIGHT", height)
        patch.setattr(tiles, "_TILE_BYTES", width * height * np.dtype(dtype).itemsize)
        found = rank(factors, asked, threads=threads)
    np.testing.assert_array_equal(
        bounds(found), naive_bounds(factors, test, np.concatenate([test, known]), side)
    )
    np.testing.assert_array_equal(found.rank, bounds(found).mean(axis=1))


@pytest.mark.parametrize("scorer", sorted(SCORERS))
@pytest.mark.parametrize("side", [0, 1])
def test_neither_memory_threads_nor_other_queries_change_a_rank(scorer, side):
    """Scores so close that another rounding would show: the entities are one row, moved by a last bit."""
    n = 3000
    factors = make_factors(1, scorer, n=n, dim=48, reciprocal=True)
    rng = np.random.default_rng(2)
    z = np.repeat(rng.normal(size=(1, 48)), n, axis=0) * (1 + rng.integers(-40, 40, (n, 48)) * 1e-7)
    factors = replace(factors, z=z.astype(np.float32), delta=factors.delta * np.float32(1e-6))
    test, known = random_triples(900, n), random_triples(5000, n, 1)
    facts = [np.concatenate([known, test])]
    whole = bounds(rank(factors, queries(test, facts, SIDES[side], n), memory_mib=512, threads=3))
    assert len(np.unique(whole[:, 0])) > 100
    for settings_ in ({"threads": 1}, {"memory_mib": 1, "threads": 2}, {"threads": 8}):
        again = rank(factors, queries(test, facts, SIDES[side], n), **settings_)
        np.testing.assert_array_equal(bounds(again), whole)
    for some in (slice(0, 1), slice(17, 18), slice(3, None, 7), slice(500, None)):
        fewer = rank(factors, queries(test[some], facts, SIDES[side], n), threads=2)
        np.testing.assert_array_equal(bounds(fewer), whole[some])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dim", [1, 7, 50])
def test_a_product_is_the_sum_in_order_wherever_its_row_stands(dim, dtype):
    rng = np.random.default_rng(dim)
    width = products.lanes(dtype)
    q = rng.normal(size=(4 * products.ROWS, dim)).astype(dtype)
    rows = rng.normal(size=(2 * width + 5, dim)).astype(dtype)
    scores = np.full((len(q), 3 * width), np.nan, dtype)
    multiply = products.product(dtype)
    multiply(q, rows, np.empty((dim, width), dtype), scores)
    exact = q.astype(np.longdouble) @ rows.T.astype(np.longdouble)
    size = np.abs(q).astype(np.float64) @ np.abs(rows).T.astype(np.float64)
    assert (np.abs(scores[:, : len(rows)] - exact) <= dim * np.finfo(dtype).eps * size).all()
    assert not scores[:, len(rows) :].any()
    for place in range(len(q)):
        moved = np.empty_like(scores)
        multiply(np.roll(q, place, axis=0), rows[::-1], np.empty((dim, width), dtype), moved)
        np.testing.assert_array_equal(moved[place, : len(rows)], scores[0, : len(rows)][::-1])


@pytest.mark.parametrize("scorer", sorted(SCORERS))
def test_a_query_has_the_same_bits_whatever_is_asked_beside_it(scorer):
    factors = make_factors(3, scorer, n=400, dim=20)
    rng = np.random.default_rng(0)
    relations, given_ = np.sort(rng.integers(0, R, 300)), rng.integers(0, 400, 300).astype(np.int32)
    for side in (0, 1):
        together = factors.queries(relations, given_, side)
        for some in (slice(5, 6), slice(0, None, 9)):
            np.testing.assert_array_equal(
                factors.queries(relations[some], given_[some], side), together[some]
            )


# -- ties


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_are_equal_within_the_stated_tolerance(dtype):
    """√k ε Σ|terms|: here k = 4 and one term of 1, so that two steps above 1 are equal and three are not."""
    step = np.finfo(dtype).eps
    steps = np.array([0, 1, 2, 3, 50, -1, -2, -3, -60])
    z = np.zeros((len(steps), 4), dtype)
    z[:, 0] = 1 + steps * step
    factors = replace(make_factors(scorer="identity", dtype=dtype, n=len(steps), dim=4, plain=True), z=z)
    none = np.zeros(R + 1, np.int64)
    factors = replace(factors, delta_indptr=none, delta_rows=factors.delta_rows[:0], delta=factors.delta[:0])
    found = rank(factors, queries(np.array([[0, 0, 0]], np.int32), [], "objects", len(steps)))
    assert bounds(found).tolist() == [[1 + 2, 1 + 2 + 4]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("reciprocal", [False, True])
def test_entities_with_the_same_rows_are_equal(reciprocal, dtype):
    """Every entity three times, in consensus, departures and intercepts: no rounding parts the three."""
    once = make_factors(5, "diagonal", dtype, reciprocal, n=300, dim=100)
    thrice = {name: np.tile(getattr(once, name), (3, 1)) for name in ("z", "b", "log_share")}
    views = [once.own(v) for v in range(len(once.w))]
    thrice["delta_rows"] = np.concatenate([once.delta_rows[v] + i * 300 for v in views for i in range(3)])
    for name in ("delta", "delta_b") if reciprocal else ("delta", "delta_b", "subject_b"):
        thrice[name] = np.concatenate([getattr(once, name)[v] for v in views for _ in range(3)])
    factors = replace(once, delta_indptr=once.delta_indptr * 3, **thrice)
    test = random_triples(400, 300)
    for side in (0, 1):
        alone = rank(once, queries(test, [], SIDES[side], 300))
        among = rank(factors, queries(test, [], SIDES[side], 900))
        spread = (among.upper - among.lower) - 3 * (alone.upper - alone.lower)
        assert (spread >= 2).all()  # the two others of the answer; known answers have theirs, too
        assert np.median(spread) == 2


# -- what factors may be made of


def test_rows_that_lie_apart_in_memory_are_ranked_where_they_are():
    factors = make_factors(7, reciprocal=True)
    test = random_triples(200, 60)
    wide = {name: np.repeat(getattr(factors, name), 2, axis=1) for name in ("z", "delta")}
    apart = {name: array[:, : 2 * K] for name, array in wide.items()}
    for name in apart:
        apart[name][:, :K] = getattr(factors, name)
    strided = replace(factors, **{name: array[:, :K] for name, array in apart.items()})
    assert not strided.delta.flags.c_contiguous
    for side in SIDES:
        asked = queries(test, [], side, 60)
        np.testing.assert_array_equal(bounds(rank(strided, asked)), bounds(rank(factors, asked)))


def test_a_model_from_a_file_is_ranked_where_it_is_mapped(tmp_path: Path):
    factors = make_factors(8)
    test = random_triples(200, 60)
    Model(vocabulary(60, R), test, factors).save(tmp_path / "model")
    loaded = Model.load(tmp_path / "model")
    assert not loaded.predictor.z.flags.writeable
    for side in SIDES:
        asked = queries(test, [], side, 60)
        np.testing.assert_array_equal(bounds(rank(loaded, asked)), bounds(rank(factors, asked)))


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_scores_that_are_not_finite_have_no_rank(bad, side):
    factors = make_factors(9, plain=True)
    for array in (factors.z, factors.delta):
        spoilt = array.copy()
        spoilt[-1, 2] = bad
        broken = replace(factors, **{"z" if array is factors.z else "delta": spoilt})
        entity = int(factors.delta_rows[-1]) if array is factors.delta else 59
        for triple in ([3, 4, 5], [entity, 4, 5], [5, 4, entity], [entity, 4, entity]):
            # the last row of Δ is of the last view, that of relation 4
            asked = queries(np.array([triple], np.int32), [], side, 60)
            with pytest.raises(
                InputError, match=rf"scores of {side} for relation 'likes' are not all finite"
            ):
                rank(broken, asked, labels=["a", "b", "c", "d", "likes"])


def test_memory_stays_under_the_limit():
    n, limit = 30_000, 16
    factors = make_factors(10, n=n, dim=10)
    asked = queries(random_triples(2000, n), [], "objects", n)  # a matrix of scores would be 229 MiB
    rank(factors, queries(random_triples(5, n), [], "objects", n))  # compiles
    tracemalloc.start()
    try:
        rank(factors, asked, memory_mib=limit, threads=8)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < limit << 20


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("reciprocal", [False, True])
def test_wanted_scores_are_those_of_dense_views(side, reciprocal):
    n = 1500  # more than are gathered at once
    factors = make_factors(11, "complex", np.float64, reciprocal, n=n)
    test = random_triples(60, n)
    asked = queries(test, [], SIDES[side], n)
    rng = np.random.default_rng(0)
    wanted = [rng.permutation(n)[:size] for size in rng.choice([0, 1, 7, n], len(asked))]
    runs = [
        dict(
            tiles.score_wanted(
                *(factors, asked, wanted.__getitem__, n), memory_mib=memory, threads=threads, labels=()
            )
        )
        for memory, threads in ((512, 3), (1, 1))
    ]
    assert sorted(runs[0]) == list(range(len(asked)))
    tables = {r: dense_scores(factors, r, side) for r in set(test[:, 1].tolist())}
    for query, scores in runs[0].items():
        np.testing.assert_array_equal(runs[1][query], scores)
        exact = tables[int(asked.relation[query])][asked.given[query]][wanted[query]]
        np.testing.assert_allclose(scores, exact, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("side", SIDES)
def test_popularity_is_counted_as_its_rows_of_scores_are(side):
    known, test = random_triples(500, 40), random_triples(300, 40, 1)
    counts = Counts.from_triples(known, 40, R)
    asked = queries(test, [known], side, 40)
    by_rows = ranking._count_blocks(counts, asked, 512, ())
    found = rank(counts, asked)
    np.testing.assert_array_equal(found.lower[asked.position] - 1, by_rows[0])
    np.testing.assert_array_equal((found.upper - found.lower)[asked.position], by_rows[1])
