"""What a baseline that is trained in rounds offers, and a round's record: `solve` runs it like the method."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from consmrf.consensus.solve import Outcome
from consmrf.predictors import Factors

__all__ = ["Baseline", "Crew", "Pass", "record"]


class Crew(Protocol):
    """Who does the work of a round: threads, or one alone."""

    count: int
    stop: NDArray[np.uint8]  # [1] not 0: the work is no longer wanted

    def each(self, work: Callable[[Any, Any], None], tasks: Iterable[Any], scratch: Sequence[Any]) -> None:
        """Call `work(task, scratch)` for all tasks, each worker with its own scratch."""


@dataclass(frozen=True)
class Pass:
    """What one round did."""

    loss: float  # summed over the samples; not finite where anything is not
    samples: int
    rejected: int
    touched_rows: int
    squares: float  # how far rows of relations' own are from what they share, or began at, squared
    local_total: float
    seconds: float
    workers: int = 1
    merge_seconds: float = 0.0


class Baseline(Protocol):
    """A method with its data, between two rounds."""

    rho: float  # of a pull to a consensus: 0
    skipped: int  # facts whose subject is linked to every entity, where these cannot be learned from
    facts: int  # those that are learned from

    def sweep(self, epoch: int, crew: Crew) -> Pass:
        """Train for a round."""

    def views(self) -> Any:
        """Hand on what predicts now; `kept` of it hands on a copy that later rounds leave alone."""

    def factors(self, views: Any) -> Factors:
        """Hand on the predictor of these views."""


def record(baseline: Baseline, done: Pass) -> Outcome:
    """Take over a round: the training has changed the baseline already."""
    return Outcome(
        views=baseline.views(),
        samples=done.samples,
        rejected=done.rejected,
        touched_rows=done.touched_rows,
        primal=math.sqrt(done.squares),
        dual=0.0,
        rho=0.0,
        local_total=done.local_total,
    )
