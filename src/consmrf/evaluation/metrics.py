"""Metrics as pure functions: of ranks against all entities, and of a list of positives and negatives.

The rank of a positive is 1 + #better + ½·#equal among the other candidates. Its bounds put the positive first
(lower, optimistic) or last (upper, pessimistic) among its equals; metrics of ranks apply to bounds as well.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["RANK_METRICS", "Bounded", "Placing", "auc", "hit_at", "list_auc", "mrr", "place"]
__all__ += ["precision_at", "rank_values", "recall_at", "reciprocal_rank"]

Floats = NDArray[np.float64]
HITS = (1, 3, 10)
RANK_METRICS = ("mrr", *(f"hits@{k}" for k in HITS), "mr", "auc")


def reciprocal_rank(rank: NDArray[np.number]) -> Floats:
    """Hand on 1 / rank of each query; the mean is the MRR."""
    return 1.0 / np.asarray(rank, dtype=np.float64)


def mrr(rank: NDArray[np.number]) -> float:
    """Hand on the mean reciprocal rank."""
    return float(reciprocal_rank(rank).mean())


def hit_at(rank: NDArray[np.number], k: int) -> Floats:
    """Hand on 1 for each query whose rank is at most k, else 0; the mean is Hits@k."""
    return (np.asarray(rank) <= k).astype(np.float64)


def auc(rank: NDArray[np.number], candidates: NDArray[np.integer]) -> Floats:
    """Hand on the share of the other candidates that each positive beats; NaN where there is no other.

    `candidates` counts the positive itself.
    """
    others = np.asarray(candidates, dtype=np.float64) - 1
    beaten = others + 1 - rank
    share = np.full(others.shape, np.nan)
    np.divide(beaten, others, out=share, where=others > 0)
    return share


def rank_values(rank: NDArray[np.number], candidates: NDArray[np.integer]) -> Floats:
    """Hand on one row per query and one column per name in RANK_METRICS; the column means are the metrics."""
    hits = [hit_at(rank, k) for k in HITS]
    return np.stack(
        [reciprocal_rank(rank), *hits, np.asarray(rank, np.float64), auc(rank, candidates)], axis=1
    )


class Bounded(NamedTuple):
    """A metric's expectation when equals are in random order, and when negatives or positives come first."""

    expected: float
    pessimistic: float
    optimistic: float


class Placing(NamedTuple):
    """Where each positive of a list stands: how many score higher than it, and how many the same."""

    above: NDArray[np.int64]  # [p] negatives that score higher
    equal: NDArray[np.int64]  # [p] negatives that score the same
    peers_above: NDArray[np.int64]  # [p] positives that score higher
    peers_equal: NDArray[np.int64]  # [p] positives that score the same, itself included
    negatives: int


def place(positives: NDArray[np.floating], negatives: NDArray[np.floating]) -> Placing:
    """Compare the scores of a list's positives with those of its negatives and with each other."""
    above, equal = _count(negatives, positives)
    peers_above, peers_equal = _count(positives, positives)
    return Placing(above, equal, peers_above, peers_equal, len(negatives))


def list_auc(placing: Placing) -> Bounded:
    """Hand on the share of (positive, negative) pairs in the right order, an equal pair counting one half."""
    pairs = len(placing.above) * placing.negatives
    wrong, tied = int(placing.above.sum()), int(placing.equal.sum())
    return Bounded(
        (pairs - wrong - tied / 2) / pairs, (pairs - wrong - tied) / pairs, (pairs - wrong) / pairs
    )


def precision_at(placing: Placing, k: int) -> Bounded:
    """Hand on the share of the first k places that hold a positive; a shorter list has k places too."""
    return Bounded(*(hits / k for hits in _hits(placing, k)))


def recall_at(placing: Placing, k: int) -> Bounded:
    """Hand on the share of the positives that are among the first k."""
    return Bounded(*(hits / len(placing.above) for hits in _hits(placing, k)))


def _hits(placing: Placing, k: int) -> Bounded:
    """Positives among the first k: equals share the places that their group reaches into, in equal parts."""
    room = k - placing.above - placing.peers_above
    worst = round(_places(room - placing.equal, placing.peers_equal))
    best = round(_places(room, placing.peers_equal))
    expected = _places(room, placing.equal + placing.peers_equal)
    return Bounded(min(max(expected, worst), best), worst, best)  # rounding never leaves the bounds


def _places(room: NDArray[np.int64], group: NDArray[np.int64]) -> float:
    return float(np.clip(room / group, 0.0, 1.0).sum())


def _count(
    pool: NDArray[np.floating], scores: NDArray[np.floating]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each score: how many of the pool are higher, and how many equal."""
    ordered = np.sort(pool)
    upto = np.searchsorted(ordered, scores, side="right")
    return len(pool) - upto, upto - np.searchsorted(ordered, scores, side="left")
