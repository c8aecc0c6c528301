"""One relation alone, as a matrix with some entries observed: what CCD++, DSGD and DS-ADMM are written for.

    ½ Σ_{(i,j) observed} (y_ij − p_i · q_j)² + λ/2 (‖P‖² + ‖Q‖²)

All three minimise this, each in parallel in its own way, with the same bits for any number of workers.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numba import njit
from numpy.typing import NDArray

from consmrf.baselines.rounds import Crew
from consmrf.graph.partition import Partition

__all__ = ["Entries", "Floats", "Single", "begin_factors", "entries_of", "objective", "ranges"]

Floats = NDArray[np.float64]

# The rows of a matrix are cut into about so many runs of like numbers of entries; workers take run after run.
_RUNS = 32


@dataclass(frozen=True)
class Entries:
    """The observed entries in the order of their rows, and where each stands in the order of the columns."""

    rows: NDArray[np.int32]  # [n] ascending
    columns: NDArray[np.int32]  # [n] ascending within a row
    values: Floats  # [n]
    row_indptr: NDArray[np.int64]
    by_column: NDArray[np.int64]  # [n] entries, ascending by column, then by row
    column_indptr: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Any, columns: Any, values: Any, shape: tuple[int, int]) -> Entries:
        """Sort entries that are given in any order."""
        order = np.lexsort((columns, rows))
        rows, columns = (np.asarray(x)[order].astype(np.int32) for x in (rows, columns))
        by_column = np.lexsort((rows, columns))
        bounds = [
            np.concatenate([[0], np.cumsum(np.bincount(x, minlength=n))]).astype(np.int64)
            for x, n in zip((rows, columns), shape, strict=True)
        ]
        values = np.asarray(values, np.float64)[order]
        return cls(rows, columns, values, bounds[0], by_column, bounds[1])

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and of columns."""
        return len(self.row_indptr) - 1, len(self.column_indptr) - 1


class Single(Protocol):
    """A method between two rounds."""

    p: Floats  # [rows, k]
    q: Floats  # [columns, k]

    def step(self, crew: Crew) -> None:
        """Make one pass over the entries."""


def entries_of(partition: Partition, n_entities: int, *, zeros: int = 1, seed: int = 0) -> Entries:
    """Hand on a relation's facts as ones, among its own subjects and objects, and sampled others as zeros.

    Each fact brings `zeros` objects of the relation, drawn uniformly; those that are facts are left out, as
    are those drawn before. Without zeros, a model that says one everywhere would be perfect.
    """
    objects, columns = np.unique(partition.objects, return_inverse=True)
    rng = np.random.default_rng(seed)
    rows = np.tile(partition.head_of.astype(np.int64), 1 + zeros)
    drawn = rng.integers(len(objects), size=zeros * len(columns))
    keys = rows * n_entities + np.concatenate([columns, drawn])
    found, first = np.unique(keys, return_index=True)
    values = (first < len(columns)).astype(np.float64)
    shape = (len(partition.heads), len(objects))
    return Entries.of(found // n_entities, found % n_entities, values, shape)


def begin_factors(entries: Entries, dim: int, seed: int) -> tuple[Floats, Floats]:
    """Hand on P and Q, whose products begin at about 1/√k."""
    rng = np.random.default_rng([seed, 6])
    p, q = (rng.normal(size=(n, dim)) / np.sqrt(dim) for n in entries.shape)
    return p, q


def ranges(indptr: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Cut rows into runs of about as many entries, by the data alone."""
    cuts = np.searchsorted(indptr, np.linspace(0, indptr[-1], _RUNS + 1)[1:-1])
    bounds = np.unique(np.concatenate([[0], cuts, [len(indptr) - 1]])).tolist()
    return list(pairwise(bounds))


def objective(entries: Entries, p: Floats, q: Floats, reg: float) -> float:
    """Hand on what the methods minimise."""
    squares: float = _squares(entries.rows, entries.columns, entries.values, p, q)
    return float(0.5 * squares + 0.5 * reg * (np.sum(p * p) + np.sum(q * q)))


@njit(cache=True, nogil=True)
def _squares(rows: Any, columns: Any, values: Any, p: Any, q: Any) -> float:
    total = 0.0
    for t in range(len(values)):
        error = values[t]
        for j in range(p.shape[1]):
            error -= p[rows[t], j] * q[columns[t], j]
        total += error * error
    return total
