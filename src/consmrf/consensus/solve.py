"""Algorithm 1, and the waves: sweep, let the sweep move the consensus, repeat until a reason to stop.

The loop is one. What differs between the solvers is one function each, handed to it: `admm` averages what all
relations did from one Z; `waves` takes over what the sweep has merged, wave by wave. The sweep and the
validation are callables.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Protocol

from consmrf.config import Config
from consmrf.consensus.average import dual_residual, mean_change, primal_residual, update_z
from consmrf.consensus.state import ConsensusState, Floats, LocalUpdate, Views
from consmrf.consensus.wave import WaveState, WaveSwept
from consmrf.errors import DivergedError

__all__ = [
    "Best",
    "Done",
    "Info",
    "Outcome",
    "Round",
    "Solution",
    "Stage",
    "State",
    "Status",
    "Sweep",
    "Swept",
]
__all__ += ["Validate", "admm", "solve", "terminate", "waves"]


class Status(Enum):
    """Why training ended. The value is the sentence a person reads, with what to do about it."""

    CONVERGED = "Converged: the mean training loss changed by less than tol. Lower tol to train longer."
    MAX_EPOCHS = (
        "Stopped at max_epochs. If the loss or the validation score was still improving, raise max_epochs."
    )
    MAX_SECONDS = "Stopped at max_seconds. If the validation score was still improving, allow more time."
    PATIENCE = (
        "Stopped early: the validation score had not improved for `patience` rounds. The best round is kept."
    )
    INTERRUPTED = (
        "Interrupted: the best round so far is kept. Train again with the same seed to get the rest."
    )
    DIVERGED = (
        "Diverged: values that are not finite appeared, and the best round before them is kept. "
        "Lower rho or learning_rate, or raise reg."
    )
    DIRECT = "Done: this method needs no iteration."


@dataclass(frozen=True)
class Round:
    """One round of Algorithm 1: what is printed, logged and plotted."""

    round: int  # from 1
    loss: float  # mean training loss over the samples drawn
    loss_change: float | None  # against the round before
    primal_residual: float  # √Σ_r ‖A_r − Z‖²
    dual_residual: float  # ρ √R ‖Z − Z before‖
    rho: float
    samples: int
    rejected_negatives: int  # draws of o′ that were observed facts
    touched_rows: int  # rows of all A_r that moved away from Z
    balance: float  # local_total / (workers × local_critical_path); 1 is perfect
    validation: float | None
    seconds: dict[str, float]  # local_total, local_critical_path, consensus, validation, elapsed
    stage: str = "rounds"  # of the wave solver: consensus, then departures
    block_seconds: Sequence[Sequence[float]] = ()  # of the wave solver: each block's, wave by wave
    validation_error: float | None = None  # the score's standard error, where triples are drawn for it


@dataclass(frozen=True)
class Info:
    """How a fit went."""

    status: Status
    rounds: tuple[Round, ...] = ()
    best_round: int = 0  # the round the model was taken from; 0 where nothing was iterated
    skipped_triples: int = (
        0  # their subject is linked to every entity, so there is nothing to rank them against
    )
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """The status sentence, and a second one where the loss shows that nothing was learned."""
        if not self.rounds or self.rounds[-1].stage != "rounds":  # only BPR's loss has a known worst
            return self.status.value
        share = self.rounds[-1].loss / math.log(2)
        if share > 1 + _NEAR:
            return f"{self.status.value} {_WORSE_THAN_CHANCE}"
        return f"{self.status.value} {_NOTHING_LEARNED}" if share > 1 - _NEAR else self.status.value


class State(Protocol):
    """What a sweep changes, and a step takes over."""

    rho: float  # ρ; 0 where nothing is pulled to a consensus


class Done(Protocol):
    """What any sweep hands on; the step that goes with it knows more."""

    @property
    def loss(self) -> float:
        """The loss summed over the samples; not finite where anything is not."""

    @property
    def seconds(self) -> float:
        """The local work by the wall clock."""

    @property
    def merge_seconds(self) -> float:
        """What merging took after it."""

    @property
    def workers(self) -> int:
        """How many worked."""


@dataclass(frozen=True)
class Swept:
    """The paper's sweep over all relations: updates in the order of the relations, wall time, workers."""

    updates: Sequence[LocalUpdate]
    seconds: float
    workers: int
    merge_seconds: float = 0.0  # the step does the averaging, after the sweep

    @property
    def loss(self) -> float:
        """The loss summed over the samples; not finite where anything is not."""
        return math.fsum(u.loss + 0.0 * u.squares for u in self.updates)


