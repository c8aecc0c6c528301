"""What a block of facts is to the compiled loops: the rows it needs, its batches, and the pools they share.

A block is trained on small tables of its own (see `training.py`). `index_kernel` lays it out: it gives every
entity, view row and relation of the block a row of these tables, cuts the facts into batches of one relation,
and draws the pools of objects that the batches are ranked against.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from consmrf.consensus.facts import Facts
from consmrf.consensus.primitives import SOURCE, below, inlined, position, stream

__all__ = [
    "CONSENSUS",
    "DEPARTURES",
    "LANES",
    "NEGATIVES",
    "SEVERAL",
    "SHARED",
    "Block",
    "Form",
    "Worker",
    "index_kernel",
    "padded",
]

# The loss of a kernel that asks each relation for its own.
SEVERAL = "several"
NEGATIVES = ("uniform", "degree", "range")
# What is trained: one A for all; the same and each relation's own intercept; or Δ_r beside a Z that rests.
SHARED, CONSENSUS, DEPARTURES = range(3)
# Rows are padded to a multiple of this many floats, so that the compiler's vectors leave no remainder.
LANES = 8


def padded(dim: int) -> int:
    """Hand on the width of a row: `dim` features, an intercept as object, one as subject, and padding."""
    return -(-(dim + 2) // LANES) * LANES


class Form(NamedTuple):
    """What a kernel is compiled for."""

    scorer: str
    loss: str  # or SEVERAL: each relation's own, told apart at run time
    dim: int
    batch: int  # facts whose gradients are taken together
    pool: int  # sampled objects of a batch, a multiple of LANES; or, below that, each fact's own
    stage: int  # SHARED, CONSENSUS or DEPARTURES
    cubic: bool  # N3 instead of L2
    negatives: str
    exhaustive: bool  # the pool is all of E
    terms: bool  # facts have weights or values, or rows their share of the regulariser
    optimizer: str = "adagrad"

    @property
    def few(self) -> bool:
        """Whether every fact draws objects of its own (`drawn.py`), instead of a pool for a batch."""
        return self.pool < LANES

    @property
    def arrays(self) -> int:
        """How many arrays a row is made of: its values, and AdaGrad's sums."""
        return 2 if self.optimizer == "adagrad" else 1


class Block(NamedTuple):
    """One block's facts, and the tables it trains on: each row beside its AdaGrad sums."""

    order: NDArray[np.int32]  # [n] facts, one relation after the other
    z_rows: NDArray[np.int32]
    z_table: NDArray[np.floating[Any]]  # [·, 2d]
    own_rows: NDArray[np.int32]
    own_table: NDArray[np.floating[Any]]  # [·, 2c]
    w_rows: NDArray[np.int32]
    w_table: NDArray[np.floating[Any]]  # [·, 2m]


class Worker(NamedTuple):
    """A worker's scratch memory; `row_of`, `slot_of` and `place_of` are all −1 between blocks.

    Laying a block out fills `row_of`, training it clears it again.
    """

    row_of: NDArray[np.int32]  # [E] entity → row of z_table
    slot_of: NDArray[np.int32]  # [·] row of z_table → row of own_table, for the relation at hand
    place_of: NDArray[np.int32]  # [·] row of z_table → place in the pool at hand
    samples: NDArray[np.int32]  # [n, 4] rows of (s, o) in z_table and own_table
    pools: NDArray[np.int32]  # [·, p] rows of z_table
    pool_slots: NDArray[np.int32]  # [·, p] rows of own_table, −1 for none; one line per batch
    batches: NDArray[np.int32]  # [·, 4] (first sample, end, pool, row of w_table)
    queries: NDArray[np.floating[Any]]  # [b, d]
    gradients: NDArray[np.floating[Any]]  # [b, d] of the queries
    objects: NDArray[np.floating[Any]]  # [b, d] the observed objects' rows of A_r
    pool: NDArray[np.floating[Any]]  # [p, d] the pool's rows of A_r
    turned: NDArray[np.floating[Any]]  # [d, p] the same
    pool_gradients: NDArray[np.floating[Any]]  # [p, d]
    scores: NDArray[np.floating[Any]]  # [b, 1 + p]
    coefficients: NDArray[np.floating[Any]]  # [b, 1 + p]
    offsets: NDArray[np.floating[Any]]  # [p] added to the pool's scores; −∞ for an object drawn twice
    stop: NDArray[np.uint8]  # [1] not 0: the work is no longer wanted


@inlined
def _row(row_of: Any, rows: Any, size: Any, entity: Any) -> tuple[Any, Any]:
    """Hand on (the entity's row of the table, rows in use), giving it a row if it has none."""
    at = row_of[entity]
    if at < 0:
        row_of[entity] = size
        rows[size] = entity
        return size, size + 1
    return at, size


