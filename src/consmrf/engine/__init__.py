"""Where the local problems run.

An engine does two things: it sweeps over the relations it was opened with, and closes.
"""

from __future__ import annotations

from typing import Protocol

from consmrf.consensus.solve import Swept
from consmrf.consensus.state import ConsensusState

__all__ = ["Engine"]


class Engine(Protocol):
    """What any place that runs local problems must offer; it is given its data when it is opened."""

    def sweep(self, state: ConsensusState, epoch: int) -> Swept:
        """Run Algorithm 2 for every relation; hand on the updates in the order of the relations."""

    def close(self) -> None:
        """Give back workers and memory; safe to call twice."""
