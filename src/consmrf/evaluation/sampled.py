"""Queries among sampled candidates: the paper's protocol, of (relation, subject), and either side's AUC.

A rank among sampled candidates is smaller than the rank among all. Only what is linear in it, the share of
candidates that a positive beats, is the same in expectation: AUC. MRR and Hits@k are not, and are not given.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consmrf.evaluation.metrics import list_auc, place, precision_at, recall_at
from consmrf.evaluation.ranking import Counted, Ids, Queries, Scorer, score_blocks, tiled

__all__ = ["LIST_METRICS", "Sampled", "draw_unobserved", "rank_sampled"]

_TOP = 5
LIST_METRICS = ("auc", f"precision@{_TOP}", f"recall@{_TOP}")


@dataclass(frozen=True)
class Sampled:
    """What the paper's protocol found, one row per (relation, subject) that has an unobserved object."""

    values: NDArray[np.float64]  # [pairs, LIST_METRICS, (expected, pessimistic, optimistic)]
    scored: NDArray[np.bool_]  # [queries] whether there was an unobserved object to compare with
    counted: Counted  # each positive's rank among its own negatives, by the rows of the test triples
    placed: NDArray[np.bool_]  # [triples] whether the triple's pair is scored


def rank_sampled(
    scorer: Scorer,
    asked: Queries,
    count: int,
    seed: int,
    memory_mib: int = 512,
    labels: Sequence[str] = (),
    threads: int | None = None,
) -> Sampled:
    """Rank each query's answers among up to `count` unobserved objects, drawn per query."""
    n, unobserved = len(asked.answers), asked.candidates - 1
    values = np.full((len(asked), len(LIST_METRICS), 3), np.nan)
    above, equal = np.zeros(n, np.int64), np.zeros(n, np.int64)

    def wanted(q: int) -> NDArray[np.int64]:
        """Hand on the answers of a query and after them what is drawn; nothing where nothing can be."""
        if not unobserved[q]:
            return np.empty(0, np.int64)
        rng = np.random.default_rng([seed, asked.relation[q], asked.given[q]])
        known = asked.known[asked.known_indptr[q] : asked.known_indptr[q + 1]]
        drawn = draw_unobserved(known, asked.n_entities, count, rng)
        return np.concatenate([asked.answers[asked.indptr[q] : asked.indptr[q + 1]], drawn])

    most = min(count, asked.n_entities) + int(np.diff(asked.indptr).max())
    for q, scores in _scores(scorer, asked, wanted, (most, memory_mib, labels, threads)):
        if len(scores):
            own = slice(asked.indptr[q], asked.indptr[q + 1])
            positives = int(asked.indptr[q + 1] - asked.indptr[q])
            placing = place(scores[:positives], scores[positives:])
            values[q] = list_auc(placing), precision_at(placing, _TOP), recall_at(placing, _TOP)
            above[own], equal[own] = placing.above, placing.equal
    candidates = np.repeat(np.minimum(unobserved, count) + 1, np.diff(asked.indptr))
    back = np.argsort(asked.position)
    counted = Counted((1 + above)[back], (1 + above + equal)[back], candidates[back])
    scored = unobserved > 0
    return Sampled(values[scored], scored, counted, counted.candidates > 1)


def _scores(
    scorer: Scorer,
    asked: Queries,
    wanted: Callable[[int], NDArray[np.int64]],
    given: tuple[int, int, Sequence[str], int | None],
) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield each query with the scores of the entities wanted for it; factors score no others."""
    most, memory_mib, labels, threads = given
    factors = tiled(scorer)
    if factors is not None:
        from consmrf.evaluation.tiles import score_wanted  # here, for it loads the compiler

        cores = threads or os.cpu_count() or 1
        yield from score_wanted(
            *(factors, asked, wanted, most), memory_mib=memory_mib, threads=cores, labels=labels
        )
        return
    for first, scores in score_blocks(scorer, asked, memory_mib, labels):
        for q, row in enumerate(scores, start=first):
            yield q, row[wanted(q)]
        del scores, row


def draw_unobserved(known: Ids, n_entities: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw `count` entities outside `known` (ascending, distinct), uniformly; all where there are fewer.

    The paper draws, rejects what is known, and collects a set: a uniform sample without replacement. Here the
    places among the unobserved entities are drawn, and `known` shifts them to entities: nothing is rejected.
    """
    unobserved = n_entities - len(known)
    if unobserved <= count:
        drawn = np.arange(unobserved)
    else:
        drawn = rng.choice(unobserved, count, replace=False, shuffle=False)
    return drawn + np.searchsorted(known - np.arange(len(known)), drawn, side="right")
