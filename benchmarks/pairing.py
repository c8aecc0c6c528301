"""Is one method better than another on the same queries: paired differences, and what they add up to.

Pure functions. A row of values is one query, or one cluster of queries that are not independent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from consmrf.evaluation.intervals import bootstrap_sums, percentile_interval
from consmrf.evaluation.significance import Verdict, holm, sign_flip, verdict

__all__ = ["CONFIDENCE", "Estimate", "Verdict", "at_least_as_good", "better_than_all", "by_relation"]
__all__ += ["estimate", "paired"]

CONFIDENCE = 0.95
REPEATS = 2000
# Of a relation: fewer rows cannot give a p below 5 %, and from so many on the mean is taken for normal. Signs
# are drawn until so many were as extreme, or up to the most.
_FEWEST, _MANY, _ENOUGH, _MOST = 6, 200, 100, 100_000
Values = NDArray[np.float64]


class Estimate(NamedTuple):
    """A mean and its bootstrap interval."""

    mean: float
    low: float
    high: float

    @property
    def verdict(self) -> Verdict:
        """Read the mean as a difference: better or worse where the interval leaves out zero."""
        return verdict(self.low, self.high)


def estimate(values: Values, *, repeats: int = REPEATS, seed: int = 0) -> Estimate:
    """Hand on the mean with a bootstrap percentile interval; one value alone says nothing of its spread."""
    if not len(values):
        raise ValueError("no queries: there is nothing to take the mean of")
    mean = float(np.mean(values))
    if len(values) == 1:
        return Estimate(mean, -np.inf, np.inf)
    means = bootstrap_sums(np.asarray(values, np.float64)[:, None], repeats, seed) / len(values)
    (low,), (high,) = percentile_interval(means, CONFIDENCE).tolist()
    return Estimate(mean, low, high)


def paired(ours: Values, theirs: Values, *, repeats: int = REPEATS, seed: int = 0) -> Estimate:
    """Hand on the mean of ours − theirs, row by row the same query, with its paired bootstrap interval."""
    if ours.shape != theirs.shape:
        raise ValueError(f"not the same queries: {ours.shape} of ours, {theirs.shape} of theirs")
    return estimate(ours - theirs, repeats=repeats, seed=seed)


def by_relation(
    ours: Values, theirs: Values, relations: NDArray[np.integer], *, seed: int = 0
) -> dict[Verdict, int]:
    """Hand on how many relations are better, tied and worse, each by its own rows.

    By sign flips, or the normal law where rows are many; corrected by Holm for the number of relations: the
    chance of one false finding or more stays below 5 %. Relations with too few rows for a finding are not
    counted.
    """
    differences, p, means = ours - theirs, [], []
    for relation in np.unique(relations):
        own = differences[relations == relation]
        if len(own) < _FEWEST:
            continue
        means.append(own.mean())
        if len(own) < _MANY:
            p.append(sign_flip(own[:, None], _MOST, enough=_ENOUGH, seed=[seed, int(relation)])[0])
        else:
            error = own.std() / math.sqrt(len(own))
            p.append(math.erfc(abs(own.mean()) / error / math.sqrt(2)) if error else 1.0)
    found = holm(np.array(p)) < 1 - CONFIDENCE
    better, worse = (int(np.sum(found & side)) for side in (np.array(means) > 0, np.array(means) < 0))
    return {Verdict.BETTER: better, Verdict.TIED: len(p) - better - worse, Verdict.WORSE: worse}


Verdicts = Mapping[str, Sequence[Verdict]]  # by rival: one verdict per metric


def at_least_as_good(verdicts: Verdicts) -> bool:
    """Say whether ours is worse than no rival in no metric."""
    return all(verdict is not Verdict.WORSE for each in verdicts.values() for verdict in each)


def better_than_all(verdicts: Verdicts) -> bool:
    """Say whether ours is significantly better than every rival in every metric."""
    return all(verdict is Verdict.BETTER for each in verdicts.values() for verdict in each)
