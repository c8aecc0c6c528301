"""Queries among sampled candidates: the paper's protocol, of (relation, subject), and either side's AUC.

A rank among sampled candidates is smaller than the rank among all. Only what is linear in it, the share of
candidates that a positive beats, is the same in expectation: AUC. MRR and Hits@k are not, and are not given.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from consmrf.evaluation.metrics import list_auc, place, precision_at, recall_at
from consmrf.evaluation.options import EvaluationOptions
from consmrf.evaluation.ranking import Counted, Ids, Queries, Scorer, score_blocks, tiled

__all__ = ["LIST_METRICS", "Sampled", "draw_unobserved", "rank_drawn", "rank_sampled"]

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
    scorer: Scorer, asked: Queries, count: int, seed: int, memory_mib: int = 512, labels: Sequence[str] = ()
) -> Sampled:
    """Rank each query's answers among up to `count` unobserved objects, drawn per query."""
    n, unobserved = len(asked.answers), asked.candidates - 1
    values = np.full((len(asked), len(LIST_METRICS), 3), np.nan)
    above, equal = np.zeros(n, np.int64), np.zeros(n, np.int64)
    for first, scores in score_blocks(scorer, asked, memory_mib, labels):
        for q, row in enumerate(scores, start=first):
            if not unobserved[q]:
                continue
            own = slice(asked.indptr[q], asked.indptr[q + 1])
            rng = np.random.default_rng([seed, asked.relation[q], asked.given[q]])
            known = asked.known[asked.known_indptr[q] : asked.known_indptr[q + 1]]
            placing = place(
                row[asked.answers[own]], row[draw_unobserved(known, asked.n_entities, count, rng)]
            )
            values[q] = list_auc(placing), precision_at(placing, _TOP), recall_at(placing, _TOP)
            above[own], equal[own] = placing.above, placing.equal
        del scores, row
    candidates = np.repeat(np.minimum(unobserved, count) + 1, np.diff(asked.indptr))
    back = np.argsort(asked.position)
    counted = Counted((1 + above)[back], (1 + above + equal)[back], candidates[back])
    scored = unobserved > 0
    return Sampled(values[scored], scored, counted, counted.candidates > 1)


def rank_drawn(scorer: Scorer, asked: Queries, options: EvaluationOptions, labels: Sequence[str]) -> Counted:
    """Rank each answer of either side among up to `options.auc_candidates` candidates drawn for its query.

    The candidates are those of its query that are not known to be right; AUC is all these ranks are for.
    """
    count = options.auc_candidates or asked.n_entities
    predictor = tiled(scorer)
    if predictor is None:
        return rank_sampled(scorer, asked, count, options.seed, options.memory_mib, labels).counted
    from consmrf.evaluation.tiles import count_among  # here, for it loads the compiler

    def drawn(query: int) -> NDArray[np.int64]:
        rng = np.random.default_rng([options.seed, asked.relation[query], asked.given[query]])
        known = asked.known[asked.known_indptr[query] : asked.known_indptr[query + 1]]
        return draw_unobserved(known, asked.n_entities, count, rng)

    cores = options.threads or os.cpu_count() or 1
    counts = count_among(predictor, asked, drawn, threads=cores, labels=labels)
    candidates = np.repeat(np.minimum(asked.candidates - 1, count) + 1, np.diff(asked.indptr))
    back = np.argsort(asked.position)
    return Counted((1 + counts[:, 0])[back], (1 + counts[:, 1])[back], candidates[back])


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
