"""What a wave's workers do with one block: where a batch has a pool, and where every fact has its own draws.

A trainer owns the memory of its workers and of the places of a wave. It cuts epochs, trains a block, and says
what of the block is still to be merged.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from consmrf.config import Config
from consmrf.consensus.blocks import DEPARTURES, SHARED, Block, Form, Worker, index_kernel, padded
from consmrf.consensus.drawn import Apart, Scratch, drawn_kernel, scratch
from consmrf.consensus.facts import Layout
from consmrf.consensus.plan import MOST_RELATIONS, Plan, parts_of, plan_apart, plan_epoch
from consmrf.consensus.training import train_kernel
from consmrf.consensus.wave import WaveState, cut, numbers_of

__all__ = ["Done", "Drawn", "Pooled", "Table", "Trainer"]

# Rows from which it is told how far all have moved.
_LOOKED_AT = 256


class Table(NamedTuple):
    """Rows of a block that are to be merged into the state's."""

    target: NDArray[np.floating[Any]]
    rows: NDArray[np.int32]
    table: NDArray[np.floating[Any]]
    counts: bool  # whether the squares of their changes are among those that are told


class Done(NamedTuple):
    """A block that was trained."""

    tables: tuple[Table, ...]
    loss: float
    samples: int
    rejected: int
    seconds: float


class Trainer(Protocol):
    """Trains blocks, each on one worker, in one place of its wave."""

    def plan(self, epoch: int) -> Plan:
        """Cut an epoch."""

    def train(self, state: WaveState, plan: Plan, at: tuple[int, int, int], worker: int, place: int) -> Done:
        """Train the block numbered `at` = (seed, epoch, block)."""

    def moved(self, state: WaveState) -> float:
        """Hand on how far the rows that no merge moves have moved since it was last asked, squared."""


class Pooled:
    """Blocks with tables of their own, whose batches share pools of sampled objects."""

    def __init__(
        self,
        layout: Layout,
        state: WaveState,
        config: Config,
        workers: int,
        stop: NDArray[np.uint8],
        only: NDArray[np.bool_] | None,
    ) -> None:
        self._layout, self._config, self._only = layout, config, only
        self._numbers = numbers_of(state, layout, config)
        self._most = cut(len(layout.facts.relations))
        self._index, self._train = index_kernel(state.form), train_kernel(state.form)
        self.scratch = [_worker(layout, state, self._most, stop) for _ in range(workers)]
        self.blocks = [_block(layout, state, self._most) for _ in range(config.wave_width)]

    def plan(self, epoch: int) -> Plan:
        """Cut an epoch into blocks of relations, in random order."""
        config = self._config
        return plan_epoch(self._layout.indptr, self._most, config.seed, epoch, self._only, config.wave_width)

    def train(self, state: WaveState, plan: Plan, at: tuple[int, int, int], worker: int, place: int) -> Done:
        """Lay out and train a block."""
        begun = time.perf_counter()
        facts, rows, stage = self._layout.facts, state.rows, state.form.stage
        order = plan.order[plan.indptr[at[2]] : plan.indptr[at[2] + 1]]
        block, scratch = self.blocks[place]._replace(order=order), self.scratch[worker]
        sizes = self._index(facts, block, scratch, self._layout.n_entities, at)
        loss, rejected = self._train(facts, rows, block, scratch, self._numbers, sizes)
        nz, no, nw, _ = sizes
        tables = []
        if stage != DEPARTURES:
            tables.append(Table(rows.z, block.z_rows[:nz], block.z_table, True))
            tables.append(Table(rows.w, block.w_rows[:nw], block.w_table, False))
        if stage != SHARED:
            tables.append(Table(rows.own, block.own_rows[:no], block.own_table, stage == DEPARTURES))
        return Done(tuple(tables), loss, len(order), rejected, time.perf_counter() - begun)

    def moved(self, _state: WaveState) -> float:
        """Hand on 0: what moves is merged."""
        return 0.0


