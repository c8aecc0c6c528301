"""What a fit will need in memory, before it starts."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from consmrf.config import Config
from consmrf.consensus.blocks import LANES, padded
from consmrf.consensus.local import CANDIDATES, LocalProblem
from consmrf.consensus.plan import MOST_RELATIONS, parts_of
from consmrf.consensus.scorers import SCORERS
from consmrf.consensus.wave import cut
from consmrf.graph.partition import Partition

__all__ = ["MemoryEstimate", "estimate", "estimate_waves", "expected_rows", "process_size", "score_size"]

# What the compiler and the kernels it loads add to a process, and a process of which nothing is known.
_COMPILER = 150 * 2**20
_PROCESS = 200 * 2**20
# A relation's rows are copied when its store doubles, and freed pages are not all used again.
_SLACK = 1.2
# Numbers that Partition and LocalProblem keep for each triple.
_WORDS_PER_TRIPLE = 3 + 4
# Numbers that Facts keeps for each fact, those of an epoch's plan, and those of Facts for each row of a view.
_WORDS_PER_FACT, _WORDS_OF_PLAN, _WORDS_PER_SLOT = 6, 5, 5
# Validation is scored in blocks of about so many bytes, a few of which live at once.
_SCORES = 4 * 16 * 2**20


@dataclass(frozen=True)
class MemoryEstimate:
    """The parts of the expected peak, in bytes; the rows touched by sampled negatives are an expectation."""

    data: int  # partitions; of the wave solver, facts and an epoch's order
    consensus: int  # the copies of Z that exist at once, AdaGrad's sums among them
    state: int  # S_r and AdaGrad's sums, for the rows ever touched; of the wave solver, Δ_r and its sums
    views: int  # Δ_r and W_r: of the last, the current and the best round, and as the model has them
    workers: int  # scratch memory, the tables of a wave's blocks, and scores of validation
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
    ever = expected_rows(own, draws * config.max_rounds, n_entities)
    once = expected_rows(own, draws, n_entities)
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


def estimate_waves(
    partitions: Sequence[Partition],
    n_entities: int,
    config: Config,
    *,
    targets: Collection[int] | None = None,
    validated: bool = False,
) -> MemoryEstimate:
    """Hand on what the wave solver will need at its peak; with validation, room for scores too."""
    real, sides = (4 if config.precision == "single" else 8), 2 if config.reciprocal else 1
    k, d, arrays = config.dim, padded(config.dim), 2 if config.optimizer == "adagrad" else 1
    facts = sides * sum(len(p) for p in partitions)
    numbers = sides * sum(x.nbytes for p in partitions for x in (p.weights, p.values) if x is not None)
    viewed = [p for r, p in enumerate(partitions) if config.departs and (targets is None or r in targets)]
    slots = sides * sum(len(p.entities) for p in viewed)
    counts = 0 if config.reciprocal else 4 * (4 * slots + 2 * n_entities)
    own, shares = k if config.departs else 0, int(config.reg_weight == "uniform")
    weights = sides * len(partitions) * SCORERS[config.scorer].weights(k) * real
    return MemoryEstimate(
        data=4 * ((_WORDS_PER_FACT + _WORDS_OF_PLAN) * facts + _WORDS_PER_SLOT * slots) + numbers,
        consensus=n_entities * (arrays * d + 2 * (k + 2) + shares) * real,  # and the best of each stage
        state=slots * (arrays * own + arrays + 1) * real + arrays * weights,
        # the best of each stage, and the subjects' intercepts
        views=slots * (own + 2) * real + 2 * weights + counts,
        workers=score_size(validated)
        + (
            _drawn_of(facts, n_entities, arrays * weights, config)
            if config.negatives < LANES
            else _waves_of(facts, slots, n_entities, config)
        ),
        process=process_size(),
    )


def _drawn_of(facts: int, n_entities: int, weights: int, config: Config) -> int:
    """Hand on what blocks without tables need: the entities' parts, and W_r once for each place of a wave."""
    return 3 * 4 * n_entities + parts_of(facts, n_entities, config.wave_width) * weights


def _waves_of(facts: int, slots: int, n_entities: int, config: Config) -> int:
    """Hand on what the workers and the blocks of a wave need: the rows that a block touches, on average."""
    real, d, most = (4 if config.precision == "single" else 8), padded(config.dim), cut(facts)
    most = min(most, facts)
    pool = min(config.negatives, n_entities)
    pools = -(-most // config.batch)
    drawn = n_entities * -math.expm1(-pools * pool / max(n_entities, 1))
    rows = min(n_entities, 2 * most + drawn)
    own = min(slots, 2 * most + pools * pool)
    blocks = min(config.wave_width, -(-facts // max(most, 1)))
    workers = max(1, min(config.threads or os.cpu_count() or 1, config.wave_width))
    tables = rows * (2 * d * real + 4) + own * (2 * (config.dim if config.departs else 0) * real + 4)
    reserved = (pools + MOST_RELATIONS) * pool
    scratch = (
        4 * n_entities + 8 * min(n_entities, 2 * most + reserved) + 16 * most + 4 * (reserved + pools * pool)
    )
    arithmetic = (3 * config.batch * d + 3 * pool * d + 2 * config.batch * (1 + pool)) * real
    return int(blocks * tables + workers * (scratch + arithmetic))


def process_size() -> int:
    """Hand on what the process holds already, and what the compiler will add to it."""
    return _in_use() + _COMPILER


def score_size(validated: bool) -> int:
    """Hand on the room that validation needs for scores."""
    return _SCORES if validated else 0


def _in_use() -> int:
    """Hand on what the process holds already: its libraries, and the labels and triples that were read."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return _PROCESS


def expected_rows(own: np.ndarray, draws: np.ndarray, n_entities: int) -> np.ndarray:
    """Hand on, per relation, its own entities and the expected number of others hit by uniform draws."""
    return own + (n_entities - own) * -np.expm1(-draws / max(n_entities, 1))


def _human(size: float) -> str:
    return f"{size / 2**30:.2f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"
