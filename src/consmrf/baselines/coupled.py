"""Models whose parameters are coupled: all rows stand in one table, and are trained one pass after another.

A pass is an epoch over some facts, in which some entities and one relation have rows of their own. A shared
model is one pass in which nobody has; CATSMF is one pass for each target. They cannot run side by side, for
each starts from the common rows as the one before has left them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from consmrf.baselines.dmf import CHUNK, Scratch, steps
from consmrf.baselines.kernels import Spans, begin_stream, descend_kernel, draw
from consmrf.baselines.rounds import Crew, Pass
from consmrf.config import Config
from consmrf.consensus.facts import Layout
from consmrf.consensus.scorers import SCORERS
from consmrf.consensus.state import Floats, initial_w, initial_z
from consmrf.consensus.wave import WaveViews
from consmrf.predictors import Factors

__all__ = ["Coupled", "TargetPass"]


@dataclass(frozen=True)
class TargetPass:
    """The facts of a pass, how much each relation's loss counts, and who has rows of their own in it."""

    spans: Spans
    shares: Floats  # [R] by relation; the target's own row of w counts 1
    target: int | None = None  # the relation with a W_t of its own
    number: int = 0  # of the random stream

    @property
    def draws(self) -> int:
        """The facts that a pass draws as often as there are."""
        return int(self.spans.end[-1]) if len(self.spans.end) else 0


class Coupled:
    """The table: the common row of each entity, then the rows of E_t for each target t. W likewise."""

    rho = 0.0

    def __init__(self, layout: Layout, config: Config, passes: Sequence[TargetPass]) -> None:
        """Receive the facts, laid out with views for the targets, and the passes of a round."""
        self._layout, self._config, self._passes = layout, config, passes
        self.skipped, self.facts = layout.skipped, len(layout.facts.relations)
        z0, w0 = initial_z(layout.n_entities, config), np.stack(initial_w(layout.n_relations, config))
        targets = [each.target for each in passes if each.target is not None]
        rows = layout.n_entities + len(layout.facts.view_entities)
        self._table: Floats = np.ones((rows, 2 * config.dim), z0.dtype)
        self._table[: layout.n_entities, : config.dim] = z0
        self._table[layout.n_entities :, : config.dim] = z0[layout.facts.view_entities]
        w = np.concatenate([w0, w0[targets]])
        self._w: Floats = np.concatenate([w, np.ones_like(w)], axis=1)
        self._row_of_w = {t: layout.n_relations + i for i, t in enumerate(targets)}
        self._scratch = Scratch(layout.n_entities, layout.n_relations, config.negatives)
        self._scratch.row_of[:] = np.arange(layout.n_entities)
        self._scratch.w_of[:] = np.arange(layout.n_relations)

    def sweep(self, epoch: int, crew: Crew) -> Pass:
        """Train for a round: every pass once, in an order of the epoch's own."""
        begun = time.perf_counter()
        rng = np.random.Generator(np.random.Philox(np.random.SeedSequence([self._config.seed, epoch, 3])))
        loss, samples, rejections = 0.0, 0, 0
        for place in rng.permutation(len(self._passes)):
            each = self._passes[place]
            found, rejected = self._train(each, epoch, crew.stop)
            loss, rejections = loss + found, rejections + rejected
            samples += self._config.inner_epochs * each.draws
        seconds = time.perf_counter() - begun
        loss += 0.0 * float(np.sum(self._table, dtype=np.float64))  # not finite where anything is not
        apart = self._delta()
        squares = float(np.einsum("ij,ij->", apart, apart, dtype=np.float64))
        rows = len(self._table)
        return Pass(loss, samples, rejections, rows, squares, local_total=seconds, seconds=seconds)

    def _train(self, each: TargetPass, epoch: int, stop: NDArray[np.uint8]) -> tuple[float, int]:
        config, layout, scratch = self._config, self._layout, self._scratch
        descend = descend_kernel(config.scorer, config.loss, config.dim, config.negatives)
        state, numbers = begin_stream(config.seed, epoch, each.number), steps(config)
        shares = np.concatenate([each.shares, np.ones(len(self._row_of_w))]).astype(self._table.dtype)
        own = self._give_rows(each.target)
        left, loss, rejections = config.inner_epochs * each.draws, 0.0, 0
        while left and not stop[0]:
            chunk = scratch.samples[: min(left, CHUNK)]
            where = (scratch.row_of, own, 0, scratch.w_of, chunk)
            state, _, rejected = draw()(layout.facts, each.spans, layout.n_entities, np.uint64(state), *where)
            loss += descend(chunk, self._table, self._w, shares, numbers)
            left, rejections = left - len(chunk), rejections + rejected
        scratch.row_of[own] = own
        scratch.w_of[:] = np.arange(layout.n_relations)
        return loss, rejections

    def _give_rows(self, target: int | None) -> NDArray[np.int32]:
        """Point the target and its entities to their own rows; hand on these entities."""
        facts = self._layout.facts
        if target is None:
            return facts.view_entities[:0]
        lo, hi = facts.view_indptr[target], facts.view_indptr[target + 1]
        self._scratch.row_of[facts.view_entities[lo:hi]] = self._layout.n_entities + np.arange(lo, hi)
        self._scratch.w_of[target] = self._row_of_w[target]
        return facts.view_entities[lo:hi]

    def views(self) -> WaveViews:
        """Hand on what predicts now: the common rows, and how far the targets' own are from them."""
        n, k = self._layout.n_entities, self._config.dim
        weights = SCORERS[self._config.scorer].weights(k)
        z = self._table[:n, :k]
        w = self._w[: self._layout.n_relations, :weights].copy()
        for target, row in self._row_of_w.items():
            w[target] = self._w[row, :weights]
        none = np.empty(0, z.dtype)
        return WaveViews(z, none.reshape(0, 2), w, self._delta(), none)

    def _delta(self) -> Floats:
        """Hand on how far the targets' own rows are from the common ones."""
        n, k = self._layout.n_entities, self._config.dim
        delta: Floats = self._table[n:, :k] - self._table[self._layout.facts.view_entities, :k]
        return delta

    def factors(self, views: WaveViews) -> Factors:
        """Hand on the predictor; a relation that is no target is predicted by what all have in common."""
        facts = self._layout.facts
        z = np.ascontiguousarray(views.z)
        rows = (facts.view_indptr, facts.view_entities, views.delta)
        return Factors(self._config.scorer, z, views.w, *rows, shared="z")
