"""What a baseline that is trained in rounds will need in memory, before it starts."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from consmrf.baselines.alpha import Alpha
from consmrf.baselines.dmf import CHUNK
from consmrf.config import Config
from consmrf.consensus.memory import MemoryEstimate, expected_rows, process_size, score_size
from consmrf.consensus.scorers import SCORERS
from consmrf.graph.partition import Partition

__all__ = ["estimate_baseline"]

# Numbers that partitions and Facts keep for each triple.
_WORDS_PER_TRIPLE = 3 + 6


def estimate_baseline(
    partitions: Sequence[Partition],
    n_entities: int,
    config: Config,
    *,
    labels: Sequence[str],
    targets: Sequence[int] | None,
    validated: bool,
) -> MemoryEstimate:
    """Hand on what fitting will need at its peak, in the parts that the method's own estimate has.

    `consensus` is what all relations have in common, with its copies; `state` what is kept beside it.
    """
    real, n = (4 if config.precision == "single" else 8), len(partitions)
    chosen = list(range(n) if targets is None else targets)
    if config.method == "rescal":
        consensus, state, views = _rescal(n, n_entities, config.dim)
    elif config.method == "dmf":
        consensus, state, views = _dmf(partitions, n_entities, config, Alpha(config.alpha, labels), chosen)
    elif config.scorer.startswith("sme"):
        k, cube = config.dim, config.scorer == "sme_bilinear"
        consensus = n_entities * (2 * k + 3 * (k + 1)) * real
        state = (2 * n * k + 4 * ((k**3 if cube else 2 * k * k) + k)) * real
        views = 3 * n * (k + 1) ** 2 * real
    else:
        weights, own = SCORERS[config.scorer].weights(config.dim) * real, 0
        if config.method == "catsmf":
            own = sum(len(partitions[t].entities) for t in chosen)
        # the table, and z in the best views twice, for a moment, and in the predictor
        consensus = n_entities * 5 * config.dim * real
        state = 2 * (n + (len(chosen) if own else 0)) * weights + own * 2 * config.dim * real
        views = 3 * (own * config.dim * real + n * weights)
    workers = max(1, min(config.threads or os.cpu_count() or 1, n)) if config.method == "dmf" else 1
    scratch = 4 * (n_entities + n + CHUNK * (3 + config.negatives))
    return MemoryEstimate(
        data=4 * _WORDS_PER_TRIPLE * sum(map(len, partitions)),
        consensus=consensus,
        state=state,
        views=views,
        workers=workers * scratch + score_size(validated),
        process=process_size(),
    )


def _dmf(
    partitions: Sequence[Partition], n_entities: int, config: Config, alpha: Alpha, targets: Sequence[int]
) -> tuple[int, int, int]:
    """Each target's rows are the entities of its relations and those ever drawn as o′."""
    real = 4 if config.precision == "single" else 8
    sizes = np.array([len(p) for p in partitions])
    reach = np.array([len(p.entities) for p in partitions])
    everywhere = np.zeros(n_entities, bool)
    for p in partitions:
        everywhere[p.entities] = True
    most = int(np.count_nonzero(everywhere))
    rows, weights = 0.0, 0
    for t in targets:
        active = alpha.row(t) > 0
        own = np.array([most if active.all() else min(most, reach[active].sum())], np.float64)
        draws = np.array([config.max_epochs * sizes[active].sum() * config.negatives], np.float64)
        rows += float(expected_rows(own, draws, n_entities)[0])
        weights += int(np.count_nonzero(active)) * SCORERS[config.scorer].weights(config.dim) * 2 * real
    once = n_entities * config.dim * real
    kept = int(rows)
    return once, kept * (2 * config.dim * real + 4) + weights, 2 * kept * (config.dim * real + 4)


def _rescal(n: int, n_entities: int, k: int) -> tuple[int, int, int]:
    """A, its step, the numerator, what is tried, and copies; W_r, P_r, and the products on the way."""
    return 7 * n_entities * k * 8, 8 * n * k * k * 8, 2 * n * k * k * 8
