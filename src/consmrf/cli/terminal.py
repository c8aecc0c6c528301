"""What is said to whoever typed: lines on stdout, and the sentence for an error."""

from __future__ import annotations

import os
import sys

from cyclopts import CycloptsError

from consmrf.errors import ConsmrfError

__all__ = ["explain", "say", "silence"]


def say(text: str) -> None:
    """Print at once; when nobody reads any more, go on silently, since the work may still be wanted."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        silence()


def silence() -> None:
    """Let nothing more reach stdout, whose reader has gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def explain(error: BaseException) -> tuple[str, int]:
    """Hand on the sentence that tells of an error, and the exit code."""
    if isinstance(error, CycloptsError):
        return f"{error} See consmrf --help.", 2
    if isinstance(error, ConsmrfError):
        return str(error), 1
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}; check the path and its permissions", 1
    return f"not enough memory ({error or 'refused'}); try a smaller --dim, --memory or fewer --threads", 1
