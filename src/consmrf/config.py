"""What a user asks of a fit: one frozen record, checked when it is built."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from consmrf.errors import SettingError

__all__ = ["PRESETS", "Config"]

METHODS = ("consensus", "independent", "popularity")
SOLVERS = ("paper",)
SCORERS = ("identity", "diagonal", "full")
LOSSES = ("bpr",)
PRECISIONS = ("single", "double")


@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings of `consmrf.fit`. Each field's comment gives the paper's symbol where there is one."""

    method: str = "consensus"  # consensus (ConsMRF), or a baseline: independent, popularity
    solver: str = "paper"  # paper: Algorithms 1 and 2 as printed
    scorer: str = "diagonal"  # the form of W_r: identity (CMF), diagonal (CD/PARAFAC), full (RESCAL)
    loss: str = "bpr"  # L_r
    dim: int = 50  # k
    learning_rate: float = 0.5  # η, the step of AdaGrad
    reg: float = 0.005  # λ
    rho: float = 0.0005  # ρ
    init_scale: float = 0.1  # σ of the initial Z and W_r
    inner_epochs: int = 1  # draws of one round, in units of |D_r|
    max_epochs: int = 100  # the most rounds × inner_epochs
    max_seconds: float | None = None  # no new round is begun after this long
    tol: float = 1e-6  # ε: stop when a round's mean training loss changes by less
    patience: int = 5  # with validation triples: rounds without a better score before stopping
    seed: int = 0
    threads: int | None = None  # None: as many as there are cores
    precision: str = "single"  # of the factors: single or double floats

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if value not in choices:
                raise SettingError(f"{name} = {value!r}: must be one of {', '.join(choices)}")
        for name, least, most in _WHOLE:
            _check_whole(name, getattr(self, name), least, most)
        for name, bound, strict in _REAL:
            _check_real(name, getattr(self, name), bound, strict)
        if self.threads is not None:
            _check_whole("threads", self.threads, 1, 1024)
        if self.max_seconds is not None:
            _check_real("max_seconds", self.max_seconds, 0.0, True)

    @property
    def shares(self) -> bool:
        """Whether the relations meet in a consensus; without one, each trains alone from its own last A_r."""
        return self.method == "consensus"

    @property
    def max_rounds(self) -> int:
        """The most rounds of Algorithm 1: `max_epochs` in units of `inner_epochs`, rounded up."""
        return -(-self.max_epochs // self.inner_epochs)

    def to_dict(self) -> dict[str, Any]:
        """Hand on the settings as plain values, for a manifest or a report."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """Build from plain values; an unknown name is an error."""
        known = {f.name for f in fields(cls)}
        for name in values:
            if name not in known:
                raise SettingError(f"unknown setting {name!r}: must be one of {', '.join(sorted(known))}")
        return cls(**values)


_CHOICES = {"method": METHODS, "solver": SOLVERS, "scorer": SCORERS, "loss": LOSSES, "precision": PRECISIONS}
_WHOLE = (
    ("dim", 1, 4096),
    ("inner_epochs", 1, 10**6),
    ("max_epochs", 1, 10**9),
    ("patience", 1, 10**9),
    ("seed", 0, 2**63 - 1),
)
# name, bound, whether the bound itself is excluded
_REAL = (
    ("learning_rate", 0.0, True),
    ("reg", 0.0, False),
    ("rho", 0.0, False),
    ("init_scale", 0.0, True),
    ("tol", 0.0, False),
)


def _check_whole(name: str, value: object, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise SettingError(f"{name} = {value!r}: must be a whole number from {least} to {most}")


def _check_real(name: str, value: object, least: float, strict: bool) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not number or value < least or (strict and value == least):  # type: ignore[operator]
        raise SettingError(
            f"{name} = {value!r}: must be a finite number {'above' if strict else 'of at least'} {least:g}"
        )


# Named starting points: `paper` is the middle of the paper's grids, `quick` shows in seconds whether data are
# read right.
PRESETS: dict[str, Config] = {
    "paper": Config(),
    "quick": Config(dim=10, max_epochs=10),
}
