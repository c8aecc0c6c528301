"""What is asked of a model: distinct (relation, given end) of some triples, with answers and known facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from consmrf.errors import InputError

__all__ = ["SIDES", "Counted", "Ids", "Longs", "Queries", "distinct", "not_finite", "queries", "runs"]

Ids = NDArray[np.int32]
Longs = NDArray[np.int64]

SIDES = ("objects", "subjects")  # which end of the triple is ranked; the other end is given


@dataclass(frozen=True)
class Queries:
    """The distinct (relation, given end) of some triples, ordered, each with its answers and known facts."""

    side: str
    n_entities: int
    relation: Ids  # [q] ascending
    given: Ids  # [q] ascending within a relation
    indptr: Longs  # [q + 1] where each query's answers begin
    answers: Ids  # [n]
    position: Longs  # [n] the row of each answer among the triples the queries were made of
    known_indptr: Longs  # [q + 1]
    known: Ids  # [m] ascending within a query: everything known to be true, the answers included

    def __len__(self) -> int:
        return len(self.relation)

    @property
    def candidates(self) -> Longs:
        """How many entities an answer of each query is ranked among, itself included."""
        return self.n_entities + 1 - np.diff(self.known_indptr)


class Counted(NamedTuple):
    """Ranks of the answers, by the rows of the triples the queries were made of."""

    lower: Longs  # 1 + #better
    upper: Longs  # 1 + #better + #equal
    candidates: Longs

    @property
    def rank(self) -> NDArray[np.float64]:
        """1 + #better + ½·#equal."""
        return (self.lower + self.upper) / 2


def distinct(triples: Ids) -> Ids:
    """Hand on the triples ordered by relation, subject, object, each once."""
    ordered = triples[np.lexsort((triples[:, 2], triples[:, 0], triples[:, 1]))]
    fresh = np.ones(len(ordered), dtype=bool)
    fresh[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return ordered[fresh]


def queries(triples: Ids, known: Sequence[Ids], side: str, n_entities: int) -> Queries:
    """Group distinct triples by their given end; keep the known facts that answer one of these queries."""
    given, answer = (0, 2) if side == "objects" else (2, 0)
    pairs, query = np.unique(_pair(triples, given, n_entities), return_inverse=True)
    keys = query * n_entities + triples[:, answer]
    position = np.argsort(keys)
    facts = [keys]
    for part in known:
        pair = _pair(part, given, n_entities)
        found = np.minimum(np.searchsorted(pairs, pair), len(pairs) - 1)
        asked = pairs[found] == pair
        facts.append(found[asked] * n_entities + part[asked, answer])
    fact = np.unique(np.concatenate(facts))
    bounds = np.arange(len(pairs) + 1) * n_entities
    return Queries(
        side=side,
        n_entities=n_entities,
        relation=(pairs // n_entities).astype(np.int32),
        given=(pairs % n_entities).astype(np.int32),
        indptr=np.searchsorted(keys[position], bounds),
        answers=triples[position, answer],
        position=position,
        known_indptr=np.searchsorted(fact, bounds),
        known=(fact % n_entities).astype(np.int32),
    )


def _pair(triples: Ids, given: int, n_entities: int) -> Longs:
    return triples[:, 1].astype(np.int64) * n_entities + triples[:, given]


def runs(values: NDArray[np.integer]) -> list[tuple[int, int]]:
    """Hand on (begin, end) of each stretch of equal values."""
    starts = np.flatnonzero(np.diff(values, prepend=-1)).tolist()
    return list(zip(starts, [*starts[1:], len(values)], strict=True)) if len(values) else []


def not_finite(asked: Queries, query: int, labels: Sequence[str]) -> InputError:
    """Hand on the error of a query whose scores cannot be put in an order."""
    relation = int(asked.relation[query])
    name = repr(labels[relation]) if labels else f"number {relation}"
    return InputError(
        f"the scores of {asked.side} for relation {name} are not all finite, so they cannot be "
        "ranked: fit again with a smaller learning_rate or rho"
    )
