"""The consensus step of a wave: what its blocks hand back is added in the order of the blocks.

A block started from sums G and ended at G + g. It hands back g and u = step × √(G + g), its step in the
metric of the gradients. Merging adds g to the shared sums first and then takes u / √(sums): a row that one
block touched gets that block's step, and where several blocks met, each step is as small as if the block had
known what those before it found. Rows are dealt to the workers by their number, so every row sees the blocks
in one order whoever merges it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from consmrf.consensus.primitives import AHEAD, FAST, LINE, prefetch

__all__ = ["merge_rows"]


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def merge_rows(target: Any, rows: NDArray[np.int32], table: Any, d: int, share: int, shares: int) -> float:
    """Merge a block's rows into `target`, those whose number leaves `share` when divided by `shares`.

    Rows without sums, of width d, get the steps as they are. Hands on the sum of the squared changes.
    """
    sums = target.shape[1] > d
    squares = 0.0
    for i in range(len(rows)):
        if i + AHEAD < len(rows):
            ahead = rows[i + AHEAD]
            if ahead % shares == share:
                for j in range(0, target.shape[1], LINE):
                    prefetch(target, ahead, j)
        e = rows[i]
        if e % shares != share:
            continue
        to, add = target[e], table[i]
        moved = to[0] * 0
        if sums:
            for j in range(d):
                to[d + j] += add[d + j]
                step = add[j] / np.sqrt(to[d + j])
                to[j] += step
                moved += step * step
        else:
            for j in range(d):
                to[j] += add[j]
                moved += add[j] * add[j]
        squares += moved
    return squares
