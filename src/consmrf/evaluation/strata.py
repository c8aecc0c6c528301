"""Fewer queries than there are, so that their means still tell what all would: which, and how surely.

Ranks are exact; only triples are drawn. Drawing candidates instead would make ranks smaller, and 1/rank,
Hits@k and all else that is not linear in the rank too large, which no weights mend.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from consmrf.errors import InputError
from consmrf.evaluation.intervals import ratio, t_quantile
from consmrf.evaluation.queries import Ids, Longs, runs

__all__ = ["allocate", "spaced", "spaced_error", "stratified", "stratified_intervals"]

Floats = NDArray[np.float64]

# Triples of one relation, where it has so many: fewer say nothing of their spread.
_FEWEST = 2


def stratified(relation: Ids, count: int, seed: int) -> tuple[Longs, Floats]:
    """Draw `count` rows, without replacement, from each relation in proportion to its size.

    Receives each row's relation, ascending. Hands on the rows, ascending, and what each stands for: how many
    there are of its relation over how many are drawn. Weighted by that, a mean over the rows drawn is that
    over all rows in expectation, and so is the mean over relations of their own means.
    """
    stretches = runs(relation)
    sizes = np.array([end - begin for begin, end in stretches])
    drawn = allocate(sizes, count)
    rows = [
        begin + np.sort(np.random.default_rng([seed, int(relation[begin])]).permutation(end - begin)[:n])
        for (begin, end), n in zip(stretches, drawn.tolist(), strict=True)
    ]
    return np.concatenate(rows), np.repeat(sizes / drawn, drawn)


def allocate(sizes: Longs, count: int) -> Longs:
    """Share `count` draws out in proportion to the sizes, by largest remainders; at least two, or all."""
    least = np.minimum(sizes, _FEWEST)
    if count < least.sum():
        raise InputError(
            f"sample = {count}: must be at least {least.sum()}, {_FEWEST} test triples of each of "
            f"{len(sizes)} relations or all it has; leave it out to rank all {sizes.sum()}"
        )
    rest = sizes - least
    shares = rest * ((count - least.sum()) / max(int(rest.sum()), 1))
    drawn: Longs = least + shares.astype(np.int64)
    order = np.lexsort((-sizes, shares.astype(np.int64) - shares))  # largest remainder first
    drawn[order[: count - int(drawn.sum())]] += 1
    return drawn


def stratified_intervals(
    sums: Floats, weights: Floats, relation: Ids, stands_for: Floats, confidence: float
) -> Floats:
    """Hand on intervals [2, c] of Σ sums / Σ weights [n, c], the rows being drawn by `stratified`.

    They are for the value that all rows would give: what a relation has no undrawn rows of adds nothing. The
    standard error is that of a ratio, linearised, √Σ_r (1 − n_r/N_r) n_r s_r² over Σ weight, s_r² being the
    variance within relation r of sum − mean · weight.
    """
    mean = ratio(sums.sum(axis=0), weights.sum(axis=0))
    off = sums - mean * weights
    squares = np.zeros(sums.shape[1])
    stretches = runs(relation)
    for begin, end in stretches:
        n = end - begin
        if n > 1:
            squares += (1 - 1 / stands_for[begin]) * n * off[begin:end].var(axis=0, ddof=1)
    error = ratio(np.sqrt(squares), weights.sum(axis=0))
    reach = t_quantile(confidence, max(1, len(relation) - len(stretches))) * error
    return np.stack([mean - reach, mean + reach])


def spaced(relation: Ids, count: int, seed: int) -> Longs:
    """Draw `count` rows at equal distances, in random order within each relation.

    Receives each row's relation, ascending. Every row has the same chance, so plain means are right; every
    relation gets its share, rounded up or down, however small it is. Hands on the rows in that order.
    """
    rng, n = np.random.default_rng(seed), len(relation)
    order = np.lexsort((rng.random(n), relation))
    return order[((rng.random() + np.arange(count)) * (n / count)).astype(np.int64)]


def spaced_error(values: Floats, total: int) -> float:
    """Hand on the standard error of the mean of values that `spaced` drew from `total`, in their order.

    Neighbours are alike in what the order follows, and what is left between them is chance: the variance is
    that of successive differences, without the share that has been drawn.
    """
    n = len(values)
    if n < 2:
        return float("nan")
    return float(np.sqrt((1 - n / total) * np.square(np.diff(values)).sum() / (2 * n * (n - 1))))
