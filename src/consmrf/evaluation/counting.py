"""The compiled passes over a tile of scores while it is in the cache: settle, count.

A tile holds the scores [queries, candidates] of some queries for consecutive entities. What is done to a
query's row depends on that query and on the tile's columns alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["FINITE", "count", "settle"]

# What `settle` hands on where every score of the tile is finite.
FINITE = -1
# A reordered sum of ones is the same sum, and a row's sum is reordered alike wherever the row stands.
_FLAGS = {"contract", "reassoc"}


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FLAGS)
def settle(
    scores: NDArray[Any],
    first: int,
    width: int,
    b: NDArray[Any],
    log_share: NDArray[Any],
    beta: NDArray[Any],
    known: NDArray[np.int32],
    passed: NDArray[np.int64],
) -> int:
    """Add what all relations share to each row, and put known facts and columns past `width` at −∞.

    `passed` [n, 2] is where a query's known facts go on, and where they end; it moves on. Hand on the first
    row that has a score that is not finite, or FINITE.
    """
    zero = scores.dtype.type(0)
    for i in range(len(passed)):
        row = scores[i]
        if len(b):
            for e in range(width):
                row[e] += b[first + e]
        if len(log_share):
            for e in range(width):
                row[e] += beta[i] * log_share[first + e]
        strange = zero
        for e in range(width):
            strange += row[e] - row[e]  # 0, or NaN
        if strange != zero:
            return i
        row[width:] = -np.inf
        at, end = passed[i]
        while at < end and known[at] < first + width:
            row[known[at] - first] = -np.inf
            at += 1
        passed[i, 0] = at
    return FINITE


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FLAGS)
def count(
    scores: NDArray[Any],
    indptr: NDArray[np.int64],
    low: NDArray[Any],
    high: NDArray[Any],
    counts: NDArray[np.int64],
) -> None:
    """Count, for the answers of each row, the scores above `high` and those of at least `low`.

    A row is counted in floats, exact up to 2²⁴, of which a compiler makes vectors.
    """
    zero, one = scores.dtype.type(0), scores.dtype.type(1)
    for i in range(len(indptr) - 1):
        row = scores[i]
        for answer in range(indptr[i], indptr[i + 1]):
            above, reaching, top, bottom = zero, zero, high[answer], low[answer]
            for e in range(scores.shape[1]):
                above += one if row[e] > top else zero
                reaching += one if row[e] >= bottom else zero
            counts[answer, 0] += np.int64(above)
            counts[answer, 1] += np.int64(reaching)
