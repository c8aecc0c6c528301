"""Evaluate a model on test triples: the paper's protocol, or filtered ranking against all entities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from consmrf.errors import InputError, SettingError
from consmrf.evaluation.groups import Grouping, groupings
from consmrf.evaluation.metrics import METRICS, QUERY_METRICS, Values, measure
from consmrf.evaluation.options import DEFAULTS, PROTOCOLS, RANKED, EvaluationOptions
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
from consmrf.evaluation.relations import RAW_HIT, RelationsRanked, rank_relations, raw_hits
from consmrf.evaluation.result import Evaluation, Measured, Ranks, summarise
from consmrf.evaluation.sampled import LIST_METRICS, rank_sampled
from consmrf.evaluation.strata import stratified
from consmrf.graph.triples import Encoded, Graph, check_graphs
from consmrf.graph.vocabulary import Vocabulary

__all__ = ["Evaluable", "Evaluation", "EvaluationOptions", "evaluate"]

Floats = NDArray[np.float64]


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
    wrong answers. Test triples with a label that the model has never seen are counted, and left out or, with
    unseen="worst", ranked behind all candidates.

    protocol "full": each end of each triple is ranked among all entities that are not known to be right, and
    its relation, where sides name relations, among the relations not known to hold between the two.
    protocol "paper": each (relation, subject) ranks its objects among sampled unobserved objects.
    """
    known = [known] if isinstance(known, Graph) else known
    _check(protocol, options)
    _check_drawn(protocol, options)
    check_graphs("evaluate", test, *known)
    encoded = test.encode(model.vocabulary)
    triples = distinct(encoded.triples)
    if not len(triples):
        raise InputError(_nothing(test, encoded))
    others = [graph.encode(model.vocabulary).triples for graph in known]
    sources = [("training triples of the model", model.known), ("test", triples)]
    sources += [(f"known {i}", ids) for i, ids in enumerate(others, start=1)]
    run = _full if protocol == "full" else _paper
    asked = _Asked(test, triples, [model.known, *others], options)
    if options.sample is not None and options.sample < len(triples):
        rows, stands_for = stratified(triples[:, 1], options.sample, options.seed)
        asked = _Asked(test, triples[rows], [*asked.known, triples], options, stands_for)
    with one_blas_thread():
        found = run(model, asked)
        summary = summarise(found.measured, options, found.vocabulary.relations, found.groups)
    return Evaluation(
        protocol=protocol,
        options=options,
        vocabulary=found.vocabulary,
        filter=tuple(f"{name} ({len(ids)})" for name, ids in sources),
        candidates=len(model.vocabulary.entities) if protocol == "full" else options.candidates,
        triples={
            "scored": len(found.ranks) // len(found.measured.expected),
            "unseen_entity": encoded.unseen_entity,
            "unseen_relation": encoded.unseen_relation,
            **({} if asked.stands_for is None else {"drawn_from": len(triples)}),
        },
        pairs=found.pairs,
        ranks=found.ranks,
        measured=found.measured,
        **summary,
    )


def _check(protocol: str, options: EvaluationOptions) -> None:
    """Ask that the options fit the protocol."""
    if protocol not in PROTOCOLS:
        raise SettingError(f"protocol = {protocol!r}: must be one of {', '.join(PROTOCOLS)}")
    if protocol == "paper" and ("objects" not in options.sides or "relations" in options.sides):
        raise SettingError(
            f"sides = {options.sides!r}: must name objects and not relations, for the paper protocol ranks "
            "objects alone"
        )
    if protocol == "paper" and options.unseen != "leave-out":
        raise SettingError(
            f"unseen = {options.unseen!r}: the paper protocol ranks a list's objects together, and leaves "
            "out what the model has never seen"
        )


class _Asked(NamedTuple):
    test: Graph
    triples: Ids  # those of the test that the model has labels for, ordered and distinct
    known: list[Ids]  # training first
    options: EvaluationOptions
    stands_for: Floats | None = None  # of a sample: how many triples of its relation each one stands for


