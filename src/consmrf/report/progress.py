"""How far a fit has come: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from consmrf.consensus.solve import Round

__all__ = ["Progress", "round_line"]


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
