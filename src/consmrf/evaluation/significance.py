"""Is one method better than another on the same queries: sign flips, correction for many tests, verdicts.

Pure functions. A row is one query, or one cluster of queries that are not independent, such as both ends of
one triple; rows are what is flipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

import numpy as np
from numpy.typing import NDArray

__all__ = ["Verdict", "holm", "sign_flip", "verdict"]

Floats = NDArray[np.float64]

# Up to so many rows, all sign patterns are tried, and p is exact.
_ALL_PATTERNS = 12
# Signs drawn at a time.
_SIGNS = 1 << 22
# Sums that differ by less than this share of the differences' absolute sum differ by rounding only.
_ROUNDING = 1e-12


class Verdict(Enum):
    """What the interval of a difference says of the first against the second."""

    BETTER = "better"
    TIED = "tied"
    WORSE = "worse"


def verdict(low: float, high: float) -> Verdict:
    """Read an interval: better or worse where it leaves out zero."""
    if low > 0:
        return Verdict.BETTER
    return Verdict.WORSE if high < 0 else Verdict.TIED


def sign_flip(differences: Floats, flips: int, *, enough: int | None = None, seed: object = 0) -> Floats:
    """Hand on, by column of differences [n, c], the two-sided p of "either sign was as likely, row by row".

    The statistic is the absolute sum. With few rows that are not zero all patterns of signs are tried; else
    up to `flips` are drawn, and p = (1 + as extreme) / (1 + drawn). With `enough`, drawing ends for a column
    when so many were as extreme, and p is their number by the number drawn (Besag & Clifford, 1991): small p
    are told finely, large ones quickly.
    """
    rows = differences[(differences != 0).any(axis=1)]
    if len(rows) <= _ALL_PATTERNS:
        patterns = np.arange(2 ** len(rows))[:, None] >> np.arange(len(rows)) & 1
        exact: Floats = _as_extreme(patterns.astype(np.float64), rows).mean(axis=0)
        return exact
    target = flips if enough is None else enough
    p = np.full(rows.shape[1], np.nan)
    count, drawn = np.zeros(rows.shape[1], np.int64), 0
    for bits in _coins(len(rows), flips, seed):
        hits = np.cumsum(_as_extreme(bits, rows), axis=0) + count
        done = np.isnan(p) & (hits[-1] >= target) & (enough is not None)
        p[done] = target / (drawn + 1 + np.argmax(hits[:, done] >= target, axis=0))
        count, drawn = hits[-1], drawn + len(bits)
        if not np.isnan(p).any():
            break
    return np.where(np.isnan(p), (1 + count) / (1 + drawn), p)


def _coins(n: int, flips: int, seed: object) -> Iterator[Floats]:
    """Yield blocks [·, n] of zeros and ones, `flips` rows in all."""
    rng = np.random.default_rng(seed)  # type: ignore[arg-type]
    at_once = max(1, min(_SIGNS // n, 1000))
    for first in range(0, flips, at_once):
        rows, width = min(at_once, flips - first), -(-n // 8)
        drawn = np.frombuffer(rng.bytes(rows * width), np.uint8).reshape(rows, width)
        yield np.unpackbits(drawn, axis=1)[:, :n].astype(np.float64)


def _as_extreme(bits: Floats, rows: Floats) -> NDArray[np.bool_]:
    total = rows.sum(axis=0)
    least = np.abs(total) - _ROUNDING * np.abs(rows).sum(axis=0)
    found: NDArray[np.bool_] = np.abs(2 * (bits @ rows) - total) >= least
    return found


def holm(p: Floats) -> Floats:
    """Hand on p corrected by Holm's step-down: the chance of one false finding or more stays below it.

    The smallest of m is multiplied by m, the next by m − 1, and so on; none is below the one before it. It
    holds whatever the tests have to do with each other. NaN was not tested and does not count.
    """
    corrected = np.full(len(p), np.nan)
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(p[order] * factors), 1.0)
    return corrected