def _check_drawn(protocol: str, options: EvaluationOptions) -> None:
    """Ask that a sample is asked for where it has a meaning."""
    for name in ("sample", "auc_candidates"):
        value = getattr(options, name)
        if value is None:
            continue
        if protocol == "paper":
            raise SettingError(
                f"{name} = {value}: is of the full protocol; the paper's draws objects, see candidates"
            )
        if options.unseen != "leave-out":
            raise SettingError(f"{name} = {value}: with unseen = {options.unseen!r} all triples are ranked")
    if options.auc_candidates is not None and "relations" in options.sides:
        raise SettingError(
            f"auc_candidates = {options.auc_candidates}: entities are drawn; leave relations out of sides"
        )


class _Found(NamedTuple):
    measured: Measured
    ranks: Ranks
    vocabulary: Vocabulary
    groups: list[Grouping]
    pairs: dict[str, int]


def _nothing(test: Graph, encoded: Encoded) -> str:
    if not len(test):
        return "nothing to evaluate: the test graph holds no triples"
    return (
        f"nothing to evaluate: of {len(test)} test triples {encoded.unseen_entity} have an entity and "
        f"{encoded.unseen_relation} a relation that the model has never seen; use labels it was trained with"
    )


def _full(model: Evaluable, asked: _Asked) -> _Found:
    options, seen = asked.options, model.vocabulary
    sizes = _sizes(seen)
    counted = {side: _ranked(model, asked, side) for side in options.sides if side in SIDES}
    vocabulary, triples = seen, asked.triples
    raw = None
    if "relations" in options.sides:
        counted["relations"], raw = _relations(model, asked)
    if options.unseen == "worst":
        vocabulary, triples = _with_unseen(asked.test, seen)
        counted = {side: _last(c, triples, sizes, sizes[side == "relations"]) for side, c in counted.items()}
        raw = raw and _last(raw, triples, sizes, sizes[1])
    values = {side: measure(_query(triples, side), *c) for side, c in counted.items()}
    kinds: dict[str, dict[str, Floats]] = {
        name: {side: getattr(x, name) for side, x in values.items()} for name in Values._fields
    }
    metrics = METRICS
    if raw is not None:
        metrics = (*METRICS, RAW_HIT)
        hits = (raw_hits(x, sizes[1]) for x in (raw.rank, raw.upper, raw.lower))
        for kind, own in zip(kinds.values(), (*hits, np.ones(len(triples))), strict=True):
            for side, x in kind.items():
                column = own if side == "relations" else np.full(len(own), np.nan)
                kind[side] = np.column_stack([x, column])
    grouped = groupings(triples, model.known, {side: _ANSWER[side] for side in counted}, _sizes(vocabulary))
    measured = Measured(metrics, triples[:, 1], **kinds, stands_for=asked.stands_for)
    return _Found(_honest(measured, options), _ranks(triples, counted), vocabulary, grouped, {})


def _ranked(model: Evaluable, asked: _Asked, side: str) -> Counted:
    options, seen = asked.options, model.vocabulary
    wanted = queries(asked.triples, asked.known, side, len(seen.entities))
    if options.auc_candidates is None:
        return rank(model, wanted, options.memory_mib, seen.relations, options.threads)
    drawn = options.auc_candidates, options.seed, options.memory_mib, seen.relations, options.threads
    return rank_sampled(model, wanted, *drawn).counted


def _honest(measured: Measured, options: EvaluationOptions) -> Measured:
    """Hand on the metrics that what was drawn can tell, weighted by what each row stands for.

    Drawn candidates tell the share of candidates that are beaten, and nothing that is not linear in the rank.
    Drawn triples tell nothing of lists, which need all answers of a query.
    """
    if options.auc_candidates is not None:
        kept = ["auc"]
    elif measured.stands_for is not None:
        kept = [m for m in measured.metrics if m not in QUERY_METRICS]
    else:
        return measured
    columns = [measured.metrics.index(m) for m in kept]
    stands_for = np.ones(len(measured.relation)) if measured.stands_for is None else measured.stands_for
    expected, pessimistic, optimistic, weights = (
        {side: x[:, columns] for side, x in values.items()}
        for values in (measured.expected, measured.pessimistic, measured.optimistic, measured.weights)
    )
    weights = {side: x * stands_for[:, None] for side, x in weights.items()}
    return Measured(
        *(tuple(kept), measured.relation, expected, pessimistic, optimistic, weights), measured.stands_for
    )


