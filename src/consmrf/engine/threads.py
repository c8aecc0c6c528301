"""Local problems on threads of this process: the longest problem goes first."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType

from consmrf.config import Config
from consmrf.consensus.local import LocalProblem, Workspace, update_aw
from consmrf.consensus.solve import Swept
from consmrf.consensus.state import ConsensusState, LocalUpdate
from consmrf.engine.workers import Workers

__all__ = ["Threads"]


class Threads:
    """Runs the relations' problems on `config.threads` threads. Any number of them gives the same bits.

    Each problem writes to its own relation's state only, draws from its own random stream, and its update is
    handed on in the place of its relation: neither the number of threads nor their timing can be seen in the
    result.
    """

    def __init__(self, problems: Sequence[LocalProblem], n_entities: int, config: Config) -> None:
        self._problems = problems
        self._config = config
        self._longest_first = sorted(range(len(problems)), key=lambda r: (-problems[r].draws, r))
        self._pool = Workers(config.threads, len(problems))
        self.workers = self._pool.count
        self._workspaces = [
            Workspace(problems, n_entities, config, self._pool.stop) for _ in range(self.workers)
        ]

    def __enter__(self) -> Threads:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def sweep(self, state: ConsensusState, epoch: int) -> Swept:
        """Run Algorithm 2 for every relation; hand on the updates in the order of the relations."""
        begun = time.perf_counter()
        updates: list[LocalUpdate | None] = [None] * len(self._problems)

        def work(relation: int, workspace: Workspace) -> None:
            updates[relation] = update_aw(self._problems[relation], state, self._config, epoch, workspace)

        self._pool.each(work, self._longest_first, self._workspaces)
        return Swept([u for u in updates if u is not None], time.perf_counter() - begun, self.workers)

    def close(self) -> None:
        """End the threads; safe to call twice."""
        self._pool.close()
        self._workspaces.clear()
