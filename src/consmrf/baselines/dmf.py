"""DMF: for each target t an A_t of its own and W_{t,r} for every relation, trained on all of the data.

Σ_r α_{t,r} L_r(D_r; A_t, W_{t,r}) + Ω for each t by itself, so the targets are trained side by side. An epoch
costs R × |D| steps. What predicts relation t is A_t and W_{t,t}; the rest of W_{t,r} is there for training.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consmrf.baselines.alpha import Alpha
from consmrf.baselines.kernels import Spans, Steps, begin_stream, descend_kernel, draw, spans_of
from consmrf.baselines.rounds import Crew, Pass
from consmrf.config import Config
from consmrf.consensus.facts import Layout
from consmrf.consensus.scorers import SCORERS
from consmrf.consensus.state import Floats, initial_w, initial_z
from consmrf.predictors import Factors

__all__ = ["CHUNK", "Dmf", "Scratch", "TargetViews", "steps"]

# Samples drawn before they are learned from: few enough to stay in the cache.
CHUNK = 8192


@dataclass
class Target:
    """A_t and W_{t,r}, each row beside its AdaGrad sums, for those entities and relations that t has met."""

    relation: int
    spans: Spans  # the facts of relations with α above 0
    relations: NDArray[np.int64]  # those relations, one for each row of `w`
    shares: Floats  # [len(relations)] α
    w: Floats  # [len(relations), 2m]
    table: Floats  # [capacity, 2k]
    entities: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))  # [capacity]
    size: int = 0  # rows in use

    @property
    def draws(self) -> int:
        """The facts that one pass draws as often as there are."""
        return int(self.spans.end[-1]) if len(self.spans.end) else 0

    def reserve(self, rows: int, z0: Floats) -> None:
        """Make room for so many rows more."""
        needed = min(self.size + rows, len(z0))
        if needed > len(self.entities):
            # doubled, so that a row is copied about once in its life; pages never written take no memory
            capacity = min(2 * needed, len(z0))
            entities = np.empty(capacity, np.int32)
            table = np.empty((capacity, 2 * z0.shape[1]), z0.dtype)
            entities[: self.size], table[: self.size] = self.entities[: self.size], self.table[: self.size]
            self.entities, self.table = entities, table

    def begin_rows(self, size: int, z0: Floats) -> None:
        """Let the rows up to `size`, met for the first time, begin where all targets begin."""
        fresh, k = slice(self.size, size), z0.shape[1]
        self.table[fresh, :k] = z0[self.entities[fresh]]
        self.table[fresh, k:] = 1
        self.size = size


class Scratch:
    """A worker's memory: where the entities and relations of the target at hand have their rows."""

    def __init__(self, n_entities: int, n_relations: int, negatives: int) -> None:
        self.row_of = np.full(n_entities, -1, np.int32)
        self.w_of = np.full(n_relations, -1, np.int32)
        self.samples = np.empty((CHUNK, 3 + negatives), np.int32)


@dataclass(frozen=True)
class TargetViews:
    """What predicts: A_t for the rows that differ from z0, and W_{t,t}; a target is a place in the lists."""

    entities: Sequence[NDArray[np.int32]]
    a: Sequence[Floats]
    w: Sequence[Floats]

    def kept(self, over: TargetViews | None = None) -> TargetViews:
        """Hand on a copy that later rounds leave alone."""
        del over
        return TargetViews(
            [x.copy() for x in self.entities], [x.copy() for x in self.a], [x.copy() for x in self.w]
        )


@dataclass
class _Done:
    loss: float
    squares: float
    samples: int
    rejected: int
    seconds: float


