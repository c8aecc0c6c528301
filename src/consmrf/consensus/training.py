"""The training of one block: from the consensus of its wave to what it hands back.

A block gathers the rows it needs into small tables, trains there batch by batch, each batch against a pool of
sampled objects through small matrix products, and turns its tables into what the merge adds: steps in the
metric of the gradients, and squared gradients (see `merge.py`). Nothing outside the block is written.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from consmrf.consensus.blocks import CONSENSUS, DEPARTURES, SEVERAL, SHARED, Block, Form, Worker, padded
from consmrf.consensus.facts import Facts
from consmrf.consensus.losses import LOSSES
from consmrf.consensus.primitives import (
    AHEAD,
    FAST,
    LINE,
    SOURCE,
    backprop,
    curb,
    inlined,
    loss_of,
    position,
    prefetch,
    query,
    told,
)
from consmrf.consensus.scorers import SCORERS

__all__ = ["Numbers", "Rows", "train_kernel"]


class Rows(NamedTuple):
    """What all blocks of a wave start from, each row beside its AdaGrad sums."""

    z: NDArray[np.floating[Any]]  # [E, 2d] z | sums
    own: NDArray[np.floating[Any]]  # [m, 2c] what the stage trains of a relation's own, by slot | sums
    w: NDArray[np.floating[Any]]  # [R, 2m] w | sums
    intercepts: NDArray[np.floating[Any]]  # [m] the relations' own intercepts, where they rest


class Numbers(NamedTuple):
    """The numbers of a step, in the precision of the rows."""

    learning_rate: NDArray[np.floating[Any]]  # [d] η of z
    own_rate: Any  # η of a relation's own
    w_rate: Any  # η of w
    reg: NDArray[np.floating[Any]]  # [d] λ of the features; 0 for intercepts and padding
    w_reg: Any  # λ of w
    rho: NDArray[np.floating[Any]]  # [R] ρ_r: how strongly a relation's own is pulled to 0
    boost: NDArray[np.floating[Any]]  # [R] ln(|E| / pool): what makes the pool stand for all objects; or 0
    losses: NDArray[np.int32]  # [R] each relation's, by its code
    reg_shares: NDArray[np.floating[Any]]  # [E] what of λ an entity has at each touch; [0]: all of it


class Shape(NamedTuple):
    """What is constant in a compiled kernel."""

    scorer: int
    dim: int
    d: int
    pool: int
    stage: int
    cubic: int
    terms: int


@inlined
def _gather(rows: Any, table: Any, size: int, source: Any, width: int) -> None:
    for i in range(size):
        if i + AHEAD < size:
            for j in range(0, width, LINE):
                prefetch(source, rows[i + AHEAD], j)
        e = rows[i]
        for j in range(width):
            table[i, j] = source[e, j]


@inlined
def _hand_back(rows: Any, table: Any, size: int, source: Any, width: int) -> None:
    """Turn (value | sums) into (step × √sums | growth of the sums)."""
    for i in range(size):
        e = rows[i]
        for j in range(width):
            step = table[i, j] - source[e, j]
            table[i, j] = step * np.sqrt(table[i, width + j])
            table[i, width + j] -= source[e, width + j]


@inlined
def _adagrad(row: Any, gradient: Any, eta: Any, share: Any, width: int) -> None:
    for j in range(width):
        row[width + j] += share * gradient[j] * gradient[j]
        row[j] -= eta[j] * gradient[j] / np.sqrt(row[width + j])


@inlined
def _adagrad_own(row: Any, gradient: Any, eta: Any, share: Any, pull: Any, width: int) -> None:
    """The same for a row of a relation's own, which its prior pulls to 0."""
    for j in range(width):
        g = gradient[j] + pull * row[j]
        row[width + j] += share * g * g
        row[j] -= eta * g / np.sqrt(row[width + j])


