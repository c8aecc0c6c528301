"""The compiled product of queries and candidates, every score summed in the order of the features.

A library's matrix product rounds a row differently from place to place (OpenBLAS's single product on AVX2 has
two orders of summation, which alternate every six rows). Here a score is one chain of fused multiply-adds, so
its bits depend on its query and its candidate alone. The speed comes from the registers: ROWS queries meet
two vectors of candidates at a time, laid out feature by feature.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import DTypeLike, NDArray

__all__ = ["ROWS", "correction", "lanes", "padded", "product"]

# Queries that are multiplied at once.
ROWS = 6
# Bytes of a vector, and vectors of candidates that are multiplied at once: what the registers have room for.
_VECTOR_BYTES = 64
_VECTORS = 2 if binding.get_host_cpu_features().get("avx512f") else 1


def lanes(dtype: DTypeLike) -> int:
    """Hand on how many candidates are multiplied at once."""
    return _VECTORS * _VECTOR_BYTES // np.dtype(dtype).itemsize


def padded(count: int, multiple: int) -> int:
    """Hand on the least multiple that is not below `count`."""
    return -(-count // multiple) * multiple


@intrinsic
def _multiply(_: Any, q: Any, row: Any, panel: Any, scores: Any, column: Any) -> Any:
    """Write scores[row + i, column + c] = Σ_j q[row + i, j] · panel[j, c], ROWS by `lanes` of them."""
    result = types.void(q, row, panel, scores, column)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        real = context.get_data_type(signature.args[0].dtype)
        width = _VECTOR_BYTES // context.get_abi_sizeof(real)
        vector, align = ir.VectorType(real, width), context.get_abi_sizeof(real)
        q, panel, scores = (
            context.make_array(signature.args[i])(context, builder, args[i]) for i in (0, 2, 3)
        )
        _, dim = cgutils.unpack_tuple(builder, q.shape)
        _, pitch = cgutils.unpack_tuple(builder, scores.shape)
        fused = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(vector, [vector] * 3), f"llvm.fma.v{width}f{8 * align}"
        )
        number = ir.Constant(ir.IntType(64), 0).type
        sums = [[cgutils.alloca_once(builder, vector) for _ in range(_VECTORS)] for _ in range(ROWS)]
        for each in sums:
            for place in each:
                builder.store(ir.Constant(vector, None), place)

        def at(base: Any, index: Any, offset: int = 0) -> Any:
            return builder.gep(base, [builder.add(index, ir.Constant(number, offset))])

        starts = [builder.mul(builder.add(args[1], ir.Constant(number, i)), dim) for i in range(ROWS)]
        with cgutils.for_range(builder, dim) as loop:
            line = builder.mul(loop.index, ir.Constant(number, _VECTORS * width))
            parts = [
                builder.load(
                    builder.bitcast(at(panel.data, line, v * width), vector.as_pointer()), align=align
                )
                for v in range(_VECTORS)
            ]
            for start, each in zip(starts, sums, strict=True):
                one = builder.load(at(q.data, builder.add(start, loop.index)))
                spread = builder.insert_element(ir.Constant(vector, ir.Undefined), one, ir.IntType(32)(0))
                spread = builder.shuffle_vector(
                    spread,
                    ir.Constant(vector, ir.Undefined),
                    ir.Constant(ir.VectorType(ir.IntType(32), width), None),
                )
                for part, place in zip(parts, each, strict=True):
                    builder.store(builder.call(fused, [spread, part, builder.load(place)]), place)
        for i, each in enumerate(sums):
            line = builder.add(builder.mul(builder.add(args[1], ir.Constant(number, i)), pitch), args[4])
            for v, place in enumerate(each):
                target = builder.bitcast(at(scores.data, line, v * width), vector.as_pointer())
                builder.store(builder.load(place), target, align=align)
        return context.get_dummy_value()

    return result, generate


@cache
def product(dtype: DTypeLike) -> Any:
    """Hand on `_product` compiled for arrays of floats; the candidates' rows may be mapped, and lie apart."""
    real = types.float32 if np.dtype(dtype) == np.float32 else types.float64
    rows = types.Array(real, 2, "A", readonly=True)
    signature = types.void(real[:, ::1], rows, real[:, ::1], real[:, ::1])
    return njit([signature], cache=True, nogil=True, error_model="numpy")(_product)


def _product(q: NDArray[Any], rows: NDArray[Any], panel: NDArray[Any], scores: NDArray[Any]) -> None:
    """Write q · rowsᵀ to the first columns of `scores`, whose width is a whole number of panels.

    q has a multiple of ROWS rows; `panel` [k, lanes] is room for the candidates of one step.
    """
    width = panel.shape[1]
    for first in range(0, len(rows), width):
        there = min(width, len(rows) - first)
        if there < width:
            panel[:] = 0
        for c in range(there):
            for j in range(q.shape[1]):
                panel[j, c] = rows[first + c, j]
        for i in range(0, len(q), ROWS):
            _multiply(q, i, panel, scores, first)


@cache
def correction(dtype: DTypeLike) -> Any:
    """Hand on `_correct` compiled for arrays of floats, in memory or mapped from a file.

    A mapped array cannot be written to, which is a type of its own to numba: one form takes both.
    """
    real = types.float32 if np.dtype(dtype) == np.float32 else types.float64

    def fixed(kind: Any) -> Any:
        return types.Array(kind, 1, "C", readonly=True)

    own = types.Tuple([fixed(types.int32), fixed(real), types.int64, fixed(real)])
    room = types.Tuple([real[:, ::1], real[:, ::1]])
    signature = types.void(real[:, ::1], types.int64, real[:, ::1], types.int64[:, ::1], own, room)
    return njit([signature], cache=True, nogil=True, error_model="numpy")(_correct)


def _correct(
    scores: NDArray[Any],
    first: int,
    q: NDArray[Any],
    runs: NDArray[np.int64],
    own: tuple[NDArray[np.int32], NDArray[Any], int, NDArray[Any]],
    room: tuple[NDArray[Any], NDArray[Any]],
) -> None:
    """Add q · δ_e + δb_e to the columns of the entities that have rows of their own.

    `own` is entities, Δ, its pitch, and δb: row i of Δ begins at pitch · i, pitch 0 says that no features
    differ, δb may be empty. A run (begin, end, row, stop) is the queries of one relation, and its rows of Δ
    from the first that no tile has passed; `row` moves on. q goes on for ROWS rows after the last query;
    `room` is a panel [k, lanes] and products [rows of q, lanes].
    """
    entities, delta, pitch, delta_b = own
    panel, products = room
    width, lanes = scores.shape[1], panel.shape[1]
    for run in range(len(runs)):
        begin, end, low, stop = runs[run]
        high = low
        while high < stop and entities[high] < first + width:
            high += 1
        runs[run, 2] = high
        if pitch:
            for start in range(low, high, lanes):
                there = min(lanes, high - start)
                for c in range(there):
                    for j in range(q.shape[1]):
                        panel[j, c] = delta[(start + c) * pitch + j]
                for i in range(begin, end, ROWS):
                    _multiply(q, i, panel, products, 0)
                for i in range(begin, end):
                    for c in range(there):
                        scores[i, entities[start + c] - first] += products[i, c]
        if len(delta_b):
            for i in range(begin, end):
                for row in range(low, high):
                    scores[i, entities[row] - first] += delta_b[row]
