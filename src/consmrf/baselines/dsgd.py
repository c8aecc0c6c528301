"""DSGD: stochastic gradients on blocks that share neither rows nor columns, so that they run side by side.

Rows and columns are dealt at random into `blocks` groups each. A stratum is a set of blocks, one for each
group of rows, on different groups of columns; an epoch visits all strata. λ is charged entry by entry, each
its share, so that an epoch charges it once. The step follows the bold driver: 5 % longer after an epoch that
lowered the objective, half as long after one that did not, and that one is taken back.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from consmrf.baselines.rounds import Crew
from consmrf.baselines.single import Entries, begin_factors, objective
from consmrf.consensus.primitives import below, stream

__all__ = ["Dsgd"]

_LONGER, _SHORTER = 1.05, 0.5


@njit(cache=True, nogil=True)
def _descend(order: Any, entries: Any, p: Any, q: Any, shares: Any, eta: float, of: Any) -> None:
    """One step for each entry of a block, in an order that its stream draws."""
    rows, columns, values = entries
    row_reg, column_reg = shares
    state, k = stream(of[0], of[1], of[2]), p.shape[1]
    for i in range(len(order) - 1, 0, -1):
        state, drawn = below(state, np.uint64(i + 1))
        j = np.int64(drawn)
        order[i], order[j] = order[j], order[i]
    for t in order:
        i, j = rows[t], columns[t]
        error = values[t]
        for f in range(k):
            error -= p[i, f] * q[j, f]
        for f in range(k):
            x, y = p[i, f], q[j, f]
            p[i, f] += eta * (error * y - row_reg[i] * x)
            q[j, f] += eta * (error * x - column_reg[j] * y)


class Dsgd:
    """P and Q, the blocks, and the step's length."""

    def __init__(
        self, entries: Entries, dim: int, reg: float, seed: int = 0, *, eta: float = 0.05, blocks: int = 8
    ) -> None:
        """Receive the first step's length, and the number of groups: the most that can run side by side."""
        self.p, self.q = begin_factors(entries, dim, seed)
        self.eta, self._reg, self._seed, self._entries = eta, reg, seed, entries
        self._epoch, self._objective = 0, objective(entries, self.p, self.q, reg)
        rng = np.random.default_rng([seed, 7])
        groups = [rng.permutation(n) % blocks for n in entries.shape]
        number = groups[0][entries.rows] * blocks + groups[1][entries.columns]
        order = np.argsort(number, kind="stable")
        cuts = np.searchsorted(number[order], np.arange(1, blocks * blocks))
        self._blocks = np.split(order, cuts)
        self._strata = [[(b, (b + shift) % blocks) for b in range(blocks)] for shift in range(blocks)]
        counts = (np.diff(entries.row_indptr), np.diff(entries.column_indptr))
        self._shares = tuple(reg / np.maximum(n, 1) for n in counts)

    def step(self, crew: Crew) -> None:
        """Visit all strata once; lengthen the step, or take the epoch back and shorten it."""
        self._epoch += 1
        before = self.p.copy(), self.q.copy()
        rng = np.random.default_rng([self._seed, 8, self._epoch])
        entries = (self._entries.rows, self._entries.columns, self._entries.values)
        groups = len(self._strata)
        for place in rng.permutation(groups).tolist():

            def work(block: tuple[int, int], _: None) -> None:
                number = block[0] * groups + block[1]
                of = (self._seed, self._epoch, number)
                _descend(self._blocks[number], entries, self.p, self.q, self._shares, self.eta, of)

            crew.each(work, self._strata[place], [None] * crew.count)
        found = objective(self._entries, self.p, self.q, self._reg)
        if found <= self._objective:
            self._objective, self.eta = found, _LONGER * self.eta
        else:  # not finite, too
            (self.p, self.q), self.eta = before, _SHORTER * self.eta
