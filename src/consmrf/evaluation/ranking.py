"""Filtered ranking: each positive against every entity that is not another known answer of the same query."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from consmrf.errors import InputError
from consmrf.evaluation.metrics import reciprocal_rank
from consmrf.evaluation.queries import (
    SIDES,
    Counted,
    Ids,
    Longs,
    Queries,
    distinct,
    not_finite,
    queries,
    runs,
)
from consmrf.evaluation.strata import spaced, spaced_error
from consmrf.model import Model
from consmrf.predictors import Counts, Factors

__all__ = [
    "SIDES",
    "Counted",
    "Ids",
    "Queries",
    "Scorer",
    "ValidationScore",
    "distinct",
    "one_blas_thread",
    "queries",
    "rank",
    "score_blocks",
    "tiled",
]

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


def score_blocks(
    scorer: Scorer, asked: Queries, memory_mib: int, labels: Sequence[str] = ()
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Yield (first query, scores [queries, |E|]) in blocks of one relation that keep to the memory limit.

    A block has at least one row, whatever the limit. Scores that are not finite have no rank: an error.
    """
    enough = max(_ENOUGH_BYTES // (4 * asked.n_entities), _ENOUGH_ROWS)
    rows = max(1, min(enough, (memory_mib << 20) // (_BYTES_PER_SCORE * asked.n_entities)))
    score = scorer.object_scores if asked.side == "objects" else scorer.subject_scores
    for begin, end in runs(asked.relation):
        relation = int(asked.relation[begin])
        for first in range(begin, end, rows):
            scores = score(relation, asked.given[first : min(first + rows, end)])
            if not (np.isfinite(scores.min()) and np.isfinite(scores.max())):
                raise not_finite(asked, first, labels)
            yield first, scores
            del scores


def rank(
    scorer: Scorer,
    asked: Queries,
    memory_mib: int = 512,
    labels: Sequence[str] = (),
    threads: int | None = None,
) -> Counted:
    """Rank every answer among the entities that are not known answers of its query, itself excepted.

    Factors are ranked by tiles, on `threads` threads (None: one per core) or as many as memory has room for.
    """
    factors = tiled(scorer)
    counts = scorer.predictor if isinstance(scorer, Model) else scorer
    if factors is not None:
        from consmrf.evaluation.tiles import count_answers  # here, for it loads the compiler

        cores = threads or os.cpu_count() or 1
        better, equal = count_answers(factors, asked, memory_mib=memory_mib, threads=cores, labels=labels)
    elif isinstance(counts, Counts):
        better, equal = _count_repeated(counts, asked, labels)
    else:
        better, equal = _count_blocks(scorer, asked, memory_mib, labels)
    lower, upper, candidates = np.empty_like(better), np.empty_like(better), np.empty_like(better)
    lower[asked.position] = 1 + better
    upper[asked.position] = 1 + better + equal
    candidates[asked.position] = np.repeat(asked.candidates, np.diff(asked.indptr))
    return Counted(lower, upper, candidates)


def tiled(scorer: Scorer) -> Factors | None:
    """Hand on the factors behind a scorer, where they can be ranked by tiles."""
    predictor = scorer.predictor if isinstance(scorer, Model) else scorer
    known = isinstance(predictor, Factors) and predictor.z.dtype in (np.float32, np.float64)
    return predictor if known and isinstance(predictor, Factors) else None


def _count_repeated(counts: Counts, asked: Queries, labels: Sequence[str]) -> tuple[Longs, Longs]:
    """Count where all queries of a relation have the same scores: sorted once, known facts taken off."""
    better, equal = np.empty_like(asked.position), np.empty_like(asked.position)
    indptr, known_indptr = asked.indptr.tolist(), asked.known_indptr.tolist()
    side = counts.objects if asked.side == "objects" else counts.subjects
    for begin, end in runs(asked.relation):
        [scores] = side.repeated(int(asked.relation[begin]), 1)
        if not np.isfinite(scores).all():
            raise not_finite(asked, begin, labels)
        ordered = np.sort(scores)
        for q in range(begin, end):
            own = slice(indptr[q], indptr[q + 1])
            targets = scores[asked.answers[own]]
            known = np.sort(scores[asked.known[known_indptr[q] : known_indptr[q + 1]]])
            above, same = _among(ordered, targets)
            known_above, known_same = _among(known, targets)
            better[own], equal[own] = above - known_above, same - known_same
    return better, equal


def _count_blocks(
    scorer: Scorer, asked: Queries, memory_mib: int, labels: Sequence[str]
) -> tuple[Longs, Longs]:
    """Count among the scores that a model hands on, whatever it is; equal are those with the same bits."""
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
    return better, equal


def _count(
    rivals: NDArray[np.float32], targets: NDArray[np.float32], mask: NDArray[np.bool_]
) -> tuple[Longs, Longs]:
    """For each target: how many rivals are higher, how many equal. Overwrites mask, may sort rivals."""
    if len(targets) >= _SORT_FROM:
        rivals.sort()
        return _among(rivals, targets)
    higher = [np.count_nonzero(np.greater(rivals, t, out=mask)) for t in targets]
    equal = [np.count_nonzero(np.equal(rivals, t, out=mask)) for t in targets]
    return np.array(higher), np.array(equal)


def _among(ordered: NDArray[np.float32], targets: NDArray[np.float32]) -> tuple[Longs, Longs]:
    """For each target: how many of an ascending array are higher, how many equal."""
    upto = np.searchsorted(ordered, targets, side="right")
    return len(ordered) - upto, upto - np.searchsorted(ordered, targets, side="left")


class ValidationScore:
    """Filtered MRR of both sides on a fixed sample of validation triples: built once, called many times."""

    def __init__(
        self,
        valid: Ids,
        known: Ids,
        n_entities: int,
        limit: int = 2000,
        seed: int = 0,
        threads: int | None = None,
    ) -> None:
        """Receive validation and other known triples in ids; `valid` itself counts as known, all of it.

        Of more than `limit` triples every relation gives its share, drawn once.
        """
        triples = distinct(valid)
        if not len(triples):
            raise InputError("no validation triple has an entity and a relation of the training triples")
        self._total = len(triples)
        if len(triples) > limit:
            triples = triples[spaced(triples[:, 1], limit, seed)]
        self.triples = triples
        self._threads = threads
        self._queries = [queries(triples, (known, valid), side, n_entities) for side in SIDES]

    def __call__(self, scorer: Scorer) -> float:
        """Hand on the MRR of `triples`; scores that are not finite are an InputError."""
        return self.measure(scorer)[0]

    def measure(self, scorer: Scorer) -> tuple[float, float]:
        """Hand on the MRR, and its standard error as an estimate of that of all validation triples.

        The error is 0 where all are ranked.
        """
        values = reciprocal_rank(self.ranks(scorer)).mean(axis=0)
        return float(values.mean()), spaced_error(values, self._total) if len(values) < self._total else 0.0

    def ranks(self, scorer: Scorer) -> NDArray[np.float64]:
        """Hand on [2, n]: the rank of each of `triples` as object, and as subject."""
        with one_blas_thread():
            return np.stack([rank(scorer, asked, threads=self._threads).rank for asked in self._queries])
