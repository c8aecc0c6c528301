"""Running a study: cells in processes of their own, within the budget, until none is left to run."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from consmrf.config import Config
from consmrf.errors import ConsmrfError, InputError
from consmrf.fit import estimate_memory
from consmrf.report.progress import CellProgress
from consmrf.study.cells import Cell, Store
from consmrf.study.datasets import Source, load, source_of
from consmrf.study.graphs import Parts
from consmrf.study.measure import SCORES_MIB, sampled_targets
from consmrf.study.plan import Planned, Planner, auc
from consmrf.study.schedule import Load, Room, startable, time_left
from consmrf.study.spec import Data, Study

__all__ = ["Desk", "locked", "run_cells"]

_PAUSE = 0.05  # seconds between two looks at the running cells


class Desk:
    """A study with its cells, and what is known of its data."""

    def __init__(self, study: Study, out: Path, root: Path) -> None:
        self.study, self.store = study, Store(out / "cells")
        self.planner = Planner(study, self._source)
        self._root = root
        self._sources: dict[tuple[str, int], Source] = {}
        self._bytes: dict[str, int] = {}
        self._open: tuple[str, Parts] | None = None  # the parts of one dataset at a time

    def _source(self, data: Data, fold: int) -> Source:
        at = (data.name, fold)
        if at not in self._sources:
            self._sources[at] = source_of(self.study, data, fold, self._root)
        return self._sources[at]

    def load_of(self, cell: Cell) -> Load:
        """Hand on what a cell needs; folds of a dataset need alike."""
        settings = {k: v for k, v in cell.settings.items() if k not in ("seed", "max_seconds")}
        kind = json.dumps([cell.source.dataset, settings, cell.validated, cell.sampled], sort_keys=True)
        if kind not in self._bytes:
            self._bytes[kind] = self._estimate(cell)
        return Load(int(cell.settings["threads"]), self._bytes[kind], cell.timed)

    def _estimate(self, cell: Cell) -> int:
        source = cell.source
        if self._open is None or self._open[0] != source.dataset:
            self._open = (source.dataset, _loaded(source))
        try:
            config = Config.from_dict(cell.settings)
            train = self._open[1].train
            if cell.sampled:
                config = replace(config, targets=sampled_targets(train, cell.sampled))
            expected = estimate_memory(train, config, validated=cell.validated).peak_bytes
        except ConsmrfError:
            return 0  # it will say so itself, in its own process
        return expected + (SCORES_MIB << 20)


def _loaded(source: Source) -> Parts:
    """Load the parts of a dataset; a mistake in them names it."""
    try:
        return load(source)
    except ConsmrfError as problem:
        raise InputError(f"datasets.{source.dataset}: {problem}") from None


@dataclass
class _Running:
    planned: Planned
    load: Load
    process: subprocess.Popen[bytes]
    errors: IO[bytes]
    begun: float


def run_cells(desk: Desk, progress: CellProgress, *, retry: bool = False) -> dict[str, str]:
    """Run every cell that has no file yet; hand on, by cell, why some were left out.

    With `retry`, failed cells are run again. Whatever ends this call ends the cells that are running.
    """
    if retry:
        for planned in desk.planner.plan(desk.store.get):
            if desk.store.error(planned.cell) is not None:
                desk.store.forget(planned.cell)
    bench = _Bench(desk, progress)
    try:
        while bench.step():
            time.sleep(_PAUSE)
    finally:
        bench.clear()
    return bench.left_out


class _Bench:
    """The cells that wait and those that run."""

    def __init__(self, desk: Desk, progress: CellProgress) -> None:
        budget = desk.study.budget
        self.left_out: dict[str, str] = {}
        self._desk, self._progress, self._budget = desk, progress, budget
        self._room = Room(budget.cores, int(budget.memory_gib * 2**30))
        self._begun = time.monotonic()
        self._running: list[_Running] = []
        self._took: dict[tuple[str, str, bool], list[float]] = {}
        self._waiting = self._asked_for()
        self._idle = True  # something may begin: cells have ended since the last look, or none has begun

    def _asked_for(self) -> list[Planned]:
        held = self._desk.store.get
        planned = self._desk.planner.plan(held)
        done = sum(held(p.cell) is not None for p in planned)
        self._progress.count(done, len(planned) + self._desk.planner.awaited(held))
        busy = {running.planned.cell.key for running in self._running}
        return [p for p in planned if held(p.cell) is None and p.cell.key not in busy]

    def step(self) -> bool:
        """Settle what has ended and begin what may begin; say whether anything is running."""
        for running in [each for each in self._running if self._ended(each)]:
            self._running.remove(running)
            self._settle(running)
            self._waiting, self._idle = self._asked_for(), True
            self._tell(running)
        if self._over():
            for planned in self._waiting:
                self.left_out.setdefault(
                    planned.cell.name, "the study's time was over (budget.total_seconds)"
                )
        elif self._idle:
            self._begin()
            self._idle = False
        return bool(self._running)

    def _over(self) -> bool:
        total = self._budget.total_seconds
        return total is not None and time.monotonic() - self._begun >= total

    def _begin(self) -> None:
        waiting = [p for p in self._waiting if p.cell.name not in self.left_out]
        for planned in sorted(waiting, key=lambda p: p.dataset):  # so that each dataset is opened once
            self._desk.load_of(planned.cell)
        loads = [self._desk.load_of(p.cell) for p in waiting]
        for planned, load_of in zip(waiting, loads, strict=True):
            if (why := self._room.refusal(load_of)) is not None:
                self.left_out[planned.cell.name] = why
        fitting = [i for i, p in enumerate(waiting) if p.cell.name not in self.left_out]
        chosen = startable([loads[i] for i in fitting], [r.load for r in self._running], self._room)
        for at in chosen:
            planned = waiting[fitting[at]]
            self._waiting.remove(planned)
            self._running.append(_start(planned, loads[fitting[at]], self._desk.store.folder))

    def _ended(self, running: _Running) -> bool:
        if running.process.poll() is not None:
            return True
        if time.monotonic() - running.begun < self._budget.cell_seconds:
            return False
        running.process.kill()
        running.process.wait()
        return True

    def _settle(self, running: _Running) -> None:
        """See that an ended cell has its file: what it found, or why it failed."""
        cell, store = running.planned.cell, self._desk.store
        _close(running)
        seconds = time.monotonic() - running.begun
        if store.get(cell) is None:
            late = seconds >= self._budget.cell_seconds
            why = _last_words(running) if not late else f"ended after {seconds:.0f} s (budget.cell_seconds)"
            store.fail(cell, why)
        running.errors.close()
        self._took.setdefault(_sort(running.planned), []).append(seconds)

    def _tell(self, running: _Running) -> None:
        rest = [_sort(p) for p in self._waiting if p.cell.name not in self.left_out]
        left = time_left(rest, self._took, self._budget.cores)
        self._progress.tell(_line(running.planned, self._desk.store.get(running.planned.cell) or {}), left)

    def clear(self) -> None:
        """End the cells that are running."""
        for running in self._running:
            running.process.kill()
        for running in self._running:
            _close(running)
            running.errors.close()


def _sort(planned: Planned) -> tuple[str, str, bool]:
    return planned.dataset, planned.method, planned.cell.timed


def _start(planned: Planned, load_of: Load, folder: Path) -> _Running:
    """Start a cell's process; the pipe to it is how it knows that we live.

    It is no part of our terminal's group: ctrl-C reaches us alone, and we end it.
    """
    errors = tempfile.TemporaryFile()  # noqa: SIM115  closed when the cell is settled
    job = planned.cell.to_job(folder)
    process = subprocess.Popen(
        [sys.executable, "-m", "consmrf.study.worker", job["path"]],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=errors,
        start_new_session=True,
    )
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it ended at once; its last words say why
        process.stdin.write(json.dumps(job).encode() + b"\n")
        process.stdin.flush()
    return _Running(planned, load_of, process, errors, time.monotonic())


def _close(running: _Running) -> None:
    assert running.process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        running.process.stdin.close()
    running.process.wait()


def _last_words(running: _Running) -> str:
    """Say why a process ended without an answer."""
    running.errors.seek(0)
    lines = running.errors.read().decode("utf-8", "replace").strip().splitlines()
    code = running.process.returncode
    if code < 0:
        kind = signal.Signals(-code).name
        return f"its process was ended by {kind}; if memory ran out, lower budget.cores"
    return lines[-1] if lines else f"its process ended without a word, exit code {code}"


def _line(planned: Planned, held: Mapping[str, Any]) -> str:
    """Put an ended cell into one line."""
    fold = f" fold {planned.fold}" if planned.fold else ""
    kind = planned.kind if planned.x is None else f"{planned.kind} {planned.x}"
    name = f"{planned.dataset}{fold}, {planned.method}, {kind}"
    if "error" in held:
        return f"{name}: FAILED: {held['error']}"
    found = held["found"]
    told = f"AUC {auc(found):.3f}, " if "evaluation" in found else ""
    return f"{name}: {told}{found['seconds']['training']:.1f} s of training"


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other studies out of a folder, where the system has locks; a lock ends with its process."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    with open(folder / ".lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(
                f"{folder}: another study is running here; wait for it, or choose another folder with --out"
            ) from None
        yield
