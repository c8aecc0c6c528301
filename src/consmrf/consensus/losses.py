"""Losses: each turns the scores of one positive and its negatives into one coefficient each.

A loss is one plain function `(scores, coefficients, y) -> loss`: `scores[0]` belongs to the observed object,
the others to the sampled ones; `coefficients[i]` receives dL/dscores[i]. `y` is the fact's value for losses
that aim at one: 1 unless the data say otherwise. The kernels compile these very functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["LOSSES", "Loss", "bpr", "logistic", "softmax", "squared"]


def bpr(scores: Any, coefficients: Any, _y: float = 1.0) -> float:
    """BPR-Opt: −ln σ(ŷ(s,o) − ŷ(s,o′)), averaged over the negatives when there are several.

    d = e^−|x| is (e^{−x/64})^64 by Taylor's series, and ln(1 + d) = ln √2 + 2 artanh (u − 1)/(u + 1) with
    u = (1 + d)/√2 by its own: arithmetic alone, in the scores' precision, costs the loop over facts less than
    two calls. Both series are exact within 1e-12; a d below e^−80 is 0.
    """
    real = scores.dtype.type
    zero, one, bound, parts = real(0), real(1), real(-80), real(64)
    share = one / real(len(scores) - 1)
    loss = positive = zero
    for i in range(1, len(scores)):
        difference = scores[0] - scores[i]
        y = max(-abs(difference), bound) / parts
        d = one + y / real(6) * (one + y / real(7) * (one + y / real(8) * (one + y / real(9))))
        d = one + y / real(3) * (one + y / real(4) * (one + y / real(5) * d))
        d = one + y * (one + y / real(2) * d)
        d = d * d
        d = d * d
        d = d * d
        d = d * d
        d = d * d
        d = d * d
        d = d if y * parts > bound else zero * y
        u = (one + d) * real(0.7071067811865476)
        z = (u - one) / (u + one)
        zz = z * z
        artanh = one / real(7) + zz * (one / real(9) + zz * (one / real(11) + zz / real(13)))
        artanh = z * (one + zz * (one / real(3) + zz * (one / real(5) + zz * artanh)))
        loss += share * (real(0.34657359027997264) + artanh + artanh + max(-difference, zero))
        coefficient = share * (d if difference > zero else one) / (one + d)
        coefficients[i] = coefficient
        positive += coefficient
    coefficients[0] = -positive
    return loss


def softmax(scores: Any, coefficients: Any, _y: float = 1.0) -> float:
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


def logistic(scores: Any, coefficients: Any, y: float = 1.0) -> float:
    """−y ln σ(ŷ(s,o)) − (1 − y) ln σ(−ŷ(s,o)) − mean ln σ(−ŷ(s,o′)): each candidate judged by itself.

    The first two are −ln σ(ŷ) + (1 − y) ŷ.
    """
    share = 1.0 / (len(scores) - 1)
    loss = 0.0
    for i in range(len(scores)):
        x = -float(scores[i]) if i == 0 else float(scores[i])
        weight = 1.0 if i == 0 else share
        decay = math.exp(-abs(x))
        loss += weight * (math.log1p(decay) + max(x, 0.0))
        slope = weight * (1.0 if x > 0 else decay) / (1.0 + decay)
        coefficients[i] = 1.0 - y - slope if i == 0 else slope
        loss += (1.0 - y) * float(scores[0]) if i == 0 else 0.0
    return loss


def squared(scores: Any, coefficients: Any, y: float = 1.0) -> float:
    """½ (ŷ(s,o) − y)² + ½ mean ŷ(s,o′)²: facts have their values, what is not known is zero."""
    share = 1.0 / (len(scores) - 1)
    loss = 0.0
    for i in range(len(scores)):
        if scores[i] == -math.inf:  # a candidate that is left out
            coefficients[i] = 0
            continue
        error = float(scores[i]) - y if i == 0 else float(scores[i])
        weight = 1.0 if i == 0 else share
        loss += 0.5 * weight * error * error
        coefficients[i] = weight * error
    return loss


@dataclass(frozen=True)
class Loss:
    """A loss under its name; `code` is how a compiled kernel knows it."""

    name: str
    code: int
    function: Callable[..., float]
    aims: tuple[float, float] | None = None  # the values it can aim at, if any


LOSSES: dict[str, Loss] = {
    loss.name: loss
    for loss in (
        Loss("bpr", 0, bpr),
        Loss("softmax", 1, softmax),
        Loss("logistic", 2, logistic, aims=(0.0, 1.0)),
        Loss("squared", 3, squared, aims=(-math.inf, math.inf)),
    )
}
