"""SME: semantic matching of a subject's side with an object's, by matrices that all relations share.

    ŷ_r(s, o) = g(a_s, w_r) · h(a_o, w_r)        g = L a + c,   h = M a + d

    linear      L = G,       c = G′ w_r + g₀      M = H,       d = H′ w_r + h₀
    bilinear    L = G ×₃ w_r, c = g₀              M = H ×₃ w_r, d = h₀

G, G′, H, H′ and the intercepts g₀, h₀ are trained with A and W, sample by sample, and not regularised: every
sample would pull them to 0, while a row of A is pulled when it is met. Written out, ŷ = (a_s|1)ᵀ F_r (a_o|1)
with F_r = (L c)ᵀ (M d): a model with a full W_r and one feature that is always 1, and as that it is stored
and scored. What depends on the subject alone ranks no objects, but it ranks subjects.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit

from consmrf.baselines.dmf import CHUNK, Scratch, steps
from consmrf.baselines.kernels import CHECKSUM, Spans, Steps, begin_stream, draw
from consmrf.baselines.rounds import Crew, Pass
from consmrf.config import Config
from consmrf.consensus.facts import Layout
from consmrf.consensus.losses import LOSSES
from consmrf.consensus.primitives import FAST, adagrad, inlined, loss_of
from consmrf.consensus.state import Floats, initial_z
from consmrf.consensus.wave import WaveViews
from consmrf.predictors import Factors

__all__ = ["Sme", "backprop_side", "side", "sides", "sme_kernel"]


def side(bilinear: int, dim: int, w: Any, shared: Any, matrix: Any, shift: Any) -> None:
    """Write the matrix [k, k] and the shift [k] that one side has in the relation of w.

    `shared` holds a side's parameters, flat: linear G, G′, g₀; bilinear G as [i, j, ·] against w, then g₀.
    """
    for i in range(dim):
        if bilinear:
            shift[i] = shared[dim * dim * dim + i]
        else:
            total = shared[2 * dim * dim + i]
            for j in range(dim):
                total += shared[dim * dim + i * dim + j] * w[j]
            shift[i] = total
        for j in range(dim):
            at = i * dim + j
            if bilinear:
                total = shared[at * dim] * w[0]
                for c in range(1, dim):
                    total += shared[at * dim + c] * w[c]
                matrix[i, j] = total
            else:
                matrix[i, j] = shared[at]


def backprop_side(
    bilinear: int, dim: int, w: Any, shared: Any, d_matrix: Any, d_shift: Any, dw: Any, d_shared: Any
) -> None:
    """Add to dw, and write to `d_shared`, what a side's matrix and shift hand back."""
    for i in range(dim):
        if bilinear:
            d_shared[dim * dim * dim + i] = d_shift[i]
        else:
            d_shared[2 * dim * dim + i] = d_shift[i]
            for j in range(dim):
                d_shared[dim * dim + i * dim + j] = d_shift[i] * w[j]
                dw[j] += d_shift[i] * shared[dim * dim + i * dim + j]
        for j in range(dim):
            at = i * dim + j
            if bilinear:
                for c in range(dim):
                    d_shared[at * dim + c] = d_matrix[i, j] * w[c]
                    dw[c] += d_matrix[i, j] * shared[at * dim + c]
            else:
                d_shared[at] = d_matrix[i, j]


def _length(bilinear: int, dim: int) -> int:
    """Hand on how many parameters a side has."""
    return dim * dim * dim + dim if bilinear else 2 * dim * dim + dim


_side, _backprop_side = inlined(side), inlined(backprop_side)


@inlined
def _score(
    dim: int, table: Any, sample: Any, matrices: Any, shifts: Any, g: Any, q: Any, scores: Any
) -> None:
    """Write g = L a_s + c, q = Mᵀ g, and q · a_o + g · d for every object."""
    s, left, right = table[sample[1]], matrices[0], matrices[1]
    base = g[0] * 0
    q[:] = 0
    for i in range(dim):
        total = shifts[0, i]
        for j in range(dim):
            total += left[i, j] * s[j]
        g[i] = total
        base += total * shifts[1, i]
        for j in range(dim):
            q[j] += total * right[i, j]
    for i in range(len(scores)):
        a = table[sample[i + 2]]
        score = base
        for j in range(dim):
            score += q[j] * a[j]
        scores[i] = score


