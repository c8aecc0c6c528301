"""How an epoch is cut: its facts into blocks, its blocks into waves, by the data and the seed alone."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from consmrf.consensus.primitives import below, stream

__all__ = ["MOST_RELATIONS", "Parts", "Plan", "parts_of", "plan_apart", "plan_epoch"]

# More relations make a block's tables large for few facts.
MOST_RELATIONS = 64

# The stream of an epoch's order, where a block would have its number, and that of its parts.
_ORDER, _PARTS = 2**62, 2**62 + 1
# Where blocks share no entity: the least facts of a block on average, the least entities of a part, and the
# fewest parts with which two workers are never short of blocks.
_LEAST_FACTS, _LEAST_ENTITIES, _FEWEST = 1024, 32, 4


class Parts(NamedTuple):
    """The entities of an epoch, each in one part, and where each relation's facts begin."""

    part_of: NDArray[np.int32]  # [E]
    members: NDArray[np.int32]  # [E] part by part
    indptr: NDArray[np.int64]  # [parts + 1] where each part begins in `members`
    facts: NDArray[np.int64]  # [R + 1]


class Plan(NamedTuple):
    """An epoch: every fact once, in the order of its blocks."""

    order: NDArray[np.int32]  # [n] facts
    indptr: NDArray[np.int64]  # [blocks + 1] where each block begins in `order`
    waves: NDArray[np.int64]  # [waves + 1] where each wave begins among the blocks
    parts: Parts | None = None  # where the blocks of a wave have no entity in common: what keeps them apart

    def __len__(self) -> int:
        return len(self.indptr) - 1


def plan_epoch(
    indptr: NDArray[np.int64],
    block: int,
    seed: int,
    epoch: int,
    only: NDArray[np.bool_] | None = None,
    width: int = 1,
) -> Plan:
    """Shuffle each relation's facts, cut large relations into blocks, pack small ones, shuffle the blocks.

    `indptr` says where each relation's facts begin, `only` which relations take part. A block has at most
    `block` facts of at most `MOST_RELATIONS` relations, a wave at most `width` blocks.
    """
    facts = _shuffled(indptr, seed, epoch)
    rng = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, epoch, 1])))
    pieces = _pieces(indptr, block, only)
    return _packed(facts, pieces[rng.permutation(len(pieces))], block, width)


def parts_of(n_facts: int, n_entities: int, width: int) -> int:
    """Hand on how many parts keep blocks apart, by the data and the width of waves alone."""
    if width == 1:
        return 1
    by_facts = int(np.sqrt(2 * n_facts / _LEAST_FACTS))  # n parts make n (n + 1) / 2 blocks
    most = min(2 * width, max(by_facts, _FEWEST), n_entities // _LEAST_ENTITIES)
    return max(most // 2 * 2, 1)


def plan_apart(
    ends: tuple[NDArray[np.int32], NDArray[np.int32]],
    indptr: NDArray[np.int64],
    n_entities: int,
    n_parts: int,
    seed: int,
    epoch: int,
    only: NDArray[np.bool_] | None = None,
) -> Plan:
    """Draw a part for every entity; a block is the facts between two parts, or within one.

    `ends` are the facts' subjects and objects, `n_parts` is even or 1. The blocks of a wave have no entity in
    common: in a round of a tournament every part meets one other, and in one more wave itself. Within a wave
    the largest block comes first, within a block the facts of a relation stand together.
    """
    part_of, members, first = _parts(n_entities, n_parts, seed, epoch)
    parts = Parts(part_of, members, first, indptr)
    pairing, waves = _tournament(n_parts)
    taking = np.ones(len(indptr) - 1, np.bool_) if only is None else only
    sizes = _sizes(*ends, indptr, taking, parts.part_of, pairing)
    blocks = np.lexsort((-sizes, np.repeat(np.arange(len(waves) - 1), np.diff(waves))))
    starts = np.concatenate([[0], np.cumsum(sizes[blocks])])
    at = np.empty(len(blocks), np.int64)
    at[blocks] = starts[:-1]
    return Plan(_dealt(*ends, indptr, taking, parts.part_of, pairing, at, starts[-1]), starts, waves, parts)


@cache
def _tournament(n: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Hand on the block of every pair of parts [n, n], and where each wave begins among the blocks.

    One part stays where it is and the others go round it; the last wave has each part by itself.
    """
    block_of = np.empty((n, n), np.int32)
    number, waves = 0, [0]
    for turn in range(n - 1):
        for i in range(n // 2):
            a, b = (turn + i) % (n - 1), (turn - i) % (n - 1) if i else n - 1
            block_of[a, b] = block_of[b, a] = number
            number += 1
        waves.append(number)
    block_of[np.arange(n), np.arange(n)] = number + np.arange(n)
    return block_of, np.array([*waves, number + n])


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


def _packed(facts: NDArray[np.int32], pieces: NDArray[np.int64], block: int, width: int) -> Plan:
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
    waves = np.append(np.arange(0, len(first_piece), width), len(first_piece))
    return Plan(facts[take], starts[np.append(first_piece, len(pieces))], waves)


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


@njit(cache=True, nogil=True, error_model="numpy")
def _parts(
    n_entities: int, n_parts: int, seed: int, epoch: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
    """Hand on the first fields of `Parts`: every entity's part is drawn by itself."""
    part_of, members = np.empty(n_entities, np.int32), np.empty(n_entities, np.int32)
    indptr = np.zeros(n_parts + 1, np.int64)
    state = stream(seed, epoch, _PARTS)
    for e in range(n_entities):
        state, drawn = below(state, np.uint64(n_parts))
        part_of[e] = np.int32(drawn)
        indptr[np.int64(drawn) + 1] += 1
    for p in range(n_parts):
        indptr[p + 1] += indptr[p]
    at = indptr.copy()
    for e in range(n_entities):
        members[at[part_of[e]]] = e
        at[part_of[e]] += 1
    return part_of, members, indptr


@njit(cache=True, nogil=True, error_model="numpy")
def _sizes(subjects, objects, indptr, taking, part_of, block_of):  # type: ignore[no-untyped-def]
    """Hand on how many facts each block has."""
    sizes = np.zeros(len(block_of) * (len(block_of) + 1) // 2, np.int64)
    for r in range(len(taking)):
        if taking[r]:
            for f in range(indptr[r], indptr[r + 1]):
                sizes[block_of[part_of[subjects[f]], part_of[objects[f]]]] += 1
    return sizes


@njit(cache=True, nogil=True, error_model="numpy")
def _dealt(subjects, objects, indptr, taking, part_of, block_of, at, total):  # type: ignore[no-untyped-def]
    """Hand on the facts, each in the next place of its block; `at` says where the blocks begin."""
    order = np.empty(total, np.int32)
    for r in range(len(taking)):
        if taking[r]:
            for f in range(indptr[r], indptr[r + 1]):
                block = block_of[part_of[subjects[f]], part_of[objects[f]]]
                order[at[block]] = f
                at[block] += 1
    return order
