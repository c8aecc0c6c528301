"""The training of one block in which every fact draws a few objects of its own, where the rows are.

The blocks of a wave have no entity in common (`plan.plan_apart`), so each moves the rows of its entities in
place: nothing is gathered or merged but W_r, which relations take into several blocks. A fact's objects are
drawn from the part of its own object: parts are drawn anew every epoch, so each is uniform over E all the
same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from consmrf.consensus.blocks import CONSENSUS, DEPARTURES, NEGATIVES, SEVERAL, SHARED, Form, padded
from consmrf.consensus.facts import Facts
from consmrf.consensus.losses import LOSSES
from consmrf.consensus.plan import Parts
from consmrf.consensus.primitives import (
    AHEAD,
    FAST,
    LINE,
    SOURCE,
    among,
    backprop,
    below,
    curb,
    dot,
    inlined,
    loss_of,
    prefetch,
    query,
    stream,
    told,
    uncounted,
)
from consmrf.consensus.scorers import SCORERS
from consmrf.consensus.training import Numbers, Rows

__all__ = ["Apart", "Scratch", "drawn_kernel", "scratch"]

# Facts whose objects are drawn before they are trained.
CHUNK = 512
# How far ahead of the fact being sampled later facts are asked for.
FAR = 32
# Draws in vain after which the first open object from a random place on is taken.
PATIENCE = 64


class Apart(NamedTuple):
    """A block's facts, and the tables of the only rows that other blocks of its wave move, too."""

    order: NDArray[np.int32]  # [n] facts, one relation after the other; shuffled within each
    w_rows: NDArray[np.int32]
    w_table: NDArray[np.floating[Any]]  # [·, 2m] w | sums


class Scratch(NamedTuple):
    """A worker's memory."""

    # [CHUNK, 2 (2 + m) + 3] the entities s, o, o′ …, their slots or −1, where the known objects begin and
    # end, the fact
    samples: NDArray[np.int32]
    batches: NDArray[np.int32]  # [CHUNK, 3] (first sample, end, row of w_table)
    queries: NDArray[np.floating[Any]]  # [b, d]
    gradients: NDArray[np.floating[Any]]  # [b, d] of the subjects
    coefficients: NDArray[np.floating[Any]]  # [b, 1 + m]
    views: NDArray[np.floating[Any]]  # [2 + m, d] rows of A_r for s, o, o′ …
    scores: NDArray[np.floating[Any]]  # [1 + m]
    dq: NDArray[np.floating[Any]]  # [d] the gradient of a query
    dw: NDArray[np.floating[Any]]  # [2, |w|] the gradient of w for a batch, and for a fact
    stop: NDArray[np.uint8]  # [1] not 0: the work is no longer wanted


class Shape(NamedTuple):
    """What is constant in a compiled kernel."""

    scorer: int
    dim: int
    d: int
    few: int
    batch: int
    stage: int
    cubic: int
    kind: int
    sums: int
    terms: int


def scratch(form: Form, real: Any, stop: NDArray[np.uint8]) -> Scratch:
    """Make a worker's memory."""
    d, few, weights = padded(form.dim), form.pool, SCORERS[form.scorer].weights(form.dim)
    return Scratch(
        samples=np.empty((CHUNK, 2 * (2 + few) + 3), np.int32),
        batches=np.empty((CHUNK, 3), np.int32),
        queries=np.zeros((form.batch, d), real),
        gradients=np.zeros((form.batch, d), real),
        coefficients=np.zeros((form.batch, 1 + few), real),
        views=np.zeros((2 + few, d), real),
        scores=np.zeros(1 + few, real),
        dq=np.zeros(d, real),
        dw=np.zeros((2, weights), real),
        stop=stop,
    )


@inlined
def _shuffle(state: Any, order: Any, lo: int, hi: int) -> Any:
    """Bring the facts of one relation into random order (Fisher and Yates)."""
    for i in range(hi - lo - 1, 0, -1):
        state, drawn = below(state, np.uint64(i + 1))
        j = np.int64(drawn)
        order[lo + i], order[lo + j] = order[lo + j], order[lo + i]
    return state


@inlined
def _by_part(order: Any, objects: Any, part_of: Any) -> tuple[Any, int, int]:
    """Hand on the objects of a block's facts, those of one part first, how many these are, and which part."""
    n = len(order)
    by_part = np.empty(n, np.int32)
    part, front, back = part_of[objects[order[0]]], 0, n
    for t in range(n):
        o = objects[order[t]]
        same = int(part_of[o] == part)
        back -= 1 - same
        by_part[front if same else back] = o
        front += same
    return by_part, front, part


