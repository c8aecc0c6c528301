"""Losses: each turns the scores of one positive and its negatives into one coefficient each.

A loss is one plain function `(scores, coefficients) -> loss`: `scores[0]` belongs to the observed object, the
others to the sampled ones; `coefficients[i]` receives dL/dscores[i]. The kernels compile these very
functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["LOSSES", "Loss", "bpr"]


def bpr(scores: Any, coefficients: Any) -> float:
    """BPR-Opt: −ln σ(ŷ(s,o) − ŷ(s,o′)), averaged over the negatives when there are several."""
    share = 1.0 / (len(scores) - 1)
    loss = 0.0
    positive = 0.0
    for i in range(1, len(scores)):
        difference = float(scores[0]) - float(scores[i])
        # e^-|x| never overflows; the two branches are the same function of x
        decay = math.exp(-abs(difference))
        loss += share * (math.log1p(decay) + max(-difference, 0.0))
        coefficient = share * (decay if difference > 0 else 1.0) / (1.0 + decay)
        coefficients[i] = coefficient
        positive += coefficient
    coefficients[0] = -positive
    return loss


@dataclass(frozen=True)
class Loss:
    """A loss under its name; `code` is how a compiled kernel knows it."""

    name: str
    code: int
    function: Callable[[Any, Any], float]


LOSSES: dict[str, Loss] = {loss.name: loss for loss in (Loss("bpr", 0, bpr),)}
