"""The exact sparse state of Algorithm 1: z, z⁰, and per relation w_r and the drift S_r of rows it touched.

With V_r⁰ = 0 and a constant ρ, summing the updates of Z and V_r over the rounds gives

    Z = Z⁰ + (1/R) Σ_r S_r        V_r = ρ (S_r − (Z − Z⁰))        S_r = Σ_t Δ_r⁽ᵗ⁾

so V_r is derived and never stored, and S_r has rows only where relation r has been.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from consmrf.config import Config
from consmrf.consensus.kernels import Store
from consmrf.consensus.scorers import SCORERS
from consmrf.graph.partition import Partition

__all__ = ["ConsensusState", "LocalState", "LocalUpdate", "Views", "initial_state", "initial_w", "initial_z"]

Floats: TypeAlias = NDArray[np.floating[Any]]


@dataclass
class LocalState:
    """What relation r keeps between rounds. A sweep writes to it in place; `w` is handed on as a copy."""

    w: Floats  # W_r, flat
    w_sums: Floats  # AdaGrad's sums of squares
    entities: NDArray[np.int32]  # [capacity] the rows ever touched, E_r first
    kept: Floats  # [capacity, 2k] S_r | AdaGrad's sums of squares
    size: int  # how many of the rows are in use

    @classmethod
    def begin(cls, partition: Partition, w: Floats, dim: int) -> LocalState:
        """Start with the rows of E_r: nothing drifted, AdaGrad's sums at one."""
        local = cls(w, np.ones_like(w), np.empty(0, np.int32), np.empty((0, 2 * dim), w.dtype), 0)
        local.append(partition.entities)
        return local

    @property
    def store(self) -> Store:
        """The rows as a kernel takes them."""
        return Store(self.entities, self.kept)

    @property
    def drift(self) -> Floats:
        """S_r for the entities of `touched`."""
        return self.kept[: self.size, : self.kept.shape[1] // 2]

    @property
    def touched(self) -> NDArray[np.int32]:
        """The entities this relation keeps rows for."""
        return self.entities[: self.size]

    def append(self, entities: NDArray[np.int32]) -> None:
        """Make room for entities touched for the first time."""
        needed = self.size + len(entities)
        if needed > len(self.entities):
            # doubled, so that a row is copied about once in its life; pages never written take no memory
            capacity = needed if self.size == 0 else 2 * needed
            self.entities = _grown(self.entities, self.size, capacity)
            self.kept = _grown(self.kept, self.size, capacity)
        fresh = slice(self.size, needed)
        self.entities[fresh] = entities
        self.kept[fresh] = np.repeat(np.array([0, 1], self.kept.dtype), self.kept.shape[1] // 2)
        self.size = needed


@dataclass(frozen=True)
class LocalUpdate:
    """What one relation hands back after Algorithm 2.

    The rows that moved away from Z, its W_r, and counts.
    """

    rows: NDArray[np.int32]
    delta: Floats  # [len(rows), k] Δ_r = A_r − Z
    w: Floats
    loss: float  # summed over the samples
    squares: float  # ‖Δ_r‖²
    samples: int
    rejected: int
    seconds: float


@dataclass(frozen=True)
class Views:
    """What predicts after a round.

    A_r = z + Δ_r, with the z that the round's sweeps started from, and W_r.
    """

    z: Floats
    updates: Sequence[LocalUpdate]

    def kept(self, over: Views | None = None) -> Views:
        """Hand on what later rounds leave alone: these are not written to again."""
        del over
        return self

    def a(self, relation: int) -> Floats:
        """Hand on the dense A_r."""
        a = self.z.copy()
        a[self.updates[relation].rows] += self.updates[relation].delta
        return a


@dataclass
class ConsensusState:
    """The state of Algorithm 1 between rounds."""

    z: Floats
    z0: Floats
    rho: float
    locals: list[LocalState] = field(repr=False)

    def drift(self, relation: int) -> Floats:
        """Hand on the dense S_r."""
        local = self.locals[relation]
        drift = np.zeros_like(self.z)
        drift[local.touched] = local.drift
        return drift

    def v(self, relation: int) -> Floats:
        """Hand on the dense dual V_r, derived from the drift."""
        dual: Floats = self.z.dtype.type(self.rho) * (self.drift(relation) - (self.z - self.z0))
        return dual


def initial_state(partitions: Sequence[Partition], n_entities: int, config: Config) -> ConsensusState:
    """Algorithm 1, lines 2 to 7.

    Z and each W_r ~ N(0, σ²), V_r = 0. A_r is not drawn: line 10 overwrites it.
    """
    z = initial_z(n_entities, config)
    local_states = [
        LocalState.begin(p, w, config.dim)
        for p, w in zip(partitions, initial_w(len(partitions), config), strict=True)
    ]
    # without a consensus there is neither a dual nor a proximal term
    rho = config.rho if config.shares else 0.0
    return ConsensusState(z=z, z0=z, rho=rho, locals=local_states)


def initial_z(n_entities: int, config: Config) -> Floats:
    """Hand on Z⁰ ~ N(0, σ²), by the seed alone."""
    return _normal((n_entities, config.dim), config, 0)


def initial_w(n_relations: int, config: Config) -> list[Floats]:
    """Hand on W_r⁰ ~ N(0, σ²) for every relation, flat, each by the seed and its number."""
    length = SCORERS[config.scorer].weights(config.dim)
    return [_normal((length,), config, 1, r) for r in range(n_relations)]


def _grown(array: NDArray[Any], used: int, capacity: int) -> NDArray[Any]:
    grown = np.empty((capacity, *array.shape[1:]), array.dtype)
    grown[:used] = array[:used]
    return grown


def _normal(shape: tuple[int, ...], config: Config, *stream: int) -> Floats:
    dtype = np.float32 if config.precision == "single" else np.float64
    generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence([config.seed, *stream])))
    drawn: Floats = (config.init_scale * generator.standard_normal(shape)).astype(dtype)
    return drawn
