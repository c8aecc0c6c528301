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

__all__ = ["LOSSES", "Loss", "bpr", "logistic", "softmax", "squared"]


def bpr(scores: Any, coefficients: Any) -> float:
    """BPR-Opt: −ln σ(ŷ(s,o) − ŷ(s,o′)), averaged over the negatives when there are several.

    d = e^−|x| is (e^{−|x|/64})^64 by Taylor's series, and ln(1 + d) = ln √2 + 2 artanh (u − 1)/(u + 1) with
    u = (1 + d)/√2 by its own: arithmetic alone costs the loop over facts less than two calls. Both are exact
    within 1e-12; a d below e^−80 is 0.
    """
    one = 1 + 0 * scores[0]
    share = one / (len(scores) - 1)
    loss = 0 * one
    positive = 0 * one
    for i in range(1, len(scores)):
        difference = scores[0] - scores[i]
        y = max(-abs(difference), -80 * one) / 64
        d = 1 + y / 5 * (1 + y / 6 * (1 + y / 7 * (1 + y / 8 * (1 + y / 9))))
        d = 1 + y * (1 + y / 2 * (1 + y / 3 * (1 + y / 4 * d)))
        d = d * d
        d = d * d
        d = d * d
        d = d * d
        d = d * d
        d = d * d
        d = d if y > -1.25 else 0 * d
        u = (1 + d) * (0.7071067811865476 * one)
        z = (u - 1) / (u + 1)
        zz = z * z
        log = 1 + zz * (
            one / 3 + zz * (one / 5 + zz * (one / 7 + zz * (one / 9 + zz * (one / 11 + zz / 13))))
        )
        loss += share * (0.34657359027997264 * one + 2 * z * log + max(-difference, 0 * one))
        coefficient = share * (d if difference > 0 else one) / (1 + d)
        coefficients[i] = coefficient
        positive += coefficient
    coefficients[0] = -positive
    return loss


def softmax(scores: Any, coefficients: Any) -> float:
    """Cross-entropy of the observed object among all that are scored: −ln e^{ŷ(s,o)} / Σ e^{ŷ}.

    e^x for x ≤ 0 is (e^{x/64})^64 by Taylor's series, arithmetic alone, so that the loop over many negatives
    is vectorised. Its relative error is below 1e-5 for x above −20, where it matters; e^{−∞} is 0.
    """
    top = scores[0]
    for i in range(1, len(scores)):
        top = max(top, scores[i])
    total = scores[0] * 0
    for i in range(len(scores)):
        x = scores[i] - top
        y = max(x, -80 + 0 * top) / 64
        y = 1 + y * (1 + y / 2 * (1 + y / 3 * (1 + y / 4 * (1 + y / 5))))
        y = y * y
        y = y * y
        y = y * y
        y = y * y
        y = y * y
        y = y * y
        weight = y if x > -80 else 0 * y
        coefficients[i] = weight
        total += weight
    share = 1 / total
    for i in range(len(scores)):
        coefficients[i] *= share
    coefficients[0] -= 1
    return math.log(total) + float(top) - float(scores[0])


def logistic(scores: Any, coefficients: Any) -> float:
    """−ln σ(ŷ(s,o)) − mean ln σ(−ŷ(s,o′)): each candidate judged by itself."""
    share = 1.0 / (len(scores) - 1)
    loss = 0.0
    for i in range(len(scores)):
        x = -float(scores[i]) if i == 0 else float(scores[i])
        weight = 1.0 if i == 0 else share
        decay = math.exp(-abs(x))
        loss += weight * (math.log1p(decay) + max(x, 0.0))
        slope = weight * (1.0 if x > 0 else decay) / (1.0 + decay)
        coefficients[i] = -slope if i == 0 else slope
    return loss


def squared(scores: Any, coefficients: Any) -> float:
    """½ (ŷ(s,o) − 1)² + ½ mean ŷ(s,o′)²: facts are one, what is not known is zero."""
    share = 1.0 / (len(scores) - 1)
    loss = 0.0
    for i in range(len(scores)):
        if scores[i] == -math.inf:  # a candidate that is left out
            coefficients[i] = 0
            continue
        error = float(scores[i]) - 1.0 if i == 0 else float(scores[i])
        weight = 1.0 if i == 0 else share
        loss += 0.5 * weight * error * error
        coefficients[i] = weight * error
    return loss


@dataclass(frozen=True)
class Loss:
    """A loss under its name; `code` is how a compiled kernel knows it."""

    name: str
    code: int
    function: Callable[[Any, Any], float]


LOSSES: dict[str, Loss] = {
    loss.name: loss
    for loss in (
        Loss("bpr", 0, bpr),
        Loss("softmax", 1, softmax),
        Loss("logistic", 2, logistic),
        Loss("squared", 3, squared),
    )
}
