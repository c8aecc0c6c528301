"""CCD++: one feature after another, each p and q of it at its one minimum, given all the rest.

The residuals stand in two orders, by row and by column, so that both sides of a feature run in parallel.
Every update is a minimum, so the objective never rises.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from consmrf.baselines.rounds import Crew
from consmrf.baselines.single import Entries, begin_factors, ranges

__all__ = ["Ccd"]

# How often p and q of a feature take turns before the next feature has its turn.
_TURNS = 2


@njit(cache=True, nogil=True)
def _shift(
    indptr: Any, others: Any, residual: Any, mine: Any, theirs: Any, sign: float, lo: int, hi: int
) -> None:
    """Add a feature's part to the residuals of some rows, or take it out."""
    for i in range(lo, hi):
        for t in range(indptr[i], indptr[i + 1]):
            residual[t] += sign * mine[i] * theirs[others[t]]


@njit(cache=True, nogil=True)
def _minimise(
    indptr: Any, others: Any, residual: Any, mine: Any, theirs: Any, reg: float, lo: int, hi: int
) -> None:
    """Put `mine` of some rows where the objective is least."""
    for i in range(lo, hi):
        above, below = 0.0, reg
        for t in range(indptr[i], indptr[i + 1]):
            x = theirs[others[t]]
            above += residual[t] * x
            below += x * x
        mine[i] = above / below if below > 0 else 0.0


class Ccd:
    """P and Q, and what they leave of the entries."""

    def __init__(self, entries: Entries, dim: int, reg: float, seed: int = 0) -> None:
        """Begin with a small P and Q = 0, so that the first residuals are the entries."""
        self.p, self.q = begin_factors(entries, dim, seed)
        self.q[:] = 0
        self._reg = reg
        self._sides = (
            (entries.row_indptr, entries.columns, entries.values.copy()),
            (entries.column_indptr, entries.rows[entries.by_column], entries.values[entries.by_column]),
        )
        self._ranges = [ranges(indptr) for indptr, *_ in self._sides]

    def step(self, crew: Crew) -> None:
        """Give every feature its turns."""
        for f in range(self.p.shape[1]):
            vectors = [np.ascontiguousarray(x[:, f]) for x in (self.p, self.q)]
            self._everywhere(crew, _shift, vectors, 1.0)
            for _ in range(_TURNS):
                for side in (
                    1,
                    0,
                ):  # q first: it begins at 0, and a feature of p alone would be put to 0, too
                    self._on(crew, side, _minimise, vectors, self._reg)
            self._everywhere(crew, _shift, vectors, -1.0)
            self.p[:, f], self.q[:, f] = vectors

    def _everywhere(self, crew: Crew, kernel: Any, vectors: Any, number: float) -> None:
        for side in range(2):
            self._on(crew, side, kernel, vectors, number)

    def _on(self, crew: Crew, side: int, kernel: Any, vectors: Any, number: float) -> None:
        """Run a kernel over all rows of one side, whichever worker is free."""
        own, other = vectors[side], vectors[1 - side]
        crew.each(
            lambda run, _: kernel(*self._sides[side], own, other, number, *run),
            self._ranges[side],
            [None] * crew.count,
        )
