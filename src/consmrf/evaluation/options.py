"""What a user asks of an evaluation: one frozen record, checked when it is built."""

from __future__ import annotations

from dataclasses import dataclass

from consmrf.errors import SettingError
from consmrf.evaluation.ranking import SIDES

__all__ = ["DEFAULTS", "PROTOCOLS", "RANKED", "EvaluationOptions"]

PROTOCOLS = ("full", "paper")
RANKED = (*SIDES, "relations")  # what of a triple can be ranked, given the rest
UNSEEN = ("leave-out", "worst")
INTERVALS = ("bootstrap", "analytic")


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions:
    """Settings of `consmrf.evaluate`."""

    candidates: int = (
        1000  # paper protocol: unobserved objects drawn per (relation, subject); or all there are
    )
    sides: tuple[str, ...] = SIDES  # full protocol: which ends of a triple are ranked, and its relation
    unseen: str = "leave-out"  # full protocol: triples with a label never seen, or "worst": ranked last
    sample: int | None = None  # full protocol: test triples drawn, from each relation its share; None is all
    auc_candidates: int | None = None  # full protocol: candidates drawn per query, for AUC alone; None is all
    memory_mib: int = 512  # for scores and their comparison; one tile or row of them is always allowed
    threads: int | None = None  # that rank factors; None is one per core; the figures are the same for any
    seed: int = 0  # of the sampled objects and of the bootstrap
    intervals: str = "bootstrap"  # or "analytic": Student's, of a weighted mean
    bootstrap: int = 1000  # resamples; 0 leaves the intervals out
    confidence: float = 0.99  # of the intervals

    def __post_init__(self) -> None:
        for name, least, most in _WHOLE:
            value = getattr(self, name)
            if name in _OR_NONE and value is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
                raise SettingError(f"{name} = {value!r}: must be a whole number from {least} to {most}")
        sides = tuple(self.sides) if isinstance(self.sides, tuple | list) else ()
        if not sides or any(side not in RANKED for side in sides) or len(set(sides)) < len(sides):
            raise SettingError(f"sides = {self.sides!r}: must be one or more of {', '.join(RANKED)}")
        object.__setattr__(self, "sides", tuple(side for side in RANKED if side in sides))
        for name, choices in (("unseen", UNSEEN), ("intervals", INTERVALS)):
            if getattr(self, name) not in choices:
                raise SettingError(f"{name} = {getattr(self, name)!r}: must be one of {', '.join(choices)}")
        real = isinstance(self.confidence, int | float) and not isinstance(self.confidence, bool)
        if not real or not 0 < self.confidence < 1:
            raise SettingError(f"confidence = {self.confidence!r}: must lie between 0 and 1, both excluded")


_WHOLE = (
    ("candidates", 1, 2**31 - 1),
    ("sample", 1, 2**31 - 1),
    ("auc_candidates", 1, 2**31 - 1),
    ("memory_mib", 1, 2**31 - 1),
    ("threads", 1, 2**31 - 1),
    ("seed", 0, 2**63 - 1),
    ("bootstrap", 0, 10**6),
)

_OR_NONE = ("sample", "auc_candidates", "threads")

DEFAULTS = EvaluationOptions()
