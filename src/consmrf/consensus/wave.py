"""The wave solver's state: one consensus with one metric, and what each relation has of its own.

It is trained in two stages. In the first all relations move the consensus, in waves, and each keeps an object
intercept of its own. In the second the consensus rests, and each relation learns Δ_r on its own data only: a
local problem as in the paper, from A_r = Z on. With Δ_r = 0 a view is exactly its consensus row, so how much
of Δ_r is kept can be decided afterwards, relation by relation.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consmrf.config import Config
from consmrf.consensus.blocks import CONSENSUS, DEPARTURES, LANES, SEVERAL, SHARED, Form, padded
from consmrf.consensus.facts import Layout
from consmrf.consensus.losses import LOSSES
from consmrf.consensus.scorers import SCORERS
from consmrf.consensus.training import Numbers, Rows

__all__ = ["WaveState", "WaveSwept", "WaveViews", "cut", "initial_wave", "numbers_of"]

Floats = NDArray[np.floating[Any]]

# What AdaGrad's sums begin with.
_FIRST = 1e-2
# The departures' steps, in units of learning_rate: they begin from a consensus that is trained already.
_DEPARTURE_RATE = 0.3
# ρ of a relation's own intercept, and the spread of W_r around what it begins with.
_INTERCEPT_RHO, _W_SPREAD = 0.1, 0.5
# Pools that are all of E have a multiple of so many places: each size is compiled by itself.
_POOLS = 64
# Rows drawn at a time: the draws are doubles, and need not all be there at once.
_AT_ONCE = 2**14
# An epoch is cut into about so many blocks, each of at least and at most so many facts.
_BLOCKS, _LEAST, _MOST = 800, 32, 1024


@dataclass(frozen=True)
class WaveViews:
    """What predicts after a round: A_r = z + Δ_r, intercepts beside them, and W_r."""

    z: Floats  # [E, k]
    b: Floats  # [E, 2] the consensus intercepts, as object and as subject
    w: Floats  # [R, m]
    delta: Floats  # [m, k] Δ_r by slot; [m, 0] before the relations depart
    delta_b: Floats  # [m] the relations' own intercepts

    def kept(self, over: WaveViews | None = None) -> WaveViews:
        """Hand on a copy that later rounds leave alone, written over an earlier one where that has its shape.

        An interrupt waits until the copy is whole.
        """
        if over is None or over.delta.shape != self.delta.shape:
            return WaveViews(*(np.array(getattr(self, f.name)) for f in fields(self)))
        try:
            over._fill(self)
        except KeyboardInterrupt:
            over._fill(self)
            raise
        return over

    def _fill(self, source: WaveViews) -> None:
        for field in fields(self):
            np.copyto(getattr(self, field.name), getattr(source, field.name))


@dataclass(frozen=True)
class WaveSwept:
    """One epoch of waves, merged already."""

    loss: float  # summed over the samples
    samples: int
    rejected: int
    moved: float  # the squared changes of the merges, summed
    local_total: float
    seconds: float  # of the local work, by the wall clock
    merge_seconds: float
    workers: int
    block_seconds: list[list[float]]  # by wave


@dataclass
class WaveState:
    """The rows that the blocks of a wave start from, and the form of what is trained now."""

    rows: Rows
    form: Form
    rho: float

    def views(self) -> WaveViews:
        """Hand on what predicts now; the arrays are the state's own."""
        k = self.form.dim
        weights = self.rows.w.shape[1] // self.form.arrays
        departed = self.form.stage == DEPARTURES
        own = self.rows.own[:, : self.rows.own.shape[1] // self.form.arrays]
        return WaveViews(
            z=self.rows.z[:, :k],
            b=self.rows.z[:, k : k + 2],
            w=self.rows.w[:, :weights],
            delta=own if departed else own[:, :0],
            delta_b=self.rows.intercepts if departed else own[:, 0],
        )

    def departure(self) -> float:
        """Hand on √Σ_r ‖A_r − Z‖², intercepts included."""
        own = self.rows.own[:, : self.rows.own.shape[1] // self.form.arrays]
        squares = float(np.einsum("ij,ij->", own, own, dtype=np.float64))
        return float(np.sqrt(squares + np.dot(self.rows.intercepts, self.rows.intercepts)))

    def depart(self, views: WaveViews, config: Config) -> WaveState:
        """Hand on the second stage from the first one's best views: these rest, Δ_r begins at 0."""
        k, weights, arrays = self.form.dim, self.rows.w.shape[1] // self.form.arrays, self.form.arrays
        self.rows.z[:, :k], self.rows.z[:, k : k + 2] = views.z, views.b
        self.rows.w[:, :weights] = views.w
        own = np.zeros((len(self.rows.own), arrays * k), self.rows.z.dtype)
        own[:, k:] = _FIRST
        rows = self.rows._replace(own=own, intercepts=np.ascontiguousarray(views.delta_b))
        return WaveState(rows, self.form._replace(stage=DEPARTURES), config.rho)


def cut(n_facts: int) -> int:
    """Hand on the most facts of a block, by the data's size alone: workers must not be seen in results."""
    return int(np.clip(n_facts // _BLOCKS, _LEAST, _MOST))


def initial_wave(layout: Layout, config: Config) -> WaveState:
    """Hand on the first stage's beginning: z ~ N(0, σ²), W_r near the scorer's first, intercepts 0."""
    real = np.float32 if config.precision == "single" else np.float64
    k, d, scorer = config.dim, padded(config.dim), SCORERS[config.scorer]
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([config.seed, 2])))
    form = _form(layout, config)
    z = np.zeros((layout.n_entities, form.arrays * d), real)
    for e in range(0, layout.n_entities, _AT_ONCE):
        first = z[e : e + _AT_ONCE, :k]
        first[:] = config.init_scale * rng.standard_normal(first.shape)
    z[:, d:] = _FIRST
    weights = scorer.weights(k)
    w = np.full((layout.n_relations, form.arrays * weights), _FIRST, real)
    w[:, :weights] = scorer.initial(k) + _W_SPREAD * rng.standard_normal((layout.n_relations, weights))
    own = np.zeros((len(layout.facts.view_entities), form.arrays), real)
    own[:, 1:] = _FIRST
    return WaveState(Rows(z, own, w, np.zeros(0, real)), form, _INTERCEPT_RHO)


def _form(layout: Layout, config: Config) -> Form:
    """Hand on what the first stage's kernels are compiled for."""
    losses = set(layout.losses or (config.loss,))
    few = config.negatives < LANES
    exhaustive = layout.n_entities <= config.negatives and not few
    pool = config.negatives if few else -(-config.negatives // LANES) * LANES
    if exhaustive:  # a few sizes for all graphs: what is above |E| is masked
        pool = min(pool, -(-layout.n_entities // _POOLS) * _POOLS)
    return Form(
        scorer=config.scorer,
        loss=losses.pop() if len(losses) == 1 else SEVERAL,
        dim=config.dim,
        batch=config.batch,
        pool=pool,
        stage=CONSENSUS if config.departs else SHARED,
        cubic=config.regulariser == "n3",
        negatives=config.sampling,
        exhaustive=exhaustive,
        terms=bool(len(layout.facts.weights) or len(layout.facts.values) or config.reg_weight == "uniform"),
        optimizer=config.optimizer,
    )


def numbers_of(state: WaveState, layout: Layout, config: Config) -> Numbers:
    """Hand on the numbers of this stage's steps."""
    real: Any = state.rows.z.dtype.type
    k, d, departed = state.form.dim, padded(state.form.dim), state.form.stage == DEPARTURES
    reg = np.zeros(d, real)
    reg[:k] = config.reg
    losses = layout.losses or (config.loss,) * layout.n_relations
    standing = 0.0 if state.form.exhaustive else np.log(layout.n_entities / state.form.pool)
    return Numbers(
        learning_rate=np.full(d, config.learning_rate, real),
        own_rate=real(config.learning_rate * (_DEPARTURE_RATE if departed else 1)),
        w_rate=real(config.learning_rate),
        reg=reg,
        w_reg=real(config.reg),
        rho=np.full(layout.n_relations, state.rho, real),
        boost=np.array([standing if loss == "softmax" else 0 for loss in losses], real),
        losses=np.array([LOSSES[loss].code for loss in losses], np.int32),
        reg_shares=_reg_shares(layout, real) if config.reg_weight == "uniform" else np.empty(0, real),
    )


def _reg_shares(layout: Layout, real: Any) -> Floats:
    """Hand on what makes the regulariser of each entity that of a mean one, however often facts touch it."""
    facts = layout.facts
    weights = facts.weights if len(facts.weights) else None
    ends = np.stack([np.bincount(x, weights, layout.n_entities) for x in (facts.subjects, facts.objects)])
    touches = ends.sum(axis=0)
    met = touches[touches > 0]
    shares = np.zeros(layout.n_entities, real)
    shares[touches > 0] = met.mean() / met if len(met) else 0
    return shares
