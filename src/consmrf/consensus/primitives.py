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

__all__ = ["AHEAD", "FAST", "LINE", "SOURCE", "adagrad", "among", "below", "curb", "dot", "gap", "inlined"]
__all__ += [
    "backprop",
    "loss_of",
    "position",
    "prefetch",
    "query",
    "stream",
    "told",
    "uncounted",
    "weights_of",
]

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
    """Ask for the cache line of `array[row, column]`, or of `array[row]`; a hint, never a fault."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        layout = signature.args[0]
        view = context.make_array(layout)(context, builder, args[0])
        pointer = cgutils.get_item_pointer(context, builder, layout, view, list(args[1 : 1 + layout.ndim]))
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


@intrinsic
def uncounted(_: Any, arrays: Any) -> Any:
    """Hand on a tuple whose arrays own nothing, so that no loop counts references to them, atomically.

    Whoever called the compiled function keeps them alive while it runs.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        found = args[0]
        for i, kind in enumerate(signature.args[0].types):
            if isinstance(kind, types.Array):
                array = context.make_array(kind)(context, builder, builder.extract_value(found, i))
                array.meminfo = cgutils.get_null_value(array.meminfo.type)
                array.parent = cgutils.get_null_value(array.parent.type)
                found = builder.insert_value(found, array._getvalue(), i)
        return found

    return arrays(arrays), generate


@intrinsic
def among(_: Any, entries: Any, first: Any, last: Any, value: Any) -> Any:
    """Hand on the position in entries[first:last], sixteen at most, that has `value`; −1 where none has.

    All are compared at once: no branch depends on where it stands.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word, lanes = ir.IntType(32), ir.VectorType(ir.IntType(32), 16)
        bits = ir.VectorType(ir.IntType(1), 16)

        def spread(number: Any) -> Any:
            short = builder.trunc(number, word)
            one = builder.insert_element(ir.Constant(lanes, ir.Undefined), short, ir.Constant(word, 0))
            return builder.shuffle_vector(one, ir.Constant(lanes, ir.Undefined), ir.Constant(lanes, [0] * 16))

        array = context.make_array(signature.args[0])(context, builder, args[0])
        size = builder.sub(args[2], args[1])
        there = builder.icmp_signed("<", ir.Constant(lanes, list(range(16))), spread(size))
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(lanes, [array.data.type, word, bits, lanes]),
            "llvm.masked.load.v16i32.p0",
        )
        start = builder.gep(array.data, [args[1]])
        nothing = ir.Constant(lanes, [0] * 16)
        found = builder.call(function, [start, ir.Constant(word, 4), there, nothing])
        equal = builder.and_(there, builder.icmp_signed("==", found, spread(args[3])))
        mask = builder.zext(builder.bitcast(equal, ir.IntType(16)), ir.IntType(64))
        place = builder.add(args[1], builder.cttz(mask, ir.Constant(ir.IntType(1), 0)))
        none = builder.icmp_signed("==", mask, ir.Constant(mask.type, 0))
        return builder.select(none, ir.Constant(place.type, -1), place)

    del first, last, value  # whatever integers they are, they arrive as machine words
    return types.intp(entries, types.intp, types.intp, types.intp), generate


@intrinsic
def dot(_: Any, a: Any, b: Any, width: Any) -> Any:
    """Hand on a · b over `width` elements, a multiple of eight, each eighth summed in a lane of its own.

    Written out, the sum would be put in one order again, for it may be reassociated, and be taken one by one.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        real = ir.DoubleType() if signature.args[0].dtype == types.float64 else ir.FloatType()
        lanes = ir.VectorType(real, 8)
        first, second = (
            context.make_array(layout)(context, builder, value).data
            for layout, value in zip(signature.args[:2], args[:2], strict=True)
        )
        total = cgutils.alloca_once_value(builder, ir.Constant(lanes, [0.0] * 8))
        size = real.get_abi_size(context.target_data)
        with cgutils.for_range(builder, builder.udiv(args[2], ir.Constant(args[2].type, 8))) as loop:
            at = builder.mul(loop.index, ir.Constant(loop.index.type, 8))
            x, y = (
                builder.load(builder.bitcast(builder.gep(start, [at]), lanes.as_pointer()), align=size)
                for start in (first, second)
            )
            product = builder.fmul(x, y, flags=("contract",))
            builder.store(builder.fadd(builder.load(total), product, flags=("contract",)), total)
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(real, [real, lanes]), f"llvm.vector.reduce.fadd.v8f{8 * size}"
        )
        return builder.call(function, [ir.Constant(real, 0.0), builder.load(total)], fastmath=("reassoc",))

    del width  # whatever integer it is, it arrives as a machine word
    return a.dtype(a, b, types.intp), generate


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
def curb(a: Any, reg: Any, cubic: int) -> Any:
    """The regulariser's gradient: λ|a|a of N3, or λa of L2."""
    return reg * abs(a) * a if cubic else reg * a


@inlined
def told(numbers: Any, at: Any, one: Any) -> Any:
    """Hand on what stands at a place of an array that may be empty, which says 1 everywhere."""
    return numbers[at] * one if len(numbers) else one


@inlined
def adagrad(dim: int, values: Any, accumulated: Any, gradient: Any, learning_rate: Any) -> None:
    """Take one step of AdaGrad down a gradient; `accumulated` are its sums of squares."""
    for j in range(dim):
        accumulated[j] += gradient[j] * gradient[j]
        values[j] -= learning_rate * gradient[j] / np.sqrt(accumulated[j])
