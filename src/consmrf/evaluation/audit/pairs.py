"""The linked pairs (subject, object) of a graph, and for each the relations that link it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

__all__ = ["Ids", "Longs", "Pairs", "member"]

Ids = NDArray[np.int32]
Longs = NDArray[np.int64]

_AT_ONCE = 1 << 22  # relations met at a time: what bounds the memory where pairs have many relations


@dataclass(frozen=True)
class Pairs:
    """CSR from pair to relations. A pair is one number, s·|E| + o, so that looking it up is a search."""

    n_entities: int
    key: Longs  # [p] ascending
    indptr: Longs  # [p + 1]
    relation: Ids  # [n] ascending within a pair

    @classmethod
    def of(cls, triples: Ids, n_entities: int, n_relations: int) -> Pairs:
        """Sort triples into pairs; repetitions are dropped."""
        s, r, o = triples.astype(np.int64).T
        pair = s * n_entities + o
        if n_entities**2 * n_relations < 2**63:
            pair *= n_relations
            pair += r
            pair.sort()
            pair = pair[_changes(pair)]
            pair, r = np.divmod(pair, n_relations)
        else:  # too many for one whole number per triple
            order = np.lexsort((r, pair))
            pair, r = pair[order], r[order]
            fresh = _changes(pair) | _changes(r)
            pair, r = pair[fresh], r[fresh]
        begin = np.flatnonzero(_changes(pair))
        return cls(n_entities, pair[begin], np.append(begin, len(pair)), r.astype(np.int32))

    def __len__(self) -> int:
        return len(self.relation)

    @property
    def ends(self) -> tuple[Ids, Ids]:
        """The subject and the object of each pair."""
        s, o = np.divmod(self.key, self.n_entities)
        return s.astype(np.int32), o.astype(np.int32)

    @property
    def triples(self) -> Ids:
        """The triples [n, 3], ordered by subject, object and relation."""
        s, o = self.ends
        return np.stack([s[self.pair], self.relation, o[self.pair]], axis=1)

    @property
    def pair(self) -> Longs:
        """The pair of each triple, the triples in the order of `relation`."""
        return np.repeat(np.arange(len(self.key)), np.diff(self.indptr))

    def find(self, first: Ids, second: Ids) -> Longs:
        """Hand on the position of each pair (first, second), −1 where it is not linked."""
        wanted = first.astype(np.int64) * self.n_entities + second
        order = np.argsort(wanted)  # in order, a search finds its way in the cache
        found = np.empty(len(wanted), dtype=np.int64)
        found[order] = _position(self.key, wanted[order])
        return found

    def meet(self, pair: Longs) -> Iterator[tuple[Longs, Ids]]:
        """Hand on what links the pairs given as (position in `pair`, relation), in blocks of whole positions.

        Pairs at −1 meet nothing.
        """
        length = np.where(pair >= 0, self.indptr[pair + 1] - self.indptr[pair], 0)
        rows = np.flatnonzero(length)
        length = length[rows]
        cuts = np.flatnonzero(np.diff(np.cumsum(length) // _AT_ONCE, prepend=-1))
        for lo, hi in pairwise([*cuts.tolist(), len(rows)]):
            row, n = rows[lo:hi], length[lo:hi]
            total = int(n.sum())
            within = np.arange(total) - np.repeat(np.cumsum(n) - n, n)
            yield np.repeat(row, n), self.relation[np.repeat(self.indptr[pair[row]], n) + within]


def member(wanted: Longs, ascending: Longs) -> NDArray[np.bool_]:
    """Say for each number whether it is among the ascending ones."""
    found: NDArray[np.bool_] = _position(ascending, wanted) >= 0
    return found


def _position(ascending: Longs, wanted: Longs) -> Longs:
    if not len(ascending):
        return np.full(len(wanted), -1)
    at = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
    return np.where(ascending[at] == wanted, at, -1)


def _changes(x: Longs) -> NDArray[np.bool_]:
    changes = np.ones(len(x), dtype=bool)
    changes[1:] = x[1:] != x[:-1]
    return changes