@inlined
def _enter_pool(pool_rows: Any, place_of: Any, offsets: Any, boost: Any, pool: int) -> None:
    """Note each object's place in the pool; one drawn twice counts once."""
    for j in range(pool):
        offsets[j] = boost
        if place_of[pool_rows[j]] < 0:
            place_of[pool_rows[j]] = j
        else:
            offsets[j] = -np.inf


@inlined
def _leave_pool(pool_rows: Any, place_of: Any, pool: int) -> None:
    for j in range(pool):
        place_of[pool_rows[j]] = -1


@inlined
def _row_of_view(
    stage: int, wide: Any, out: Any, z_row: Any, own: Any, slot: int, own_rows: Any, intercepts: Any
) -> None:
    """Write a_e | b_e of the relation's view: z, and what the relation has of its own; `wide`: k, d, role."""
    dim, d, role = wide
    for k in range(d):
        out[k] = z_row[k]
    if stage != SHARED and slot >= 0:
        if stage == CONSENSUS:
            out[role] += own[slot, 0]
        else:
            out[role] += intercepts[own_rows[slot]]
            for k in range(dim):
                out[k] += own[slot, k]


@inlined
def _products(q: Any, turned: Any, scores: Any, size: int, d: int, pool: int) -> None:
    """Write q · n for every query and every object of the pool behind each query's first score."""
    for i in range(size):
        row = scores[i]
        for j in range(pool):
            row[1 + j] = 0
        for c in range(0, d, 8):
            q0, q1, q2, q3 = q[i, c], q[i, c + 1], q[i, c + 2], q[i, c + 3]
            q4, q5, q6, q7 = q[i, c + 4], q[i, c + 5], q[i, c + 6], q[i, c + 7]
            n0, n1, n2, n3 = turned[c], turned[c + 1], turned[c + 2], turned[c + 3]
            n4, n5, n6, n7 = turned[c + 4], turned[c + 5], turned[c + 6], turned[c + 7]
            for j in range(pool):
                row[1 + j] += (q0 * n0[j] + q1 * n1[j] + q2 * n2[j] + q3 * n3[j]) + (
                    q4 * n4[j] + q5 * n5[j] + q6 * n6[j] + q7 * n7[j]
                )


@inlined
def _query_gradients(coefficients: Any, n: Any, dq: Any, size: int, d: int, pool: int) -> None:
    """Add Σ_j c_ij n_j to each query's gradient."""
    for i in range(size):
        c = coefficients[i]
        row = dq[i]
        for j in range(0, pool, 8):
            c0, c1, c2, c3 = c[1 + j], c[2 + j], c[3 + j], c[4 + j]
            c4, c5, c6, c7 = c[5 + j], c[6 + j], c[7 + j], c[8 + j]
            for k in range(d):
                row[k] += (c0 * n[j, k] + c1 * n[j + 1, k] + c2 * n[j + 2, k] + c3 * n[j + 3, k]) + (
                    c4 * n[j + 4, k] + c5 * n[j + 5, k] + c6 * n[j + 6, k] + c7 * n[j + 7, k]
                )


@inlined
def _pool_gradients(coefficients: Any, q: Any, dn: Any, size: int, d: int, pool: int) -> None:
    """Write Σ_i c_ij q_i for each object of the pool."""
    for j in range(pool):
        row = dn[j]
        for k in range(d):
            row[k] = 0
        whole = size // 4 * 4
        for i in range(0, whole, 4):
            c0, c1 = coefficients[i, 1 + j], coefficients[i + 1, 1 + j]
            c2, c3 = coefficients[i + 2, 1 + j], coefficients[i + 3, 1 + j]
            for k in range(d):
                row[k] += (c0 * q[i, k] + c1 * q[i + 1, k]) + (c2 * q[i + 2, k] + c3 * q[i + 3, k])
        for i in range(whole, size):
            c0 = coefficients[i, 1 + j]
            for k in range(d):
                row[k] += c0 * q[i, k]


