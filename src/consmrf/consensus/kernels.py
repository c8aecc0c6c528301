"""The paper solver's compiled loops: drawing (s, o, o′), and Algorithm 2's SGD. Arrays in, counters out.

`kernels(scorer, loss, dim, carry)` builds the pair (draw, update) in which the number of features is a
constant of the compiled code.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from consmrf.consensus.losses import LOSSES
from consmrf.consensus.primitives import (
    AHEAD,
    FAST,
    LINE,
    SOURCE,
    adagrad,
    backprop,
    below,
    gap,
    inlined,
    loss_of,
    position,
    prefetch,
    query,
    stream,
    weights_of,
)
from consmrf.consensus.scorers import SCORERS

__all__ = ["Kernels", "Sampling", "Steps", "draw_negative", "kernels"]

# How many samples pass between two looks at the request to stop; a power of two.
BREATH = 4096
# Rejected draws of o′ after which one is taken from the sorted gaps instead: same distribution, bounded time.
PATIENCE = 64


class Sampling(NamedTuple):
    """What drawing from one relation needs.

    D_r without the triples whose subject has no unobserved object.
    """

    heads: NDArray[np.int32]  # [n] the row of each triple's subject in `indptr`
    local_subjects: NDArray[np.int32]  # [n] that subject's position in E_r
    local_objects: NDArray[np.int32]  # [n] the object's position in E_r
    indptr: NDArray[np.int64]
    objects: NDArray[np.int32]  # ascending within a row: what o′ must not be
    entities: NDArray[np.int32]  # E_r


class Store(NamedTuple):
    """What a relation keeps between rounds for every entity it ever touched; the first |E_r| rows are E_r."""

    entities: NDArray[np.int32]  # [capacity]
    kept: NDArray[np.floating[Any]]  # [capacity, 2k] S_r | AdaGrad's sums of squares


class Scratch(NamedTuple):
    """A worker's memory for one sweep; `row_of` and `slot_of` are all −1 between sweeps."""

    row_of: NDArray[np.int32]  # [|E|] entity → row of the table
    slot_of: NDArray[np.int32]  # [|E|] entity → row of the store, for those beyond E_r
    samples: NDArray[np.int32]  # [n, 1 + candidates] rows of the table for (s, o, o′ …)
    rows: NDArray[np.int32]  # [t] the table's entities; after the sweep, first those that moved
    slots: NDArray[np.int32]  # [t] where the store keeps them
    table: NDArray[np.floating[Any]]  # [t, 3k] a | pull | AdaGrad's sums
    delta: NDArray[np.floating[Any]]  # [t, k] after the sweep, first the rows that moved
    stop: NDArray[np.uint8]  # [1] shared by the workers: not 0 means that the sweep is no longer wanted


class Steps(NamedTuple):
    """The numbers of Algorithm 2, in the precision of the table."""

    learning_rate: np.floating[Any]  # η
    reg: np.floating[Any]  # λ
    rho: np.floating[Any]  # ρ


class Kernels(NamedTuple):
    """The compiled pair for one (scorer, loss, dim, carry)."""

    draw: Callable[..., tuple[int, int, int]]
    update: Callable[..., tuple[float, float, int]]


@inlined
def draw_negative(
    state: np.uint64, indptr: Any, objects: Any, head: int, n_entities: int
) -> tuple[np.uint64, Any, int]:
    """Draw o′ ~ O_s^r, where `objects` from indptr[head] on are those that s is linked to.

    Uniform over E, drawn again while (s, r, o′) is observed. Hand on (state, o′, rejected).
    """
    lo, hi = indptr[head], indptr[head + 1]
    for rejected in range(PATIENCE):
        state, drawn = below(state, np.uint64(n_entities))
        neg = np.int64(drawn)
        at = position(objects, lo, hi, neg)
        if at == hi or objects[at] != neg:
            return state, neg, rejected
    state, drawn = below(state, np.uint64(n_entities - (hi - lo)))
    return state, gap(objects, lo, hi, np.int64(drawn)), PATIENCE


