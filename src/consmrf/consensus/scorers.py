"""The scorers: q(a_s, w_r), so that ŷ_r(s, o) = q(a_s, w_r) · a_o, and its gradients. One definition each.

The loops run over the first axis only. Compiled, they see vectors; NumPy runs the same lines on a whole batch
laid out [dim, n], with w either [m] or [m, n]. Nothing here imports a compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["SCORERS", "Scorer", "queries", "transposed_queries"]

Floats: TypeAlias = NDArray[np.floating[Any]]


def identity_query(dim: int, a: Floats, _w: Floats, q: Floats) -> None:
    """q = a (CMF): every relation scores alike; w is empty."""
    for i in range(dim):
        q[i] = a[i]


def identity_backprop(dim: int, _a: Floats, _w: Floats, dq: Floats, da: Floats, _dw: Floats) -> None:
    """Write da = dL/da for dq = dL/dq."""
    for i in range(dim):
        da[i] = dq[i]


def diagonal_query(dim: int, a: Floats, w: Floats, q: Floats) -> None:
    """q = a ∘ w (CD, PARAFAC, DistMult): the paper's choice; w has one weight per feature."""
    for i in range(dim):
        q[i] = a[i] * w[i]


def diagonal_backprop(dim: int, a: Floats, w: Floats, dq: Floats, da: Floats, dw: Floats) -> None:
    """Write da = dL/da and dw = dL/dw for dq = dL/dq."""
    for i in range(dim):
        da[i] = dq[i] * w[i]
        dw[i] = dq[i] * a[i]


def full_query(dim: int, a: Floats, w: Floats, q: Floats) -> None:
    """q = Wᵀ a (RESCAL, MOF): w is W row by row, so that q · a_o = a_sᵀ W a_o."""
    for j in range(dim):
        q[j] = a[0] * w[j]
    for i in range(1, dim):
        for j in range(dim):
            q[j] += a[i] * w[i * dim + j]


def full_backprop(dim: int, a: Floats, w: Floats, dq: Floats, da: Floats, dw: Floats) -> None:
    """Write da = dL/da = W dq and dw = dL/dw = a dqᵀ for dq = dL/dq."""
    for i in range(dim):
        # begun with the first product, not with 0.0, which numba would take for a double
        total = w[i * dim] * dq[0]
        for j in range(1, dim):
            total += w[i * dim + j] * dq[j]
        da[i] = total
        for j in range(dim):
            dw[i * dim + j] = a[i] * dq[j]


def complex_query(dim: int, a: Floats, w: Floats, q: Floats) -> None:
    """q = a ∘ w in complex numbers (ComplEx), so that q · a_o = Re⟨a_s, w, ā_o⟩.

    The first half of the features are real parts, the second imaginary ones; an odd one out is real.
    """
    half = dim // 2
    if dim % 2:
        q[dim - 1] = a[dim - 1] * w[dim - 1]
    for i in range(half):
        q[i] = a[i] * w[i] - a[half + i] * w[half + i]
        q[half + i] = a[i] * w[half + i] + a[half + i] * w[i]


def complex_backprop(dim: int, a: Floats, w: Floats, dq: Floats, da: Floats, dw: Floats) -> None:
    """Write da and dw for dq = dL/dq: products with the conjugate of the other factor."""
    half = dim // 2
    if dim % 2:
        da[dim - 1] = dq[dim - 1] * w[dim - 1]
        dw[dim - 1] = dq[dim - 1] * a[dim - 1]
    for i in range(half):
        da[i] = dq[i] * w[i] + dq[half + i] * w[half + i]
        da[half + i] = dq[half + i] * w[i] - dq[i] * w[half + i]
        dw[i] = dq[i] * a[i] + dq[half + i] * a[half + i]
        dw[half + i] = dq[half + i] * a[i] - dq[i] * a[half + i]


@dataclass(frozen=True)
class Scorer:
    """A form of W_r; `query` and `backprop` are plain functions, for NumPy to run and kernels to compile."""

    name: str
    code: int  # an integer a kernel can close over
    query: Callable[[int, Floats, Floats, Floats], None]
    backprop: Callable[[int, Floats, Floats, Floats, Floats, Floats], None]
    weights: Callable[[int], int]  # how long w is for k features
    initial: Callable[[int], NDArray[np.float64]]  # what the wave solver's W_r begin near


def _quarter_turns(dim: int) -> NDArray[np.float64]:
    """1, i, −1, −i, and again: all relations begin alike, and no entity begins as its own best object."""
    turn = np.arange(dim // 2) % 4
    real, imaginary = np.array([1.0, 0, -1, 0])[turn], np.array([0, 1.0, 0, -1])[turn]
    return np.concatenate([real, imaginary, np.ones(dim % 2)])


SCORERS: dict[str, Scorer] = {
    scorer.name: scorer
    for scorer in (
        Scorer("identity", 0, identity_query, identity_backprop, lambda _: 0, lambda _: np.empty(0)),
        Scorer("diagonal", 1, diagonal_query, diagonal_backprop, lambda k: k, np.ones),
        Scorer("full", 2, full_query, full_backprop, lambda k: k * k, lambda k: np.eye(k).ravel()),
        Scorer("complex", 3, complex_query, complex_backprop, lambda k: k, _quarter_turns),
    )
}


def queries(scorer: Scorer, a: Floats, w: Floats) -> Floats:
    """Hand on q [n, k] for the subjects' rows a [n, k], so that ŷ = q · a_o.

    w is [m]; but for `full` it may be [m, n], each row with weights of its own.
    """
    k = a.shape[1]
    if scorer.name == "full":  # the definition is k² steps of NumPy, this is one
        return _by_rows(a, w.reshape(k, k))
    q = np.empty((k, len(a)), np.result_type(a, w))
    scorer.query(k, a.T, w, q)
    return q.T


def transposed_queries(scorer: Scorer, a: Floats, w: Floats) -> Floats:
    """Hand on p [n, k] for the objects' rows a [n, k], so that ŷ = p · a_s.

    A query is linear in a_s, so its gradient times a_o is the transposed query.
    """
    k = a.shape[1]
    if scorer.name == "full":
        return _by_rows(a, w.reshape(k, k).T)
    p = np.empty((k, len(a)), np.result_type(a, w))
    scorer.backprop(k, np.zeros_like(p), w, a.T, p, np.empty((len(w), len(a)), p.dtype))
    return p.T


def _by_rows(a: Floats, matrix: Floats) -> Floats:
    """Hand on a · matrix, summed in order: a row has the same bits wherever it stands."""
    product = np.zeros((len(a), matrix.shape[1]), np.result_type(a, matrix))
    for i in range(matrix.shape[0]):
        product += a[:, i, None] * matrix[i]
    return product
