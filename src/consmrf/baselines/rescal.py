"""RESCAL: X_r ≈ A W_r Aᵀ with a full W_r and L2, by alternating least squares on the sparse tensor.

    ½ Σ_r ‖X_r − A W_r Aᵀ‖² + λ/2 (‖A‖² + Σ_r ‖W_r‖²)

X_r is 1 at the facts and 0 elsewhere, and never there as a matrix of E × E: everything goes through
G = AᵀA, P_r = Aᵀ X_r A, and products of the X_r with E × k matrices. The W-step is exact. The A-step takes
the A on one side of W_r as given, as if it were another matrix, and can therefore overshoot; its direction is
one of descent, so it is halved until the objective does not rise.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from consmrf.baselines.rounds import Crew, Pass
from consmrf.config import Config
from consmrf.consensus.wave import WaveViews
from consmrf.graph.partition import Partition
from consmrf.predictors import Factors

__all__ = ["Rescal"]

Floats = NDArray[np.float64]

# Products with Σ_r X_r + X_rᵀ that turn a random basis into its leading eigenvectors, where A begins.
_POWERS = 30
# Halvings of the A-step before A is left where it is.
_HALVINGS = 30


@njit(cache=True, nogil=True)
def _inner(heads: Any, indptr: Any, objects: Any, a: Any, out: Any) -> None:
    """Write P = Aᵀ X A for the X that has ones at (heads[h], objects[indptr[h] : indptr[h + 1]])."""
    k = a.shape[1]
    total = np.empty(k)
    out[:] = 0
    for h in range(len(heads)):
        total[:] = 0
        for t in range(indptr[h], indptr[h + 1]):
            for j in range(k):
                total[j] += a[objects[t], j]
        for i in range(k):
            for j in range(k):
                out[i, j] += a[heads[h], i] * total[j]


@njit(cache=True, nogil=True)
def _outer(heads: Any, indptr: Any, objects: Any, a: Any, w: Any, out: Any) -> None:
    """Add X A Wᵀ + Xᵀ A W to `out`."""
    k = a.shape[1]
    total, turned = np.empty(k), np.empty(k)
    for h in range(len(heads)):
        s = heads[h]
        total[:] = 0
        turned[:] = 0
        for i in range(k):
            for j in range(k):
                turned[j] += a[s, i] * w[i, j]
        for t in range(indptr[h], indptr[h + 1]):
            o = objects[t]
            for j in range(k):
                total[j] += a[o, j]
                out[o, j] += turned[j]
        for i in range(k):
            for j in range(k):
                out[s, i] += w[i, j] * total[j]


class Rescal:
    """The factors in double floats, and the slices X_r as the partitions have them."""

    rho = 0.0
    skipped = 0

    def __init__(self, partitions: Sequence[Partition], n_entities: int, config: Config) -> None:
        """Begin with the leading eigenvectors of Σ_r X_r + X_rᵀ as A, and the W_r that fit it best."""
        self._slices = [(p.heads, p.indptr, p.objects) for p in partitions]
        self._config, self.facts = config, sum(map(len, partitions))
        self.a = self._eigenvectors(n_entities)
        self.w: Floats = np.zeros((len(partitions), config.dim, config.dim))
        self._inner = self._products(self.a)
        self.w = self._best_w(self.a, self._inner)
        self.objective = self._objective(self.a, self._inner, self.w)

    def sweep(self, epoch: int, crew: Crew) -> Pass:
        """Take one A-step and one W-step; neither raises the objective."""
        del epoch, crew
        begun = time.perf_counter()
        self.step_a()
        self.step_w()
        seconds = time.perf_counter() - begun
        return Pass(self.objective, self.facts, 0, len(self.a), 0.0, local_total=seconds, seconds=seconds)

    def step_a(self) -> None:
        """Move A towards what solves its least squares, as far as the objective allows."""
        gram, numerator = self.a.T @ self.a, np.zeros_like(self.a)
        for x, w in zip(self._slices, self.w, strict=True):
            _outer(*x, self.a, w, numerator)
        turned = self.w.transpose(0, 2, 1)
        h = (self.w @ gram @ turned + turned @ gram @ self.w).sum(axis=0)
        h += self._config.reg * np.eye(len(h))
        step = np.linalg.solve(h, numerator.T).T - self.a
        for halving in range(_HALVINGS):
            a = self.a + 0.5**halving * step
            inner = self._products(a)
            objective = self._objective(a, inner, self.w)
            if objective <= self.objective:
                self.a, self._inner, self.objective = a, inner, objective
                return

    def step_w(self) -> None:
        """Put every W_r where its least squares have their one minimum."""
        w = self._best_w(self.a, self._inner)
        objective = self._objective(self.a, self._inner, w)
        if objective <= self.objective:  # beyond that point it differs in rounding only
            self.w, self.objective = w, objective

    def _best_w(self, a: Floats, inner: Floats) -> Floats:
        """Solve G W_r G + λ W_r = P_r in the eigenvectors of G, where it is a division."""
        values, vectors = np.linalg.eigh(a.T @ a)
        divisor = np.outer(values, values) + self._config.reg
        best: Floats = vectors @ ((vectors.T @ inner @ vectors) / divisor) @ vectors.T
        return best

    def _objective(self, a: Floats, inner: Floats, w: Floats) -> float:
        gram = a.T @ a
        fit = self.facts - 2 * np.sum(w * inner) + np.sum((gram @ w @ gram) * w)
        return float(0.5 * fit + 0.5 * self._config.reg * (np.sum(a * a) + np.sum(w * w)))

    def _products(self, a: Floats) -> Floats:
        """Hand on P_r = Aᵀ X_r A for every relation."""
        inner = np.empty((len(self._slices), a.shape[1], a.shape[1]))
        for x, out in zip(self._slices, inner, strict=True):
            _inner(*x, a, out)
        return inner

    def _eigenvectors(self, n_entities: int) -> Floats:
        """Hand on k orthonormal columns: by subspace iteration, the leading ones of Σ_r X_r + X_rᵀ.

        Where there are fewer entities than columns, those beyond are zero.
        """
        k, width = self._config.dim, min(self._config.dim, n_entities)
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([self._config.seed, 4])))
        basis, _ = np.linalg.qr(rng.standard_normal((n_entities, width)))
        same = np.eye(width)
        for _ in range(_POWERS):
            product = np.zeros_like(basis)
            for x in self._slices:
                _outer(*x, basis, same, product)
            basis, _ = np.linalg.qr(product)
        return np.pad(basis, ((0, 0), (0, k - width)))

    def views(self) -> WaveViews:
        """Hand on what predicts now, in the precision of the model."""
        real: Any = np.float32 if self._config.precision == "single" else np.float64
        none = np.empty(0, real)
        w = self.w.reshape(len(self.w), -1).astype(real)
        return WaveViews(self.a.astype(real), none.reshape(0, 2), w, none.reshape(0, self._config.dim), none)

    def factors(self, views: WaveViews) -> Factors:
        """Hand on the predictor: one A for all relations."""
        none = np.empty(0, np.int32)
        indptr = np.zeros(len(views.w) + 1, np.int64)
        return Factors("full", views.z, views.w, indptr, none, views.delta, shared="z")
