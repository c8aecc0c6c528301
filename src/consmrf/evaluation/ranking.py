"""Filtered ranking: each positive against every entity that is not another known answer of the same query."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from consmrf.errors import InputError
from consmrf.evaluation.metrics import mrr

__all__ = [
    "SIDES",
    "Counted",
    "Queries",
    "Scorer",
    "ValidationScore",
    "distinct",
    "one_blas_thread",
    "queries",
    "rank",
    "score_blocks",
]

Ids = NDArray[np.int32]
Longs = NDArray[np.int64]

SIDES = ("objects", "subjects")  # which end of the triple is ranked; the other end is given

# What one score may cost at most, in bytes: 4 where it is read, the rest while the model computes a block.
_BYTES_PER_SCORE = 32
# A block of this many bytes, or rows where those are more, is as fast as any larger one (fb15k237, k = 50).
_ENOUGH_BYTES, _ENOUGH_ROWS = 8 << 20, 64
# From this many positives in one query on, sorting its row once is cheaper than comparing the row with each.
_SORT_FROM = 24


_limits: list[threadpool_limits] = []  # one while anybody is in the context below
_inside = 0
_lock = threading.Lock()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep matrix products on one thread, for the whole process, while anybody is in this context.

    The products here are small: a second thread gains little, changes the last bits of the scores, and where
    the cores are busy costs twenty times what it saves. The limit is the process's: it is set by the first to
    enter and lifted by the last to leave, for whoever leaves earlier would lift it for the others.
    """
    global _inside
    with _lock:
        if _inside == 0:
            _limits.append(threadpool_limits(limits=1, user_api="blas"))
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _limits.pop().restore_original_limits()


class Scorer(Protocol):
    """What is ranked: the scores of all entities, for one relation and many given ends."""

    def object_scores(self, relation: int, subjects: Ids, /) -> NDArray[np.float32]: ...

    def subject_scores(self, relation: int, objects: Ids, /) -> NDArray[np.float32]: ...


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


def score_blocks(
    scorer: Scorer, asked: Queries, memory_mib: int, labels: Sequence[str] = ()
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Yield (first query, scores [queries, |E|]) in blocks of one relation that keep to the memory limit.

    A block has at least one row, whatever the limit. Scores that are not finite have no rank: an error.
    """
    enough = max(_ENOUGH_BYTES // (4 * asked.n_entities), _ENOUGH_ROWS)
    rows = max(1, min(enough, (memory_mib << 20) // (_BYTES_PER_SCORE * asked.n_entities)))
    score = scorer.object_scores if asked.side == "objects" else scorer.subject_scores
    starts = np.flatnonzero(np.diff(asked.relation, prepend=-1)).tolist()
    for begin, end in zip(starts, [*starts[1:], len(asked)], strict=True):
        relation = int(asked.relation[begin])
        for first in range(begin, end, rows):
            scores = score(relation, asked.given[first : min(first + rows, end)])
            if not (np.isfinite(scores.min()) and np.isfinite(scores.max())):
                name = repr(labels[relation]) if labels else f"number {relation}"
                raise InputError(
                    f"the scores of {asked.side} for relation {name} are not all finite, so they cannot be "
                    "ranked: fit again with a smaller learning_rate or rho"
                )
            yield first, scores
            del scores


def rank(scorer: Scorer, asked: Queries, memory_mib: int = 512, labels: Sequence[str] = ()) -> Counted:
    """Rank every answer among the entities that are not known answers of its query, itself excepted."""
    better, equal = np.empty_like(asked.position), np.empty_like(asked.position)
    mask = np.empty(asked.n_entities, dtype=bool)
    indptr, known_indptr = asked.indptr.tolist(), asked.known_indptr.tolist()
    for first, scores in score_blocks(scorer, asked, memory_mib, labels):
        for q, row in enumerate(scores, start=first):
            own = slice(indptr[q], indptr[q + 1])
            targets = row[asked.answers[own]]
            rivals = row.copy()  # the model's own array stays as it is
            rivals[asked.known[known_indptr[q] : known_indptr[q + 1]]] = -np.inf
            better[own], equal[own] = _count(rivals, targets, mask)
        del scores, row, rivals
    lower, upper, candidates = np.empty_like(better), np.empty_like(better), np.empty_like(better)
    lower[asked.position] = 1 + better
    upper[asked.position] = 1 + better + equal
    candidates[asked.position] = np.repeat(asked.candidates, np.diff(asked.indptr))
    return Counted(lower, upper, candidates)


def _count(
    rivals: NDArray[np.float32], targets: NDArray[np.float32], mask: NDArray[np.bool_]
) -> tuple[Longs, Longs]:
    """For each target: how many rivals are higher, how many equal. Overwrites mask, may sort rivals."""
    if len(targets) >= _SORT_FROM:
        rivals.sort()
        upto = np.searchsorted(rivals, targets, side="right")
        return len(rivals) - upto, upto - np.searchsorted(rivals, targets, side="left")
    higher = [np.count_nonzero(np.greater(rivals, t, out=mask)) for t in targets]
    equal = [np.count_nonzero(np.equal(rivals, t, out=mask)) for t in targets]
    return np.array(higher), np.array(equal)


class ValidationScore:
    """Filtered MRR of both sides on a fixed sample of validation triples: built once, called many times."""

    def __init__(self, valid: Ids, known: Ids, n_entities: int, limit: int = 2000, seed: int = 0) -> None:
        """Receive validation and other known triples in ids; `valid` itself counts as known, all of it."""
        triples = distinct(valid)
        if not len(triples):
            raise InputError("no validation triple has an entity and a relation of the training triples")
        if len(triples) > limit:
            triples = triples[np.sort(np.random.default_rng(seed).choice(len(triples), limit, replace=False))]
        self.triples = triples
        self._queries = [queries(triples, (known, valid), side, n_entities) for side in SIDES]

    def __call__(self, scorer: Scorer) -> float:
        """Hand on the MRR; scores that are not finite are an InputError."""
        return mrr(self.ranks(scorer).ravel())

    def ranks(self, scorer: Scorer) -> NDArray[np.float64]:
        """Hand on [2, n]: the rank of each of `triples` as object, and as subject."""
        with one_blas_thread():
            return np.stack([rank(scorer, asked).rank for asked in self._queries])
