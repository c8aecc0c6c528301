"""α_{t,r}: how much the loss of relation r counts when relation t is the target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consmrf.errors import SettingError, UnknownLabelError

__all__ = ["Alpha"]


@dataclass(frozen=True)
class Alpha:
    """α of `Config`, by relation: one number, {target: {auxiliary: α}}, or a matrix in id order."""

    given: Any
    labels: Sequence[str]  # of the relations, in id order

    def __post_init__(self) -> None:
        n = len(self.labels)
        if isinstance(self.given, tuple) and (
            len(self.given) != n or any(len(row) != n for row in self.given)
        ):
            raise SettingError(f"alpha: must have {n} rows of {n} numbers, one for each relation, or be one")
        if isinstance(self.given, Mapping):
            named = {*self.given, *(label for row in self.given.values() for label in row)}
            for label in sorted(named - set(self.labels)):
                raise UnknownLabelError(f"alpha: {label!r} is no relation of the training triples")

    def row(self, target: int) -> NDArray[np.float64]:
        """Hand on α_t [R], 1 at the target; pairs that a mapping does not name count 0."""
        n = len(self.labels)
        if isinstance(self.given, Mapping):
            named = self.given.get(self.labels[target], {})
            row = np.array([named.get(label, 0.0) for label in self.labels], np.float64)
        elif isinstance(self.given, tuple):
            row = np.array(self.given[target], np.float64)
        else:
            row = np.full(n, self.given, np.float64)
        row[target] = 1.0
        return row
