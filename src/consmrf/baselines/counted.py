"""What relations have counted, as an intercept: how popularity is mixed into factors.

β_r log(n_ro + α q_o) is added to r's scores, n_ro how often o is an object of r, q_o its share among the
objects of all relations: what r has seen, and the whole graph where r has seen nothing.

Without inverse relations nothing is trained to rank subjects, and β_r is for objects only. Subjects have the
intercept that Bayes' rule asks for instead: p(s | r, o) ∝ p(o | r, s) p(s | r). A score that is trained
against other objects is the logarithm of the first factor, up to what does not depend on o; the second is
n_rs + α q_s, up to a factor.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    subjects: NDArray[np.float32]  # [n] the surplus as subject; [0] with inverse relations
    gamma: NDArray[np.float32]  # [R] 1 where subjects have their intercept; [0] with inverse relations

    @classmethod
    def of(cls, layout: Layout, losses: Sequence[str] = ()) -> Counted:
        """Count the facts of a layout; with squared loss scores are no logarithms, and subjects get none."""
        facts, n = layout.facts, layout.n_entities
        forward = slice(0, len(facts.objects) // 2) if facts.twins else slice(None)
        shares = np.stack([_shares(ends[forward], n) for ends in (facts.objects, facts.subjects)], axis=1)
        log_share = np.log(_WORTH * shares)
        rows = np.diff(facts.view_indptr)
        relation = np.repeat(np.arange(len(rows)), rows).astype(np.int32)
        side = (
            (relation >= len(rows) // 2).astype(np.intp) if facts.twins else np.zeros(len(relation), np.intp)
        )
        surplus = _surplus(facts.object_slots, log_share[facts.view_entities, side])
        subjects = gamma = np.empty(0, np.float32)
        if not facts.twins:
            gamma = np.array([loss != "squared" for loss in losses], np.float32)
            subjects = gamma[relation] * _surplus(facts.subject_slots, log_share[facts.view_entities, 1])
        return cls(log_share.astype(np.float32), surplus, relation, subjects, gamma)

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
        if not beta.any() and not self.gamma.any():
            return replace(factors, delta=delta, delta_b=b)
        return replace(
            factors,
            delta=delta,
            delta_b=(b + self._by_row(beta, b) * self.surplus).astype(b.dtype, copy=False),
            subject_b=self.subjects,
            log_share=self.log_share,
            beta=np.concatenate([beta.astype(np.float32), self.gamma]),
        )

    def _by_row(self, shares: Floats, like: NDArray[Any]) -> NDArray[Any]:
        return shares.astype(like.dtype)[self.relation]


def _surplus(slots: NDArray[np.int32], prior: NDArray[np.float64]) -> NDArray[np.float32]:
    met = np.bincount(slots[slots >= 0], minlength=len(prior))
    surplus: NDArray[np.float32] = (np.log(met + np.exp(prior)) - prior).astype(np.float32)
    return surplus


def _shares(ends: NDArray[np.int32], n_entities: int) -> NDArray[np.float64]:
    counts = np.bincount(ends, minlength=n_entities) + _BEGIN
    shares: NDArray[np.float64] = counts / counts.sum()
    return shares
