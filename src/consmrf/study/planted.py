"""Small graphs whose structure is known, by name: what a study can run on without any file.

Entities fall into groups, and relation r links members of group g to members of group π_r(g). Where relations
share the groups, each learns from the others; where each has groups of its own, what one learns misleads the
others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from consmrf.demo.social import make_social_graph
from consmrf.errors import InputError
from consmrf.graph.split import split
from consmrf.graph.triples import Graph
from consmrf.graph.vocabulary import Vocabulary

__all__ = ["GRAPHS", "Parts", "planted_graph"]

# One fact in so many has an object of any group.
_NOISE = 10
# How much more often the most frequent member of a group is drawn than others: shares ∝ rank^-exponent.
_ZIPF = 0.5


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


def planted_graph(
    seed: int, *, entities: int, relations: int, triples: int, groups: int, groupings: int = 1
) -> Graph:
    """Draw distinct facts between groups; relation r has the grouping number r mod `groupings`."""
    rng = np.random.default_rng(seed)
    group = np.stack([rng.permutation(np.arange(entities) % groups) for _ in range(groupings)])
    target = np.stack([rng.permutation(groups) for _ in range(relations)])
    share = np.cumsum((np.arange(entities) + 1.0) ** -_ZIPF)
    drawn = np.empty(0, np.int64)
    for _ in range(50):
        missing = triples - len(drawn)
        if missing <= 0:
            break
        r = rng.integers(0, relations, missing)
        r[: min(relations, missing)] = np.arange(min(relations, missing))  # no relation stays empty
        s, g = rng.integers(0, entities, missing), r % groupings
        at = target[r, group[g, s]]
        anywhere = rng.integers(0, _NOISE, missing) == 0
        at = np.where(anywhere, rng.integers(0, groups, missing), at)
        o = _members(rng, group, g, at, share)
        drawn = np.unique(np.concatenate([drawn, (s * relations + r) * entities + o]))
    if len(drawn) < triples:
        raise InputError(
            f"{triples:,} triples are too many for {entities:,} entities and {relations} relations"
        )
    rest, o = np.divmod(drawn, entities)
    s, r = np.divmod(rest, relations)
    return Graph(_numbered(entities, relations), np.stack([s, r, o], axis=1).astype(np.int32))


def _members(
    rng: np.random.Generator,
    group: NDArray[np.int64],
    g: NDArray[np.int64],
    at: NDArray[np.int64],
    share: NDArray[np.float64],
) -> NDArray[np.int64]:
    """Draw one member of group `at` of grouping `g` for each fact, those of low rank within it more often."""
    n = group.shape[1]
    groups = int(group.max()) + 1
    order = np.argsort(group, axis=1, kind="stable")
    bounds = np.stack([np.searchsorted(np.sort(row), np.arange(groups + 1)) for row in group])
    size = bounds[g, at + 1] - bounds[g, at]
    place = np.searchsorted(share, rng.random(len(g)) * share[size - 1])
    return np.asarray(order[g, np.minimum(bounds[g, at] + place, n - 1)])


def _numbered(entities: int, relations: int) -> Vocabulary:
    """Hand on labels that sort in the order of the ids."""
    e, r = len(str(entities - 1)), len(str(relations - 1))
    return Vocabulary(
        tuple(f"e{i:0{e}}" for i in range(entities)), tuple(f"r{i:0{r}}" for i in range(relations))
    )


def _cut_planted(seed: int, *, groupings: int = 1, conflicts: bool = False, **sizes: int) -> Parts:
    groupings = sizes["relations"] if conflicts else groupings
    graph = planted_graph(seed, groupings=groupings, **sizes)
    cut = split(graph, seed=seed, stratify=True, unseen="train")
    return Parts(cut.train, cut.valid, cut.test)


def _social(seed: int, **sizes: int) -> Parts:
    example = make_social_graph(seed, **sizes)
    return Parts(example.train, example.valid, example.test)


GRAPHS = {
    "shared-structure": Generator(
        _cut_planted, {"entities": 400, "relations": 12, "triples": 6000, "groups": 10}
    ),
    "conflicting-relations": Generator(
        partial(_cut_planted, conflicts=True),
        {"entities": 300, "relations": 8, "triples": 16000, "groups": 8},
    ),
    "social": Generator(_social, {"users": 1500, "items": 1000, "communities": 30}),
}
