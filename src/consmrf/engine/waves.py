"""Waves on threads of this process: the blocks of a wave run side by side, then their rows are merged.

A block starts from the state as the wave before left it and draws from its own random stream; the merge takes
the blocks in their order. Neither the number of threads nor their timing can be seen in the result.
"""

from __future__ import annotations

import os
import queue
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from consmrf.config import Config
from consmrf.consensus.blocks import DEPARTURES, SHARED, Block, Form, Worker, index_kernel, padded
from consmrf.consensus.facts import Layout
from consmrf.consensus.merge import merge_rows
from consmrf.consensus.plan import MOST_RELATIONS, Plan, plan_epoch
from consmrf.consensus.training import train_kernel
from consmrf.consensus.wave import WaveState, WaveSwept, cut, numbers_of

__all__ = ["Waves"]


class _Done(NamedTuple):
    """A block that was trained, with its rows in use."""

    block: Block
    sizes: tuple[int, int, int, int]
    loss: float
    rejected: int
    seconds: float


class Waves:
    """Runs epochs of waves for one stage of the wave solver."""

    def __init__(
        self, layout: Layout, state: WaveState, config: Config, only: NDArray[np.bool_] | None = None
    ) -> None:
        """Receive the facts, the state whose form says what is trained, and the relations that take part."""
        self._layout, self._config, self._only = layout, config, only
        self._numbers = numbers_of(state, layout, config)
        self._most = cut(len(layout.facts.relations))
        self._index, self._train = index_kernel(state.form), train_kernel(state.form)
        self.workers = max(1, min(config.threads or os.cpu_count() or 1, config.wave_width))
        self._pool = ThreadPoolExecutor(self.workers, thread_name_prefix="consmrf")
        self._stop = np.zeros(1, np.uint8)
        self._scratch = [_worker(layout, state, self._most, self._stop) for _ in range(self.workers)]
        self._blocks = [_block(layout, state, self._most) for _ in range(config.wave_width)]

    def __enter__(self) -> Waves:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def sweep(self, state: WaveState, epoch: int) -> WaveSwept:
        """Run one epoch, wave by wave, merging into `state`."""
        plan = plan_epoch(self._layout.indptr, self._most, self._config.seed, epoch, self._only)
        done: list[_Done] = []
        seconds = merging = moved = 0.0
        block_seconds = []
        for first in range(0, len(plan), self._config.wave_width):
            begun = time.perf_counter()
            wave = self._run_wave(
                state, plan, range(first, min(first + self._config.wave_width, len(plan))), epoch
            )
            merged = time.perf_counter()
            moved += self._merge(state, wave)
            seconds, merging = seconds + merged - begun, merging + time.perf_counter() - merged
            block_seconds.append([d.seconds for d in wave])
            done += [d._replace(block=wave[0].block) for d in wave]
        return WaveSwept(
            loss=float(np.sum([d.loss for d in done])),
            samples=len(plan.order),
            rejected=sum(d.rejected for d in done),
            moved=moved,
            local_total=sum(d.seconds for d in done),
            seconds=seconds,
            merge_seconds=merging,
            workers=self.workers,
            block_seconds=block_seconds,
        )

    def _run_wave(self, state: WaveState, plan: Plan, numbers: range, epoch: int) -> list[_Done]:
        """Train the blocks of one wave, whichever thread is free; hand them on in their order."""
        waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
        for place in range(len(numbers)):
            waiting.put(place)
        done: list[_Done | None] = [None] * len(numbers)

        def work(worker: Worker) -> None:
            while True:
                try:
                    place = waiting.get_nowait()
                except queue.Empty:
                    return
                number = numbers[place]
                order = plan.order[plan.indptr[number] : plan.indptr[number + 1]]
                block = self._blocks[place]._replace(order=order)
                done[place] = self._train_block(state, block, worker, (self._config.seed, epoch, number))

        self._on_all(work, self._scratch, waiting)
        return [d for d in done if d is not None]

    def _train_block(
        self, state: WaveState, block: Block, worker: Worker, stream: tuple[int, int, int]
    ) -> _Done:
        begun = time.perf_counter()
        facts = self._layout.facts
        sizes = self._index(facts, block, worker, self._layout.n_entities, stream)
        loss, rejected = self._train(facts, state.rows, block, worker, self._numbers, sizes)
        return _Done(block, sizes, loss, rejected, time.perf_counter() - begun)

    def _merge(self, state: WaveState, wave: Sequence[_Done]) -> float:
        """Merge the blocks' rows in order, each thread those that are its share."""
        rows, stage, moved = state.rows, state.form.stage, [0.0] * self.workers

        def merge(share: int) -> None:
            mine = (share, self.workers)
            for block, (nz, no, nw, _), *_ in wave:
                if stage != DEPARTURES:
                    moved[share] += _merge(rows.z, block.z_rows[:nz], block.z_table, mine)
                    _merge(rows.w, block.w_rows[:nw], block.w_table, mine)
                if stage != SHARED:
                    change = _merge(rows.own, block.own_rows[:no], block.own_table, mine)
                    moved[share] += change if stage == DEPARTURES else 0.0

        self._on_all(merge, range(self.workers))
        return sum(moved)

    def _on_all(self, work: Callable[[Any], None], shares: Sequence[Any], waiting: Any = None) -> None:
        """Run `work` on every thread, each with its share; an interrupt waits for the threads to leave."""
        running = [self._pool.submit(work, share) for share in shares]
        try:
            for future in running:
                future.result()
        except BaseException:
            self._stop[0] = 1
            while waiting is not None and not waiting.empty():
                waiting.get_nowait()
            for future in running:
                future.exception()
            raise

    def close(self) -> None:
        """End the threads; safe to call twice."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._scratch.clear()
        self._blocks.clear()


def _merge(target: Any, rows: Any, table: Any, share: tuple[int, int]) -> float:
    moved: float = merge_rows(target, rows, table, target.shape[1] // 2, *share)
    return moved


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
