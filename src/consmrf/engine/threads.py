"""Local problems on threads of this process: the kernels hold no GIL, the longest problem goes first."""

from __future__ import annotations

import os
import queue
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

import numpy as np

from consmrf.config import Config
from consmrf.consensus.local import LocalProblem, Workspace, update_aw
from consmrf.consensus.solve import Swept
from consmrf.consensus.state import ConsensusState, LocalUpdate

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
        self.workers = max(1, min(config.threads or os.cpu_count() or 1, len(problems)))
        self._pool = ThreadPoolExecutor(self.workers, thread_name_prefix="consmrf")
        self._stop = np.zeros(1, np.uint8)
        self._workspaces = [Workspace(problems, n_entities, config, self._stop) for _ in range(self.workers)]

    def __enter__(self) -> Threads:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def sweep(self, state: ConsensusState, epoch: int) -> Swept:
        """Run Algorithm 2 for every relation; hand on the updates in the order of the relations."""
        begun = time.perf_counter()
        waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
        for relation in self._longest_first:
            waiting.put(relation)
        updates: list[LocalUpdate | None] = [None] * len(self._problems)

        def work(workspace: Workspace) -> None:
            while True:
                try:
                    relation = waiting.get_nowait()
                except queue.Empty:
                    return
                updates[relation] = update_aw(self._problems[relation], state, self._config, epoch, workspace)

        running = [self._pool.submit(work, workspace) for workspace in self._workspaces]
        try:
            for future in running:
                future.result()
        except BaseException:
            # an interrupt or a failure: what runs now ends soon, nothing more begins
            self._stop[0] = 1
            while not waiting.empty():
                waiting.get_nowait()
            for future in running:
                future.exception()
            raise
        return Swept([u for u in updates if u is not None], time.perf_counter() - begun, self.workers)

    def close(self) -> None:
        """End the threads; safe to call twice."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._workspaces.clear()
