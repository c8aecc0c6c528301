"""The independent baseline: one model per relation, nothing shared.

It is Algorithm 2 alone: every relation keeps its own A_r from round to round (the kernels' `carry`), starts
from the same random Z⁰, and no average is ever taken, so there is neither a dual nor a proximal term.
Whatever the consensus adds shows against it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from consmrf.consensus.state import Floats, LocalUpdate

__all__ = ["no_change"]


def no_change(z: Floats, updates: Sequence[LocalUpdate]) -> Floats:
    """Stand in for the consensus step: Z stays Z⁰, whatever the relations found."""
    del updates
    return np.zeros_like(z)
