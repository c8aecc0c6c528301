"""What a fit will need in memory, before it starts."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from consmrf.config import Config
from consmrf.consensus.local import CANDIDATES, LocalProblem
from consmrf.consensus.scorers import SCORERS
from consmrf.graph.partition import Partition

__all__ = ["MemoryEstimate", "estimate"]

# The interpreter with its libraries and the compiled kernels.
_PROCESS = 250 * 2**20
# Numbers that Partition and LocalProblem keep for each triple, and those of the triple itself.
_WORDS_PER_TRIPLE = 3 + 4 + 3
_BYTES_PER_LABEL = 160  # a str, its place in the tuple and in the dictionary of ids


@dataclass(frozen=True)
class MemoryEstimate:
    """The parts of the expected peak, in bytes; the rows touched by sampled negatives are an expectation."""

    data: int  # labels, triples, partitions
    consensus: int  # the copies of Z that exist at once
    state: int  # S_r and AdaGrad's sums, for the rows ever touched
    views: int  # Δ_r and W_r of the last, the current and the best round
    workers: int
    process: int = _PROCESS

    @property
    def peak_bytes(self) -> int:
        return self.data + self.consensus + self.state + self.views + self.workers + self.process

    def describe(self) -> str:
        """Hand on one line for a person."""
        parts = ", ".join(
            f"{name} {_human(size)}"
            for name, size in (
                ("data", self.data),
                ("consensus", self.consensus),
                ("sparse state", self.state),
                ("views", self.views),
                ("workers", self.workers),
            )
        )
        return f"expected peak memory {_human(self.peak_bytes)} ({parts})"


def estimate(
    partitions: Sequence[Partition], problems: Sequence[LocalProblem], n_entities: int, config: Config
) -> MemoryEstimate:
    """Hand on what fitting these relations for all of `max_epochs` will need at its peak."""
    real = 4 if config.precision == "single" else 8
    triples = sum(len(p) for p in partitions)
    data = 4 * _WORDS_PER_TRIPLE * triples + _BYTES_PER_LABEL * n_entities
    if config.method == "popularity":
        return MemoryEstimate(data, consensus=0, state=4 * 4 * triples, views=0, workers=0)
    own = np.array([len(p.entities) for p in partitions], np.float64)
    draws = np.array([p.draws for p in problems], np.float64) * (CANDIDATES - 1)
    weights = len(partitions) * SCORERS[config.scorer].weights(config.dim) * real
    ever = _touched(own, draws * config.max_rounds, n_entities)
    once = _touched(own, draws, n_entities)
    workers = max(1, min(config.threads or os.cpu_count() or 1, len(partitions)))
    largest = max((p.most_rows(n_entities) for p in problems), default=0)
    samples = max((p.draws for p in problems), default=0) * (1 + CANDIDATES)
    return MemoryEstimate(
        data=data,
        consensus=5 * n_entities * config.dim * real,
        state=math.ceil(ever.sum()) * (2 * config.dim * real + 4) + 2 * weights,
        views=3 * (math.ceil(once.sum()) * (config.dim * real + 4) + weights),
        workers=workers * (8 * n_entities + 4 * samples + largest * (4 * config.dim * real + 8)),
    )


def _touched(own: np.ndarray, draws: np.ndarray, n_entities: int) -> np.ndarray:
    """Hand on, per relation, E_r and the expected number of other entities hit by so many uniform draws."""
    return own + (n_entities - own) * -np.expm1(-draws / max(n_entities, 1))


def _human(size: float) -> str:
    return f"{size / 2**30:.2f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"
