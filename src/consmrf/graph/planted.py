"""Small graphs with planted structure, on which it is known which methods must do well.

Entities belong to groups, and a relation links group g to group g ⊕ m_r (bitwise, with a mask m_r of its
own). A diagonal W_r says that exactly, with one feature per character of the groups: as wide as there are
groups. Every group is linked to one other and every entity equally often, so that counting says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from consmrf.graph.triples import Graph
from consmrf.graph.vocabulary import Vocabulary

__all__ = ["Planted", "conflicting_relations", "shared_structure"]


@dataclass(frozen=True)
class Planted:
    """Three parts of a graph in one vocabulary, and the groups that its facts follow."""

    train: Graph
    valid: Graph
    test: Graph
    groups: NDArray[np.int64]  # [R, E] the group of each entity, as relation r sees it
    masks: NDArray[np.int64]  # [R] r links group g to g ⊕ mask


def shared_structure(
    seed: int = 0, *, entities: int = 160, relations: int = 12, groups: int = 8, facts: int = 1
) -> Planted:
    """All relations see the same groups, and each has few facts: sharing must help.

    `facts` is how many of training each subject has in each relation; `groups` is a power of two.
    """
    rng = np.random.default_rng(seed)
    seen = np.tile(rng.permutation(entities) % groups, (relations, 1))
    return _planted(rng, seen, groups, facts)


def conflicting_relations(
    seed: int = 0, *, entities: int = 160, relations: int = 6, groups: int = 8, facts: int = 6
) -> Planted:
    """Every relation sees groups of its own, and has facts enough: features of its own must win.

    One A would need room for all the groupings at once; with no more features than there are groups, it has
    to compromise.
    """
    rng = np.random.default_rng(seed)
    seen = np.stack([rng.permutation(entities) % groups for _ in range(relations)])
    return _planted(rng, seen, groups, facts)


def _planted(rng: np.random.Generator, seen: NDArray[np.int64], groups: int, facts: int) -> Planted:
    """Draw the facts of each subject without replacement; one more is for validation, one for the test."""
    relations, entities = seen.shape
    masks = 1 + np.arange(relations) % (groups - 1)
    parts: tuple[list[tuple[int, int, int]], ...] = ([], [], [])
    for r in range(relations):
        for s in range(entities):
            pool = np.flatnonzero(seen[r] == seen[r, s] ^ masks[r])
            drawn = rng.choice(pool, size=facts + 2, replace=False).tolist()
            parts[0].extend((s, r, o) for o in drawn[2:])
            parts[1].append((s, r, drawn[1]))
            parts[2].append((s, r, drawn[0]))
    vocabulary = Vocabulary(
        tuple(f"e{i:04}" for i in range(entities)), tuple(f"r{i:02}" for i in range(relations))
    )
    train, valid, test = (Graph(vocabulary, np.array(sorted(part), np.int32)) for part in parts)
    return Planted(train, valid, test, seen, masks)
