"""What the compiled loops are made of: random streams, scorers and losses by number, AdaGrad, prefetching.

Scorers and losses are plain functions elsewhere; here each gets one line in a dispatch on an integer that
the compiler knows. numba finds a closure over integers again on disk, and misses one over compiled functions:
with integers a second process compiles nothing. `SOURCE` is one more such integer, so that an edited scorer,
loss or primitive is never served from an old cache.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from consmrf.consensus import losses, scorers

__all__ = ["AHEAD", "FAST", "LINE", "SOURCE", "adagrad", "below", "gap", "inlined", "loss_of"]
__all__ += ["backprop", "position", "prefetch", "query", "stream", "weights_of"]

SOURCE = zlib.crc32(
    b"".join(Path(name).read_bytes() for name in (str(scorers.__file__), str(losses.__file__), __file__))
)

# How far ahead of the step being computed the rows of later samples are asked for.
AHEAD = 16
# Single floats in a cache line.
LINE = 16
# What the compiler may reorder; NaN and infinity stay what they are.
FAST = {"contract", "nsz", "arcp", "reassoc"}
# numba's default error model tests every division for zero, which keeps LLVM from vectorising AdaGrad's.
inlined = njit(inline="always", error_model="numpy")


@intrinsic
def prefetch(_: Any, array: Any, row: Any, column: Any) -> Any:
    """Ask for the cache line of `array[row, column]`; a hint, never a fault."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        layout = signature.args[0]
        view = context.make_array(layout)(context, builder, args[0])
        pointer = cgutils.get_item_pointer(context, builder, layout, view, list(args[1:]))
        byte = ir.IntType(8).as_pointer()
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [byte, *[ir.IntType(32)] * 3]),
            "llvm.prefetch.p0",
        )
        hint = [ir.Constant(ir.IntType(32), value) for value in (0, 3, 1)]  # for reading, keep, data
        builder.call(function, [builder.bitcast(pointer, byte), *hint])
        return context.get_dummy_value()

    del row, column  # whatever integers they are, they arrive as machine words
    return types.void(array, types.intp, types.intp), generate


@inlined
def _mix(x: np.uint64) -> np.uint64:
    """splitmix64's finaliser: every bit of the result depends on every bit of x."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@inlined
def stream(seed: int, epoch: int, block: int) -> np.uint64:
    """Hand on the start of the random stream that (seed, epoch, block) owns, whoever draws from it."""
    key = _mix(np.uint64(seed) + np.uint64(0x9E3779B97F4A7C15))
    key = _mix(key ^ _mix(np.uint64(epoch) + np.uint64(0xD1B54A32D192ED03)))
    return _mix(key ^ _mix(np.uint64(block) + np.uint64(0x8CB92BA72F3D8DD7)))


@inlined
def below(state: np.uint64, bound: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Hand on (next state, a whole number uniform in [0, bound)), exactly uniform; bound is at most 2³²."""
    mask = np.uint64(0xFFFFFFFF)
    state = state + np.uint64(0x9E3779B97F4A7C15)
    product = (_mix(state) >> np.uint64(32)) * bound
    if product & mask < bound:
        threshold = (np.uint64(0x100000000) - bound) % bound
        while product & mask < threshold:
            state = state + np.uint64(0x9E3779B97F4A7C15)
            product = (_mix(state) >> np.uint64(32)) * bound
    return state, product >> np.uint64(32)


@inlined
def position(objects: NDArray[np.int32], lo: int, hi: int, value: int) -> int:
    """Hand on the first position in the ascending objects[lo:hi] whose entry is not below `value`."""
    while lo < hi:
        middle = (lo + hi) >> 1
        if objects[middle] < value:
            lo = middle + 1
        else:
            hi = middle
    return lo


@inlined
def gap(objects: NDArray[np.int32], lo: int, hi: int, rank: int) -> int:
    """Hand on the entity at position `rank` among those that objects[lo:hi] lacks."""
    first, last = lo, hi
    while lo < hi:
        middle = (lo + hi) >> 1
        if objects[middle] - (middle - first) <= rank:
            lo = middle + 1
        else:
            hi = middle
    return rank + min(lo, last) - first


_identity_query, _identity_backprop = inlined(scorers.identity_query), inlined(scorers.identity_backprop)
_diagonal_query, _diagonal_backprop = inlined(scorers.diagonal_query), inlined(scorers.diagonal_backprop)
_full_query, _full_backprop = inlined(scorers.full_query), inlined(scorers.full_backprop)
_complex_query, _complex_backprop = inlined(scorers.complex_query), inlined(scorers.complex_backprop)
_bpr, _softmax = inlined(losses.bpr), inlined(losses.softmax)
_logistic, _squared = inlined(losses.logistic), inlined(losses.squared)


@inlined
def weights_of(scorer: int, dim: int) -> int:
    """Hand on how long w is."""
    return (0, dim, dim * dim, dim)[scorer]


@inlined
def query(scorer: int, dim: int, a: Any, w: Any, q: Any) -> None:
    """Write q(a, w)."""
    if scorer == 0:
        _identity_query(dim, a, w, q)
    elif scorer == 1:
        _diagonal_query(dim, a, w, q)
    elif scorer == 2:
        _full_query(dim, a, w, q)
    else:
        _complex_query(dim, a, w, q)


@inlined
def backprop(scorer: int, dim: int, a: Any, w: Any, dq: Any, da: Any, dw: Any) -> None:
    """Write da and dw for dq."""
    if scorer == 0:
        _identity_backprop(dim, a, w, dq, da, dw)
    elif scorer == 1:
        _diagonal_backprop(dim, a, w, dq, da, dw)
    elif scorer == 2:
        _full_backprop(dim, a, w, dq, da, dw)
    else:
        _complex_backprop(dim, a, w, dq, da, dw)


@inlined
def loss_of(loss: int, scores: Any, coefficients: Any, y: float) -> float:
    """Write the coefficients of one positive's scores; hand on its loss. `y` is the positive's value."""
    if loss == 0:
        return _bpr(scores, coefficients, y)
    if loss == 1:
        return _softmax(scores, coefficients, y)
    if loss == 2:
        return _logistic(scores, coefficients, y)
    return _squared(scores, coefficients, y)


@inlined
def adagrad(dim: int, values: Any, accumulated: Any, gradient: Any, learning_rate: Any) -> None:
    """Take one step of AdaGrad down a gradient; `accumulated` are its sums of squares."""
    for j in range(dim):
        accumulated[j] += gradient[j] * gradient[j]
        values[j] -= learning_rate * gradient[j] / np.sqrt(accumulated[j])