@inlined
def _differentiate(
    dim: int, table: Any, sample: Any, both: Any, forward: Any, coefficients: Any, gradients: Any, back: Any
) -> None:
    """Write the gradients of a_s and every a_o, and what goes back to the matrices and shifts."""
    matrices, shifts = both
    g, q, u = forward
    d_matrices, d_shifts = back
    s, left, right = table[sample[1]], matrices[0], matrices[1]
    u[:] = 0
    mass = g[0] * 0
    for i in range(len(coefficients)):
        a, coefficient = table[sample[i + 2]], coefficients[i]
        mass += coefficient
        for j in range(dim):
            u[j] += coefficient * a[j]
            gradients[i + 1, j] = coefficient * q[j]
    gradients[0, :] = 0
    for i in range(dim):
        total = mass * shifts[1, i]
        for j in range(dim):
            total += right[i, j] * u[j]
        d_shifts[0, i], d_shifts[1, i] = total, mass * g[i]
        for j in range(dim):
            gradients[0, j] += left[i, j] * total
            d_matrices[0, i, j], d_matrices[1, i, j] = total * s[j], g[i] * u[j]


def _make_descend(bilinear: int, loss: int, dim: int, width: int, source: int) -> Callable[..., float]:
    length = _length(bilinear, dim)

    @njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
    def descend(samples: Any, table: Any, w_table: Any, shared: Any, steps: Steps) -> float:
        if source < 0:  # never, see `kernels.py`
            return np.nan
        real = table.dtype
        matrices, shifts = np.empty((2, dim, dim), real), np.empty((2, dim), real)
        d_matrices, d_shifts = np.empty((2, dim, dim), real), np.empty((2, dim), real)
        g, q, u, dw = np.empty(dim, real), np.empty(dim, real), np.empty(dim, real), np.empty(dim, real)
        gradients, d_shared = np.empty((width + 1, dim), real), np.empty((2, length), real)
        scores, coefficients = np.empty(width, real), np.empty(width, real)
        total = 0.0
        for t in range(len(samples)):
            sample = samples[t]
            w = w_table[sample[0]]
            for x in range(2):
                _side(bilinear, dim, w, shared[x], matrices[x], shifts[x])
            _score(dim, table, sample, matrices, shifts, g, q, scores)
            total += loss_of(loss, scores, coefficients, 1.0)
            both, forward, back = (matrices, shifts), (g, q, u), (d_matrices, d_shifts)
            _differentiate(dim, table, sample, both, forward, coefficients, gradients, back)
            dw[:] = 0
            for x in range(2):
                _backprop_side(bilinear, dim, w, shared[x], d_matrices[x], d_shifts[x], dw, d_shared[x])
            for i in range(width + 1):
                for j in range(dim):
                    gradients[i, j] += steps.reg * table[sample[i + 1], j]
            # all gradients before any update: a row may stand twice among s, o and o′
            for i in range(width + 1):
                row = table[sample[i + 1]]
                adagrad(dim, row[:dim], row[dim:], gradients[i], steps.learning_rate)
            for j in range(dim):
                dw[j] += steps.reg * w[j]
            adagrad(dim, w[:dim], w[dim:], dw, steps.learning_rate)
            for x in range(2):
                adagrad(length, shared[x, :length], shared[x, length:], d_shared[x], steps.learning_rate)
        return total

    return descend


@cache
def sme_kernel(scorer: str, loss: str, dim: int, negatives: int) -> Callable[..., float]:
    """Hand on the compiled SGD of linear or bilinear SME, for one loss, one k and a number of o′.

    It takes (samples, table [·, 2k], w_table [R, 2k], shared [2, 2·], steps): rows beside their AdaGrad sums,
    `shared` the subject's side and the object's. Hands on the summed loss.
    """
    bilinear = int(scorer == "sme_bilinear")
    return _make_descend(bilinear, LOSSES[loss].code, dim, 1 + negatives, CHECKSUM)


