"""How far each relation leaves the consensus, decided on validation triples.

A relation's scores may keep a share τ_r of its departure Δ_r, and may be mixed with β_r times the logarithm
of how often it has met each candidate. A pair (τ, β) is judged by the reciprocal rank and the AUC of
validation queries, added up. One pair is chosen for all relations; a relation gets another only where its own
queries show, beyond chance, that it is better there. τ = 0 is the consensus, so a relation departs where
departing has shown itself to help.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

__all__ = ["BETAS", "TAUS", "Choice", "choose"]

TAUS = (1.0, 0.5, 0.0)
BETAS = (0.0, 0.25, 0.5, 1.0, 2.0)
# A relation's own choice must be better by so many standard errors, on at least so many queries.
_SURE, _FEWEST = 2.5, 20

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Choice:
    """τ and β by relation, twins after the relations; `pooled` is what most of them have."""

    tau: Floats
    beta: Floats
    pooled: tuple[float, float]


def choose(
    ranks: Callable[[float, float], Floats], relations: NDArray[np.int32], n: int, n_entities: int
) -> Choice:
    """Receive the ranks [queries] under one (τ, β) for all, and each query's relation, of `n`."""
    pairs = list(product(TAUS, BETAS))
    found = np.stack([ranks(tau, beta) for tau, beta in pairs])
    gains = 1 / found - (found - 1) / n_entities
    pooled = int(np.argmax(gains.mean(axis=1)))
    chosen = np.full(n, pooled)
    differences = gains - gains[pooled]
    spread = differences.std(axis=1)
    order = np.argsort(relations, kind="stable")
    bounds = np.searchsorted(relations[order], np.arange(n + 1))
    for r in range(n):
        own = differences[:, order[bounds[r] : bounds[r + 1]]]
        if own.shape[1] >= _FEWEST:
            error = np.maximum(own.std(axis=1), spread) / np.sqrt(own.shape[1])
            surplus = own.mean(axis=1) - _SURE * error
            if surplus.max() > 0:
                chosen[r] = int(np.argmax(surplus))
    taus, betas = np.array(pairs).T
    return Choice(taus[chosen], betas[chosen], pairs[pooled])
