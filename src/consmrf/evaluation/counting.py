"""The compiled passes over a tile of scores while it is in the cache: correct, settle, count.

A tile holds the scores [queries, candidates] of some queries for consecutive entities. What is done to a
query's row depends on that query and on the tile's columns alone.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import njit, types
from numpy.typing import DTypeLike, NDArray

__all__ = ["FINITE", "GROUP", "correction", "count", "settle"]

# Queries whose products with one row of Δ_r are taken together, a group that is not full as if it were.
GROUP = 4
# What `settle` hands on where every score of the tile is finite.
FINITE = -1
# A reordered sum of ones is the same sum, and a row's sum is reordered alike wherever the row stands.
_FLAGS = {"contract", "reassoc"}


@cache
def correction(dtype: DTypeLike) -> Any:
    """Hand on `_correct` compiled for arrays of floats, of a model in memory or mapped from a file.

    A mapped array cannot be written to, which is a type of its own to numba: one form takes both.
    """
    real = types.float32 if np.dtype(dtype) == np.float32 else types.float64

    def fixed(kind: Any) -> Any:
        return types.Array(kind, 1, "C", readonly=True)

    signature = types.void(
        real[:, ::1],
        types.int64,
        real[:, ::1],
        types.int64[:, ::1],
        fixed(types.int32),
        fixed(real),
        types.int64,
        fixed(real),
    )
    return njit([signature], cache=True, nogil=True, error_model="numpy", fastmath=_FLAGS)(_correct)


def _correct(
    scores: NDArray[Any],
    first: int,
    q: NDArray[Any],
    runs: NDArray[np.int64],
    entities: NDArray[np.int32],
    delta: NDArray[Any],
    pitch: int,
    delta_b: NDArray[Any],
) -> None:
    """Add q · δ_e + δb_e to the columns of the entities that have rows of their own.

    A run (begin, end, row, stop) is the queries of one relation and its rows from the first that no tile has
    passed; `row` moves on. Row i of Δ_r begins at `pitch` · i of `delta`, and 0 says that no features differ;
    `delta_b` may be empty.
    """
    width, dim = scores.shape[1], q.shape[1]
    for run in range(len(runs)):
        begin, end, low, stop = runs[run]
        high = low
        while high < stop and entities[high] < first + width:
            high += 1
        runs[run, 2] = high
        if pitch:
            for i in range(begin, end, GROUP):
                left = min(GROUP, end - i)
                for row in range(low, high):
                    column = entities[row] - first
                    own = delta[row * pitch : row * pitch + dim]
                    q0, q1, q2, q3 = q[i], q[i + 1], q[i + 2], q[i + 3]
                    s0 = s1 = s2 = s3 = own[0] * 0
                    for j in range(dim):
                        s0 += q0[j] * own[j]
                        s1 += q1[j] * own[j]
                        s2 += q2[j] * own[j]
                        s3 += q3[j] * own[j]
                    scores[i, column] += s0
                    if left > 1:
                        scores[i + 1, column] += s1
                    if left > 2:
                        scores[i + 2, column] += s2
                    if left > 3:
                        scores[i + 3, column] += s3
        if len(delta_b):
            for i in range(begin, end):
                for row in range(low, high):
                    scores[i, entities[row] - first] += delta_b[row]


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