@inlined
def _found(entries: Any, first: Any, last: Any, e: Any) -> Any:
    """Hand on the position of `e` in the ascending entries[first:last], −1 where it is not there."""
    while last - first > 16:
        middle = (first + last) >> 1
        if entries[middle] <= e:
            first = middle
        else:
            last = middle
    return among(entries, first, last, e)


@inlined
def _any_open(
    state: Any, members: Any, lo: int, hi: int, objects: Any, first: int, last: int
) -> tuple[Any, Any]:
    """Hand on the first open object of a part from a random place on; −1 where there is none."""
    found = np.int64(-1)
    size = hi - lo
    state, drawn = below(state, np.uint64(max(size, 1)))
    i = np.int64(0)
    while found < 0 and i < size:
        e = np.int64(members[lo + (np.int64(drawn) + i) % size])
        if _found(objects, first, last, e) < 0:
            found = e
        i += 1
    return state, found


@inlined
def _read(shape: Shape, facts: Facts, order: Any, t: int, size: int, samples: Any, at: int) -> None:
    """Read facts into samples, by itself and without branches: these reads go all over the facts."""
    few, stage, known = shape.few, shape.stage, 2 * (2 + shape.few)
    subjects, objects, heads, head_indptr = facts.subjects, facts.objects, facts.heads, facts.head_indptr
    subject_slots, object_slots = facts.subject_slots, facts.object_slots
    for i in range(size):
        if t + i + FAR < len(order):
            f = order[t + i + FAR]
            prefetch(heads, f, 0)
            prefetch(subjects, f, 0)
            prefetch(objects, f, 0)
            prefetch(head_indptr, heads[order[t + i + FAR // 2]], 0)
            if stage != SHARED:
                prefetch(subject_slots, f, 0)
                prefetch(object_slots, f, 0)
        f, sample = order[t + i], samples[at + i]
        head = heads[f]
        sample[0], sample[1], sample[known + 2] = subjects[f], objects[f], f
        sample[known], sample[known + 1] = head_indptr[head], head_indptr[head + 1]
        if stage != SHARED:
            sample[2 + few], sample[3 + few] = subject_slots[f], object_slots[f]


@inlined
def _sample(
    shape: Shape, state: Any, facts: Facts, parts: Parts, drawing: Any, r: int, samples: Any, bounds: Any
) -> tuple[Any, int, int]:
    """Draw the objects of the samples in `bounds`, which have been read; `drawing` is from `_by_part`.

    o′ comes from the part of the fact's object, and is drawn again while it is known. A fact whose part has
    no open object is left out of this epoch. Hands on (state, the end of the samples kept, draws rejected).
    """
    few, kind, stage, known = shape.few, shape.kind, shape.stage, 2 * (2 + shape.few)
    objects, view_entities, range_entities = facts.objects, facts.view_entities, facts.range_entities
    part_of, members, part_indptr = parts.part_of, parts.members, parts.indptr
    view_first, view_last = facts.view_indptr[r], facts.view_indptr[r + 1]
    range_first, range_last = facts.range_indptr[r], facts.range_indptr[r + 1]
    by_part, front, front_part = drawing
    kept, rejected = bounds[0], 0
    for i in range(bounds[0], bounds[1]):
        first, last = np.int64(samples[i, known]), np.int64(samples[i, known + 1])
        part = part_of[samples[i, 1]]
        lo, hi = part_indptr[part], part_indptr[part + 1]
        if kept < i:
            for j in range(known + 3):
                samples[kept, j] = samples[i, j]
        neg = np.int64(-1)
        for j in range(few):
            neg = np.int64(-1)
            tries = 0
            while neg < 0 and tries < PATIENCE:
                tries += 1
                if kind == 0:
                    state, at = below(state, np.uint64(hi - lo))
                    e = np.int64(members[lo + np.int64(at)])
                elif kind == 1:
                    a, b = (0, front) if part == front_part else (front, len(by_part))
                    state, at = below(state, np.uint64(b - a))
                    e = np.int64(by_part[a + np.int64(at)])
                else:
                    state, at = below(state, np.uint64(range_last - range_first))
                    e = np.int64(range_entities[range_first + np.int64(at)])
                if kind < 2 or part_of[e] == part:
                    if _found(objects, first, last, e) < 0:
                        neg = e
                    else:
                        rejected += 1
            if neg < 0:
                state, neg = _any_open(state, members, lo, hi, objects, first, last)
            if neg >= 0:
                samples[kept, 2 + j] = neg
                if stage != SHARED:
                    samples[kept, 4 + few + j] = _found(view_entities, view_first, view_last, neg)
        if neg >= 0:
            kept += 1
    return state, kept, rejected


@inlined
def _ask_for(shape: Shape, samples: Any, t: int, z: Any, own: Any) -> None:
    """Ask for the rows of a later sample."""
    few, arrays = shape.few, 1 + shape.sums
    z_width = shape.d if shape.stage == DEPARTURES else arrays * shape.d
    for i in range(2 + few):
        for j in range(0, z_width, LINE):
            prefetch(z, samples[t, i], j)
        if shape.stage != SHARED and samples[t, 2 + few + i] >= 0:
            for j in range(0, arrays * shape.dim if shape.stage == DEPARTURES else 1, LINE):
                prefetch(own, samples[t, 2 + few + i], j)


@inlined
def _view(
    shape: Shape, views: Any, j: int, z: Any, e: int, own: Any, slot: int, intercepts: Any, role: int
) -> None:
    """Write a_e | b_e of the relation's view into views[j].

    The width is read from the array: a constant one is unrolled before the compiler looks for vectors.
    """
    dim = own.shape[1] // (1 + shape.sums)
    for k in range(views.shape[1]):
        views[j, k] = z[e, k]
    if shape.stage != SHARED and slot >= 0:
        if shape.stage == CONSENSUS:
            views[j, role] += own[slot, 0]
        else:
            views[j, role] += intercepts[slot]
            for k in range(dim):
                views[j, k] += own[slot, k]


@inlined
def _gradients(
    shape: Shape,
    facts: Facts,
    rows: Rows,
    scratch: Scratch,
    bounds: Any,
    w: Any,
    role: int,
    loss: int,
    boost: Any,
) -> float:
    """Take the gradients of a batch, with its queries and coefficients; hand on the loss."""
    scorer, dim, d, few, stage = shape.scorer, shape.dim, shape.d, shape.few, shape.stage
    z, own, intercepts, samples = rows.z, rows.own, rows.intercepts, scratch.samples
    queries, gradients, coefficients = scratch.queries, scratch.gradients, scratch.coefficients
    views, scores, dq, dw, step = scratch.views, scratch.scores, scratch.dq, scratch.dw[0], scratch.dw[1]
    lo, hi, drawn = bounds
    total, fact, one = 0.0, 2 * (2 + few) + 2, z.dtype.type(1)
    for i in range(hi - lo):
        t = lo + i
        if t + AHEAD < drawn:
            _ask_for(shape, samples, t + AHEAD, z, own)
        s, q = z[samples[t, 0]], queries[i]
        if stage != SHARED:
            for j in range(2 + few):
                _view(shape, views, j, z, samples[t, j], own, samples[t, 2 + few + j], intercepts, role)
            s = views[0]
        query(scorer, dim, s, w, q)
        for j in range(1 + few):
            a = z[samples[t, 1 + j]] if stage == SHARED else views[1 + j]
            scores[j] = dot(q, a, d)
            if j > 0:
                scores[j] += boost
        if shape.terms:
            weight = told(facts.weights, samples[t, fact], one)
            y = float(told(facts.values, samples[t, fact], one))
            total += weight * loss_of(loss, scores, coefficients[i], y)
            for j in range(1 + few):
                coefficients[i, j] *= weight
        else:
            total += loss_of(loss, scores, coefficients[i], 1.0)
        for j in range(1 + few):
            a, c = z[samples[t, 1 + j]] if stage == SHARED else views[1 + j], coefficients[i, j]
            for k in range(d):
                dq[k] = c * a[k] + (dq[k] if j else 0 * c)
        backprop(scorer, dim, s, w, dq, gradients[i], step)
        for j in range(len(dw)):
            dw[j] += step[j]
    return total


@inlined
def _descend(
    shape: Shape, z: Any, e: int, c: Any, x: Any, i: int, eta: Any, reg: Any, share: Any, curbed: int
) -> None:
    """Take one step of a row of z against the gradient c x_i and its share of the regulariser's."""
    d = shape.d
    for k in range(d):
        g = c * x[i, k]
        if curbed:
            g += curb(z[e, k], share * reg[k] if shape.terms else reg[k], shape.cubic)
        step = eta[k] * g
        if shape.sums:
            z[e, d + k] += g * g
            step /= np.sqrt(z[e, d + k])
        z[e, k] -= step


@inlined
def _descend_own(
    shape: Shape,
    own: Any,
    slot: int,
    z: Any,
    e: int,
    c: Any,
    x: Any,
    i: int,
    eta: Any,
    reg: Any,
    share: Any,
    pull: Any,
    curbed: int,
) -> None:
    """The same for a row of Δ_r, which its prior pulls to 0 where the entity stands in the fact."""
    dim = shape.dim
    for k in range(dim):
        g = c * x[i, k]
        if curbed:
            g += curb(z[e, k] + own[slot, k], share * reg[k] if shape.terms else reg[k], shape.cubic)
            g += pull * own[slot, k]
        step = eta * g
        if shape.sums:
            own[slot, dim + k] += g * g
            step /= np.sqrt(own[slot, dim + k])
        own[slot, k] -= step


@inlined
def _descend_intercept(shape: Shape, own: Any, slot: int, g: Any, eta: Any) -> None:
    step = eta * g
    if shape.sums:
        own[slot, 1] += g * g
        step /= np.sqrt(own[slot, 1])
    own[slot, 0] -= step


@inlined
def _steps(
    shape: Shape, facts: Facts, rows: Rows, scratch: Scratch, numbers: Numbers, bounds: Any, rho: Any
) -> None:
    """Take the steps of a batch's entities."""
    few, stage, touches, weights = shape.few, shape.stage, facts.touches, facts.weights
    z, own, samples, shares = rows.z, rows.own, scratch.samples, numbers.reg_shares
    queries, gradients, coefficients = scratch.queries, scratch.gradients, scratch.coefficients
    eta, reg, own_rate = numbers.learning_rate, numbers.reg, numbers.own_rate
    lo, hi, _ = bounds
    one, none, fact = z.dtype.type(1), z.dtype.type(0), 2 * (2 + few) + 2
    for i in range(hi - lo):
        t = lo + i
        s, o, weight = samples[t, 0], samples[t, 1], one
        s_share = o_share = one
        if shape.terms:
            weight = told(weights, samples[t, fact], one)
            s_share, o_share = weight * told(shares, s, one), weight * told(shares, o, one)
        if stage != DEPARTURES:
            _descend(shape, z, s, one, gradients, i, eta, reg, s_share, 1)
            _descend(shape, z, o, coefficients[i, 0], queries, i, eta, reg, o_share, 1)
            for j in range(1, 1 + few):
                _descend(shape, z, samples[t, 1 + j], coefficients[i, j], queries, i, eta, reg, none, 0)
        for j in range(2 + few if stage != SHARED else 0):
            slot, e = samples[t, 2 + few + j], samples[t, j]
            if slot >= 0:
                pull = weight * rho / touches[slot] if j < 2 else none
                if stage == CONSENSUS:
                    # a subject's own intercept has its share of the prior, though no part in the score
                    g = (coefficients[i, j - 1] if j > 0 else none) + pull * own[slot, 0]
                    _descend_intercept(shape, own, slot, g, own_rate)
                elif j == 0:
                    _descend_own(shape, own, slot, z, e, one, gradients, i, own_rate, reg, s_share, pull, 1)
                else:
                    c = coefficients[i, j - 1]
                    _descend_own(shape, own, slot, z, e, c, queries, i, own_rate, reg, o_share, pull, j < 2)


@inlined
def _step_w(shape: Shape, w: Any, dw: Any, eta: Any, share: Any) -> None:
    m = len(dw)
    for j in range(m):
        step = eta * dw[j]
        if shape.sums:
            w[m + j] += share * dw[j] * dw[j]
            step /= np.sqrt(w[m + j])
        w[j] -= step


@inlined
def _hand_back(shape: Shape, block: Apart, w: Any, nw: int, m: int) -> None:
    """Turn w's tables into what the merge adds (see `merge.py`)."""
    w_rows, table = block.w_rows, block.w_table
    for i in range(nw):
        for j in range(m):
            step = table[i, j] - w[w_rows[i], j]
            if shape.sums:
                step *= np.sqrt(table[i, m + j])
                table[i, m + j] -= w[w_rows[i], m + j]
            table[i, j] = step


@inlined
def _draw_chunk(
    shape: Shape,
    facts: Facts,
    parts: Parts,
    block: Apart,
    scratch: Scratch,
    w: Any,
    drawing: Any,
    at: Any,
    width: int,
) -> tuple[Any, int, int, int]:
    """Draw the next samples and note their batches; `at` = (state, t, where t's relation ends, rows of w).

    Hands on the same for the next chunk, (samples drawn, batches), and the draws rejected.
    """
    state, t, end, nw = at
    order, w_rows, w_table, batches = block.order, block.w_rows, block.w_table, scratch.batches
    drawn = nb = rejections = 0
    while t < len(order) and drawn < CHUNK:
        if t == end:
            r = facts.relations[order[t]]
            while end < len(order) and order[end] < parts.facts[r + 1]:
                end += 1
            state = _shuffle(state, order, t, end)
            w_rows[nw] = r
            for j in range(width):
                w_table[nw, j] = w[r, j]
            nw += 1
        size = min(end - t, shape.batch, CHUNK - drawn)
        _read(shape, facts, order, t, size, scratch.samples, drawn)
        state, kept, rejected = _sample(
            shape, state, facts, parts, drawing, w_rows[nw - 1], scratch.samples, (drawn, drawn + size)
        )
        if kept > drawn:
            batches[nb, 0], batches[nb, 1], batches[nb, 2] = drawn, kept, nw - 1
            nb += 1
        rejections += rejected
        drawn = kept
        t += size
    return (state, t, end, nw), drawn, nb, rejections


def _make_train(form: Form, source: int) -> Any:
    """Build the training of a block."""
    scorer, loss = SCORERS[form.scorer].code, -1 if form.loss == SEVERAL else LOSSES[form.loss].code
    dim, few, stage, batch, cubic = form.dim, form.pool, form.stage, form.batch, int(form.cubic)
    d, m, kind = padded(dim), SCORERS[form.scorer].weights(dim), NEGATIVES.index(form.negatives)
    sums, terms = int(form.optimizer == "adagrad"), int(form.terms)

    @njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
    def train(
        facts: Facts, rows: Rows, block: Apart, scratch: Scratch, numbers: Numbers, parts: Parts, of: Any
    ) -> tuple[float, int, int, int]:
        if source < 0:  # never, see `blocks.py`
            return 0.0, 0, 0, 0
        shape = Shape(scorer, dim, d, few, batch, stage, cubic, kind, sums, terms)
        facts, rows, block, scratch = uncounted(facts), uncounted(rows), uncounted(block), uncounted(scratch)
        numbers, parts = uncounted(numbers), uncounted(parts)
        batches, queries, dw, samples = scratch.batches, scratch.queries, scratch.dw[0], scratch.samples
        real, relations, last_role = rows.z.dtype.type, len(facts.view_indptr) - 1, -1
        total, rejections, trained, fact = 0.0, 0, 0, 2 * (2 + few) + 2
        drawing = (block.order, 0, 0)  # of which only draws by degree make use
        if kind == 1 and len(block.order):
            drawing = _by_part(block.order, facts.objects, parts.part_of)
        at = (stream(of[0], of[1], of[2]), 0, 0, 0)
        while at[1] < len(block.order) and not scratch.stop[0]:
            at, drawn, nb, rejected = _draw_chunk(
                shape, facts, parts, block, scratch, rows.w, drawing, at, (1 + sums) * m
            )
            rejections += rejected
            trained += drawn
            for b in range(nb):
                lo, hi, at_w = batches[b, 0], batches[b, 1], batches[b, 2]
                w, r = block.w_table[at_w], block.w_rows[at_w]
                role, mass = dim + (facts.twins and 2 * r >= relations), real(hi - lo)
                if role != last_role:
                    for i in range(batch):
                        queries[i, dim:] = 0
                        queries[i, role] = 1
                    last_role = role
                if terms:
                    mass = real(0)
                    for i in range(lo, hi):
                        mass += told(facts.weights, samples[i, fact], real(1))
                for j in range(m):
                    dw[j] = curb(w[j], numbers.w_reg * mass, cubic)
                own_loss = loss if loss >= 0 else numbers.losses[r]
                total += _gradients(
                    shape, facts, rows, scratch, (lo, hi, drawn), w, role, own_loss, numbers.boost[r]
                )
                _steps(shape, facts, rows, scratch, numbers, (lo, hi, drawn), numbers.rho[r])
                if stage != DEPARTURES:
                    _step_w(shape, w, dw, numbers.w_rate, real(1) / real(hi - lo))
        if stage != DEPARTURES:
            _hand_back(shape, block, rows.w, at[3], m)
        return total, rejections, trained, at[3]

    return train


@cache
def drawn_kernel(form: Form) -> Callable[..., tuple[float, int, int, int]]:
    """Hand on the compiled training for one form with few negatives.

    It takes (facts, rows, block, scratch, numbers, parts, stream) and hands on (loss, draws rejected, facts
    trained, rows of w_table in use).
    """
    train: Callable[..., tuple[float, int, int, int]] = _make_train(form, SOURCE)
    return train