@inlined
def _reject(
    row: Any, objects: Any, first: int, last: int, row_of: Any, place_of: Any, z_rows: Any, pool_rows: Any
) -> int:
    """Set the scores of known objects to −∞, whichever way is shorter; hand on how many there were."""
    rejected, pool = 0, len(pool_rows)
    if last - first <= 4 * pool:
        for t in range(first, last):
            at = row_of[objects[t]]
            if at >= 0 and place_of[at] >= 0:
                row[1 + place_of[at]] = -np.inf
                rejected += 1
        return rejected
    for j in range(pool):
        e = z_rows[pool_rows[j]]
        t = position(objects, first, last, e)
        if t < last and objects[t] == e:
            row[1 + j] = -np.inf
            rejected += 1
    return rejected


@inlined
def _forward(
    shape: Shape,
    block: Block,
    worker: Worker,
    bounds: Any,
    pool_rows: Any,
    slots: Any,
    w: Any,
    role: int,
    intercepts: Any,
) -> None:
    """The scoring of a batch: `queries`, `objects`, `pool`, `turned` and `scores` are filled."""
    scorer, dim, d, pool, stage = shape.scorer, shape.dim, shape.d, shape.pool, shape.stage
    lo, size = bounds
    z_table, own, own_rows, samples = block.z_table, block.own_table, block.own_rows, worker.samples
    q, o, n, turned, scores = worker.queries, worker.objects, worker.pool, worker.turned, worker.scores
    subject = np.empty(d, q.dtype)
    wide = (dim, d, role)
    for j in range(pool):
        _row_of_view(stage, wide, n[j], z_table[pool_rows[j]], own, slots[j], own_rows, intercepts)
    for j in range(pool):
        for k in range(d):
            turned[k, j] = n[j, k]
    for i in range(size):
        at = samples[lo + i]
        _row_of_view(stage, wide, subject, z_table[at[0]], own, at[2], own_rows, intercepts)
        _row_of_view(stage, wide, o[i], z_table[at[1]], own, at[3], own_rows, intercepts)
        for k in range(dim, d):
            q[i, k] = 0
        query(scorer, dim, subject, w, q[i])
        q[i, role] = 1
        score = q[i, 0] * o[i, 0]
        for k in range(1, d):
            score += q[i, k] * o[i, k]
        scores[i, 0] = score
    _products(q, turned, scores, size, d, pool)


@inlined
def _losses(
    shape: Shape, facts: Facts, block: Block, worker: Worker, bounds: Any, pool_rows: Any, loss: int
) -> tuple[float, int]:
    """The losses of a batch that has been scored, and the gradients of its queries and its pool."""
    d, pool, terms = shape.d, shape.pool, shape.terms
    lo, size = bounds
    order, z_rows, row_of, place_of = block.order, block.z_rows, worker.row_of, worker.place_of
    scores, coefficients, offsets = worker.scores, worker.coefficients, worker.offsets
    heads, head_indptr, objects = facts.heads, facts.head_indptr, facts.objects
    weights, values = facts.weights, facts.values
    dq, o = worker.gradients, worker.objects
    total, rejected, one = 0.0, 0, dq.dtype.type(1)
    for i in range(size):
        for j in range(pool):
            scores[i, 1 + j] += offsets[j]
        f = order[lo + i]
        head = heads[f]
        first, last = head_indptr[head], head_indptr[head + 1]
        rejected += _reject(scores[i], objects, first, last, row_of, place_of, z_rows, pool_rows)
        if terms:
            weight = told(weights, f, one)
            total += weight * loss_of(loss, scores[i], coefficients[i], float(told(values, f, one)))
            for j in range(1 + pool):
                coefficients[i, j] *= weight
        else:
            total += loss_of(loss, scores[i], coefficients[i], 1.0)
        c = coefficients[i, 0]
        for k in range(d):
            dq[i, k] = c * o[i, k]
    _query_gradients(coefficients, worker.pool, dq, size, d, pool)
    _pool_gradients(coefficients, worker.queries, worker.pool_gradients, size, d, pool)
    return total, rejected


