"""What a user asks of a fit: one frozen record, checked when it is built."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from consmrf.errors import SettingError

__all__ = ["PRESETS", "Config"]

METHODS = ("consensus", "shared", "independent", "dmf", "catsmf", "rescal", "popularity")
SOLVERS = ("wave", "paper", "als")
SCORERS = ("identity", "diagonal", "complex", "full", "sme_linear", "sme_bilinear")
LOSSES = ("softmax", "bpr", "logistic", "squared")
REGULARISERS = ("n3", "l2")
REG_WEIGHTS = ("frequency", "uniform")
OPTIMIZERS = ("adagrad", "sgd")
SAMPLINGS = ("uniform", "degree", "range")
PRECISIONS = ("single", "double")

# A setting that was not given has its solver's default.
_DEFAULT: Any = None
_DEFAULTS: dict[str, dict[str, Any]] = {
    "wave": {
        "scorer": "complex",
        "loss": "softmax",
        "learning_rate": 0.1,
        "regulariser": "n3",
        "reg": 0.1,
        "rho": 3.0,
        "negatives": 256,
        "max_epochs": 60,
        "tol": 0.0,
        "patience": 5,
        "reciprocal": True,
    },
    "paper": {
        "scorer": "diagonal",
        "loss": "bpr",
        "learning_rate": 0.5,
        "regulariser": "l2",
        "reg": 0.005,
        "rho": 0.0005,
        "negatives": 1,
        "max_epochs": 100,
        "tol": 1e-6,
        "patience": 5,
        "reciprocal": False,
    },
    "als": {
        "scorer": "full",
        "loss": "squared",
        "learning_rate": 0.1,
        "regulariser": "l2",
        "reg": 1.0,
        "rho": 0.0,
        "negatives": 1,
        "max_epochs": 50,
        "tol": 1e-6,
        "patience": 3,
        "reciprocal": False,
    },
}
# Methods that have a solver of their own, whatever is asked for.
_SOLVER_OF = {"independent": "paper", "dmf": "paper", "catsmf": "paper", "rescal": "als"}


@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings of `consmrf.fit`. Each field's comment gives the paper's symbol where there is one.

    A setting that is not given has the default of its solver; `wave / paper` in the comments.
    """

    # consensus (ConsMRF), or a baseline: shared (CD), independent, dmf, catsmf, rescal, popularity
    method: str = "consensus"
    solver: str = "wave"  # wave: ours; paper: Algorithms 1 and 2 as printed; als: RESCAL's least squares
    scorer: str = _DEFAULT  # the form of W_r: identity (CMF), diagonal (CD/PARAFAC), complex, full (RESCAL)
    loss: str = _DEFAULT  # L_r: softmax, bpr, logistic or squared / bpr
    losses: Mapping[str, str] | tuple[tuple[str, str], ...] | None = None  # L_r where it is another
    dim: int = 50  # k
    learning_rate: float = _DEFAULT  # η, the step: 0.1 / 0.5
    optimizer: str = "adagrad"  # adagrad; or sgd, plain steps without sums of squares (wave, few negatives)
    regulariser: str = _DEFAULT  # Ω: n3 or l2 / l2
    reg: float = _DEFAULT  # λ: 0.1 / 0.005
    reg_weight: str = "frequency"  # Ω counts at each fact that touches an entity, or is uniform over entities
    # dmf, catsmf: α_{t,r}, how much a fact of an auxiliary relation r counts where t is the target; a number
    # for all, {target: {auxiliary: α}}, or rows of numbers in the order of the relations' labels
    alpha: float | Mapping[str, Mapping[str, float]] | tuple[tuple[Any, ...], ...] = 0.25
    rho: float = _DEFAULT  # ρ: 3 in all for an entity of a relation / 0.0005 in every step
    negatives: int = _DEFAULT  # objects that a fact is ranked against in a step: 256 / 1
    sampling: str = "uniform"  # where they are drawn from: uniform, degree, or the relation's own range
    reciprocal: bool = _DEFAULT  # whether subjects are ranked by an inverse relation with a view of its own
    targets: tuple[str, ...] | None = None  # relations that get views and are validated; None: all
    init_scale: float = 0.1  # σ of the initial Z and W_r
    batch: int = 16  # wave: facts whose gradients are taken together
    wave_width: int = 16  # wave: blocks that start from one consensus
    inner_epochs: int = 1  # paper: draws of one round, in units of |D_r|
    max_epochs: int = _DEFAULT  # the most rounds × inner_epochs: 60 / 100
    max_seconds: float | None = None  # no new round is begun after this long
    tol: float = _DEFAULT  # ε: stop when a round's mean training loss changes by less: 0 / 1e-6
    patience: int = _DEFAULT  # with validation triples: rounds without a better score before stopping
    seed: int = 0
    threads: int | None = None  # None: as many as there are cores
    precision: str = "single"  # of the factors: single or double floats

    def __post_init__(self) -> None:
        if self.solver in SOLVERS:
            solver = _SOLVER_OF.get(self.method, self.solver)
            if solver == "wave" and str(self.scorer).startswith("sme"):
                solver = "paper"
            object.__setattr__(self, "solver", solver)
            for name, default in _DEFAULTS[solver].items():
                if getattr(self, name) is None:
                    object.__setattr__(self, name, default)
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
        self._check_together()

    def _check_together(self) -> None:
        """Ask of settings what depends on others."""
        if not isinstance(self.reciprocal, bool):
            raise SettingError(f"reciprocal = {self.reciprocal!r}: must be True or False")
        if self.targets is not None:
            targets: Any = self.targets
            if isinstance(targets, str) or not targets or not all(isinstance(t, str) for t in targets):
                raise SettingError(
                    f"targets = {self.targets!r}: must be labels of relations, or None for all"
                )
            object.__setattr__(self, "targets", tuple(targets))
        if self.losses is not None:
            object.__setattr__(self, "losses", _losses(self.losses))
        if self.optimizer == "sgd" and self.negatives > _MOST_WITH_SGD and self.method != "popularity":
            raise SettingError(
                f"negatives = {self.negatives}: optimizer = 'sgd' takes at most {_MOST_WITH_SGD}; "
                "use optimizer = 'adagrad'"
            )
        object.__setattr__(self, "alpha", _checked_alpha(self.alpha))
        if self.method != "popularity":
            self._check_method()

    def _check_method(self) -> None:
        """Ask for what the method, by its solver, is written for."""
        if (self.solver == "als") != (self.method == "rescal"):
            raise SettingError("solver = 'als': the least squares of method = 'rescal' only")
        if self.scorer.startswith("sme") and self.method != "shared":
            raise SettingError(f"scorer = {self.scorer!r}: its matrices belong to method = 'shared'")
        if self.method == "rescal" and not self.reg:
            raise SettingError("reg = 0: method = 'rescal' needs a reg above 0 for its least squares")
        whose = f"solver = {self.solver!r}" if self.method == "consensus" else f"method = {self.method!r}"
        for name, only in _ONLY.get((self.method, self.solver), {}).items():
            if getattr(self, name) != only:
                other = "; use solver = 'wave'" if self.method in ("consensus", "shared") else ""
                raise SettingError(f"{name} = {getattr(self, name)!r}: {whose} knows {only!r} only{other}")

    @property
    def shares(self) -> bool:
        """Whether the relations meet in a consensus; without one, each trains alone from its own last A_r."""
        return self.method != "independent"

    @property
    def departs(self) -> bool:
        """Whether relations leave the consensus."""
        return self.method != "shared"

    @property
    def max_rounds(self) -> int:
        """The most rounds: the paper's solver has `inner_epochs` epochs in each, the others have one."""
        return -(-self.max_epochs // self.inner_epochs) if self.solver == "paper" else self.max_epochs

    def loss_of(self, relation: str) -> str:
        """Hand on the loss of the relation with this label."""
        return dict(self.losses or ()).get(relation, self.loss)

    def to_dict(self) -> dict[str, Any]:
        """Hand on the settings as plain values, for a manifest or a report."""
        alpha: Any = self.alpha
        if isinstance(alpha, tuple) and isinstance(alpha[0][0], str):
            alpha = {target: dict(row) for target, row in alpha}
        return asdict(self) | {"losses": None if self.losses is None else dict(self.losses), "alpha": alpha}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """Build from plain values; an unknown name is an error."""
        known = {f.name for f in fields(cls)}
        for name in values:
            if name not in known:
                raise SettingError(f"unknown setting {name!r}: must be one of {', '.join(sorted(known))}")
        return cls(**values)


_CHOICES = {
    "method": METHODS,
    "solver": SOLVERS,
    "scorer": SCORERS,
    "loss": LOSSES,
    "regulariser": REGULARISERS,
    "optimizer": OPTIMIZERS,
    "reg_weight": REG_WEIGHTS,
    "sampling": SAMPLINGS,
    "precision": PRECISIONS,
}
# What a method is written for: one that learns sample by sample, and what else Algorithms 1 and 2 ask for.
_SAMPLED = {
    "losses": None,
    "regulariser": "l2",
    "reg_weight": "frequency",
    "optimizer": "adagrad",
    "sampling": "uniform",
    "reciprocal": False,
}
_ALGORITHMS = {"loss": "bpr", "negatives": 1, **_SAMPLED, "targets": None}
_ONLY: dict[tuple[str, str], dict[str, Any]] = {
    ("consensus", "paper"): _ALGORITHMS,
    ("independent", "paper"): _ALGORITHMS,
    ("shared", "paper"): {**_SAMPLED, "targets": None},
    ("dmf", "paper"): _SAMPLED,
    ("catsmf", "paper"): _SAMPLED,
    ("rescal", "als"): {"scorer": "full", "loss": "squared", **_SAMPLED, "targets": None},
}
# Plain steps are written for the loop in which every fact draws objects of its own: so many at most.
_MOST_WITH_SGD = 7
_WHOLE = (
    ("dim", 1, 4096),
    ("negatives", 1, 2**20),
    ("batch", 1, 4096),
    ("wave_width", 1, 4096),
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


def _losses(given: Any) -> tuple[tuple[str, str], ...] | None:
    """Hand on (relation, loss) ordered by relation, to be compared and hashed; None where there are none."""
    try:
        losses = {str(relation): loss for relation, loss in dict(given).items() if isinstance(relation, str)}
        good = len(losses) == len(given)
    except (TypeError, ValueError):
        good = False
    if not good:
        raise SettingError(
            f"losses = {given!r}: must give labels of relations a loss each, such as {{'rates': 'squared'}}"
        )
    for relation, loss in losses.items():
        if loss not in LOSSES:
            raise SettingError(f"losses[{relation!r}] = {loss!r}: must be one of {', '.join(LOSSES)}")
    return tuple(sorted(losses.items())) or None


def _check_whole(name: str, value: object, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise SettingError(f"{name} = {value!r}: must be a whole number from {least} to {most}")


def _check_real(name: str, value: object, least: float, strict: bool) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not number or value < least or (strict and value == least):  # type: ignore[operator]
        raise SettingError(
            f"{name} = {value!r}: must be a finite number {'above' if strict else 'of at least'} {least:g}"
        )


def _checked_alpha(alpha: Any) -> Any:
    """Hand on α as a number, as rows of numbers, or as (target, ((auxiliary, number), …)) ordered by label.

    None is negative, and all can be compared and hashed.
    """
    if isinstance(alpha, tuple) and alpha and isinstance(alpha[0], tuple) and isinstance(alpha[0][0], str):
        alpha = {target: dict(row) for target, row in alpha}
    if isinstance(alpha, Mapping):
        if not alpha or not all(isinstance(row, Mapping) for row in alpha.values()):
            raise SettingError("alpha: a mapping must give {auxiliary relation: number} for each target")
        plain: Any = tuple(sorted((t, tuple(sorted(row.items()))) for t, row in alpha.items()))
        numbers = [x for row in alpha.values() for x in row.values()]
    elif isinstance(alpha, int | float):
        plain, numbers = alpha, [alpha]
    else:
        try:
            plain = tuple(tuple(float(x) for x in row) for row in alpha)
        except (TypeError, ValueError):
            raise SettingError(
                f"alpha = {alpha!r}: must be a number, a mapping of mappings, or rows of numbers"
            ) from None
        numbers = [x for row in plain for x in row]
        if not numbers:
            raise SettingError(f"alpha = {alpha!r}: must have a row of numbers for each relation")
    for x in numbers:
        _check_real("alpha", x, 0.0, False)
    return plain


# Named starting points: `paper` is the paper's algorithm in the middle of the paper's grids, `quick` shows in
# seconds whether data are read right.
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "paper": {"solver": "paper"},
    "quick": {"dim": 10, "max_epochs": 6, "negatives": 64},
}
