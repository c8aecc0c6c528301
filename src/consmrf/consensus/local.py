"""Algorithm 2 for one relation: draw the samples, run the SGD, hand back what moved."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consmrf.config import Config
from consmrf.consensus.kernels import Kernels, Sampling, Scratch, Steps, kernels
from consmrf.consensus.state import ConsensusState, LocalUpdate
from consmrf.graph.partition import Partition

__all__ = ["LocalProblem", "Workspace", "local_problems", "update_aw"]

# One o and one o′ are scored in each sample, as BPR with one negative asks.
CANDIDATES = 2


@dataclass(frozen=True)
class LocalProblem:
    """One relation's data as Algorithm 2 uses it."""

    relation: int
    sampling: Sampling
    draws: int  # samples of one sweep: inner_epochs × the triples that can be drawn
    skipped: int  # triples whose subject is linked to every entity, so that no o′ exists

    @classmethod
    def of(cls, partition: Partition, n_entities: int, inner_epochs: int) -> LocalProblem:
        """Leave out of the drawing, and count, triples for which no unobserved object exists."""
        open_rows = np.diff(partition.indptr) < n_entities
        kept = open_rows[partition.head_of]
        heads = np.ascontiguousarray(partition.head_of[kept])
        sampling = Sampling(
            heads=heads,
            local_subjects=partition.local_heads[heads],
            local_objects=np.ascontiguousarray(partition.local_objects[kept]),
            indptr=partition.indptr,
            objects=partition.objects,
            entities=partition.entities,
        )
        return cls(partition.relation, sampling, inner_epochs * len(heads), len(partition) - len(heads))

    def most_rows(self, n_entities: int) -> int:
        """Hand on the most entities that one sweep can touch."""
        return min(n_entities, len(self.sampling.entities) + (CANDIDATES - 1) * self.draws)


def local_problems(partitions: Sequence[Partition], n_entities: int, inner_epochs: int) -> list[LocalProblem]:
    """Hand on every relation's problem, in id order."""
    return [LocalProblem.of(p, n_entities, inner_epochs) for p in partitions]


class Workspace:
    """A worker's scratch memory, large enough for any of the problems given.

    Pages cost nothing until touched.
    """

    def __init__(
        self,
        problems: Sequence[LocalProblem],
        n_entities: int,
        config: Config,
        stop: NDArray[np.uint8] | None = None,
    ) -> None:
        """Receive the problems to make room for, and the workers' common request to stop, if there is one."""
        self._stop = np.zeros(1, np.uint8) if stop is None else stop
        dtype = np.float32 if config.precision == "single" else np.float64
        draws = max((p.draws for p in problems), default=0)
        rows = max((p.most_rows(n_entities) for p in problems), default=0)
        self._row_of = np.full(n_entities, -1, np.int32)
        self._slot_of = np.full(n_entities, -1, np.int32)
        self._samples = np.empty((draws, 1 + CANDIDATES), np.int32)
        self._rows = np.empty(rows, np.int32)
        self._slots = np.empty(rows, np.int32)
        self._table = np.empty((rows, 3 * config.dim), dtype)
        self._delta = np.empty((rows, config.dim), dtype)

    def scratch(self, draws: int) -> Scratch:
        """Hand on the memory for a sweep of so many samples."""
        return Scratch(
            self._row_of,
            self._slot_of,
            self._samples[:draws],
            self._rows,
            self._slots,
            self._table,
            self._delta,
            self._stop,
        )


def compiled(config: Config) -> Kernels:
    """Hand on the kernels that the settings ask for."""
    return kernels(config.scorer, config.loss, config.dim, carry=not config.shares)


def update_aw(
    problem: LocalProblem, state: ConsensusState, config: Config, epoch: int, workspace: Workspace
) -> LocalUpdate:
    """Algorithm 2 (UpdateAW): from A_r ← Z, one sweep over D_r. Writes to the relation's LocalState in place.

    The samples come from the stream of (seed, epoch, relation), so who runs this, and when, changes nothing.
    """
    begun = time.perf_counter()
    local = state.locals[problem.relation]
    if not problem.draws:
        return _nothing(state, local.w)
    draw, update = compiled(config)
    scratch = workspace.scratch(problem.draws)
    stream = (config.seed, epoch, problem.relation)
    size, fresh, rejected = draw(problem.sampling, local.touched, len(state.z), stream, scratch)
    if fresh:
        added = scratch.slots[:size] >= local.size
        local.append(scratch.rows[:size][added])
    loss, squares, moved = update(
        state.z, state.z0, local.store, size, local.w, local.w_sums, scratch, steps(config, state.rho)
    )
    if not config.shares:  # A_r lives on: it differs from Z⁰ wherever the relation has ever been
        rows, delta = local.touched.copy(), local.drift.copy()
        squares = float(np.einsum("ij,ij->", delta, delta, dtype=np.float64))
    else:
        rows, delta = scratch.rows[:moved].copy(), scratch.delta[:moved].copy()
    return LocalUpdate(
        rows=rows,
        delta=delta,
        w=local.w.copy(),
        loss=loss,
        squares=squares,
        samples=problem.draws,
        rejected=rejected,
        seconds=time.perf_counter() - begun,
    )


def steps(config: Config, rho: float) -> Steps:
    """Hand on Algorithm 2's numbers in the precision of the factors."""
    real: Any = np.float32 if config.precision == "single" else np.float64
    return Steps(real(config.learning_rate), real(config.reg), real(rho))


def _nothing(state: ConsensusState, w: NDArray[Any]) -> LocalUpdate:
    rows = np.empty(0, np.int32)
    return LocalUpdate(rows, np.empty((0, state.z.shape[1]), state.z.dtype), w.copy(), 0.0, 0.0, 0, 0, 0.0)
