"""Algorithm 1.

Sweep the relations, average, repeat until a reason to stop. The sweep and the validation are callables.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from consmrf.config import Config
from consmrf.consensus.average import dual_residual, mean_change, primal_residual, update_z
from consmrf.consensus.state import ConsensusState, Floats, LocalUpdate, Views
from consmrf.errors import DivergedError

__all__ = ["Info", "Round", "Solution", "Status", "Sweep", "Swept", "Validate", "solve", "terminate"]


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
        share = self.rounds[-1].loss / math.log(2) if self.rounds else 0.0
        if share > 1 + _NEAR:
            return f"{self.status.value} {_WORSE_THAN_CHANCE}"
        return f"{self.status.value} {_NOTHING_LEARNED}" if share > 1 - _NEAR else self.status.value


@dataclass(frozen=True)
class Swept:
    """One sweep over all relations: updates in the order of the relations, wall time, workers."""

    updates: Sequence[LocalUpdate]
    seconds: float
    workers: int


@dataclass(frozen=True)
class Solution:
    """The views that predict, the state they came from, and how it went."""

    views: Views
    state: ConsensusState
    info: Info


Sweep = Callable[[ConsensusState, int], Swept]
# BPR's loss is ln 2 for scores that say nothing; this near to it, they still say next to nothing.
_NEAR = 0.01
_NOTHING_LEARNED = (
    "But the training loss is still ln 2, that of random scores. Raise inner_epochs to 10 or more, for each "
    "round starts again from the consensus, and max_epochs with it; or lower reg."
)
_WORSE_THAN_CHANCE = "But the training loss is above that of random scores. Lower learning_rate."

Average = Callable[[Floats, Sequence[LocalUpdate]], Floats]
Validate = Callable[[Views], float]
OnRound = Callable[[Round], None]


def solve(
    state: ConsensusState,
    sweep: Sweep,
    config: Config,
    *,
    average: Average = mean_change,
    validate: Validate | None = None,
    on_round: OnRound | None = None,
) -> Solution:
    """Run Algorithm 1 from `state`, which it changes; hand on the best views and the record of every round.

    `average` turns a round's updates into the change of Z: the mean of the Δ_r, unless a baseline shares
    nothing.
    """
    begun = time.perf_counter()
    rounds: list[Round] = []
    views, best, status = None, 0, None
    try:
        while status is None:
            number = len(rounds) + 1
            swept = sweep(state, number)  # lines 9 to 12: A_r ← Z, then UpdateAW, for all r in parallel
            if not _finite(swept):
                status = Status.DIVERGED
                break
            averaged = time.perf_counter()
            change = average(state.z, swept.updates)
            latest = Views(state.z, swept.updates)
            state.z = update_z(state.z, change)  # line 13; line 15's V_r follows from the drift
            seconds = {"consensus": time.perf_counter() - averaged}
            score = _validated(validate, latest, seconds)
            rounds.append(
                _record(
                    state, swept, change, rounds, score, seconds | {"elapsed": time.perf_counter() - begun}
                )
            )
            if score is None or best == 0 or score > (rounds[best - 1].validation or 0.0):
                views, best = latest, number
            status = terminate(rounds, best, config)
            if on_round is not None:
                on_round(rounds[-1])
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    return _finish(state, views, status, rounds, best, time.perf_counter() - begun)


def terminate(rounds: Sequence[Round], best: int, config: Config) -> Status | None:
    """Say whether the rounds so far are reason to stop; reads the record only."""
    last = rounds[-1]
    if last.validation is not None and last.round - best >= config.patience:
        return Status.PATIENCE
    if last.loss_change is not None and abs(last.loss_change) < config.tol:
        return Status.CONVERGED
    if last.round >= config.max_rounds:
        return Status.MAX_EPOCHS
    if config.max_seconds is not None and last.seconds["elapsed"] >= config.max_seconds:
        return Status.MAX_SECONDS
    return None


def _finite(swept: Swept) -> bool:
    return all(math.isfinite(update.loss) and math.isfinite(update.squares) for update in swept.updates)


def _validated(validate: Validate | None, views: Views, seconds: dict[str, float]) -> float | None:
    if validate is None:
        return None
    begun = time.perf_counter()
    score = validate(views)
    seconds["validation"] = time.perf_counter() - begun
    return score


def _record(
    state: ConsensusState,
    swept: Swept,
    change: Floats,
    before: Sequence[Round],
    score: float | None,
    seconds: dict[str, float],
) -> Round:
    updates = swept.updates
    samples = sum(update.samples for update in updates)
    loss = math.fsum(update.loss for update in updates) / samples
    local_total = math.fsum(update.seconds for update in updates)
    return Round(
        round=len(before) + 1,
        loss=loss,
        loss_change=loss - before[-1].loss if before else None,
        primal_residual=primal_residual(change, updates),
        dual_residual=dual_residual(change, state.rho, len(updates)),
        rho=state.rho,
        samples=samples,
        rejected_negatives=sum(update.rejected for update in updates),
        touched_rows=sum(len(update.rows) for update in updates),
        balance=local_total / (swept.workers * swept.seconds) if swept.seconds else 1.0,
        validation=score,
        seconds={"local_total": local_total, "local_critical_path": swept.seconds, **seconds},
    )


def _finish(
    state: ConsensusState,
    views: Views | None,
    status: Status,
    rounds: Sequence[Round],
    best: int,
    seconds: float,
) -> Solution:
    if views is None:
        if status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        raise DivergedError(
            f"training diverged in its first round with rho = {state.rho:g}: values that are not finite "
            "appeared; lower rho or learning_rate, or raise reg"
        )
    return Solution(views, state, Info(status, tuple(rounds), best, seconds={"solve": seconds}))
