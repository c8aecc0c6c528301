"""Evaluation beyond single ranks: lists, relations as a third side, unseen labels, groups, intervals."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from consmrf.errors import InputError, SettingError
from consmrf.evaluation.groups import frequencies
from consmrf.evaluation.intervals import share_interval, weighted_intervals
from consmrf.evaluation.protocol import Evaluation, EvaluationOptions, evaluate
from consmrf.evaluation.relations import raw_hits
from consmrf.evaluation.result import save_ranks
from consmrf.graph.categories import cardinality
from consmrf.graph.triples import Graph
from consmrf.graph.vocabulary import Vocabulary
from table_model import TableModel, graph_of, ids

E, R = 12, 4
ALL = EvaluationOptions(sides=("objects", "subjects", "relations"), bootstrap=0)
TRIPLES = st.sets(
    st.tuples(st.integers(0, E - 1), st.integers(0, R - 1), st.integers(0, E - 1)), min_size=1, max_size=40
)


def random_triples(seed: int, n: int) -> set[tuple[int, int, int]]:
    rng = np.random.default_rng(seed)
    return {tuple(map(int, row)) for row in rng.integers(0, [E, R, E], (n, 3))}


TRAIN, VALID, TEST = random_triples(0, 90), random_triples(1, 20), random_triples(2, 40)


def model_of(levels: int = 40, known: object = TRAIN, seed: int = 5) -> TableModel:
    return TableModel(np.random.default_rng(seed).integers(0, levels, (R, E, E)), known)


def evaluated(model: TableModel, test: object = TEST, options: EvaluationOptions = ALL) -> Evaluation:
    return evaluate(model, graph_of(model, test), known=[graph_of(model, VALID)], options=options)


# -- relation prediction


@settings(max_examples=30)
@given(test=TRIPLES, levels=st.integers(1, 6))
def test_relations_are_ranked_as_by_hand(test: set[tuple[int, int, int]], levels: int) -> None:
    model = model_of(levels)
    found = evaluated(model, test)
    facts, ranks = TRAIN | VALID | test, found.ranks
    own = ranks.side == 2
    assert own.sum() == len(test)
    hits = []
    for s, r, o, lower, upper, n in zip(
        *(x[own].tolist() for x in (ranks.s, ranks.r, ranks.o, ranks.lower, ranks.upper, ranks.candidates)),
        strict=True,
    ):
        scores = model.table[:, s, o]
        rivals = [q for q in range(R) if q == r or (s, q, o) not in facts]
        better = sum(scores[q] > scores[r] for q in rivals)
        equal = sum(scores[q] == scores[r] for q in rivals) - 1
        assert (lower, upper, n) == (1 + better, 1 + better + equal, len(rivals))
        raw = 1 + sum(scores > scores[r]) + (sum(scores == scores[r]) - 1) / 2
        hits.append(raw <= 1)  # 5 % of four relations, rounded up
    told = found.to_dict()["relation_prediction"]
    assert told["hits@5%"] == pytest.approx(np.mean(hits))
    assert told["mrr"] == pytest.approx(np.mean(1 / ranks.rank[own]))
    assert "hits@5%" not in found.to_dict()["both"]
    assert found.to_dict()["both"]["count"] == 2 * len(test)


def test_relations_need_little_memory_and_the_same_ranks() -> None:
    model = TableModel(np.random.default_rng(0).normal(size=(300, 40, 40)))
    test = np.random.default_rng(1).integers(0, [40, 300, 40], (400, 3)).astype(np.int32)
    runs = []
    for memory in (64, 1):
        model.largest_block = 0
        options = EvaluationOptions(sides=("relations",), memory_mib=memory, bootstrap=0)
        runs.append(evaluate(model, graph_of(model, test), options=options))
        assert model.largest_block <= max(1, (memory << 20) // (32 * 300))
    np.testing.assert_array_equal(runs[0].ranks.lower, runs[1].ranks.lower)
    assert runs[0].view == "relation_prediction"


def test_five_per_cent_is_rounded_up() -> None:
    assert raw_hits(np.array([1, 1.5, 2, 3]), 25).tolist() == [1, 1, 1, 0]
    assert raw_hits(np.array([1, 2]), 3).tolist() == [1, 0]
    assert raw_hits(np.array([228, 229]), 4547).tolist() == [1, 0]


def test_a_model_that_does_not_score_relations_is_told_so() -> None:
    class Ends:
        def __init__(self, model: TableModel) -> None:
            self.vocabulary, self.known = model.vocabulary, model.known
            self.object_scores, self.subject_scores = model.object_scores, model.subject_scores

    model = model_of()
    with pytest.raises(InputError, match="no relation_scores"):
        evaluate(Ends(model), graph_of(model, TEST), options=ALL)
    model.table = np.full((R, E, E), np.nan, np.float32)
    with pytest.raises(InputError, match="scores of relations are not all finite"):
        evaluate(model, graph_of(model, TEST), options=EvaluationOptions(sides=("relations",)))


# -- lists


@settings(max_examples=20)
@given(test=TRIPLES)
def test_average_precision_is_that_of_scikit_learn_for_every_query(test: set[tuple[int, int, int]]) -> None:
    model = TableModel(np.random.default_rng(2).normal(size=(R, E, E)), TRAIN)
    found = evaluated(model, test)
    before = TRAIN | VALID
    for side, fixed_ends in (("objects", (0, 1)), ("subjects", (1, 2)), ("relation_prediction", (0, 2))):
        lists = defaultdict(set)
        for triple in test:
            lists[tuple(triple[i] for i in fixed_ends)].add(triple)
        values = []
        for key, right in lists.items():
            [free] = {0, 1, 2} - set(fixed_ends)
            pool = []
            for x in range(R if free == 1 else E):
                triple = [0, 0, 0]
                triple[free] = x
                for i, fixed in zip(fixed_ends, key, strict=True):
                    triple[i] = fixed
                if tuple(triple) in right or tuple(triple) not in before:
                    pool.append(tuple(triple))
            truth = [triple in right for triple in pool]
            scores = [model.table[r, s, o] for s, r, o in pool]
            values.append(average_precision_score(truth, scores))
        assert found.micro[side]["ap"] == pytest.approx(np.mean(values))
        assert found.micro[side]["lists"] == len(lists)


# -- any one test triple, by hand, from the saved ranks


def test_a_saved_rank_is_what_a_reader_counts(tmp_path: Path) -> None:
    model = model_of(levels=5)
    found = evaluated(model)
    save_ranks(found, tmp_path / "r")
    facts = TRAIN | VALID | TEST
    e, r = model.vocabulary.entity_ids, model.vocabulary.relation_ids
    for row in pl.read_parquet(tmp_path / "r").iter_rows(named=True):
        triple = [e[row["s"]], r[row["r"]], e[row["o"]]]
        free = {"subjects": 0, "relations": 1, "objects": 2}[row["side"]]
        own = model.table[triple[1], triple[0], triple[2]]
        higher = equal = 0
        for x in range(R if free == 1 else E):
            other = [*triple[:free], x, *triple[free + 1 :]]
            if other != triple and tuple(other) not in facts:
                score = model.table[other[1], other[0], other[2]]
                higher, equal = higher + int(score > own), equal + int(score == own)
        assert (row["lower"], row["upper"]) == (1 + higher, 1 + higher + equal)
        assert row["rank"] == 1 + higher + equal / 2


# -- labels that the model has never seen


def test_unseen_labels_are_left_out_or_ranked_last() -> None:
    model = model_of()
    e, r = model.vocabulary.entities, model.vocabulary.relations
    names = Vocabulary((*e, "nobody"), (*r, "unheard"))
    seen = sorted(TEST)[:10]
    test = Graph(names, ids([*seen, (E, 0, 1), (2, 1, E), (0, R, 1)]))
    left, worst = (
        evaluate(model, test, options=EvaluationOptions(sides=ALL.sides, unseen=policy, bootstrap=20))
        for policy in ("leave-out", "worst")
    )
    same = {"unseen_entity": 2, "unseen_relation": 1}
    assert left.triples == {"scored": 10, **same}
    assert worst.triples == {"scored": 13, **same}
    kept = np.isin(worst.ranks.s, range(E)) & (worst.ranks.r < R) & (worst.ranks.o < E)
    for name in ("lower", "upper", "rank", "candidates", "s", "r", "o", "side"):
        np.testing.assert_array_equal(getattr(worst.ranks, name)[kept], getattr(left.ranks, name))
    lost = ~kept
    expected = np.where(worst.ranks.side[lost] == 2, R + 1, E + 1)
    for name in ("lower", "upper", "candidates"):
        np.testing.assert_array_equal(getattr(worst.ranks, name)[lost], expected)
    for view in ("objects", "subjects", "relation_prediction"):
        n, last = left.micro[view]["count"], R + 1 if view == "relation_prediction" else E + 1
        assert worst.micro[view]["mrr"] == pytest.approx((left.micro[view]["mrr"] * n + 3 / last) / (n + 3))
        assert worst.micro[view]["auc"] < left.micro[view]["auc"]
    assert set(worst.relations) == {*left.relations, r[0], r[1], "unheard"}
    assert worst.groups["answer_frequency"]["0"]["both"]["count"] == 2
    assert worst.groups["categories"]["untrained"]["both"]["count"] == 2
    with pytest.raises(SettingError, match="paper protocol"):
        evaluate(model, test, protocol="paper", options=EvaluationOptions(unseen="worst"))


def test_ranks_of_unseen_labels_are_saved(tmp_path: Path) -> None:
    model = model_of()
    names = Vocabulary((*model.vocabulary.entities, "nobody"), model.vocabulary.relations)
    options = EvaluationOptions(unseen="worst", bootstrap=0)
    save_ranks(evaluate(model, Graph(names, ids([(0, 0, 1), (E, 0, 1)])), options=options), tmp_path / "r")
    saved = pl.read_parquet(tmp_path / "r").filter(pl.col("s") == "nobody")
    assert saved["rank"].to_list() == [E + 1] * 2


# -- groups


def test_groups_are_means_of_their_own_queries() -> None:
    found = evaluated(model_of())
    kinds = ("1-1", "1-n", "n-1", "n-n")
    of_relation = [kinds[c] for c in cardinality(ids(TRAIN), R).category]
    degree = [sum(e in (s, o) for s, _, o in TRAIN) for e in range(E)]
    ranks = found.ranks
    for kind in set(of_relation):
        for side, view in enumerate(("objects", "subjects", "relation_prediction")):
            own = (ranks.side == side) & np.isin(ranks.r, [r for r in range(R) if of_relation[r] == kind])
            told = found.groups["categories"].get(kind, {}).get(view)
            assert (told is None) == (not own.any())
            if told:
                assert told["mrr"] == pytest.approx(np.mean(1 / ranks.rank[own]))
                assert told["count"] == own.sum()
    for label, low, high in (("1-9", 1, 9), ("10-99", 10, 99)):
        answer = np.where(ranks.side == 0, ranks.o, ranks.s)
        own = (ranks.side < 2) & np.array([low <= degree[e] <= high for e in answer])
        told = found.groups["answer_frequency"].get(label)
        assert (told is None) == (not own.any())
        if told:
            assert told["both"]["mrr"] == pytest.approx(np.mean(1 / ranks.rank[own]))
            assert not {"ap", "ndcg", "lists"} & set(told["both"])
    assert "relation_prediction" not in found.groups["answer_frequency"]["10-99"]
    counts = [group["both"]["count"] for group in found.groups["relation_frequency"].values()]
    assert sum(counts) == 2 * len(TEST)


def test_frequencies_are_powers_of_ten() -> None:
    labels, bins = frequencies(np.array([0, 1, 9, 10, 99, 100, 1234]))
    assert [labels[i] for i in bins] == ["0", "1-9", "1-9", "10-99", "10-99", "100-999", "1000-9999"]
    assert frequencies(np.array([0, 0]))[1].tolist() == [0, 0]


# -- intervals


def test_analytic_intervals_are_near_the_bootstraps() -> None:
    model = TableModel(np.random.default_rng(0).normal(size=(R, 60, 60)))
    test = graph_of(model, np.random.default_rng(1).integers(0, [60, R, 60], (1500, 3)).astype(np.int32))
    drawn, exact = (
        evaluate(model, test, options=EvaluationOptions(intervals=kind)).intervals["both"]
        for kind in ("bootstrap", "analytic")
    )
    assert drawn.keys() == exact.keys()
    for metric, (low, high) in exact.items():
        width = drawn[metric][1] - drawn[metric][0]
        assert high - low == pytest.approx(width, rel=0.15), metric
        assert (low + high) / 2 == pytest.approx(sum(drawn[metric]) / 2, abs=0.1 * width), metric


def test_weighted_intervals_cover_as_often_as_they_say() -> None:
    """With weights that hang on the values."""
    rng, covered = np.random.default_rng(4), 0
    true = (1 / 2 + 1 / 6) / (1 + 1 / 4)  # E[w x] / E[w] with w = 1 + x / 2 and x uniform
    for _ in range(1500):
        x = rng.uniform(size=(40, 1))
        weights = 1 + x / 2
        low, high = weighted_intervals(weights * x, weights, 0.9)[:, 0]
        covered += low <= true <= high
    assert 0.88 < covered / 1500 < 0.92


def test_one_row_has_no_interval_and_relations_have_their_own() -> None:
    assert np.isnan(weighted_intervals(np.ones((1, 2)), np.ones((1, 2)), 0.9)).all()
    found = evaluated(model_of())
    for label, views in found.relation_intervals.items():
        for view, spans in views.items():
            assert set(spans) == {"mrr", "hits@10", "auc"}
            low, high = spans["mrr"]
            assert 0 <= low <= found.relations[label][view]["mrr"] <= high <= 1


def test_shares_have_wilsons_interval() -> None:
    low, high = share_interval(0, 10, 0.95)
    assert (low, high) == (0, pytest.approx(1.959964**2 / (10 + 1.959964**2), rel=1e-3))
    rng = np.random.default_rng(0)
    inside = [
        low <= 0.1 <= high
        for low, high in (share_interval(int(h), 50, 0.9) for h in rng.binomial(50, 0.1, 2000))
    ]
    assert 0.86 < np.mean(inside) < 0.95
