"""DS-ADMM: the rows are split, every part has columns of its own, and a consensus ties these together.

Part a has the rows i ∈ I_a, its own Q_a for the columns that its entries are in, and multipliers Θ_a:

    p_i  ← its least squares on Q_a
    q_aj ← argmin ½ Σ_{i ∈ I_a} (y_ij − p_i · q)² + θ_aj · (q − q̄_j) + ρ/2 ‖q − q̄_j‖²
    q̄_j  ← Σ_a (ρ q_aj + θ_aj) / (λ + ρ m_j),    θ_aj ← θ_aj + ρ (q_aj − q̄_j)

with m_j parts that have column j. The published method takes gradient steps on a surrogate for the first two;
here they are solved. The objective is that of (P, Q̄), and may rise on the way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from consmrf.baselines.rounds import Crew
from consmrf.baselines.single import Entries, Floats, begin_factors
from consmrf.consensus.primitives import inlined
from consmrf.errors import SettingError

__all__ = ["DsAdmm"]


@inlined
def _solve(a: Any, b: Any) -> None:
    """Solve a x = b for a positive definite a, by Cholesky; x takes the place of b."""
    k = len(b)
    for j in range(k):
        for i in range(j, k):
            total = a[i, j]
            for c in range(j):
                total -= a[i, c] * a[j, c]
            a[i, j] = np.sqrt(total) if i == j else total / a[j, j]
    for i in range(k):
        for c in range(i):
            b[i] -= a[i, c] * b[c]
        b[i] /= a[i, i]
    for i in range(k - 1, -1, -1):
        for c in range(i + 1, k):
            b[i] -= a[c, i] * b[c]
        b[i] /= a[i, i]


@njit(cache=True, nogil=True)
def _least_squares(
    indptr: Any, others: Any, values: Any, theirs: Any, ridge: float, right: Any, mine: Any
) -> None:
    """Write x = (Σ q qᵀ + ridge)⁻¹ (Σ y q + right) for every row."""
    k = mine.shape[1]
    gram, x = np.empty((k, k)), np.empty(k)
    for i in range(len(indptr) - 1):
        gram[:] = 0
        for j in range(k):
            gram[j, j] = ridge
            x[j] = right[i, j]
        for t in range(indptr[i], indptr[i + 1]):
            for j in range(k):
                other = theirs[others[t], j]
                x[j] += values[t] * other
                for c in range(j + 1):
                    gram[j, c] += other * theirs[others[t], c]
        _solve(gram, x)
        mine[i] = x


@dataclass
class _Part:
    rows: Any  # [m] the part's rows of P
    columns: Any  # [c] its columns of Q
    entries: Entries  # in the part's own numbers
    p: Floats
    q: Floats
    theta: Floats


class DsAdmm:
    """P, the consensus Q̄, and the parts."""

    def __init__(
        self, entries: Entries, dim: int, reg: float, seed: int = 0, *, rho: float = 1.0, parts: int = 8
    ) -> None:
        """Receive ρ, and into how many parts the rows are dealt: the most that can run side by side."""
        if not (reg > 0 and rho > 0):
            raise SettingError(f"reg = {reg!r}, rho = {rho!r}: both must be above 0 for the least squares")
        self.p, self.q = begin_factors(entries, dim, seed)
        self._reg, self._rho = reg, rho
        dealt = np.random.default_rng([seed, 9]).permutation(len(self.p)) % parts
        self._parts = [self._part(entries, np.flatnonzero(dealt == a)) for a in range(parts)]
        met = [np.bincount(part.columns, minlength=len(self.q)) for part in self._parts]
        self._met = np.sum(met, axis=0)

    def _part(self, entries: Entries, rows: Any) -> _Part:
        own = np.isin(entries.rows, rows)
        columns, local = np.unique(entries.columns[own], return_inverse=True)
        at = np.searchsorted(rows, entries.rows[own])
        cut = Entries.of(at, local, entries.values[own], (len(rows), len(columns)))
        q = self.q[columns].copy()
        return _Part(rows, columns, cut, self.p[rows].copy(), q, np.zeros_like(q))

    def step(self, crew: Crew) -> None:
        """Solve every part, then let them agree."""
        crew.each(self._solve, self._parts, [None] * crew.count)
        total = np.zeros_like(self.q)
        for part in self._parts:
            self.p[part.rows] = part.p
            total[part.columns] += self._rho * part.q + part.theta
        self.q = total / np.maximum(self._reg + self._rho * self._met, np.finfo(float).tiny)[:, None]
        for part in self._parts:
            part.theta += self._rho * (part.q - self.q[part.columns])

    def _solve(self, part: _Part, _: None) -> None:
        entries = part.entries
        none = np.zeros_like(part.p)
        by_row = (entries.row_indptr, entries.columns, entries.values)
        _least_squares(*by_row, part.q, self._reg, none, part.p)
        rows, values = (x[entries.by_column] for x in (entries.rows, entries.values))
        right = self._rho * self.q[part.columns] - part.theta
        _least_squares(entries.column_indptr, rows, values, part.p, self._rho, right, part.q)

    def residual(self) -> float:
        """Hand on √Σ_a ‖Q_a − Q̄‖²."""
        return float(np.sqrt(sum(np.sum((part.q - self.q[part.columns]) ** 2) for part in self._parts)))