# the column of a triple that answers the query
_ANSWER = {"objects": 2, "subjects": 0, "relations": 1}


def _query(triples: Ids, side: str) -> NDArray[np.int64]:
    """Hand on a number for the query that each triple answers: the two columns that are given."""
    first, second = (triples[:, i].astype(np.int64) for i in range(3) if i != _ANSWER[side])
    return first << 32 | second


def _relations(model: object, asked: _Asked) -> RelationsRanked:
    if not callable(getattr(model, "relation_scores", None)):
        raise InputError("sides = 'relations': this model has no relation_scores to rank relations by")
    scorer: Any = model
    n_relations = len(scorer.vocabulary.relations)
    return rank_relations(scorer, asked.triples, asked.known, n_relations, asked.options.memory_mib)


def _sizes(vocabulary: Vocabulary) -> tuple[int, int]:
    return len(vocabulary.entities), len(vocabulary.relations)


def _with_unseen(test: Graph, seen: Vocabulary) -> tuple[Vocabulary, Ids]:
    """Hand on the vocabulary with the test's new labels after it, and all test triples in its ids."""
    entities = [label for label in test.vocabulary.entities if label not in seen.entity_ids]
    relations = [label for label in test.vocabulary.relations if label not in seen.relation_ids]
    whole = Vocabulary((*seen.entities, *entities), (*seen.relations, *relations))
    return whole, distinct(test.encode(whole).triples)


def _last(counted: Counted, triples: Ids, sizes: tuple[int, int], candidates: int) -> Counted:
    """Put triples with an unseen label last, behind all candidates; the others keep their counts."""
    seen = (triples < np.array([sizes[0], sizes[1], sizes[0]])).all(axis=1)
    whole = [np.full(len(triples), candidates + 1) for _ in counted]
    for column, own in zip(whole, counted, strict=True):
        column[seen] = own
    return Counted(*whole)


def _paper(model: Evaluable, asked: _Asked) -> _Found:
    vocabulary, options, triples = model.vocabulary, asked.options, asked.triples
    pairs = queries(triples, asked.known, "objects", len(vocabulary.entities))
    drawn = options.candidates, options.seed, options.memory_mib, vocabulary.relations, options.threads
    found = rank_sampled(model, pairs, *drawn)
    left_out = int((~found.scored).sum())
    if not len(found.values):
        raise InputError(
            f"nothing to evaluate: all {left_out} (relation, subject) pairs of the test are linked to every "
            "entity, so there is no unobserved object to compare with; use protocol 'full'"
        )
    expected, pessimistic, optimistic = ({"objects": x} for x in np.moveaxis(found.values, 2, 0))
    weights = {"objects": np.ones(found.values.shape[:2])}
    relation = pairs.relation[found.scored]
    measured = Measured(LIST_METRICS, relation, expected, pessimistic, optimistic, weights)
    counted = Counted(*(part[found.placed] for part in found.counted))
    ranks = _ranks(triples[found.placed], {"objects": counted})
    both_ends = np.stack([pairs.given[found.scored], relation, pairs.given[found.scored]], axis=1)
    by_relation = [
        group
        for group in groupings(both_ends, model.known, {"objects": 2}, _sizes(vocabulary))
        if group.whole
    ]
    told = {"scored": len(found.values), "left_out": left_out}
    return _Found(measured, ranks, vocabulary, by_relation, told)


def _ranks(triples: NDArray[np.int32], counted: dict[str, Counted]) -> Ranks:
    parts = list(counted.values())
    s, r, o = (np.tile(triples[:, i], len(parts)) for i in range(3))
    return Ranks(
        s=s,
        r=r,
        o=o,
        side=np.repeat([RANKED.index(side) for side in counted], len(triples)).astype(np.int8),
        rank=np.concatenate([part.rank for part in parts]),
        lower=np.concatenate([part.lower for part in parts]),
        upper=np.concatenate([part.upper for part in parts]),
        candidates=np.concatenate([part.candidates for part in parts]),
    )
