"""The consensus step of Algorithm 1, and ADMM's residuals: pure functions of one round's updates."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from consmrf.consensus.kernels import add_rows
from consmrf.consensus.state import Floats, LocalUpdate

__all__ = ["dual_residual", "mean_change", "primal_residual", "update_z"]


def mean_change(z: Floats, updates: Sequence[LocalUpdate]) -> Floats:
    """Hand on (1/R) Σ_r Δ_r, summed in the order of the relations, whatever order they were computed in."""
    total = np.zeros_like(z)
    for update in updates:
        add_rows(total, update.rows, update.delta)
    total /= len(updates)
    return total


def update_z(z: Floats, change: Floats) -> Floats:
    """Z ← (1/R) Σ_r A_r, with A_r = Z + Δ_r: the paper's update of Z."""
    return z + change


def primal_residual(change: Floats, updates: Sequence[LocalUpdate]) -> float:
    """Hand on √Σ_r ‖A_r − Z‖² after the update of Z.

    Σ_r ‖Δ_r − m‖² = Σ_r ‖Δ_r‖² − R ‖m‖² for the mean m of the Δ_r.
    """
    squares = math.fsum(update.squares for update in updates)
    return math.sqrt(max(squares - len(updates) * _square_norm(change), 0.0))


def dual_residual(change: Floats, rho: float, n_relations: int) -> float:
    """Hand on ρ √R ‖Z⁽ᵗ⁾ − Z⁽ᵗ⁻¹⁾‖."""
    return rho * math.sqrt(n_relations * _square_norm(change))


def _square_norm(x: Floats) -> float:
    return float(np.einsum("ij,ij->", x, x, dtype=np.float64))
