"""Which cells may begin now, within so many cores and so much memory; and how long the rest may take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Load", "Room", "startable", "time_left"]


@dataclass(frozen=True)
class Load:
    """What a cell needs; one that is timed runs alone."""

    cores: int
    bytes: int
    alone: bool = False


@dataclass(frozen=True)
class Room:
    """What all cells together may take."""

    cores: int
    bytes: int

    def refusal(self, load: Load) -> str | None:
        """Say why a cell can never run; None where it can."""
        if load.cores > self.cores:
            return f"needs {load.cores} cores, and the budget is {self.cores}: raise budget.cores or --cores"
        if load.bytes > self.bytes:
            gib = 2**30
            return (
                f"is expected to need {load.bytes / gib:.1f} GiB, and the budget is {self.bytes / gib:.1f}: "
                "raise budget.memory_gib or --memory"
            )
        return None


def startable(waiting: Sequence[Load], running: Sequence[Load], room: Room) -> list[int]:
    """Hand on the places in `waiting` of the cells to begin now, earlier ones first.

    A cell that does not fit is passed over by later ones that do; cells that run alone wait until all others
    are done.
    """
    if any(load.alone for load in running):
        return []
    cores = room.cores - sum(load.cores for load in running)
    memory = room.bytes - sum(load.bytes for load in running)
    chosen = []
    for i, load in enumerate(waiting):
        if not load.alone and load.cores <= cores and load.bytes <= memory:
            chosen.append(i)
            cores, memory = cores - load.cores, memory - load.bytes
    if chosen or running:
        return chosen
    alone = (i for i, load in enumerate(waiting) if load.alone and room.refusal(load) is None)
    return [i for i in [next(alone, None)] if i is not None]


def time_left(
    waiting: Sequence[tuple[str, str, bool]],
    took: Mapping[tuple[str, str, bool], Sequence[float]],
    cores: int,
) -> float | None:
    """Hand on the seconds that waiting cells may take; None while nothing is known.

    Cells are (dataset, method, alone). Each is expected to take what finished ones of its dataset and method
    took, else what all of its method did, else what all did.
    """
    if not took:
        return None
    together = alone = 0.0
    for dataset, method, apart in waiting:
        seconds = took.get((dataset, method, apart)) or [
            x for (_, m, _), all_of in took.items() if m == method for x in all_of
        ]
        if not seconds:
            seconds = [x for all_of in took.values() for x in all_of]
        expected = sum(seconds) / len(seconds)
        together, alone = (together, alone + expected) if apart else (together + expected, alone)
    return together / cores + alone
