"""The graphs that the package makes itself, by name: what a study can run on without any file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from consmrf.demo.social import make_social_graph
from consmrf.errors import InputError
from consmrf.graph.planted import Planted, conflicting_relations, shared_structure
from consmrf.graph.split import split
from consmrf.graph.triples import Graph
from consmrf.graph.vocabulary import Vocabulary

__all__ = ["GRAPHS", "Generator", "Parts", "grouped_graph"]

# One fact in so many has an object of any group.
_NOISE = 10


@dataclass(frozen=True)
class Parts:
    """A dataset, cut."""

    train: Graph
    valid: Graph
    test: Graph


@dataclass(frozen=True)
class Generator:
    """Makes parts from a seed and sizes; each size has a default."""

    make: Callable[..., Parts]
    sizes: Mapping[str, int]

    def __call__(self, seed: int, **sizes: int) -> Parts:
        return self.make(seed, **{**self.sizes, **sizes})


def grouped_graph(seed: int, *, entities: int, relations: int, triples: int, groups: int) -> Graph:
    """Draw distinct facts: relation r links members of group g to members of group π_r(g), nine times in ten.

    Of any size and any number of relations, with which the number of triples need not grow.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(entities)  # member i of group g is order[g + groups · i]
    group = np.empty(entities, np.int64)
    group[order] = np.arange(entities) % groups
    target = np.stack([rng.permutation(groups) for _ in range(relations)])
    drawn = np.empty(0, np.int64)
    for _ in range(50):
        missing = triples - len(drawn)
        if missing <= 0:
            break
        r = rng.integers(0, relations, missing)
        r[: min(relations, missing)] = np.arange(min(relations, missing))  # no relation stays empty
        s = rng.integers(0, entities, missing)
        anywhere = rng.integers(0, _NOISE, missing) == 0
        at = np.where(anywhere, rng.integers(0, groups, missing), target[r, group[s]])
        size = (entities - at + groups - 1) // groups
        o = order[at + groups * rng.integers(0, size)]
        drawn = np.unique(np.concatenate([drawn, (s * relations + r) * entities + o]))
    if len(drawn) < triples:
        raise InputError(
            f"{triples:,} triples are too many for {entities:,} entities and {relations} relations"
        )
    rest, o = np.divmod(drawn, entities)
    s, r = np.divmod(rest, relations)
    return Graph(_numbered(entities, relations), np.stack([s, r, o], axis=1).astype(np.int32))


def _numbered(entities: int, relations: int) -> Vocabulary:
    """Hand on labels that sort in the order of the ids."""
    e, r = len(str(entities - 1)), len(str(relations - 1))
    return Vocabulary(
        tuple(f"e{i:0{e}}" for i in range(entities)), tuple(f"r{i:0{r}}" for i in range(relations))
    )


def _grouped(seed: int, **sizes: int) -> Parts:
    cut = split(grouped_graph(seed, **sizes), seed=seed, stratify=True, unseen="train")
    return Parts(cut.train, cut.valid, cut.test)


def _planted(make: Callable[..., Planted], seed: int, **sizes: int) -> Parts:
    made = make(seed, **sizes)
    return Parts(made.train, made.valid, made.test)


def _social(seed: int, **sizes: int) -> Parts:
    example = make_social_graph(seed, **sizes)
    return Parts(example.train, example.valid, example.test)


GRAPHS = {
    "shared-structure": Generator(
        partial(_planted, shared_structure), {"entities": 160, "relations": 12, "groups": 8, "facts": 1}
    ),
    "conflicting-relations": Generator(
        partial(_planted, conflicting_relations), {"entities": 160, "relations": 6, "groups": 8, "facts": 6}
    ),
    "social": Generator(_social, {"users": 1500, "items": 1000, "communities": 30}),
    "grouped": Generator(_grouped, {"entities": 400, "relations": 12, "triples": 6000, "groups": 10}),
}