def _make_draw(source: int) -> Callable[..., tuple[int, int, int]]:
    """Build the drawing of one sweep's samples."""

    @njit(cache=True, nogil=True, error_model="numpy")
    def draw(
        sampling: Sampling,
        stored: NDArray[np.int32],
        n_entities: int,
        of: tuple[int, int, int],
        scratch: Scratch,
    ) -> tuple[int, int, int]:
        """Fill `samples` with draws (s, o) ~ D_r, with replacement, and o′ ~ O_s^r, as rows of the table.

        The table's first rows are E_r; entities drawn from outside get further rows. `rows` and `slots` are
        filled with the table's entities and their place in the store; those it lacks get the places after
        `stored`. The random numbers belong to `of` = (seed, epoch, block), whoever draws them. Hands on (rows
        of the table, entities new to the store, rejected draws).
        """
        if source < 0:  # never, see `_make_update`
            return 0, 0, 0
        row_of, slot_of, rows, slots = scratch.row_of, scratch.slot_of, scratch.rows, scratch.slots
        size, fresh, rejections = len(sampling.entities), len(stored), 0
        for i in range(size):
            rows[i], slots[i], row_of[stored[i]] = stored[i], i, i
        for i in range(size, len(stored)):
            slot_of[stored[i]] = i
        state = stream(of[0], of[1], of[2])
        for t in range(len(scratch.samples)):
            if t % BREATH == 0 and scratch.stop[0]:
                break
            state, drawn = below(state, np.uint64(len(sampling.heads)))
            position = np.int64(drawn)
            sample = scratch.samples[t]
            sample[0] = sampling.local_subjects[position]
            sample[1] = sampling.local_objects[position]
            for i in range(2, len(sample)):
                head = sampling.heads[position]
                state, neg, rejected = draw_negative(
                    state, sampling.indptr, sampling.objects, head, n_entities
                )
                rejections += rejected
                if row_of[neg] < 0:
                    if slot_of[neg] < 0:
                        slot_of[neg] = fresh
                        fresh += 1
                    row_of[neg], rows[size], slots[size] = size, neg, slot_of[neg]
                    size += 1
                sample[i] = row_of[neg]
        for i in range(size):
            row_of[rows[i]] = slot_of[rows[i]] = -1
        for i in range(len(sampling.entities), len(stored)):
            slot_of[stored[i]] = -1
        return size, fresh - len(stored), rejections

    return draw


@inlined
def _gather(
    dim: int, carry: int, z: Any, z0: Any, store: Store, scratch: Scratch, size: int, rho: Any
) -> None:
    """Lay out, for each entity of the sweep, a | pull | AdaGrad's sums side by side.

    `pull` is what V_r and the proximal term add to ρ·a: v − ρz = ρ(S_r − (z − z⁰) − z), see
    docs/equations.md.
    """
    # taken out of their tuples here: a tuple touched in the loop is counted, atomically, row by row
    table, store_rows, rows, slots = scratch.table, store.kept, scratch.rows, scratch.slots
    for i in range(size):
        if i + AHEAD < size:
            for j in range(0, 2 * dim, LINE):
                prefetch(store_rows, slots[i + AHEAD], j)
        row, kept, ze, z0e = table[i], store_rows[slots[i]], z[rows[i]], z0[rows[i]]
        for j in range(dim):
            row[j] = ze[j] + kept[j] if carry else ze[j]
        for j in range(dim):
            row[dim + j] = rho * (kept[j] - (ze[j] - z0e[j]) - ze[j])
        for j in range(dim):
            row[2 * dim + j] = kept[dim + j]


