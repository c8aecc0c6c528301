"""Graphs of any size with Zipf degrees and something to learn, for measurements of time and memory.

Every entity belongs to one of `rank` groups, and every relation has a permutation of the groups of its own: a
subject's objects come from the group that the relation assigns to the subject's, except for a share of
`NOISE`, which comes from any. So relation r's expected matrix is diag(p) · (membership · π_r · membershipᵀ) ·
diag(p) plus noise of rank one, p the entities' frequencies: its rank is at most `rank` + 1, and which objects
are likely differs by relation.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from consmrf.graph.triples import Graph
from consmrf.graph.vocabulary import Vocabulary

__all__ = ["graph_of", "zipf_graph"]

ENTITIES, RELATIONS = 0.8, 1.0  # exponents: the i-th most frequent has a share ∝ 1 / i^exponent
NOISE = 0.1
ATTEMPTS = 200
Ids = NDArray[np.int32]
Keys = NDArray[np.int64]


def zipf_graph(
    n_entities: int,
    n_relations: int,
    n_triples: int,
    rank: int,
    seed: int,
    largest_share: float | None = None,
) -> Graph:
    """Draw distinct triples; every entity and every relation is in one at least.

    `largest_share` is the share of the draws that the largest relation gets, in place of Zipf's.
    """
    if not 1 <= rank <= n_entities <= n_triples or not 1 <= n_relations <= n_triples:
        raise ValueError(
            f"{n_entities} entities, {n_relations} relations, {n_triples} triples, rank {rank}: needs "
            "rank ≤ entities ≤ triples and relations ≤ triples"
        )
    rng = np.random.default_rng(seed)
    draws = _Draws(n_entities, n_relations, rank, rng, largest_share)
    first = draws.covering()
    kept, missing = np.empty(0, np.int64), n_triples - len(first)
    first.sort()
    for _ in range(ATTEMPTS):
        if not missing:
            break
        fresh = np.unique(draws.keys(missing + missing // 8 + 16))
        fresh = fresh[~_among(fresh, first) & ~_among(fresh, kept)]
        fresh = fresh if len(fresh) <= missing else rng.choice(fresh, missing, replace=False, shuffle=False)
        kept = np.sort(np.concatenate([kept, fresh]))
        missing -= len(fresh)
    if missing:
        raise ValueError(f"{n_triples} triples are too many for {n_entities} entities: {missing} not found")
    return graph_of(draws.triples(np.sort(np.concatenate([first, kept]))), n_entities, n_relations)


def graph_of(triples: Ids, n_entities: int, n_relations: int) -> Graph:
    """Hand on a graph of numbered labels, which sort in the order of the ids."""
    vocabulary = Vocabulary(_labels("e", n_entities), _labels("r", n_relations))
    return Graph(vocabulary, triples)


def _labels(letter: str, count: int) -> tuple[str, ...]:
    width = len(str(count - 1))
    return tuple(f"{letter}{i:0{width}}" for i in range(count))


class _Draws:
    """Draws triples as keys (s · R + r) · |E| + o; frequencies have nothing to do with the order of ids."""

    def __init__(
        self, n_entities: int, n_relations: int, rank: int, rng: np.random.Generator, share: float | None
    ) -> None:
        self._rng, self._n, self._m = rng, n_entities, n_relations
        frequency = rng.permutation(_zipf(n_entities, ENTITIES))
        self._group = rng.permutation(np.arange(n_entities) % rank)
        self._target = np.stack([rng.permutation(rank) for _ in range(n_relations)])
        self._members = np.argsort(self._group, kind="stable")  # entities, group by group
        self._upto = np.concatenate([[0.0], np.cumsum(frequency[self._members])])
        self._starts = np.searchsorted(self._group[self._members], np.arange(rank + 1))
        sizes = _zipf(n_relations, RELATIONS)
        if share is not None and n_relations > 1:
            sizes = np.concatenate([[share], (1 - share) * _zipf(n_relations - 1, RELATIONS)])
        self._relations = np.cumsum(rng.permutation(sizes))

    def covering(self) -> Keys:
        """Hand on distinct triples with every entity as a subject and with every relation."""
        subjects = self._rng.permutation(self._n)
        relations = self._draw_relations(self._n)
        some = min(self._n, self._m)
        relations[:some] = np.arange(some)
        rest = np.arange(some, self._m)  # where relations outnumber entities: each with any subject
        return self._with_objects(
            np.concatenate([subjects, self._draw_entities(len(rest))]), np.concatenate([relations, rest])
        )

    def keys(self, count: int) -> Keys:
        """Hand on so many draws, equal ones among them."""
        return self._with_objects(self._draw_entities(count), self._draw_relations(count))

    def triples(self, keys: Keys) -> Ids:
        """Hand on what the keys stand for."""
        triples = np.empty((len(keys), 3), np.int32)
        rest, triples[:, 2] = np.divmod(keys, self._n)
        triples[:, 0], triples[:, 1] = np.divmod(rest, self._m)
        return triples

    def _with_objects(self, subjects: Keys, relations: Keys) -> Keys:
        group = self._target[relations, self._group[subjects]]
        low, high = self._upto[self._starts[group]], self._upto[self._starts[group + 1]]
        anywhere = self._rng.random(len(group)) < NOISE
        low, high = np.where(anywhere, 0.0, low), np.where(anywhere, self._upto[-1], high)
        objects = self._members[self._place(low + (high - low) * self._rng.random(len(group)))]
        return (subjects * self._m + relations) * self._n + objects

    def _draw_entities(self, count: int) -> Keys:
        return self._members[self._place(self._upto[-1] * self._rng.random(count))]

    def _place(self, points: NDArray[np.float64]) -> Keys:
        return np.minimum(np.searchsorted(self._upto, points, side="right") - 1, self._n - 1)

    def _draw_relations(self, count: int) -> Keys:
        drawn = np.searchsorted(self._relations, self._rng.random(count), side="right")
        return np.minimum(drawn, self._m - 1)


def _zipf(count: int, exponent: float) -> NDArray[np.float64]:
    shares = np.arange(1, count + 1) ** -exponent
    return shares / shares.sum()


def _among(keys: Keys, ordered: Keys) -> NDArray[np.bool_]:
    if not len(ordered):
        return np.zeros(len(keys), dtype=bool)
    return ordered[np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)] == keys
