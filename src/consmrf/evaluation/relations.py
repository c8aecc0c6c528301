"""Relation prediction: which relation holds between a subject and an object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from consmrf.errors import InputError
from consmrf.evaluation.ranking import Counted, Ids

__all__ = ["RAW_HIT", "RelationScorer", "RelationsRanked", "rank_relations", "raw_hits"]

RAW_HIT = "hits@5%"
# Scores, a copy without known relations, and comparisons.
_BYTES_PER_SCORE = 32


class RelationScorer(Protocol):
    """What relation prediction needs of a model."""

    def relation_scores(self, subjects: Ids, objects: Ids, /) -> NDArray[np.float32]: ...


class RelationsRanked(NamedTuple):
    """Ranks of the triples' relations, by the rows of the triples."""

    filtered: Counted  # among the relations not known to hold between the two
    raw: Counted  # among all relations


def raw_hits(rank: NDArray[np.number], n_relations: int) -> NDArray[np.float64]:
    """Hand on 1 where a raw rank is within the first ⌈5 %⌉ of the relations, else 0.

    It is the measure of verb prediction (Jenatton et al., 2012). Rounding up keeps one place at least.
    """
    return (np.asarray(rank) <= -(-n_relations // 20)).astype(np.float64)


def rank_relations(
    scorer: RelationScorer, triples: Ids, known: Sequence[Ids], n_relations: int, memory_mib: int = 512
) -> RelationsRanked:
    """Rank the relation of each distinct triple among the relations; `known` need not hold the triples."""
    key = _pair(triples)
    pairs, query = np.unique(key, return_inverse=True)
    facts = [query * n_relations + triples[:, 1]]
    for part in known:
        own = _pair(part)
        found = np.minimum(np.searchsorted(pairs, own), len(pairs) - 1)
        asked = pairs[found] == own
        facts.append(found[asked] * n_relations + part[asked, 1])
    fact = np.unique(np.concatenate(facts))
    order = np.argsort(query, kind="stable")
    first = order[np.searchsorted(query[order], np.arange(len(pairs)))]
    rows = max(1, (memory_mib << 20) // (_BYTES_PER_SCORE * n_relations))
    counts = np.empty((4, len(triples)), np.int64)
    for begin in range(0, len(pairs), rows):
        block = first[begin : begin + rows]
        scores = scorer.relation_scores(triples[block, 0], triples[block, 2])
        if not np.isfinite(scores).all():
            raise InputError(
                "the scores of relations are not all finite, so they cannot be ranked: fit again with a "
                "smaller learning_rate or rho"
            )
        lo, hi = np.searchsorted(fact, np.array([begin, begin + len(block)]) * n_relations)
        rivals = scores.copy()  # the model's own array stays as it is
        rivals.reshape(-1)[fact[lo:hi] - begin * n_relations] = -np.inf
        ends = np.searchsorted(query[order], [begin, begin + len(block)])
        _count(scores, rivals, triples[:, 1], query - begin, order[ends[0] : ends[1]], counts, rows)
    left = n_relations + 1 - np.bincount(fact // n_relations, minlength=len(pairs))[query]
    above, equal, raw_above, raw_equal = counts
    return RelationsRanked(
        Counted(1 + above, 1 + above + equal, left),
        Counted(1 + raw_above, raw_above + raw_equal, np.full(len(triples), n_relations)),
    )


def _count(
    scores: NDArray[np.float32],
    rivals: NDArray[np.float32],
    relation: Ids,
    row: NDArray[np.int64],
    asked: NDArray[np.int64],
    counts: NDArray[np.int64],
    most: int,
) -> None:
    """Count for the triples asked what is above them and what is equal, among the rivals and among all."""
    for part in np.split(asked, range(most, len(asked), most)):
        target = scores[row[part], relation[part]][:, None]
        for i, pool in ((0, rivals), (2, scores)):
            own = pool[row[part]]
            counts[i, part] = (own > target).sum(axis=1)
            counts[i + 1, part] = (own == target).sum(axis=1)


def _pair(triples: Ids) -> NDArray[np.int64]:
    return triples[:, 0].astype(np.int64) << 32 | triples[:, 2].astype(np.int64)
