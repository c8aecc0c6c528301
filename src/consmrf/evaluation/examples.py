"""Single queries to look at: the worst of the worst relations, and what was ranked before the answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from consmrf.evaluation.ranking import SIDES, Ids, Scorer
from consmrf.evaluation.result import Evaluation

__all__ = ["Example", "worst_queries", "worst_relations"]


class Example(NamedTuple):
    """One ranked answer in labels; `before` are the first of the candidates that the model preferred."""

    subject: str
    relation: str
    object: str
    side: str
    rank: float
    candidates: int
    before: tuple[str, ...]


def worst_relations(evaluation: Evaluation, most: int = 5) -> list[str]:
    """Hand on the relations of lowest MRR, the view shown first."""
    told = evaluation.relations
    return sorted(told, key=lambda r: (told[r][evaluation.view]["mrr"] or 0.0, r))[:most]


def worst_queries(
    scorer: Scorer, evaluation: Evaluation, known: Sequence[Ids], relation: str, most: int = 2
) -> list[Example]:
    """Hand on the queries of a relation with the highest rank above 1, at most one of each given end.

    `known` are the facts that stood for nothing wrong when the ranks were made, the test triples included.
    Queries with labels that the model has no scores for are passed over.
    """
    ranks, labels = evaluation.ranks, evaluation.vocabulary
    n_entities = evaluation.candidates
    r = labels.relation_ids[relation]
    failed = (ranks.rank > 1) & (ranks.candidates <= n_entities)
    own = np.flatnonzero((ranks.r == r) & (ranks.side < len(SIDES)) & failed)
    order = own[np.lexsort((own, -ranks.rank[own]))].tolist()
    told: dict[tuple[int, int], Example] = {}
    for i in order:
        side = SIDES[ranks.side[i]]
        given, answer = (ranks.s[i], ranks.o[i]) if side == "objects" else (ranks.o[i], ranks.s[i])
        if (ranks.side[i], given) in told:
            continue
        first = _before(scorer, known, side, r, int(given), int(answer))
        told[ranks.side[i], given] = Example(
            labels.entities[ranks.s[i]],
            relation,
            labels.entities[ranks.o[i]],
            side,
            float(ranks.rank[i]),
            int(ranks.candidates[i]),
            tuple(labels.entities[e] for e in first),
        )
        if len(told) == most:
            break
    return list(told.values())


def _before(
    scorer: Scorer, known: Sequence[Ids], side: str, relation: int, given: int, answer: int, most: int = 3
) -> list[int]:
    """Hand on the candidates ranked first, before the answer."""
    ask, column = (scorer.object_scores, 0) if side == "objects" else (scorer.subject_scores, 2)
    scores: NDArray[np.float32] = ask(relation, np.array([given], np.int32))[0].copy()
    least = scores[answer]
    for facts in known:
        true = (facts[:, 1] == relation) & (facts[:, column] == given)
        scores[facts[true, 2 - column]] = -np.inf
    first = np.argsort(-scores, kind="stable")[:most]
    return [int(e) for e in first if scores[e] > least]
