"""How far a fit or a study has come: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from consmrf.consensus.solve import Round

__all__ = ["CellProgress", "Progress", "duration", "round_line"]


class Progress:
    """Shows each round as it ends; `say` takes a plain line.

    The first round has its line, then at most one a second, and the last one again when all is over.
    """

    def __init__(self, rounds: int, say: Callable[[str], None], *, every: float = 1.0) -> None:
        self.rounds, self.say, self.every = rounds, say, every
        self._bar: Any = None
        self._told = float("-inf")
        self._waiting: Round | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich import progress as rich

            columns = (
                "{task.description}",
                rich.BarColumn(),
                "{task.completed}/{task.total}",
                rich.TimeElapsedColumn(),
            )
            self._bar = rich.Progress(*columns, console=_console(), transient=True)
            self._bar.start()
            self._bar.add_task("learning", total=self.rounds)
        return self

    def __call__(self, done: Round) -> None:
        self._waiting = done
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done.round, description=_brief(done))
        elif time.monotonic() - self._told >= self.every:
            self._tell()

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        self._tell()

    def _tell(self) -> None:
        if self._waiting is not None:
            self.say(round_line(self._waiting, self.rounds))
            self._told, self._waiting = time.monotonic(), None


def round_line(done: Round, rounds: int) -> str:
    """Put a round into one line."""
    return (
        f"round {done.round}/{rounds}: {_brief(done)}, residuals {done.primal_residual:.3g} primal "
        f"{done.dual_residual:.3g} dual, {done.seconds['elapsed']:.1f} s"
    )


def _brief(done: Round) -> str:
    if done.validation is None:
        return f"loss {done.loss:.4f}"
    error = f" ± {done.validation_error:.4f}" if done.validation_error else ""
    return f"loss {done.loss:.4f}, validation {done.validation:.4f}{error}"


def _console() -> Any:
    from rich.console import Console

    return Console(stderr=True)


class CellProgress:
    """Shows each cell of a study as it ends, how many there are, and the time left."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say
        self.total = self.done = 0
        self._bar: Any = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich import progress as rich

            columns = (
                "{task.description}",
                rich.BarColumn(),
                "{task.completed}/{task.total}",
                "{task.fields[left]}",
            )
            self._bar = rich.Progress(*columns, console=_console(), transient=True)
            self._bar.start()
            self._bar.add_task("cells", total=None, left="")
        return self

    def count(self, done: int, total: int) -> None:
        """Take in how many cells there are, and how many have ended."""
        self.done, self.total = done, total
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done, total=total)

    def tell(self, line: str, left: float | None) -> None:
        """Say what became of a cell, and how many seconds the others may take."""
        told = "" if left is None else f"{duration(left)} left"
        if self._bar is None:
            self.say(f"{self.done}/{self.total} {line}" + (f"; {told}" if told else ""))
            return
        self._bar.console.print(line, markup=False, highlight=False)
        self._bar.update(self._bar.task_ids[0], left=told)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()


def duration(seconds: float) -> str:
    """Put seconds into the largest unit that they fill."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
