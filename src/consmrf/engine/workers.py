"""Threads that take tasks from one list until it is empty: the kernels hold no GIL."""

from __future__ import annotations

import os
import queue
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

import numpy as np

__all__ = ["Workers"]


class Workers:
    """A fixed number of threads, and the request to stop that their work looks at.

    What a task does must not depend on who does it, or when.
    """

    def __init__(self, threads: int | None, most: int) -> None:
        """Receive the number asked for, None for one per core, and the most that could be of use."""
        self.count = max(1, min(threads or os.cpu_count() or 1, most))
        self.stop = np.zeros(1, np.uint8)
        self._pool = ThreadPoolExecutor(self.count, thread_name_prefix="consmrf")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def each(self, work: Callable[[Any, Any], None], tasks: Iterable[Any], scratch: Sequence[Any]) -> None:
        """Call `work(task, scratch)` for all tasks, begun in their order; each thread has its own scratch."""
        waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for task in tasks:
            waiting.put(task)

        def run(own: Any) -> None:
            while True:
                try:
                    task = waiting.get_nowait()
                except queue.Empty:
                    return
                work(task, own)

        running = [self._pool.submit(run, own) for own in scratch]
        try:
            for future in running:
                future.result()
        except BaseException:
            # an interrupt or a failure: what runs now ends soon, nothing more begins
            self.stop[0] = 1
            while not waiting.empty():
                waiting.get_nowait()
            for future in running:
                future.exception()
            raise

    def ahead(self, work: Callable[[Any], Any], task: Any) -> Future[Any]:
        """Have whoever is free first call `work(task)`; hand on the promise of its result."""
        return self._pool.submit(work, task)

    def close(self) -> None:
        """End the threads; safe to call twice."""
        self._pool.shutdown(wait=True, cancel_futures=True)
