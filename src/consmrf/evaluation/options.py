"""What a user asks of an evaluation: one frozen record, checked when it is built."""

from __future__ import annotations

from dataclasses import dataclass

from consmrf.errors import SettingError
from consmrf.evaluation.ranking import SIDES

__all__ = ["DEFAULTS", "PROTOCOLS", "EvaluationOptions"]

PROTOCOLS = ("full", "paper")


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions:
    """Settings of `consmrf.evaluate`."""

    candidates: int = (
        1000  # paper protocol: unobserved objects drawn per (relation, subject); or all there are
    )
    sides: tuple[str, ...] = SIDES  # full protocol: which ends of a triple are ranked
    memory_mib: int = 512  # for scores and their comparison; one tile or row of them is always allowed
    threads: int | None = None  # that rank factors; None is one per core; the figures are the same for any
    seed: int = 0  # of the sampled objects and of the bootstrap
    bootstrap: int = 1000  # resamples; 0 leaves the intervals out
    confidence: float = 0.99  # of the bootstrap intervals

    def __post_init__(self) -> None:
        for name, least, most in _WHOLE:
            value = getattr(self, name)
            if name == "threads" and value is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
                raise SettingError(f"{name} = {value!r}: must be a whole number from {least} to {most}")
        sides = tuple(self.sides) if isinstance(self.sides, tuple | list) else ()
        if not sides or any(side not in SIDES for side in sides) or len(set(sides)) < len(sides):
            raise SettingError(f"sides = {self.sides!r}: must be one or both of {', '.join(SIDES)}")
        object.__setattr__(self, "sides", tuple(side for side in SIDES if side in sides))
        real = isinstance(self.confidence, int | float) and not isinstance(self.confidence, bool)
        if not real or not 0 < self.confidence < 1:
            raise SettingError(f"confidence = {self.confidence!r}: must lie between 0 and 1, both excluded")


_WHOLE = (
    ("candidates", 1, 2**31 - 1),
    ("memory_mib", 1, 2**31 - 1),
    ("threads", 1, 2**31 - 1),
    ("seed", 0, 2**63 - 1),
    ("bootstrap", 0, 10**6),
)

DEFAULTS = EvaluationOptions()