@dataclass(frozen=True)
class Outcome:
    """What a round came to: the views that predict, and the figures of its record."""

    views: Any  # `kept` of it hands on what later rounds leave alone
    samples: int
    rejected: int
    touched_rows: int
    primal: float
    dual: float
    rho: float
    local_total: float


@dataclass(frozen=True)
class Best:
    """The best views so far, their validation score and the round they are from."""

    views: Any  # of one kind with those of the rounds
    score: float | None
    round: int


@dataclass(frozen=True)
class Stage:
    """Where a run begins and ends: a fit may be several, one after the other."""

    name: str
    until: int  # the last round
    before: tuple[Round, ...] = ()  # the rounds of earlier stages
    best: Best | None = None  # what to beat

    @property
    def elapsed(self) -> float:
        """The seconds of earlier stages."""
        return self.before[-1].seconds["elapsed"] if self.before else 0.0


@dataclass(frozen=True)
class Solution:
    """The views that predict, the state they came from, and how it went."""

    views: Any  # the Views of the state's kind
    state: Any
    info: Info
    score: float | None = None  # of the views, on validation


Sweep = Callable[[Any, int], Any]
Step = Callable[[Any, Any], Outcome]
# BPR's loss is ln 2 for scores that say nothing; this near to it, they still say next to nothing.
_NEAR = 0.01
_NOTHING_LEARNED = (
    "But the training loss is still ln 2, that of random scores. Raise inner_epochs to 10 or more, for each "
    "round starts again from the consensus, and max_epochs with it; or lower reg."
)
_WORSE_THAN_CHANCE = "But the training loss is above that of random scores. Lower learning_rate."

Average = Callable[[Floats, Sequence[LocalUpdate]], Floats]
Validate = Callable[[Any], tuple[float, float]]  # a score, and its standard error
OnRound = Callable[[Round], None]


def admm(state: ConsensusState, swept: Swept, average: Average = mean_change) -> Outcome:
    """The paper's consensus step: Z is the mean of what all relations made of the last one.

    `average` turns a round's updates into the change of Z: the mean of the Δ_r, unless a baseline shares
    nothing.
    """
    updates = swept.updates
    change = average(state.z, updates)
    views = Views(state.z, updates)
    state.z = update_z(state.z, change)  # line 13; line 15's V_r follows from the drift
    return Outcome(
        views=views,
        samples=sum(update.samples for update in updates),
        rejected=sum(update.rejected for update in updates),
        touched_rows=sum(len(update.rows) for update in updates),
        primal=primal_residual(change, updates),
        dual=dual_residual(change, state.rho, len(updates)),
        rho=state.rho,
        local_total=math.fsum(update.seconds for update in updates),
    )


def waves(state: WaveState, swept: WaveSwept) -> Outcome:
    """The waves' step: the sweep has merged each wave into the state already, what is left is the record."""
    return Outcome(
        views=state.views(),
        samples=swept.samples,
        rejected=swept.rejected,
        touched_rows=len(state.rows.own),
        primal=state.departure(),
        dual=math.sqrt(swept.moved),
        rho=state.rho,
        local_total=swept.local_total,
    )