@inlined
def _update_rows(
    shape: Shape,
    facts: Facts,
    block: Block,
    worker: Worker,
    numbers: Numbers,
    bounds: Any,
    w: Any,
    role: int,
    rest: Any,
) -> None:
    """The steps of a batch's subjects and observed objects; `dw` is filled."""
    scorer, dim, d, stage, cubic = shape.scorer, shape.dim, shape.d, shape.stage, shape.cubic
    lo, size = bounds
    terms, z_rows, order = shape.terms, block.z_rows, block.order
    intercepts, rho, dw = rest
    z_table, own, own_rows, samples = block.z_table, block.own_table, block.own_rows, worker.samples
    q, o, dq, coefficients = worker.queries, worker.objects, worker.gradients, worker.coefficients
    touches, weights, shares = facts.touches, facts.weights, numbers.reg_shares
    eta, reg, own_rate = numbers.learning_rate, numbers.reg, numbers.own_rate
    subject, da, do, step = (
        np.empty(d, q.dtype),
        np.zeros(d, q.dtype),
        np.empty(d, q.dtype),
        np.empty(len(dw), q.dtype),
    )
    one, wide, mass = q.dtype.type(1), (dim, d, role), float(size)
    if terms:
        mass = 0.0
        for i in range(size):
            mass += told(weights, order[lo + i], one)
    for j in range(len(dw)):
        dw[j] = curb(w[j], numbers.w_reg * mass, cubic)
    for i in range(size):
        at = samples[lo + i]
        weight = s_share = o_share = one
        if terms:
            weight = told(weights, order[lo + i], one)
            s_share = weight * told(shares, z_rows[at[0]], one)
            o_share = weight * told(shares, z_rows[at[1]], one)
        s_row, o_row, s_slot, o_slot = z_table[at[0]], z_table[at[1]], at[2], at[3]
        _row_of_view(stage, wide, subject, s_row, own, s_slot, own_rows, intercepts)
        c = coefficients[i, 0]
        for k in range(d):
            do[k] = c * q[i, k] + curb(o[i, k], o_share * reg[k], cubic)
        backprop(scorer, dim, subject, w, dq[i], da, step)
        for j in range(len(dw)):
            dw[j] += step[j]
        for k in range(dim):
            da[k] += curb(subject[k], s_share * reg[k], cubic)
        if stage != DEPARTURES:
            _adagrad(s_row, da, eta, one, d)
            _adagrad(o_row, do, eta, one, d)
        if stage == CONSENSUS and s_slot >= 0:
            # a subject's own intercept has no part in the score, and its share of the prior all the same
            _adagrad_own(own[s_slot], da[role:], own_rate, one, weight * rho / touches[own_rows[s_slot]], 1)
            _adagrad_own(own[o_slot], do[role:], own_rate, one, weight * rho / touches[own_rows[o_slot]], 1)
        if stage == DEPARTURES and s_slot >= 0:
            _adagrad_own(own[s_slot], da, own_rate, one, weight * rho / touches[own_rows[s_slot]], dim)
            _adagrad_own(own[o_slot], do, own_rate, one, weight * rho / touches[own_rows[o_slot]], dim)


@inlined
def _update_pool(
    shape: Shape,
    block: Block,
    worker: Worker,
    numbers: Numbers,
    pool_rows: Any,
    slots: Any,
    role: int,
    share: Any,
) -> None:
    """The steps of a pool's objects."""
    dim, d, pool, stage = shape.dim, shape.d, shape.pool, shape.stage
    z_table, own, dn, place_of = block.z_table, block.own_table, worker.pool_gradients, worker.place_of
    eta, own_rate, none = numbers.learning_rate, numbers.own_rate, share * 0
    for j in range(pool):
        if place_of[pool_rows[j]] == j:
            if stage != DEPARTURES:
                _adagrad(z_table[pool_rows[j]], dn[j], eta, share, d)
            if stage == CONSENSUS and slots[j] >= 0:
                _adagrad_own(own[slots[j]], dn[j, role:], own_rate, share, none, 1)
            if stage == DEPARTURES and slots[j] >= 0:
                _adagrad_own(own[slots[j]], dn[j], own_rate, share, none, dim)


