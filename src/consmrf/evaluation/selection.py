"""How far each relation leaves the consensus, decided on validation triples.

What a relation has of its own is mixed into its scores in three shares: τ_r of its factors' departure Δ_r,
ι_r of its own intercept, and β_r of the logarithm of how often it has met each candidate. With (0, 0, 0) it
is the consensus. The shares are searched one after the other, from (1, 1, 0) on: first one value for all
relations, then one for each of the two sides, then one for each relation.

A value is judged by the reciprocal ranks and the AUCs of validation queries, each in its own standard
deviations. A relation has few queries, and what is best on a few is chance: its gain from a value is expected
to be what empirical Bayes says, between the gain of its side and the mean of its own queries, the nearer to
the former the fewer they are and the less relations differ beyond chance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

__all__ = ["GRIDS", "Mix", "choose"]

# What is tried of each share, in this order.
GRIDS: dict[str, Sequence[float]] = {
    "tau": (0.0, 0.25, 0.5, 0.75, 1.0, 1.5),
    "beta": (0.0, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0),
    "iota": (0.0, 0.5, 1.0),
}
# A side's own value must be better than that of both by so many standard errors.
_SURE = 1.0

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Mix:
    """The shares of each relation, twins after the relations."""

    tau: Floats
    iota: Floats
    beta: Floats

    @classmethod
    def even(cls, n: int, tau: float, iota: float, beta: float) -> Mix:
        """Hand on the same shares for all of n relations."""
        return cls(np.full(n, tau), np.full(n, iota), np.full(n, beta))


def choose(
    ranks: Callable[[Mix], Floats],
    relations: NDArray[np.intp],
    sides: NDArray[np.intp],
    n_entities: int,
    grids: Mapping[str, Sequence[float]] = GRIDS,
) -> Iterator[Mix]:
    """Receive the ranks [queries] under a mix, each query's relation, and the side of each relation, 0 or 1.

    Hands on the mix after each share that was searched; the last one is the best.
    """
    n = len(sides)
    mix = Mix.even(n, 1.0, 1.0, 0.0)
    scale = _scale(ranks(mix), n_entities)
    for name, values in grids.items():
        tried = [replace(mix, **{name: np.full(n, value)}) for value in values]
        gains = np.stack([_gain(ranks(each), n_entities, scale) for each in tried])
        best = _best(gains, relations, sides)
        mix = replace(mix, **{name: np.array(values)[best]})
        yield mix


def _scale(found: Floats, n_entities: int) -> tuple[float, float]:
    """Hand on the standard deviations of the reciprocal ranks and of the AUCs."""
    return float((1 / found).std()) or 1.0, float((found / n_entities).std()) or 1.0


def _gain(found: Floats, n_entities: int, scale: tuple[float, float]) -> Floats:
    gain: Floats = 1 / found / scale[0] - found / n_entities / scale[1]
    return gain


def _best(gains: Floats, relations: NDArray[np.intp], sides: NDArray[np.intp]) -> NDArray[np.intp]:
    """Hand on the best value of each relation, given what each query gains from each: [values, queries]."""
    pooled = int(np.argmax(gains.mean(axis=1)))
    best = np.full(len(sides), pooled)
    for side in (0, 1):
        asked = sides[relations] == side
        if not asked.any():
            continue
        own = gains[:, asked]
        surplus = own - own[pooled]
        sure = surplus.mean(axis=1) - _SURE * surplus.std(axis=1) / np.sqrt(own.shape[1])
        chosen = int(np.argmax(sure))
        of_side = np.unique(relations[asked])
        posterior = _expected(own - own[chosen], np.searchsorted(of_side, relations[asked]))
        best[of_side] = np.argmax(posterior, axis=0)
    return best


def _expected(gains: Floats, group: NDArray[np.intp]) -> Floats:
    """Hand on the gain of each value in each group, by empirical Bayes.

    Group g's gain is taken for normal, N(m, T²) over the groups, and the mean of its n_g queries for
    N(gain, σ²/n_g): the expectation is (T² n_g · its mean + σ² m) / (T² n_g + σ²). σ² is the variance within
    the groups, T² that between them which is left when the chance in their means is taken away.
    """
    counts = np.bincount(group).astype(np.float64)
    groups, queries = len(counts), len(group)
    means = np.stack([np.bincount(group, row) for row in gains]) / counts
    overall = gains.mean(axis=1, keepdims=True)
    if groups < 2 or queries <= groups:
        return np.repeat(overall, groups, axis=1)
    within = ((gains - means[:, group]) ** 2).sum(axis=1, keepdims=True) / (queries - groups)
    spread = (counts * (means - overall) ** 2).sum(axis=1, keepdims=True) - (groups - 1) * within
    between = np.maximum(spread / (queries - (counts**2).sum() / queries), 0.0)
    weight = between * counts
    total = weight + within
    trust = np.divide(weight, total, out=np.zeros_like(total), where=total > 0)
    expected: Floats = overall + trust * (means - overall)
    return expected