@inlined
def _sweep(
    form: tuple[int, int, int, int],
    table: Any,
    samples: Any,
    w: Any,
    w_sums: Any,
    steps: Steps,
    stop: Any,
) -> float:
    """Algorithm 2's loop over the samples drawn.

    Updates the table, w and its AdaGrad sums; hands on the loss.
    """
    scorer, loss, dim, width = form
    weights = weights_of(scorer, dim)
    q, dq = np.empty(dim, table.dtype), np.empty(dim, table.dtype)
    scores, coefficients = np.empty(width, table.dtype), np.empty(width, table.dtype)
    gradients, dw = np.empty((width + 1, dim), table.dtype), np.empty(weights, table.dtype)
    decay = steps.reg + steps.rho
    total = 0.0
    for t in range(len(samples)):
        if t % BREATH == 0 and stop[0]:
            break
        if t + AHEAD < len(samples):
            for i in range(width + 1):
                for j in range(0, 3 * dim, LINE):
                    prefetch(table, samples[t + AHEAD, i], j)
        s = table[samples[t, 0]]
        query(scorer, dim, s[:dim], w, q)
        for i in range(width):
            a = table[samples[t, i + 1]]
            score = q[0] * a[0]
            for j in range(1, dim):
                score += q[j] * a[j]
            scores[i] = score
        total += loss_of(loss, scores, coefficients, 1.0)
        # line 6 to 9 of Algorithm 2, all gradients before any update: a row may stand twice among s, o and o′
        dq[:] = 0
        for i in range(width):
            a = table[samples[t, i + 1]]
            coefficient = coefficients[i]
            for j in range(dim):
                dq[j] += coefficient * a[j]
                gradients[i + 1, j] = coefficient * q[j] + decay * a[j] + a[dim + j]
        backprop(scorer, dim, s[:dim], w, dq, gradients[0], dw)
        for j in range(dim):
            gradients[0, j] += decay * s[j] + s[dim + j]
        for j in range(weights):
            dw[j] += steps.reg * w[j]
        for i in range(width + 1):
            a = table[samples[t, i]]
            adagrad(dim, a[:dim], a[2 * dim :], gradients[i], steps.learning_rate)
        adagrad(weights, w, w_sums, dw, steps.learning_rate)
    return total


@inlined
def _scatter(dim: int, carry: int, z: Any, store: Store, scratch: Scratch, size: int) -> tuple[float, int]:
    """Write Δ_r = A_r − Z for the rows that moved, bring the drift S_r up to date, keep AdaGrad's sums.

    Hands on (‖Δ_r‖², the number of rows that moved); these stand first in `rows` and `delta`.
    """
    table, store_rows, rows, slots = scratch.table, store.kept, scratch.rows, scratch.slots
    delta = scratch.delta
    squares = 0.0
    moved = 0
    for i in range(size):
        if i + AHEAD < size:
            for j in range(0, 2 * dim, LINE):
                prefetch(store_rows, slots[i + AHEAD], j)
        e = rows[i]
        row, kept, ze, change = table[i], store_rows[slots[i]], z[e], delta[moved]
        norm = row[0] * 0
        for j in range(dim):
            change[j] = row[j] - ze[j]
        for j in range(dim):
            norm += change[j] * change[j]
        for j in range(dim):
            kept[j] = change[j] if carry else kept[j] + change[j]
        for j in range(dim):
            kept[dim + j] = row[2 * dim + j]
        if norm != 0:
            rows[moved] = e
            moved += 1
            squares += norm
    return squares, moved


def _make_update(
    scorer: int, loss: int, dim: int, width: int, carry: int, source: int
) -> Callable[..., tuple[float, float, int]]:
    """Build Algorithm 2 for one form of W_r, one loss, k = dim, and `width` scored objects (o, each o′)."""

    @njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
    def update(
        z: Any, z0: Any, store: Store, size: int, w: Any, w_sums: Any, scratch: Scratch, steps: Steps
    ) -> tuple[float, float, int]:
        if source < 0:  # never: read here, it stands in the closure and so in the key of the disk cache
            return np.nan, np.nan, 0
        _gather(dim, carry, z, z0, store, scratch, size, steps.rho)
        form = (scorer, loss, dim, width)
        total = _sweep(form, scratch.table, scratch.samples, w, w_sums, steps, scratch.stop)
        squares, moved = _scatter(dim, carry, z, store, scratch, size)
        return total, squares, moved

    return update


@cache
def kernels(scorer: str, loss: str, dim: int, carry: bool) -> Kernels:
    """Hand on the kernels for one form of W_r, one loss and one k; compiled on the first call.

    `carry` says where a sweep begins: at A_r ← Z (the paper), or where the relation's last one ended.
    """
    update = _make_update(SCORERS[scorer].code, LOSSES[loss].code, dim, 2, int(carry), SOURCE)
    return Kernels(_make_draw(SOURCE), update)


@njit(cache=True, nogil=True, error_model="numpy")
def add_rows(total: NDArray[Any], rows: NDArray[np.int32], delta: NDArray[Any]) -> None:
    """Add the rows `delta` to `total` at `rows`."""
    for i in range(len(rows)):
        for j in range(total.shape[1]):
            total[rows[i], j] += delta[i, j]