class Drawn:
    """Blocks that share no entity with others of their wave, and whose facts draw objects of their own."""

    def __init__(
        self,
        layout: Layout,
        state: WaveState,
        config: Config,
        workers: int,
        stop: NDArray[np.uint8],
        only: NDArray[np.bool_] | None,
    ) -> None:
        self._layout, self._config, self._only = layout, config, only
        self._numbers = numbers_of(state, layout, config)
        facts, rows = layout.facts, state.rows
        taking = len(facts.relations) if only is None else int(np.diff(layout.indptr)[only].sum())
        self._parts = parts_of(taking, layout.n_entities, config.wave_width)
        self._train = drawn_kernel(state.form)
        self._seen = self._some(state)
        self.scratch: list[Scratch] = [scratch(state.form, rows.z.dtype, stop) for _ in range(workers)]
        self.blocks = [
            Apart(
                np.empty(0, np.int32),
                np.empty(layout.n_relations, np.int32),
                np.empty((layout.n_relations, rows.w.shape[1]), rows.w.dtype),
            )
            for _ in range(self._parts)
        ]

    def plan(self, epoch: int) -> Plan:
        """Cut an epoch into the pairs of parts of the entities."""
        facts, layout = self._layout.facts, self._layout
        return plan_apart(
            (facts.subjects, facts.objects),
            *(layout.indptr, layout.n_entities, self._parts, self._config.seed, epoch, self._only),
        )

    def train(self, state: WaveState, plan: Plan, at: tuple[int, int, int], worker: int, place: int) -> Done:
        """Train a block, its entities where they are; W_r alone is to be merged."""
        begun = time.perf_counter()
        block = self.blocks[place]._replace(order=plan.order[plan.indptr[at[2]] : plan.indptr[at[2] + 1]])
        loss, rejected, samples, nw = self._train(
            self._layout.facts, state.rows, block, self.scratch[worker], self._numbers, plan.parts, at
        )
        tables: tuple[Table, ...] = ()
        if state.form.stage != DEPARTURES:
            tables = (Table(state.rows.w, block.w_rows[:nw], block.w_table, False),)
        return Done(tables, loss, samples, rejected, time.perf_counter() - begun)

    def moved(self, state: WaveState) -> float:
        """Hand on the squared change of Z, or of all Δ_r, estimated from rows at equal distances."""
        last, self._seen = self._seen, self._some(state)
        change = self._seen - last
        return float(np.vdot(change, change)) * self._step

    def _some(self, state: WaveState) -> NDArray[np.floating[Any]]:
        rows = state.rows.own if state.form.stage == DEPARTURES else state.rows.z
        self._step = max(len(rows) // _LOOKED_AT, 1)
        return np.array(rows[:: self._step, : rows.shape[1] // state.form.arrays])


def _most_batches(form: Form, most: int) -> int:
    return most // form.batch + MOST_RELATIONS + 1


def _most_rows(layout: Layout, form: Form, most: int) -> tuple[int, int]:
    """Hand on the most rows of z_table and of own_table that one block can need."""
    drawn = _most_batches(form, most) * form.pool
    return min(layout.n_entities, 2 * most + drawn), min(len(layout.facts.view_entities), 2 * most + drawn)


def _worker(layout: Layout, state: WaveState, most: int, stop: NDArray[np.uint8]) -> Worker:
    """Make a worker's scratch memory; pages cost nothing until touched."""
    form, real, d = state.form, state.rows.z.dtype, padded(state.form.dim)
    rows, batches = _most_rows(layout, form, most)[0], _most_batches(form, most)
    return Worker(
        row_of=np.full(layout.n_entities, -1, np.int32),
        slot_of=np.full(rows, -1, np.int32),
        place_of=np.full(rows, -1, np.int32),
        samples=np.full((most, 4), -1, np.int32),
        pools=np.empty((batches, form.pool), np.int32),
        pool_slots=np.full((batches, form.pool), -1, np.int32),
        batches=np.empty((batches, 4), np.int32),
        queries=np.zeros((form.batch, d), real),
        gradients=np.zeros((form.batch, d), real),
        objects=np.zeros((form.batch, d), real),
        pool=np.zeros((form.pool, d), real),
        turned=np.zeros((d, form.pool), real),
        pool_gradients=np.zeros((form.pool, d), real),
        scores=np.zeros((form.batch, 1 + form.pool), real),
        coefficients=np.zeros((form.batch, 1 + form.pool), real),
        offsets=np.zeros(form.pool, real),
        stop=stop,
    )


def _block(layout: Layout, state: WaveState, most: int) -> Block:
    """Make the tables of one place in a wave."""
    rows, real = state.rows, state.rows.z.dtype
    z_rows, own_rows = _most_rows(layout, state.form, most)
    return Block(
        order=np.empty(0, np.int32),
        z_rows=np.empty(z_rows, np.int32),
        z_table=np.empty((z_rows, rows.z.shape[1]), real),
        own_rows=np.empty(own_rows, np.int32),
        own_table=np.empty((own_rows, rows.own.shape[1]), real),
        w_rows=np.empty(MOST_RELATIONS, np.int32),
        w_table=np.empty((MOST_RELATIONS, rows.w.shape[1]), real),
    )