class Dmf:
    """The targets' models, and the facts that they are all trained on."""

    rho = 0.0

    def __init__(self, layout: Layout, config: Config, alpha: Alpha, targets: Sequence[int] | None) -> None:
        """Receive the facts of all relations, and the relations that get a model; None for all."""
        self._layout, self._config = layout, config
        self.skipped, self.facts = layout.skipped, len(layout.facts.relations)
        self._z0 = initial_z(layout.n_entities, config)
        begin = initial_w(layout.n_relations, config)
        w0 = np.concatenate([np.stack(begin), np.ones((len(begin), len(begin[0])), self._z0.dtype)], axis=1)
        self.targets = [
            self._target(t, alpha, w0) for t in (range(layout.n_relations) if targets is None else targets)
        ]
        self._scratch: list[Scratch] = []

    def _target(self, t: int, alpha: Alpha, w0: Floats) -> Target:
        row = alpha.row(t)
        relations = np.flatnonzero(row)
        spans = spans_of(self._layout.indptr, row > 0)
        table = np.empty((0, 2 * self._config.dim), w0.dtype)
        return Target(t, spans, relations, row[relations].astype(w0.dtype), w0[relations], table)

    def sweep(self, epoch: int, crew: Crew) -> Pass:
        """Train every target for a round; any number of workers gives the same bits."""
        begun = time.perf_counter()
        if len(self._scratch) != crew.count:
            sizes = (self._layout.n_entities, self._layout.n_relations, self._config.negatives)
            self._scratch = [Scratch(*sizes) for _ in range(crew.count)]
        done: list[_Done | None] = [None] * len(self.targets)

        def work(place: int, scratch: Scratch) -> None:
            done[place] = self._train(self.targets[place], epoch, scratch, crew.stop)

        longest_first = sorted(range(len(self.targets)), key=lambda i: (-self.targets[i].draws, i))
        crew.each(work, longest_first, self._scratch)
        found = [d for d in done if d is not None]
        return Pass(
            loss=math.fsum(d.loss + 0.0 * d.squares for d in found),
            samples=sum(d.samples for d in found),
            rejected=sum(d.rejected for d in found),
            touched_rows=sum(target.size for target in self.targets),
            squares=math.fsum(d.squares for d in found),
            local_total=sum(d.seconds for d in found),
            seconds=time.perf_counter() - begun,
            workers=crew.count,
        )

    def _train(self, target: Target, epoch: int, scratch: Scratch, stop: NDArray[np.uint8]) -> _Done:
        begun = time.perf_counter()
        config, layout = self._config, self._layout
        descend = descend_kernel(config.scorer, config.loss, config.dim, config.negatives)
        numbers, state = steps(config), begin_stream(config.seed, epoch, target.relation)
        scratch.row_of[target.entities[: target.size]] = np.arange(target.size)
        scratch.w_of[target.relations] = np.arange(len(target.relations))
        left, loss, rejections = config.inner_epochs * target.draws, 0.0, 0
        samples = left
        while left and not stop[0]:
            chunk = scratch.samples[: min(left, CHUNK)]
            target.reserve(chunk.size, self._z0)
            where = (scratch.row_of, target.entities, target.size, scratch.w_of, chunk)
            state, size, rejected = draw()(
                layout.facts, target.spans, layout.n_entities, np.uint64(state), *where
            )
            target.begin_rows(size, self._z0)
            loss += descend(chunk, target.table, target.w, target.shares, numbers)
            left, rejections = left - len(chunk), rejections + rejected
        scratch.row_of[target.entities[: target.size]] = -1
        moved = self._a(target) - self._z0[target.entities[: target.size]]
        squares = float(np.einsum("ij,ij->", moved, moved, dtype=np.float64))
        return _Done(loss, squares, samples, rejections, time.perf_counter() - begun)

    def _a(self, target: Target) -> Floats:
        a: Floats = target.table[: target.size, : self._z0.shape[1]]
        return a

    def views(self) -> TargetViews:
        """Hand on what predicts now; the arrays are the targets' own."""
        weights = SCORERS[self._config.scorer].weights(self._config.dim)
        return TargetViews(
            [target.entities[: target.size] for target in self.targets],
            [self._a(target) for target in self.targets],
            [
                target.w[np.searchsorted(target.relations, target.relation), :weights]
                for target in self.targets
            ],
        )

    def factors(self, views: TargetViews) -> Factors:
        """Hand on the targets' models; a relation that is no target has none: its scores are all equal."""
        n, weights = self._layout.n_relations, SCORERS[self._config.scorer].weights(self._config.dim)
        w = np.zeros((n, weights), self._z0.dtype)
        counts = np.zeros(n, np.int64)
        for target, w_own, entities in zip(self.targets, views.w, views.entities, strict=True):
            w[target.relation], counts[target.relation] = w_own, len(entities)
        indptr = np.concatenate([[0], np.cumsum(counts)])
        rows = np.empty(indptr[-1], np.int32)
        delta = np.empty((indptr[-1], self._z0.shape[1]), self._z0.dtype)
        for target, entities, a in zip(self.targets, views.entities, views.a, strict=True):
            own, order = slice(*indptr[target.relation : target.relation + 2]), np.argsort(entities)
            rows[own] = entities[order]
            np.subtract(a[order], self._z0[rows[own]], out=delta[own])
        return Factors(self._config.scorer, self._z0, w, indptr, rows, delta, shared="none")


def steps(config: Config) -> Steps:
    """Hand on the numbers of a step in the precision of the factors."""
    real: Any = np.float32 if config.precision == "single" else np.float64
    return Steps(real(config.learning_rate), real(config.reg))
