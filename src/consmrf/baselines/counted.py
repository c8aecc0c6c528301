"""What relations have counted, as an intercept: how popularity is mixed into factors.

β_r log(n_ro + α q_o) is added to r's scores, n_ro how often o is an object of r, q_o its share among the
objects of all relations: what r has seen, and the whole graph where r has seen nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consmrf.consensus.facts import Layout
from consmrf.predictors import Factors

__all__ = ["Counted"]

Floats = NDArray[np.float64]

# α: how many facts of a relation the whole graph's shares are worth.
_WORTH = 20.0
# What every entity is given to begin with, so that a share is never 0.
_BEGIN = 0.5


@dataclass(frozen=True)
class Counted:
    """The logarithms, for all relations at once and for the rows that a relation has of its own."""

    log_share: NDArray[np.float32]  # [E, 2] log α q, as object and as subject
    surplus: NDArray[np.float32]  # [n] by row of the views: log(n_ro + α q_o) − log α q_o
    relation: NDArray[np.int32]  # [n] the relation of each row

    @classmethod
    def of(cls, layout: Layout) -> Counted:
        """Count the facts of a layout."""
        facts, n = layout.facts, layout.n_entities
        forward = slice(0, len(facts.objects) // 2) if facts.twins else slice(None)
        shares = np.stack([_shares(ends[forward], n) for ends in (facts.objects, facts.subjects)], axis=1)
        log_share = np.log(_WORTH * shares)
        slots = facts.object_slots
        met = np.bincount(slots[slots >= 0], minlength=len(facts.view_entities))
        rows = np.diff(facts.view_indptr)
        relation = np.repeat(np.arange(len(rows)), rows).astype(np.int32)
        side = (
            (relation >= len(rows) // 2).astype(np.intp) if facts.twins else np.zeros(len(relation), np.intp)
        )
        prior = log_share[facts.view_entities, side]
        surplus = np.log(met + np.exp(prior)) - prior
        return cls(log_share.astype(np.float32), surplus.astype(np.float32), relation)

    def mixed(self, factors: Factors, tau: Floats, iota: Floats, beta: Floats) -> Factors:
        """Hand on the factors with the share τ_r of Δ_r, ι_r of the own intercepts, and β_r of the counts."""
        delta: NDArray[Any] = factors.delta
        if not tau.any():
            delta = delta[:, :0]
        elif delta.shape[1] and (tau != 1).any():
            delta = delta * self._by_row(tau, delta)[:, None]
        b = factors.delta_b
        if (iota != 1).any():
            b = b * self._by_row(iota, b)
        if not beta.any():
            return replace(factors, delta=delta, delta_b=b)
        return replace(
            factors,
            delta=delta,
            delta_b=(b + self._by_row(beta, b) * self.surplus).astype(b.dtype, copy=False),
            log_share=self.log_share,
            beta=beta.astype(np.float32),
        )

    def _by_row(self, shares: Floats, like: NDArray[Any]) -> NDArray[Any]:
        return shares.astype(like.dtype)[self.relation]


def _shares(ends: NDArray[np.int32], n_entities: int) -> NDArray[np.float64]:
    counts = np.bincount(ends, minlength=n_entities) + _BEGIN
    shares: NDArray[np.float64] = counts / counts.sum()
    return shares
