"""Metrics as pure functions: of ranks against all candidates, and of a list of positives and negatives.

The rank of a positive is 1 + #better + ½·#equal among the other candidates. Its bounds put the positive first
(lower, optimistic) or last (upper, pessimistic) among its equals; metrics of ranks apply to bounds as well.

Every metric is a mean of the values of single queries, weighted where it is adjusted for chance: what a
query weighs then is how much better than chance it can be.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["ADJUSTED_METRICS", "METRICS", "QUERY_METRICS", "RANK_METRICS", "Bounded", "Placing", "Values"]
__all__ += ["adjusted_values", "at_chance", "auc", "hit_at", "limits", "list_auc", "measure", "mrr", "place"]
__all__ += ["precision_at", "query_values", "rank_values", "recall_at", "reciprocal_rank"]

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
HITS = (1, 3, 10)
TOP = (5, 10)
# of one positive; the same adjusted for chance; of a query with all its positives
RANK_METRICS = ("mrr", *(f"hits@{k}" for k in HITS), "mr", "auc")
ADJUSTED_METRICS = ("amri", "adjusted_mrr", *(f"adjusted_hits@{k}" for k in HITS))
QUERY_METRICS = ("ap", "ndcg", *(f"{name}@{k}" for k in TOP for name in ("precision", "recall")))
METRICS = (*RANK_METRICS, *ADJUSTED_METRICS, *QUERY_METRICS)


def limits(metric: str) -> tuple[float, float]:
    """Hand on the least and the greatest value that a metric can have."""
    if metric in ADJUSTED_METRICS:
        return -np.inf, 1.0
    return (1.0, np.inf) if metric == "mr" else (0.0, 1.0)


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


def at_chance(candidates: NDArray[np.integer]) -> Floats:
    """Hand on what a random order makes of each query: its mean MR, MRR and Hits@k, one column each.

    Among n candidates the rank is uniform on 1 … n, so that E[rank] = (n + 1)/2, E[1/rank] = H_n/n with the
    harmonic number H_n, and E[Hits@k] = min(k, n)/n.
    """
    n = np.asarray(candidates, dtype=np.int64)
    harmonic = _running(1 / np.arange(1, n.max() + 1))
    return np.stack([(n + 1) / 2, harmonic[n] / n, *(np.minimum(k, n) / n for k in HITS)], axis=1)


def adjusted_values(rank: NDArray[np.number], candidates: NDArray[np.integer]) -> tuple[Floats, Floats]:
    """Hand on values and weights [n, ADJUSTED_METRICS]: 0 is chance, 1 is best, NaN where both are one.

    A metric x with E[x] by chance and 1 as its best is adjusted to (Σx − ΣE[x]) / (Σ1 − ΣE[x]) over the
    queries: the mean of (x − E[x]) / (1 − E[x]), weighted by |1 − E[x]|. For x = MR that is the AMRI.
    """
    own = np.stack([np.asarray(rank, np.float64), reciprocal_rank(rank), *(hit_at(rank, k) for k in HITS)], 1)
    chance = at_chance(candidates)
    values = np.full(own.shape, np.nan)
    np.divide(own - chance, 1 - chance, out=values, where=chance != 1)
    return values, np.abs(1 - chance)


class Values(NamedTuple):
    """One row per ranked positive, one column per name in METRICS; NaN where a metric has no value.

    The values of a query with several positives stand in the row of its first one, NaN in the others, so
    that every query counts once in a mean.
    """

    expected: Floats
    pessimistic: Floats
    optimistic: Floats
    weights: Floats


def measure(queries: NDArray[np.integer], lower: Longs, upper: Longs, candidates: Longs) -> Values:
    """Hand on every metric of ranked positives, given a number for the query that each one answers."""
    order = np.lexsort((upper, lower, queries))
    starts = np.flatnonzero(np.diff(queries[order], prepend=queries.min() - 1))
    first = np.minimum.reduceat(order, starts)
    lists = query_values(lower[order], upper[order], starts)
    single: list[Floats] = []
    for rank, own in (
        ((lower + upper) / 2, lists.expected),
        (upper, lists.pessimistic),
        (lower, lists.optimistic),
    ):
        of_query = np.full((len(order), len(QUERY_METRICS)), np.nan)
        of_query[first] = own
        adjusted, weights = adjusted_values(rank, candidates)
        single.append(np.concatenate([rank_values(rank, candidates), adjusted, of_query], axis=1))
    whole = np.ones((len(order), len(METRICS)))
    whole[:, len(RANK_METRICS) : len(RANK_METRICS) + len(ADJUSTED_METRICS)] = weights
    return Values(single[0], single[1], single[2], whole)


class Lists(NamedTuple):
    """One row per query and one column per name in QUERY_METRICS."""

    expected: Floats
    pessimistic: Floats
    optimistic: Floats


def query_values(lower: Longs, upper: Longs, starts: NDArray[np.integer]) -> Lists:
    """Measure lists of all positives of a query and its negatives; positives are known, negatives are not.

    Receives each positive's bounds among the negatives, ordered by query and then by both bounds, and where
    each query starts. The j-th positive stands j − 1 places lower in the list than among the negatives
    alone, whatever the order among positives: so the places that positives hold follow from the bounds.
    Equals are in random order: then a group of n equals, r of them positive, that begins after t places and
    R positives, is expected to add to Σ precision at positives, and to the DCG,

        r/n · Σ_i (R + 1 + (i − 1)(r − 1)/(n − 1)) / (t + i)     and     r/n · Σ_i 1/log₂(1 + t + i)
    """
    ends = np.append(starts[1:], len(lower))
    count = ends - starts
    before = np.arange(len(lower)) - np.repeat(starts, count)
    reach = int((upper + before).max()) + 1
    gains = _running(1 / np.log2(np.arange(2, reach + 2)))
    harmonic = _running(1 / np.arange(1, reach + 1))
    best = _placed(lower + before, before, starts, count, gains)
    worst = _placed(upper + before, before, starts, count, gains)

    fresh = np.ones(len(lower), bool)
    fresh[1:] = (np.diff(lower) != 0) | (np.diff(upper) != 0)
    fresh[starts] = True
    groups = np.flatnonzero(fresh)
    r = np.diff(groups, append=len(lower))
    n = r + (upper - lower)[groups]
    t = lower[groups] - 1 + before[groups]
    span = harmonic[t + n] - harmonic[t]
    more = (r - 1) / np.maximum(n - 1, 1) * (n - (t + 1) * span)
    share = r / n
    parts = [share * ((before[groups] + 1) * span + more), share * (gains[t + n] - gains[t])]
    parts += [r * np.clip((k - t) / n, 0.0, 1.0) for k in TOP]
    sums = np.add.reduceat(np.stack(parts, axis=1), np.searchsorted(groups, starts))
    return Lists(_finished(sums, count, gains), worst, best)


def _placed(places: Longs, before: Longs, starts: NDArray[np.integer], count: Longs, gains: Floats) -> Floats:
    """Measure lists whose positives stand in known places."""
    parts = [(before + 1) / places, np.diff(gains)[places - 1], *((places <= k) * 1.0 for k in TOP)]
    return _finished(np.add.reduceat(np.stack(parts, axis=1), starts), count, gains)


def _finished(sums: Floats, count: Longs, gains: Floats) -> Floats:
    """Divide the sums of a query: of precisions, of gains, and of positives among the first k."""
    precision, gain, *hits = sums.T
    tops = [part for k, found in zip(TOP, hits, strict=True) for part in (found / k, found / count)]
    return np.stack([precision / count, gain / gains[count], *tops], axis=1)


def _running(terms: Floats) -> Floats:
    """Hand on the sums of the first 0, 1, 2, … terms."""
    return np.concatenate([[0.0], np.cumsum(terms)])


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
