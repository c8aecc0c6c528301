"""What a benchmark says about the machine it ran on, and how busy others kept it."""

from __future__ import annotations

import os
import time
from pathlib import Path

__all__ = ["Clock", "cores"]

_STAT = Path("/proc/stat")
_IDLE = slice(3, 5)  # of the first line's counters: idle, and waiting for input or output
_COUNTED = 8  # the counters after these repeat part of those before


class Clock:
    """Counts, from its making on, the wall time and the cores that other processes kept busy."""

    def __init__(self) -> None:
        self._begun = self._now()

    def seconds(self) -> float:
        """Hand on the wall time since the clock was made."""
        return time.monotonic() - self._begun[0]

    def others(self) -> float | None:
        """Hand on how many cores other processes used on average; None where the system does not tell."""
        wall, machine, own = (now - then for now, then in zip(self._now(), self._begun, strict=True))
        if not _STAT.exists() or wall <= 0:
            return None
        return max(machine - own, 0.0) / wall

    def describe(self) -> str:
        """Hand on one line for a person."""
        busy = self.others()
        told = "unknown" if busy is None else f"{busy:.1f} of {cores()} cores on average"
        return f"{self.seconds():.0f} s; kept busy by other processes meanwhile: {told}"

    @staticmethod
    def _now() -> tuple[float, float, float]:
        """Hand on (wall, CPU of the machine, CPU of this process and its ended children), in seconds."""
        own = sum(os.times()[:4])
        if not _STAT.exists():
            return time.monotonic(), 0.0, own
        ticks = [int(x) for x in _STAT.read_text().split("\n", 1)[0].split()[1 : 1 + _COUNTED]]
        return time.monotonic(), (sum(ticks) - sum(ticks[_IDLE])) / os.sysconf("SC_CLK_TCK"), own


def cores() -> int:
    """Hand on how many cores this machine shows."""
    return os.cpu_count() or 1
