"""How unevenly a graph is filled: degrees, sizes of relations, entities with too many facts, components."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from consmrf.evaluation.audit.pairs import Ids, Longs

__all__ = [
    "OF_FACTS",
    "QUANTILES",
    "TIMES_MEDIAN",
    "Supernode",
    "Unevenness",
    "components",
    "supernodes",
    "unevenness",
]

QUANTILES = (0.0, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)
OF_FACTS, TIMES_MEDIAN = 0.01, 100  # what makes a supernode, both at once


@dataclass(frozen=True)
class Unevenness:
    """How a count is spread over what is counted, those that have none left out."""

    count: int
    once: int  # how many have a count of 1
    mean: float
    gini: float  # 0: all have the same; near 1: a few have nearly all
    quantiles: tuple[int, ...]  # at QUANTILES
    histogram: tuple[int, ...]  # how many have a count from 2^i to below 2^(i+1)


def unevenness(counts: Longs) -> Unevenness:
    """Summarise counts, of which at least one is above 0."""
    x = np.sort(counts[counts > 0])
    n, total = len(x), int(x.sum())
    gini = float(2 * (np.arange(1, n + 1) @ x.astype(np.float64)) / (n * total) - (n + 1) / n)
    return Unevenness(
        count=n,
        once=int(np.searchsorted(x, 1, side="right")),
        mean=total / n,
        gini=gini,
        quantiles=tuple(_quantile(x, q) for q in QUANTILES),
        histogram=tuple(np.bincount(np.frexp(x.astype(np.float64))[1] - 1).tolist()),
    )


def _quantile(ascending: Longs, share: float) -> int:
    """Hand on the least value that at least this share of all does not exceed."""
    return int(ascending[max(math.ceil(share * len(ascending)) - 1, 0)])


@dataclass(frozen=True)
class Supernode:
    """An entity that a large share of all facts has at one end, and what most of these facts are."""

    entity: int
    degree: int
    relation: int
    as_object: bool
    main: int  # facts of this relation with the entity at this end


def supernodes(triples: Ids, degree: Longs) -> list[Supernode]:
    """Find entities with `OF_FACTS` of all facts and `TIMES_MEDIAN` the median degree, the largest first."""
    least = max(OF_FACTS * len(triples), TIMES_MEDIAN * float(np.median(degree[degree > 0])))
    odd = np.flatnonzero(degree >= least)
    return [_supernode(triples, e, int(degree[e])) for e in odd[np.lexsort((odd, -degree[odd]))].tolist()]


def _supernode(triples: Ids, entity: int, degree: int) -> Supernode:
    counts = [np.bincount(triples[triples[:, end] == entity, 1], minlength=1) for end in (0, 2)]
    as_object = bool(counts[1].max() > counts[0].max())
    own = counts[as_object]
    return Supernode(entity, degree, int(own.argmax()), as_object, int(own.max()))


def components(first: Ids, second: Ids, n_entities: int) -> NDArray[np.int64]:
    """Hand on for each entity the least entity that a path of links leads to, whichever way they point."""
    root = np.arange(n_entities)
    a, b = first.astype(np.int64), second.astype(np.int64)
    while len(a):
        low, high = np.minimum(root[a], root[b]), np.maximum(root[a], root[b])
        apart = low != high
        a, b, low, high = a[apart], b[apart], low[apart], high[apart]
        np.minimum.at(root, high, low)
        while not np.array_equal(root, shorter := root[root]):
            root = shorter
    return root
