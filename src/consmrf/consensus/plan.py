"""How an epoch is cut: its facts into blocks, its blocks into waves, by the data and the seed alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from consmrf.consensus.primitives import below, stream

__all__ = ["MOST_RELATIONS", "Plan", "plan_epoch"]

# More relations make a block's tables large for few facts.
MOST_RELATIONS = 64

# The stream of an epoch's order, where a block would have its number.
_ORDER = 2**62


class Plan(NamedTuple):
    """An epoch: every fact once, in the order of its blocks."""

    order: NDArray[np.int32]  # [n] facts
    indptr: NDArray[np.int64]  # [blocks + 1] where each block begins in `order`

    def __len__(self) -> int:
        return len(self.indptr) - 1


def plan_epoch(
    indptr: NDArray[np.int64], block: int, seed: int, epoch: int, only: NDArray[np.bool_] | None = None
) -> Plan:
    """Shuffle each relation's facts, cut large relations into blocks, pack small ones, shuffle the blocks.

    `indptr` says where each relation's facts begin, `only` which relations take part. A block has at most
    `block` facts of at most `MOST_RELATIONS` relations.
    """
    facts = _shuffled(indptr, seed, epoch)
    rng = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, epoch, 1])))
    pieces = _pieces(indptr, block, only)
    return _packed(facts, pieces[rng.permutation(len(pieces))], block)


def _pieces(indptr: NDArray[np.int64], block: int, only: NDArray[np.bool_] | None) -> NDArray[np.int64]:
    """Hand on (first, end) of pieces of about equal size, each of one relation and at most `block` facts."""
    counts = np.diff(indptr)
    cuts = -(-counts // block)
    if only is not None:
        cuts[~only] = 0
    relation = np.repeat(np.arange(len(counts)), cuts)
    at = np.arange(len(relation)) - np.repeat(np.cumsum(cuts) - cuts, cuts)
    first = indptr[relation] + at * counts[relation] // cuts[relation]
    end = indptr[relation] + (at + 1) * counts[relation] // cuts[relation]
    return np.stack([first, end], axis=1)


def _packed(facts: NDArray[np.int32], pieces: NDArray[np.int64], block: int) -> Plan:
    """Fill blocks with pieces in the order given, a new one where the next piece does not fit."""
    sizes = pieces[:, 1] - pieces[:, 0]
    first_piece, room, pieces_in = [0], block, 0  # piece numbers, and what the last block has room for
    for i, size in enumerate(sizes.tolist()):
        if size > room or pieces_in == MOST_RELATIONS:
            first_piece.append(i)
            room, pieces_in = block, 0
        room -= size
        pieces_in += 1
    starts = np.concatenate([[0], np.cumsum(sizes)])
    take = np.repeat(pieces[:, 0] - starts[:-1], sizes) + np.arange(starts[-1])
    return Plan(facts[take], starts[np.append(first_piece, len(pieces))])


@njit(cache=True, nogil=True)
def _shuffled(indptr: NDArray[np.int64], seed: int, epoch: int) -> NDArray[np.int32]:
    """Hand on all facts, those of each relation among themselves in random order (Fisher and Yates)."""
    order = np.arange(indptr[-1]).astype(np.int32)
    state = stream(seed, epoch, _ORDER)
    for r in range(len(indptr) - 1):
        lo = indptr[r]
        for i in range(indptr[r + 1] - lo - 1, 0, -1):
            state, drawn = below(state, np.uint64(i + 1))
            j = np.int64(drawn)
            order[lo + i], order[lo + j] = order[lo + j], order[lo + i]
    return order