@inlined
def _slot(slot_of: Any, rows: Any, size: Any, at: Any, slot: Any) -> tuple[Any, Any]:
    """Hand on (the row of own_table for row `at` of z_table, rows in use); −1 where the view has none."""
    if slot < 0:
        return -1, size
    have = slot_of[at]
    if have < 0:
        slot_of[at] = size
        rows[size] = slot
        return size, size + 1
    return have, size


@inlined
def _draw(kind: int, state: Any, facts: Facts, relation: int, n_entities: int) -> tuple[Any, Any]:
    """Draw an object: uniformly, as often as it is one, or among those that the relation has."""
    if kind == 0:
        state, drawn = below(state, np.uint64(n_entities))
        return state, np.int64(drawn)
    if kind == 1:
        state, drawn = below(state, np.uint64(len(facts.objects)))
        return state, np.int64(facts.objects[np.int64(drawn)])
    lo, hi = facts.range_indptr[relation], facts.range_indptr[relation + 1]
    state, drawn = below(state, np.uint64(hi - lo))
    return state, np.int64(facts.range_entities[lo + np.int64(drawn)])


@inlined
def _pool_slots(
    entities: Any,
    first: int,
    last: int,
    z_rows: Any,
    pool_rows: Any,
    slot_of: Any,
    rows: Any,
    size: Any,
    slots: Any,
) -> Any:
    """Fill `slots` for a pool: the relation's own rows of those objects that it has; hand on rows in use."""
    for j in range(len(pool_rows)):
        at = pool_rows[j]
        have = slot_of[at]
        if have == -1:
            slot = position(entities, first, last, z_rows[at])
            if slot < last and entities[slot] == z_rows[at]:
                have, size = _slot(slot_of, rows, size, at, slot)
            else:
                have = -2  # looked for already
                slot_of[at] = -2
        slots[j] = max(have, -1)
    return size


def _make_index(pool: int, batch: int, views: int, kind: int, exhaustive: int, source: int) -> Any:
    """Build the laying out of a block: which rows it needs, in which batches, against which pools."""

    @njit(cache=True, nogil=True, error_model="numpy")
    def index(facts: Facts, block: Block, worker: Worker, n_entities: int, of: Any) -> Any:
        if source < 0:  # never: read here, it stands in the closure and so in the key of the disk cache
            return 0, 0, 0, 0
        order, z_rows, own_rows, w_rows = block.order, block.z_rows, block.own_rows, block.w_rows
        row_of, slot_of, samples, pools = worker.row_of, worker.slot_of, worker.samples, worker.pools
        state = stream(of[0], of[1], of[2])
        nz = no = nw = nb = n_pools = since = lo = np.int64(0)
        while lo < len(order):
            r = facts.relations[order[lo]]
            end = lo
            while end < len(order) and facts.relations[order[end]] == r:
                end += 1
            w_rows[nw] = r
            while lo < end:
                hi = min(end, lo + batch)
                if n_pools == 0 or (since >= batch and not exhaustive):
                    for j in range(pool):
                        e = np.int64(min(j, n_entities - 1))
                        if not exhaustive:
                            state, e = _draw(kind, state, facts, r, n_entities)
                        pools[n_pools, j], nz = _row(row_of, z_rows, nz, e)
                    n_pools += 1
                    since = np.int64(0)
                since += hi - lo
                line = worker.batches[nb]
                line[0], line[1], line[2], line[3] = lo, hi, n_pools - 1, nw
                for t in range(lo, hi):
                    f = order[t]
                    at, nz = _row(row_of, z_rows, nz, facts.subjects[f])
                    to, nz = _row(row_of, z_rows, nz, facts.objects[f])
                    samples[t, 0], samples[t, 1] = at, to
                    if views:
                        samples[t, 2], no = _slot(slot_of, own_rows, no, at, facts.subject_slots[f])
                        samples[t, 3], no = _slot(slot_of, own_rows, no, to, facts.object_slots[f])
                if views:
                    first, last = facts.view_indptr[r], facts.view_indptr[r + 1]
                    slots, drawn = worker.pool_slots[nb], pools[n_pools - 1]
                    no = _pool_slots(
                        facts.view_entities, first, last, z_rows, drawn, slot_of, own_rows, no, slots
                    )
                nb += 1
                lo = hi
            nw += 1
            if views:
                slot_of[:nz] = -1
        return nz, no, nw, nb

    return index


@cache
def index_kernel(form: Form) -> Callable[..., tuple[int, int, int, int]]:
    """Hand on the compiled laying out for one form: (facts, block, worker, |E|, stream) → sizes.

    Sizes are the rows in use of z_table, own_table and w_table, and the number of batches.
    """
    views, kind = int(form.stage != SHARED), NEGATIVES.index(form.negatives)
    index: Callable[..., tuple[int, int, int, int]] = _make_index(
        form.pool, form.batch, views, kind, int(form.exhaustive), SOURCE
    )
    return index
