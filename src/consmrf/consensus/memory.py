"""What a fit will need in memory, before it starts."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from consmrf.config import Config
from consmrf.consensus.local import CANDIDATES, LocalProblem
from consmrf.consensus.scorers import SCORERS
from consmrf.graph.partition import Partition

__all__ = ["MemoryEstimate", "estimate"]

# What the compiler and the kernels it loads add to a process, and a process of which nothing is known.
_COMPILER = 100 * 2**20
_PROCESS = 200 * 2**20
# A relation's rows are copied when its store doubles, and freed pages are not all used again.
_SLACK = 1.2
# Numbers that Partition and LocalProblem keep for each triple.
_WORDS_PER_TRIPLE = 3 + 4


@dataclass(frozen=True)
class MemoryEstimate:
    """The parts of the expected peak, in bytes; the rows touched by sampled negatives are an expectation."""

    data: int  # partitions
    consensus: int  # the copies of Z that exist at once
    state: int  # S_r and AdaGrad's sums, for the rows ever touched
    views: int  # Δ_r and W_r: of the last, the current and the best round, and as the model has them
    workers: int
    process: int  # in use already, and the compiler

    @property
    def peak_bytes(self) -> int:
        return self.data + self.consensus + self.state + self.views + self.workers + self.process

    def describe(self) -> str:
        """Hand on one line for a person."""
        parts = ", ".join(
            f"{name} {_human(size)}"
            for name, size in (
                ("in use and compiler", self.process),
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
    data = 4 * _WORDS_PER_TRIPLE * triples
    process = _in_use() + (0 if config.method == "popularity" else _COMPILER)
    if config.method == "popularity":
        return MemoryEstimate(data, consensus=0, state=4 * 4 * triples, views=0, workers=0, process=process)
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
        state=math.ceil(_SLACK * ever.sum()) * (2 * config.dim * real + 4) + 2 * weights,
        views=4 * (math.ceil(once.sum()) * (config.dim * real + 4) + weights),
        workers=workers * (8 * n_entities + 4 * samples + largest * (4 * config.dim * real + 8)),
        process=process,
    )


def _in_use() -> int:
    """Hand on what the process holds already: its libraries, and the labels and triples that were read."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return _PROCESS


def _touched(own: np.ndarray, draws: np.ndarray, n_entities: int) -> np.ndarray:
    """Hand on, per relation, E_r and the expected number of other entities hit by so many uniform draws."""
    return own + (n_entities - own) * -np.expm1(-draws / max(n_entities, 1))


def _human(size: float) -> str:
    return f"{size / 2**30:.2f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"
