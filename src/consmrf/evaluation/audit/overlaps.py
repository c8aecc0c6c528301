"""Relations that repeat each other: how many facts of one are facts of another too, as they are or reversed.

Counted over the pairs that facts share, never over all |R|² pairs of relations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from consmrf.evaluation.audit.options import AuditOptions
from consmrf.evaluation.audit.pairs import Ids, Longs, Pairs

__all__ = ["Overlaps", "overlaps"]


@dataclass(frozen=True)
class Overlaps:
    """Rules “a fact of `body` is one of `head`”, or is one when reversed, with what bears them out.

    A fact that links an entity to itself says nothing of direction: reversed ones are counted without it. A
    relation whose mirror images are its own facts is its own head.
    """

    body: Ids
    head: Ids
    reversed: NDArray[np.bool_]
    shared: Longs  # facts of body that are also facts of head
    share_of_body: NDArray[np.float64]
    share_of_head: NDArray[np.float64]
    n_relations: int

    def __len__(self) -> int:
        return len(self.body)

    def rules(self, chosen: NDArray[np.bool_]) -> Longs:
        """Hand on the rules chosen as ascending numbers, body·|R| + head."""
        numbers = self.body[chosen].astype(np.int64) * self.n_relations + self.head[chosen]
        return np.sort(numbers)


def overlaps(facts: Pairs, n_relations: int, options: AuditOptions) -> tuple[Overlaps, Longs, Longs]:
    """Find the rules that at least `share` of their body bears out, and at least `least` facts.

    A relation needs the share `symmetric` of mirrored facts. Handed on beside them: by relation, how many
    facts are not from an entity to itself, and how many of these are mirrored.
    """
    s, o = facts.ends
    pair = facts.pair
    turned = np.where(s == o, -1, facts.find(o, s))
    order = np.argsort(facts.relation, kind="stable")
    pair, relation = pair[order], facts.relation[order]
    size = np.bincount(relation, minlength=n_relations)
    proper = np.bincount(relation[(s != o)[pair]], minlength=n_relations)
    mirrored = np.zeros(n_relations, dtype=np.int64)
    found = []
    for way, met, among in ((False, pair, size), (True, turned[pair], proper)):
        for body, head, shared in _counted(facts, relation, met, n_relations):
            own = body == head
            if way:
                mirrored[body[own]] = shared[own]
            least = np.where(own, options.symmetric, options.share)
            kept = (shared / among[body] >= least) & (shared >= options.least) & (way | ~own)
            found.append((body[kept], head[kept], np.full(kept.sum(), way), shared[kept]))
    body, head, ways, shared = (np.concatenate(column) for column in zip(*found, strict=True))
    among = np.where(ways, proper[np.stack([body, head])], size[np.stack([body, head])])
    shares = shared / among
    return Overlaps(body, head, ways, shared, shares[0], shares[1], n_relations), proper, mirrored


def _counted(facts: Pairs, relation: Ids, pair: Longs, n_relations: int) -> Iterator[tuple[Ids, Ids, Longs]]:
    """Hand on (body, head, shared facts), all heads of a body at once; `relation` is ascending."""
    keys, counts = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    for row, head in facts.meet(pair):
        body = relation[row].astype(np.int64)
        more, times = np.unique(body * n_relations + head, return_counts=True)
        keys, counts = _summed(np.concatenate([keys, more]), np.concatenate([counts, times]))
        done = np.searchsorted(keys, body[-1] * n_relations)  # the next block may go on with the last body
        yield _split(keys[:done], counts[:done], n_relations)
        keys, counts = keys[done:], counts[done:]
    yield _split(keys, counts, n_relations)


def _summed(keys: Longs, counts: Longs) -> tuple[Longs, Longs]:
    unique, at = np.unique(keys, return_inverse=True)
    sums = np.zeros(len(unique), dtype=np.int64)
    np.add.at(sums, at, counts)
    return unique, sums


def _split(keys: Longs, counts: Longs, n_relations: int) -> tuple[Ids, Ids, Longs]:
    body, head = np.divmod(keys, n_relations)
    return body.astype(np.int32), head.astype(np.int32), counts
