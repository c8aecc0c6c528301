"""Metrics of whole queries and metrics adjusted for chance: brute force, scikit-learn, closed forms."""

from __future__ import annotations

from itertools import permutations
from math import isclose, log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, ndcg_score, roc_auc_score

from consmrf.evaluation.metrics import (
    ADJUSTED_METRICS,
    METRICS,
    adjusted_values,
    at_chance,
    auc,
    limits,
    measure,
)

SCORES = st.lists(st.integers(0, 3), min_size=1, max_size=3)


def bounds(positives: np.ndarray, negatives: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each positive's best and worst rank among the negatives, counted one by one."""
    lower = np.array([1 + sum(n > p for n in negatives) for p in positives])
    upper = np.array([1 + sum(n >= p for n in negatives) for p in positives])
    return lower, upper


def measured(positives: np.ndarray, negatives: np.ndarray) -> dict[str, tuple[float, float, float]]:
    """The metrics of one query by name: expected, pessimistic, optimistic."""
    lower, upper = bounds(positives, negatives)
    candidates = np.full(len(positives), len(negatives) + 1)
    found = measure(np.zeros(len(positives), np.int64), lower, upper, candidates)
    return {
        m: tuple(float(kind[0, i]) for kind in (found.expected, found.pessimistic, found.optimistic))
        for i, m in enumerate(METRICS)
    }


# -- lists


def brute_force(right: list[bool]) -> dict[str, float]:
    """The textbook's definitions on one list of hits and misses, without any shortcut."""
    places = [i for i, hit in enumerate(right, start=1) if hit]
    told = {
        "ap": float(np.mean([sum(right[:i]) / i for i in places])),
        "ndcg": sum(1 / log2(1 + i) for i in places)
        / sum(1 / log2(1 + i) for i in range(1, len(places) + 1)),
    }
    for k in (5, 10):
        told |= {f"precision@{k}": sum(right[:k]) / k, f"recall@{k}": sum(right[:k]) / len(places)}
    return told


@settings(max_examples=40)
@given(positives=SCORES, negatives=SCORES)
def test_equals_are_the_mean_and_the_extremes_of_all_orders(
    positives: list[int], negatives: list[int]
) -> None:
    items = [(score, True) for score in positives] + [(score, False) for score in negatives]
    seen = [
        brute_force([hit for _, hit in sorted(order, key=lambda item: -item[0])])
        for order in permutations(items)
    ]
    found = measured(np.array(positives), np.array(negatives))
    for metric in seen[0]:
        values = [one[metric] for one in seen]
        np.testing.assert_allclose(found[metric], [np.mean(values), min(values), max(values)], atol=1e-12)


@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.integers(2, 60))
def test_lists_are_those_of_scikit_learn(seed: int, p: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    positives, negatives = rng.normal(0.5, 1, p), rng.normal(size=n)
    truth, scores = np.repeat([1, 0], [p, n]), np.concatenate([positives, negatives])
    found = measured(positives, negatives)
    assert found["ap"][0] == pytest.approx(average_precision_score(truth, scores))
    assert found["ndcg"][0] == pytest.approx(ndcg_score([truth], [scores]))
    lower, upper = bounds(positives, negatives)
    share = auc((lower + upper) / 2, np.full(p, n + 1)).mean()
    assert share == pytest.approx(roc_auc_score(truth, scores))


@given(st.integers(0, 2**32 - 1))
def test_the_auc_and_ndcg_of_equals_are_those_of_scikit_learn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    positives, negatives = rng.integers(0, 4, 5).astype(float), rng.integers(0, 4, 12).astype(float)
    truth, scores = np.repeat([1, 0], [5, 12]), np.concatenate([positives, negatives])
    lower, upper = bounds(positives, negatives)
    assert auc((lower + upper) / 2, np.full(5, 13)).mean() == pytest.approx(roc_auc_score(truth, scores))
    assert measured(positives, negatives)["ndcg"][0] == pytest.approx(ndcg_score([truth], [scores]))


def test_queries_are_kept_apart_and_stand_in_their_first_row() -> None:
    rng = np.random.default_rng(3)
    sizes, own = [3, 1, 2], {}
    rows = []
    for q, p in enumerate(sizes):
        positives, negatives = rng.integers(0, 9, p), rng.integers(0, 9, 15)
        own[q] = measured(positives, negatives)
        lower, upper = bounds(positives, negatives)
        rows += [(q, lo, up) for lo, up in zip(lower, upper, strict=True)]
    order = rng.permutation(len(rows))
    query, lower, upper = (np.array(column)[order] for column in zip(*rows, strict=True))
    found = measure(query, lower, upper, np.full(len(rows), 16)).expected
    for i, metric in enumerate(METRICS):
        if metric in ("ap", "ndcg", "precision@5", "recall@10"):
            for q in own:
                first, *rest = found[query == q, i]
                assert first == pytest.approx(own[q][metric][0])
                assert np.isnan(rest).all()


def test_a_constant_scorer_has_the_precision_of_chance() -> None:
    """Of n equals, r right, the expected average precision has a sum of its own for r = 1: H_n / n."""
    n = 20
    found = measured(np.zeros(1), np.zeros(n - 1))
    assert found["ap"][0] == pytest.approx(sum(1 / i for i in range(1, n + 1)) / n)
    assert found["precision@5"][0] == pytest.approx(1 / n)
    assert found["recall@10"] == (pytest.approx(10 / n), 0.0, 1.0)
    assert found["ndcg"][0] == pytest.approx(sum(1 / log2(1 + i) for i in range(1, n + 1)) / n)


# -- adjusted for chance


@pytest.mark.parametrize("n", [1, 2, 3, 7, 30])
def test_chance_is_the_mean_over_all_ranks(n: int) -> None:
    ranks = np.arange(1, n + 1)
    expected = [ranks.mean(), (1 / ranks).mean(), *((ranks <= k).mean() for k in (1, 3, 10))]
    np.testing.assert_allclose(at_chance(np.array([n]))[0], expected)


def test_all_permutations_are_at_chance_and_the_best_is_one() -> None:
    ranks = np.tile(np.arange(1, 13), 2)
    candidates = np.full(24, 12)
    values, weights = adjusted_values(ranks, candidates)
    np.testing.assert_allclose((values * weights).sum(0) / weights.sum(0), 0, atol=1e-12)
    best, _ = adjusted_values(np.ones(3), np.array([12, 40, 1000]))
    np.testing.assert_allclose(best, 1)


def test_adjusted_metrics_are_the_published_quotients() -> None:
    rng = np.random.default_rng(0)
    candidates = rng.integers(2, 200, 500)
    ranks = np.ceil(candidates * rng.uniform(size=500) ** 3).astype(np.int64).clip(1)
    values, weights = adjusted_values(ranks, candidates)
    found = dict(zip(ADJUSTED_METRICS, np.nansum(values * weights, axis=0) / weights.sum(0), strict=True))
    assert found["amri"] == pytest.approx(1 - (ranks.mean() - 1) / (((candidates + 1) / 2).mean() - 1))
    harmonic = np.array([sum(1 / i for i in range(1, n + 1)) / n for n in candidates])
    chance = harmonic.mean()
    assert found["adjusted_mrr"] == pytest.approx(((1 / ranks).mean() - chance) / (1 - chance))
    chance = np.minimum(3 / candidates, 1).mean()
    assert found["adjusted_hits@3"] == pytest.approx(((ranks <= 3).mean() - chance) / (1 - chance))


def test_where_chance_is_best_nothing_is_defined_and_nothing_weighs() -> None:
    values, weights = adjusted_values(np.array([1, 2]), np.array([1, 3]))
    np.testing.assert_array_equal(np.isnan(values), [[True] * 5, [False, False, False, True, True]])
    assert (weights[np.isnan(values)] == 0).all()


@given(st.integers(1, 30), st.integers(0, 29))
def test_every_metric_keeps_to_its_limits(n: int, above: int) -> None:
    rank = np.array([1 + above % n])
    found = measure(np.zeros(1, np.int64), rank, rank, np.array([n]))
    for metric, value in zip(METRICS, found.expected[0], strict=True):
        low, high = limits(metric)
        assert np.isnan(value) or low <= value <= high or isclose(value, high)
