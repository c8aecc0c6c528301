"""Metrics against closed forms, all permutations, and every way to break ties."""

from __future__ import annotations

from itertools import permutations
from math import isclose

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consmrf.evaluation import metrics
from consmrf.evaluation.metrics import list_auc, place, precision_at, recall_at


def rank_among(scores: tuple[float, ...], item: int) -> int:
    """The place of an item when the scores are sorted, the highest first."""
    return sorted(scores, reverse=True).index(scores[item]) + 1


# -- of ranks


def test_means_over_all_permutations_of_five_items() -> None:
    ranks = np.array([rank_among(scores, 0) for scores in permutations(range(5))])
    values = metrics.rank_values(ranks, np.full(len(ranks), 5)).mean(axis=0)
    harmonic = 1 + 1 / 2 + 1 / 3 + 1 / 4 + 1 / 5
    expected = {"mrr": harmonic / 5, "hits@1": 1 / 5, "hits@3": 3 / 5, "hits@10": 1.0, "mr": 3.0, "auc": 0.5}
    assert list(metrics.RANK_METRICS) == list(expected)
    np.testing.assert_allclose(values, list(expected.values()), rtol=1e-12)


@pytest.mark.parametrize("n", [2, 3, 14, 1000])
def test_a_constant_scorer_is_never_good(n: int) -> None:
    rank, candidates = np.array([1 + (n - 1) / 2]), np.array([n])
    assert isclose(metrics.mrr(rank), 2 / (n + 1))
    assert metrics.auc(rank, candidates) == 0.5


def test_auc_of_the_best_the_worst_and_the_only_candidate() -> None:
    auc = metrics.auc(np.array([1, 7, 4, 1]), np.array([7, 7, 7, 1]))
    np.testing.assert_array_equal(auc, [1.0, 0.0, 0.5, np.nan])


def test_hits_take_the_rank_as_it_is() -> None:
    assert metrics.hit_at(np.array([1, 1.5, 3, 3.5]), 3).tolist() == [1, 1, 1, 0]
    assert metrics.hit_at(np.array([1, 1.5]), 1).tolist() == [1, 0]


# -- of a list of positives and negatives


def test_lists_over_all_permutations_of_five_items() -> None:
    aucs, precisions = [], []
    for scores in permutations(range(5)):
        positives, negatives = np.array(scores[:2]), np.array(scores[2:])
        placing = place(positives, negatives)
        pairs = [p > n for p in positives for n in negatives]
        top = sorted(range(5), key=lambda i: -scores[i])[:3]
        hits = sum(i < 2 for i in top)
        assert list_auc(placing) == (sum(pairs) / 6,) * 3
        assert precision_at(placing, 3) == (hits / 3,) * 3
        assert recall_at(placing, 3) == (hits / 2,) * 3
        aucs.append(list_auc(placing).expected)
        precisions.append(precision_at(placing, 3).expected)
    assert isclose(np.mean(aucs), 1 / 2)
    assert isclose(np.mean(precisions), 2 / 5)


@pytest.mark.parametrize(("p", "n"), [(1, 1000), (3, 97), (7, 2), (1, 1)])
def test_a_constant_list_gets_what_chance_gets(p: int, n: int) -> None:
    placing = place(np.zeros(p), np.zeros(n))
    among_five = min(5, p + n)
    assert list_auc(placing) == (0.5, 0.0, 1.0)
    assert isclose(precision_at(placing, 5).expected, among_five * p / (p + n) / 5)
    assert isclose(recall_at(placing, 5).expected, among_five / (p + n))
    assert precision_at(placing, 5).optimistic == min(p, 5) / 5
    assert precision_at(placing, 5).pessimistic == max(0, among_five - n) / 5


@given(
    positives=st.lists(st.integers(0, 3), min_size=1, max_size=3),
    negatives=st.lists(st.integers(0, 3), min_size=1, max_size=3),
    k=st.integers(1, 7),
)
def test_ties_are_the_mean_and_the_extremes_of_all_orders(
    positives: list[int], negatives: list[int], k: int
) -> None:
    """Independent of the code: shuffle the list in every way, sort it stably, look at what came out."""
    items = [(score, True) for score in positives] + [(score, False) for score in negatives]
    aucs, hits = [], []
    for order in permutations(items):
        right = [is_positive for _, is_positive in sorted(order, key=lambda item: -item[0])]
        places = [i for i, is_positive in enumerate(right) if is_positive]
        beaten = sum(not other for i in places for other in right[i:])
        aucs.append(beaten / (len(positives) * len(negatives)))
        hits.append(sum(right[:k]))
    placing = place(np.array(positives, np.float32), np.array(negatives, np.float32))
    for found, seen, whole in (
        (list_auc(placing), aucs, 1),
        (precision_at(placing, k), hits, k),
        (recall_at(placing, k), hits, len(positives)),
    ):
        np.testing.assert_allclose(found, np.array([np.mean(seen), min(seen), max(seen)]) / whole, atol=1e-12)
