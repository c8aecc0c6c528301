"""A call in a process of its own: what kills it stays there, and its peak memory is its own."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

__all__ = ["FailedError", "in_child", "memory", "peak_memory", "reset_peak"]

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class FailedError(RuntimeError):
    """The call raised, or its process ended before it could answer; the message says which."""


def in_child(call: Callable[..., Any], *given: Any) -> Any:
    """Hand on `call(*given)`, run in a fresh process; whatever goes wrong there is a FailedError here."""
    processes = multiprocessing.get_context("spawn")
    mine, theirs = processes.Pipe(duplex=False)
    child = processes.Process(target=_answer, args=(theirs, call, given))
    child.start()
    theirs.close()
    try:
        with suppress(EOFError):
            failed, answer = mine.recv()
            if failed:
                raise FailedError(answer)
            return answer
        child.join()
        raise FailedError(f"the process ended without an answer, exit code {child.exitcode}")
    except KeyboardInterrupt:
        child.terminate()  # a fit keeps its best round when interrupted, and would go on from there
        raise
    finally:
        mine.close()
        child.join()


def _answer(pipe: Connection, call: Callable[..., Any], given: tuple[Any, ...]) -> None:
    try:
        pipe.send((False, call(*given)))
    except Exception as problem:
        traceback.print_exc()
        pipe.send((True, f"{type(problem).__name__}: {problem}"))
    except KeyboardInterrupt:
        os._exit(130)  # the parent has it, too, and says so


def memory() -> int:
    """Hand on the bytes that this process holds now; 0 where the system does not tell."""
    return _read("VmRSS:")


def peak_memory() -> int:
    """Hand on the most that this process held, in bytes; 0 where the system does not tell.

    Not ru_maxrss: a process inherits it from the one that started it.
    """
    return _read("VmHWM:")


def reset_peak() -> None:
    """Let the peak begin again from what is held now, where the system allows."""
    with suppress(OSError):
        _CLEAR.write_text("5")


def _read(field: str) -> int:
    if not _STATUS.exists():
        return 0
    return int(_STATUS.read_text().split(field)[1].split()[0]) << 10
