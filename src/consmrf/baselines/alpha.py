"""α_{t,r}: how much the facts of relation r count when relation t is the target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consmrf.errors import SettingError, UnknownLabelError

__all__ = ["Alpha"]


class Alpha:
    """α of `Config`, by relation: a number for all, (target, ((auxiliary, α), …)), or rows in id order."""

    def __init__(self, given: Any, labels: Sequence[str]) -> None:
        """Receive what `Config` holds, and the relations' labels in id order."""
        self._n, self._number, self._rows = len(labels), 0.0, {}
        if not isinstance(given, tuple):
            self._number = float(given)
            return
        if not isinstance(given[0][0], str):
            if len(given) != len(labels) or any(len(row) != len(labels) for row in given):
                raise SettingError(
                    f"alpha: must have {len(labels)} rows of {len(labels)} numbers, one for each relation"
                )
            self._rows = {t: dict(enumerate(row)) for t, row in enumerate(given)}
            return
        ids = {label: r for r, label in enumerate(labels)}
        for label in (x for target, row in given for x in (target, *(auxiliary for auxiliary, _ in row))):
            if label not in ids:
                raise UnknownLabelError(f"alpha: {label!r} is no relation of the training triples")
        self._rows = {ids[target]: {ids[r]: x for r, x in row} for target, row in given}

    def row(self, target: int) -> NDArray[np.float64]:
        """Hand on α_t [R], 1 at the target; pairs that a mapping does not name count 0."""
        row = np.full(self._n, self._number)
        named = self._rows.get(target, {})
        row[list(named)] = list(named.values())
        row[target] = 1.0
        return row
