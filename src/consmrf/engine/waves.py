"""Waves on threads of this process: the blocks of a wave run side by side, then their rows are merged.

A block starts from the state as the wave before left it and draws from its own random stream; the merge takes
the blocks in their order. Neither the number of threads nor their timing can be seen in the result.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future
from itertools import pairwise
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from consmrf.config import Config
from consmrf.consensus.facts import Layout
from consmrf.consensus.merge import merge_rows
from consmrf.consensus.plan import Plan
from consmrf.consensus.wave import WaveState, WaveSwept
from consmrf.engine.trainers import Done, Drawn, Pooled, Trainer
from consmrf.engine.workers import Workers

__all__ = ["Waves"]


class Waves:
    """Runs epochs of waves for one stage of the wave solver."""

    def __init__(
        self, layout: Layout, state: WaveState, config: Config, only: NDArray[np.bool_] | None = None
    ) -> None:
        """Receive the facts, the state whose form says what is trained, and the relations that take part."""
        self._config, self._form = config, state.form
        self._pool = Workers(config.threads, config.wave_width)
        self.workers = self._pool.count
        kind = Drawn if state.form.few else Pooled
        self._trainer: Trainer = kind(layout, state, config, self.workers, self._pool.stop, only)
        self._ahead: tuple[int, Future[Plan] | None] = (0, None)

    def __enter__(self) -> Waves:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def sweep(self, state: WaveState, epoch: int) -> WaveSwept:
        """Run one epoch, wave by wave, merging into `state`."""
        plan = self._plan(epoch)
        done: list[Done] = []
        seconds = merging = moved = 0.0
        block_seconds = []
        for first, last in pairwise(plan.waves.tolist()):
            begun = time.perf_counter()
            wave = self._run_wave(state, plan, range(first, last), epoch)
            merged = time.perf_counter()
            moved += self._merge(wave)
            seconds, merging = seconds + merged - begun, merging + time.perf_counter() - merged
            block_seconds.append([d.seconds for d in wave])
            done += [d._replace(tables=()) for d in wave]
        return WaveSwept(
            loss=float(np.sum([d.loss for d in done])),
            samples=sum(d.samples for d in done),
            rejected=sum(d.rejected for d in done),
            moved=moved + self._trainer.moved(state),
            local_total=sum(d.seconds for d in done),
            seconds=seconds,
            merge_seconds=merging,
            workers=self.workers,
            block_seconds=block_seconds,
        )

    def _plan(self, epoch: int) -> Plan:
        """Hand on the epoch's plan, and have whoever is free first make the next one."""
        (ahead, plan), self._ahead = self._ahead, (0, None)
        found = plan.result() if plan is not None and ahead == epoch else self._trainer.plan(epoch)
        if self.workers > 1:
            self._ahead = (epoch + 1, self._pool.ahead(self._trainer.plan, epoch + 1))
        return found

    def _run_wave(self, state: WaveState, plan: Plan, numbers: range, epoch: int) -> list[Done]:
        """Train the blocks of one wave, whichever thread is free; hand them on in their order."""
        done: list[Done | None] = [None] * len(numbers)

        def work(place: int, worker: int) -> None:
            at = (self._config.seed, epoch, numbers[place])
            done[place] = self._train_block(state, plan, at, worker, place)

        self._pool.each(work, range(len(numbers)), range(self.workers))
        return [d for d in done if d is not None]

    def _train_block(
        self, state: WaveState, plan: Plan, at: tuple[int, int, int], worker: int, place: int
    ) -> Done:
        return self._trainer.train(state, plan, at, worker, place)

    def _merge(self, wave: Sequence[Done]) -> float:
        """Merge the blocks' rows in order, each thread those that are its share."""
        if not any(len(t.rows) for done in wave for t in done.tables):
            return 0.0
        moved = [0.0] * self.workers

        def merge(share: int, _: int) -> None:
            for done in wave:
                for target, rows, table, counts in done.tables:
                    width = target.shape[1] // self._form.arrays
                    change = merge_rows(target, rows, table, width, share, self.workers)
                    moved[share] += change if counts else 0.0

        self._pool.each(merge, range(self.workers), range(self.workers))
        return sum(moved)

    def close(self) -> None:
        """End the threads; safe to call twice."""
        self._pool.close()
