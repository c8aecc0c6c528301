"""How sure a number is: bootstrap percentiles over queries, and Student's interval of a mean over folds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from consmrf.errors import InputError, SettingError

__all__ = ["bootstrap_sums", "mean_interval", "percentile_interval", "ratio", "share_interval", "t_quantile"]
__all__ += ["weighted_intervals"]

Floats = NDArray[np.float64]

_WEIGHTS = 1 << 21  # of the bootstrap, at a time
# From here on Student's quantile is the normal one, to four digits.
_MANY = 10_000


def bootstrap_sums(values: Floats, repeats: int, seed: int) -> Floats:
    """Draw the rows of `values` [n, c] with replacement, n at a time; hand on the column sums [repeats, c].

    One draw is one vector of n weights, and a few are taken together: memory does not grow with `repeats`.
    """
    rng, n = np.random.default_rng(seed), len(values)
    sums = np.empty((repeats, values.shape[1]))
    few = min(max(1, _WEIGHTS // n), 64)
    for i in range(0, repeats, few):
        drawn = [np.bincount(rng.integers(0, n, n), minlength=n) for _ in range(min(few, repeats - i))]
        sums[i : i + few] = np.array(drawn, np.float64) @ values
    return sums


def percentile_interval(means: Floats, confidence: float) -> Floats:
    """Hand on the lower and upper percentiles [2, c] of means [repeats, c]; NaN where none is defined."""
    interval = np.full((2, means.shape[1]), np.nan)
    defined = ~np.isnan(means).all(axis=0)
    tails = [(1 - confidence) / 2, (1 + confidence) / 2]
    interval[:, defined] = np.nanquantile(means[:, defined], tails, axis=0)
    return interval


def ratio(sums: NDArray[np.number], counts: NDArray[np.number]) -> Floats:
    """Hand on sums / counts, NaN where there was nothing to count."""
    quotient = np.full(sums.shape, np.nan)
    np.divide(sums, counts, out=quotient, where=counts > 0)
    return quotient


def mean_interval(values: Sequence[float], confidence: float = 0.99) -> tuple[float, float, float]:
    """Hand on (mean, low, high): the mean of independent runs (folds, seeds) and its Student interval."""
    sample = np.asarray(values, dtype=np.float64)
    if sample.size < 2 or not np.isfinite(sample).all():
        raise InputError(f"a confidence interval needs at least two finite values, not {list(values)!r}")
    mean, error = float(sample.mean()), float(sample.std(ddof=1)) / math.sqrt(sample.size)
    reach = t_quantile(confidence, sample.size - 1) * error
    return mean, mean - reach, mean + reach


def share_interval(hits: int, n: int, confidence: float) -> tuple[float, float]:
    """Hand on Wilson's interval of a share: `hits` of n ≥ 1 independent trials."""
    z = t_quantile(confidence, _MANY)
    share = hits / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    reach = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return max(centre - reach, 0.0), min(centre + reach, 1.0)


def weighted_intervals(sums: Floats, weights: Floats, confidence: float) -> Floats:
    """Hand on Student's interval [2, c] of weighted means Σ sums / Σ weights over independent rows [n, c].

    A row is what it adds to numerator and denominator, its own weight included. The standard error is that of
    the ratio, linearised: √(n/(n−1) Σ (sum − mean · weight)²) / Σ weight. NaN with fewer than two rows.
    """
    n = (weights > 0).sum(axis=0)
    total = weights.sum(axis=0)
    mean = ratio(sums.sum(axis=0), total)
    squares = ((sums - mean * weights) ** 2).sum(axis=0)
    error = np.sqrt(ratio(n * squares, n - 1)) / np.where(total > 0, total, 1)
    reach = np.array([t_quantile(confidence, min(int(k) - 1, _MANY)) if k > 1 else np.nan for k in n]) * error
    return np.stack([mean - reach, mean + reach])


@cache
def t_quantile(confidence: float, freedom: int) -> float:
    """Hand on t with P(|T| < t) = confidence, for a whole number of degrees of freedom."""
    if not 0 < confidence < 1:
        raise SettingError(f"confidence = {confidence!r}: must lie between 0 and 1, both excluded")
    low, high = 0.0, math.pi / 2
    while (middle := (low + high) / 2) not in (low, high):  # until no float is left between the two
        low, high = (middle, high) if _t_inside(middle, freedom) < confidence else (low, middle)
    return math.tan(low) * math.sqrt(freedom)


def _t_inside(angle: float, freedom: int) -> float:
    """P(|T| < √freedom · tan angle), by the finite sums of Abramowitz & Stegun, 26.7.3 and 26.7.4."""
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term, total = (cosine, 0.0) if odd else (1.0, 0.0)
    for i in range(2 + odd, freedom + 1, 2):
        total += term
        term *= cosine * cosine * (i - 1) / i
    return 2 / math.pi * (angle + sine * total) if odd else sine * total
