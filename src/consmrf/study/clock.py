"""What a timing has to say of the machine: its make-up, how busy others kept it, and the memory it took."""

from __future__ import annotations

import os
import platform
import time
from importlib import metadata
from pathlib import Path
from typing import Any

__all__ = ["Clock", "machine", "peak_bytes"]

_STAT, _STATUS, _CPU = Path("/proc/stat"), Path("/proc/self/status"), Path("/proc/cpuinfo")
_IDLE = slice(3, 5)  # of the first line's counters: idle, and waiting for input or output
_COUNTED = 8  # the counters after these repeat part of those before


class Clock:
    """Counts, from its making on, the cores that other processes kept busy."""

    def __init__(self) -> None:
        self._begun = self._now()

    def others(self) -> float | None:
        """Hand on how many cores other processes used on average; None where the system does not tell."""
        wall, busy, own = (now - then for now, then in zip(self._now(), self._begun, strict=True))
        return max(busy - own, 0.0) / wall if busy and wall > 0 else None

    @staticmethod
    def _now() -> tuple[float, float, float]:
        """Hand on (wall, CPU of the machine, CPU of this process and its ended children), in seconds."""
        own = sum(os.times()[:4])
        if not _STAT.exists():
            return time.monotonic(), 0.0, own
        ticks = [int(x) for x in _STAT.read_text().split("\n", 1)[0].split()[1 : 1 + _COUNTED]]
        return time.monotonic(), (sum(ticks) - sum(ticks[_IDLE])) / os.sysconf("SC_CLK_TCK"), own


def machine() -> dict[str, Any]:
    """Hand on what figures and seconds may depend on beside the cell itself."""
    names = ("consmrf", "numpy", "numba", "polars")
    cpu = [line.split(":", 1)[1].strip() for line in _lines(_CPU) if line.startswith("model name")]
    return {
        "processor": cpu[0] if cpu else platform.processor() or platform.machine(),
        "cores": os.cpu_count() or 1,
        "system": platform.system(),
        "python": platform.python_version(),
        **{name: _version(name) for name in names},
    }


def peak_bytes() -> int | None:
    """Hand on the most memory that this process has held; None where the system does not tell."""
    told = [line for line in _lines(_STATUS) if line.startswith("VmHWM:")]
    return int(told[0].split()[1]) << 10 if told else None


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:  # a source tree that was never installed
        return "not installed"