def sides(bilinear: int, w: Floats, shared: Floats) -> Floats:
    """Hand on (matrix | shift) [R, k, k + 1] of one side for all relations: `side` for NumPy."""
    r, k = w.shape
    made = np.empty((r, k, k + 1), w.dtype)
    if bilinear:
        made[:, :, :k] = (w @ shared[: k**3].reshape(k * k, k).T).reshape(r, k, k)
        made[:, :, k] = shared[k**3 :]
    else:
        made[:, :, :k] = shared[: k * k].reshape(k, k)
        made[:, :, k] = w @ shared[k * k : 2 * k * k].reshape(k, k).T + shared[2 * k * k :]
    return made


class Sme:
    """One A and one W for all relations, and the two sides' parameters."""

    rho = 0.0

    def __init__(self, layout: Layout, config: Config, spans: Spans) -> None:
        """Receive the facts of all relations.

        Of what is shared, the matrices on features are drawn, G′, H′ and the intercepts begin at 0.
        """
        self._layout, self._config, self._spans = layout, config, spans
        self.skipped, self.facts = layout.skipped, len(layout.facts.relations)
        self._bilinear, k = int(config.scorer == "sme_bilinear"), config.dim
        z0 = initial_z(layout.n_entities, config)
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([config.seed, 5])))
        shared = np.zeros((2, _length(self._bilinear, k)))
        drawn = shared[:, : k**3 if self._bilinear else k**2]
        drawn[:] = rng.standard_normal(drawn.shape) / (k if self._bilinear else np.sqrt(k))
        w = 1 + config.init_scale * rng.standard_normal((layout.n_relations, k))
        self._table, self._w, self._shared = (
            np.concatenate([x, np.ones_like(x)], axis=1).astype(z0.dtype) for x in (z0, w, shared)
        )
        self._scratch = Scratch(layout.n_entities, layout.n_relations, config.negatives)
        self._scratch.row_of[:] = np.arange(layout.n_entities)
        self._scratch.w_of[:] = np.arange(layout.n_relations)

    def sweep(self, epoch: int, crew: Crew) -> Pass:
        """Train for a round: as many samples as there are facts."""
        begun = time.perf_counter()
        config, layout, scratch = self._config, self._layout, self._scratch
        descend = sme_kernel(config.scorer, config.loss, config.dim, config.negatives)
        state, numbers = begin_stream(config.seed, epoch, 0), steps(config)
        left = samples = config.inner_epochs * self.facts
        loss, rejections = 0.0, 0
        while left and not crew.stop[0]:
            chunk = scratch.samples[: min(left, CHUNK)]
            where = (scratch.row_of, layout.facts.view_entities, 0, scratch.w_of, chunk)
            state, _, rejected = draw()(
                layout.facts, self._spans, layout.n_entities, np.uint64(state), *where
            )
            loss += descend(chunk, self._table, self._w, self._shared, numbers)
            left, rejections = left - len(chunk), rejections + rejected
        seconds = time.perf_counter() - begun
        for table in (self._table, self._shared):
            loss += 0.0 * float(np.sum(table, dtype=np.float64))  # not finite where anything is not
        return Pass(*(loss, samples, rejections, len(self._table), 0.0), local_total=seconds, seconds=seconds)

    def views(self) -> WaveViews:
        """Hand on what predicts now: rows (a_e | 1), and F_r for each relation."""
        k, real = self._config.dim, self._table.dtype
        z = np.ones((len(self._table), k + 1), real)
        z[:, :k] = self._table[:, :k]
        left, right = (sides(self._bilinear, self._w[:, :k], x[: x.size // 2]) for x in self._shared)
        w = (left.transpose(0, 2, 1) @ right).reshape(len(left), -1)
        none = np.empty(0, real)
        return WaveViews(z, none.reshape(0, 2), w, none.reshape(0, k + 1), none)

    def factors(self, views: WaveViews) -> Factors:
        """Hand on the predictor: a full W_r on k + 1 features, the last of which is 1."""
        none = np.empty(0, np.int32)
        indptr = np.zeros(len(views.w) + 1, np.int64)
        return Factors("full", views.z, views.w, indptr, none, views.delta, shared="z")