def _make_train(form: Form, source: int) -> Any:
    """Build the training of a block that has been laid out."""
    scorer, loss = SCORERS[form.scorer].code, -1 if form.loss == SEVERAL else LOSSES[form.loss].code
    dim, pool, stage = form.dim, form.pool, form.stage
    d, weights, own_width = padded(dim), SCORERS[form.scorer].weights(dim), dim if stage == DEPARTURES else 1
    cubic, terms = int(form.cubic), int(form.terms)

    @njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
    def train(
        facts: Facts, rows: Rows, block: Block, worker: Worker, numbers: Numbers, sizes: Any
    ) -> tuple[float, int]:
        if source < 0:  # never, see `blocks.py`
            return 0.0, 0
        shape = Shape(scorer, dim, d, pool, stage, cubic, terms)
        nz, no, nw, nb = sizes
        _gather(block.z_rows, block.z_table, nz, rows.z, 2 * d)
        if stage != SHARED:
            _gather(block.own_rows, block.own_table, no, rows.own, 2 * own_width)
        _gather(block.w_rows, block.w_table, nw, rows.w, 2 * weights)
        dw, one = np.empty(weights, rows.z.dtype), rows.z.dtype.type(1)
        relations, last_pool = len(facts.view_indptr) - 1, np.int64(-1)
        total, rejected = 0.0, 0
        for b in range(nb):
            if worker.stop[0]:
                break
            lo, hi, at_pool, at_w = worker.batches[b]
            bounds, pool_rows, slots = (lo, hi - lo), worker.pools[at_pool], worker.pool_slots[b]
            w, r = block.w_table[at_w], block.w_rows[at_w]
            role = dim + (facts.twins and 2 * r >= relations)
            if at_pool != last_pool or loss < 0:
                if last_pool >= 0:
                    _leave_pool(worker.pools[last_pool], worker.place_of, pool)
                _enter_pool(pool_rows, worker.place_of, worker.offsets, numbers.boost[r], pool)
                last_pool = at_pool
            _forward(shape, block, worker, bounds, pool_rows, slots, w, role, rows.intercepts)
            of = loss if loss >= 0 else numbers.losses[r]
            gained, known = _losses(shape, facts, block, worker, bounds, pool_rows, of)
            total += gained
            rejected += known
            _update_rows(
                shape, facts, block, worker, numbers, bounds, w, role, (rows.intercepts, numbers.rho[r], dw)
            )
            share = one / (hi - lo)
            _update_pool(shape, block, worker, numbers, pool_rows, slots, role, share)
            if stage != DEPARTURES:
                for j in range(weights):
                    w[weights + j] += share * dw[j] * dw[j]
                    w[j] -= numbers.w_rate * dw[j] / np.sqrt(w[weights + j])
        if last_pool >= 0:
            _leave_pool(worker.pools[last_pool], worker.place_of, pool)
        worker.row_of[block.z_rows[:nz]] = -1
        if stage != DEPARTURES:
            _hand_back(block.z_rows, block.z_table, nz, rows.z, d)
            _hand_back(block.w_rows, block.w_table, nw, rows.w, weights)
        if stage != SHARED:
            _hand_back(block.own_rows, block.own_table, no, rows.own, own_width)
        return total, rejected

    return train


@cache
def train_kernel(form: Form) -> Callable[..., tuple[float, int]]:
    """Hand on the compiled training for one form.

    It takes (facts, rows, block, worker, numbers, sizes) and hands on (loss, rejected).
    """
    train: Callable[..., tuple[float, int]] = _make_train(form, SOURCE)
    return train
