"""Evaluate a model on test triples: the paper's protocol, or filtered ranking against all entities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from consmrf.errors import InputError, SettingError
from consmrf.evaluation.metrics import RANK_METRICS, rank_values
from consmrf.evaluation.options import DEFAULTS, PROTOCOLS, EvaluationOptions
from consmrf.evaluation.ranking import (
    SIDES,
    Counted,
    Ids,
    Scorer,
    distinct,
    one_blas_thread,
    queries,
    rank,
)
from consmrf.evaluation.result import Evaluation, Measured, Ranks, summarise
from consmrf.evaluation.sampled import LIST_METRICS, rank_sampled
from consmrf.graph.triples import Encoded, Graph, check_graphs
from consmrf.graph.vocabulary import Vocabulary

__all__ = ["Evaluable", "Evaluation", "EvaluationOptions", "evaluate"]


class Evaluable(Scorer, Protocol):
    """What an evaluation needs of a model."""

    @property
    def vocabulary(self) -> Vocabulary: ...

    @property
    def known(self) -> Ids: ...  # its training triples, [n, 3]


def evaluate(
    model: Evaluable,
    test: Graph,
    *,
    known: Sequence[Graph] | Graph = (),
    protocol: str = "full",
    options: EvaluationOptions = DEFAULTS,
) -> Evaluation:
    """Measure how well a model ranks the facts of `test`; hand on an Evaluation.

    The model's training triples, every graph of `known` and `test` itself count as known: they never stand as
    wrong answers. Test triples with a label that the model has never seen are left out and counted.

    protocol "full": each end of each triple is ranked among all entities that are not known to be right.
    protocol "paper": each (relation, subject) ranks its objects among sampled unobserved objects.
    """
    known = [known] if isinstance(known, Graph) else known
    if protocol not in PROTOCOLS:
        raise SettingError(f"protocol = {protocol!r}: must be one of {', '.join(PROTOCOLS)}")
    if protocol == "paper" and "objects" not in options.sides:
        raise SettingError(f"sides = {options.sides!r}: must name objects, all that the paper protocol ranks")
    check_graphs("evaluate", test, *known)
    encoded = test.encode(model.vocabulary)
    triples = distinct(encoded.triples)
    if not len(triples):
        raise InputError(_nothing(test, encoded))
    others = [graph.encode(model.vocabulary).triples for graph in known]
    sources = [("training triples of the model", model.known), ("test", triples)]
    sources += [(f"known {i}", ids) for i, ids in enumerate(others, start=1)]
    run = _full if protocol == "full" else _paper
    with one_blas_thread():
        measured, ranks, pairs = run(model, triples, [model.known, *others], options)
    return Evaluation(
        protocol=protocol,
        options=options,
        vocabulary=model.vocabulary,
        filter=tuple(f"{name} ({len(ids)})" for name, ids in sources),
        candidates=len(model.vocabulary.entities) if protocol == "full" else options.candidates,
        triples={
            "scored": len(ranks) // len(measured.expected),
            "unseen_entity": encoded.unseen_entity,
            "unseen_relation": encoded.unseen_relation,
        },
        pairs=pairs,
        ranks=ranks,
        measured=measured,
        **summarise(measured, options, model.vocabulary.relations),
    )


def _nothing(test: Graph, encoded: Encoded) -> str:
    if not len(test):
        return "nothing to evaluate: the test graph holds no triples"
    return (
        f"nothing to evaluate: of {len(test)} test triples {encoded.unseen_entity} have an entity and "
        f"{encoded.unseen_relation} a relation that the model has never seen; use labels it was trained with"
    )


Run = tuple[Measured, Ranks, dict[str, int]]


def _full(model: Evaluable, triples: Ids, known: Sequence[Ids], options: EvaluationOptions) -> Run:
    n_entities, labels = len(model.vocabulary.entities), model.vocabulary.relations
    counted = {
        side: rank(
            model, queries(triples, known, side, n_entities), options.memory_mib, labels, options.threads
        )
        for side in options.sides
    }
    measured = Measured(
        RANK_METRICS,
        triples[:, 1],
        {side: rank_values(c.rank, c.candidates) for side, c in counted.items()},
        {side: rank_values(c.upper, c.candidates) for side, c in counted.items()},
        {side: rank_values(c.lower, c.candidates) for side, c in counted.items()},
    )
    return measured, _ranks(triples, counted), {}


def _paper(model: Evaluable, triples: Ids, known: Sequence[Ids], options: EvaluationOptions) -> Run:
    vocabulary = model.vocabulary
    asked = queries(triples, known, "objects", len(vocabulary.entities))
    found = rank_sampled(
        model, asked, options.candidates, options.seed, options.memory_mib, vocabulary.relations
    )
    left_out = int((~found.scored).sum())
    if not len(found.values):
        raise InputError(
            f"nothing to evaluate: all {left_out} (relation, subject) pairs of the test are linked to every "
            "entity, so there is no unobserved object to compare with; use protocol 'full'"
        )
    expected, pessimistic, optimistic = ({"objects": x} for x in np.moveaxis(found.values, 2, 0))
    measured = Measured(LIST_METRICS, asked.relation[found.scored], expected, pessimistic, optimistic)
    counted = Counted(*(part[found.placed] for part in found.counted))
    ranks = _ranks(triples[found.placed], {"objects": counted})
    return measured, ranks, {"scored": len(found.values), "left_out": left_out}


def _ranks(triples: NDArray[np.int32], counted: dict[str, Counted]) -> Ranks:
    parts = list(counted.values())
    s, r, o = (np.tile(triples[:, i], len(parts)) for i in range(3))
    return Ranks(
        s=s,
        r=r,
        o=o,
        side=np.repeat([SIDES.index(side) for side in counted], len(triples)).astype(np.int8),
        rank=np.concatenate([part.rank for part in parts]),
        lower=np.concatenate([part.lower for part in parts]),
        upper=np.concatenate([part.upper for part in parts]),
        candidates=np.concatenate([part.candidates for part in parts]),
    )