def solve(
    state: State,
    sweep: Sweep,
    config: Config,
    *,
    step: Step = admm,
    stage: Stage | None = None,
    validate: Validate | None = None,
    on_round: OnRound | None = None,
) -> Solution:
    """Sweep and step from `state`, which is changed; hand on the best views and the record of every round."""
    begun = time.perf_counter()
    stage = stage or Stage("rounds", config.max_rounds)
    rounds, best, status = list(stage.before), stage.best, None
    try:
        while status is None:
            number = len(rounds) + 1
            swept = sweep(state, number)  # lines 9 to 12: UpdateAW for all r in parallel
            if not math.isfinite(swept.loss):
                status = Status.DIVERGED
                break
            stepped = time.perf_counter()
            outcome = step(state, swept)
            seconds = {"consensus": time.perf_counter() - stepped + swept.merge_seconds}
            score, error = _validated(validate, outcome.views, seconds)
            seconds["elapsed"] = time.perf_counter() - begun + stage.elapsed
            record = _record(swept, outcome, rounds, score, stage.name, seconds)
            rounds.append(replace(record, validation_error=error))
            if score is None or best is None or score > (best.score or 0.0):
                best = Best(outcome.views.kept(None if best is None else best.views), score, number)
            status = terminate(rounds, max(best.round, len(stage.before)), config, stage.until)
            if on_round is not None:
                on_round(rounds[-1])
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    return _finish(state, best, status, rounds, time.perf_counter() - begun)


def terminate(rounds: Sequence[Round], best: int, config: Config, until: int | None = None) -> Status | None:
    """Say whether the rounds so far are reason to stop; reads the record only."""
    last = rounds[-1]
    if last.validation is not None and last.round - best >= config.patience:
        return Status.PATIENCE
    if last.loss_change is not None and abs(last.loss_change) < config.tol:
        return Status.CONVERGED
    if last.round >= (config.max_rounds if until is None else until):
        return Status.MAX_EPOCHS
    if config.max_seconds is not None and last.seconds["elapsed"] >= config.max_seconds:
        return Status.MAX_SECONDS
    return None


def _validated(
    validate: Validate | None, views: Any, seconds: dict[str, float]
) -> tuple[float, float] | tuple[None, None]:
    """Hand on the score and its standard error."""
    if validate is None:
        return None, None
    begun = time.perf_counter()
    found = validate(views)
    seconds["validation"] = time.perf_counter() - begun
    return found


def _record(
    swept: Done,
    outcome: Outcome,
    before: Sequence[Round],
    score: float | None,
    stage: str,
    seconds: dict[str, float],
) -> Round:
    loss = swept.loss / outcome.samples
    told = before[-1] if before and before[-1].stage == stage else None
    return Round(
        round=len(before) + 1,
        loss=loss,
        loss_change=None if told is None else loss - told.loss,
        primal_residual=outcome.primal,
        dual_residual=outcome.dual,
        rho=outcome.rho,
        samples=outcome.samples,
        rejected_negatives=outcome.rejected,
        touched_rows=outcome.touched_rows,
        balance=outcome.local_total / (swept.workers * swept.seconds) if swept.seconds else 1.0,
        validation=score,
        seconds={"local_total": outcome.local_total, "local_critical_path": swept.seconds, **seconds},
        stage=stage,
        block_seconds=swept.block_seconds if isinstance(swept, WaveSwept) else (),
    )


def _finish(
    state: State,
    best: Best | None,
    status: Status,
    rounds: Sequence[Round],
    seconds: float,
) -> Solution:
    if best is None:
        if status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        pulled, rho = (f" with rho = {state.rho:g}", "rho or ") if state.rho else ("", "")
        raise DivergedError(
            f"training diverged in its first round{pulled}: values that are not finite appeared; lower "
            f"{rho}learning_rate, or raise reg"
        )
    info = Info(status, tuple(rounds), best.round, seconds={"solve": seconds})
    return Solution(best.views, state, info, best.score)
