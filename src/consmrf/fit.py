"""The composition root.

A graph and settings in, a model and the record of its making out. Reads as the story.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from consmrf.baselines.independent import no_change
from consmrf.baselines.popularity import popularity
from consmrf.config import Config
from consmrf.consensus.average import mean_change
from consmrf.consensus.local import LocalProblem, local_problems
from consmrf.consensus.memory import MemoryEstimate, estimate
from consmrf.consensus.solve import Info, Round, Solution, Status, Validate, solve
from consmrf.consensus.state import Views, initial_state
from consmrf.engine.threads import Threads
from consmrf.errors import InputError
from consmrf.evaluation.ranking import ValidationScore
from consmrf.graph.partition import partition
from consmrf.graph.triples import Graph, check_graphs
from consmrf.model import Model
from consmrf.predictors import Factors

__all__ = ["Result", "estimate_memory", "factors", "fit"]

_DEFAULTS = Config()


@dataclass(frozen=True)
class Result:
    """A fitted model, and how its fit went."""

    model: Model
    info: Info


def fit(
    graph: Graph,
    *,
    valid: Graph | None = None,
    config: Config = _DEFAULTS,
    on_round: Callable[[Round], None] | None = None,
) -> Result:
    """Learn to rank a graph's missing facts.

    With `valid`, training stops when these triples stop being ranked better, and the best round is kept;
    triples with labels that `graph` lacks take no part. `on_round` is called after every round. An interrupt
    (ctrl-C) ends training and keeps the best round; before the first round has ended it is passed on.
    """
    check_graphs("fit", graph, *(() if valid is None else (valid,)))
    if config.method == "popularity":
        begun = time.perf_counter()
        model = popularity(graph, config)
        return Result(model, Info(Status.DIRECT, seconds={"total": time.perf_counter() - begun}))
    return _iterate(graph, valid, config, on_round)


def estimate_memory(graph: Graph, config: Config = _DEFAULTS) -> MemoryEstimate:
    """Hand on what `fit` is expected to need at its peak."""
    partitions, n_entities = partition(graph), len(graph.vocabulary.entities)
    return estimate(
        partitions, local_problems(partitions, n_entities, config.inner_epochs), n_entities, config
    )


def _iterate(
    graph: Graph, valid: Graph | None, config: Config, on_round: Callable[[Round], None] | None
) -> Result:
    begun = time.perf_counter()
    n_entities = len(graph.vocabulary.entities)
    partitions = partition(graph)
    problems = local_problems(partitions, n_entities, config.inner_epochs)
    skipped = _count_skipped(graph, problems)
    validate = _validation(graph, valid, config)
    state = initial_state(partitions, n_entities, config)
    setup = time.perf_counter() - begun
    with Threads(problems, n_entities, config) as engine:
        solution = solve(
            state,
            engine.sweep,
            config,
            average=mean_change if config.shares else no_change,
            validate=validate,
            on_round=on_round,
        )
    seconds = {"setup": setup, **solution.info.seconds, "total": time.perf_counter() - begun}
    info = replace(solution.info, skipped_triples=skipped, seconds=seconds)
    return Result(_model(graph, solution, config, info), info)


def _count_skipped(graph: Graph, problems: Sequence[LocalProblem]) -> int:
    skipped = sum(problem.skipped for problem in problems)
    if skipped == len(graph):
        what = (
            "the graph has no triples"
            if not skipped
            else (f"each of the {skipped} triples has a subject that its relation links to every entity")
        )
        raise InputError(
            f"nothing to learn: {what}, so there is no unobserved object to rank against; add facts"
        )
    return skipped


def _validation(graph: Graph, valid: Graph | None, config: Config) -> Validate | None:
    if valid is None:
        return None
    triples = valid.encode(graph.vocabulary).triples
    if not len(triples):
        raise InputError(
            f"nothing to validate on: none of the {len(valid)} validation triples has labels that all occur "
            "in the training triples; check that both files name things alike, or fit without validation"
        )
    score = ValidationScore(triples, graph.triples, len(graph.vocabulary.entities), seed=config.seed)
    return lambda views: score(factors(views, config))


def factors(views: Views, config: Config) -> Factors:
    """Hand on what predicts: each relation's rows in ascending order, one relation after the other."""
    orders = [np.argsort(update.rows) for update in views.updates]
    counts = [len(update.rows) for update in views.updates]
    return Factors(
        scorer=config.scorer,
        z=views.z,
        w=np.stack([update.w for update in views.updates]),
        delta_indptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        delta_rows=np.concatenate([u.rows[order] for u, order in zip(views.updates, orders, strict=True)]),
        delta=np.concatenate([u.delta[order] for u, order in zip(views.updates, orders, strict=True)]),
        shared="mean" if config.shares else "none",
    )


def _model(graph: Graph, solution: Solution, config: Config, info: Info) -> Model:
    provenance = {
        "triples": len(graph),
        "skipped_triples": info.skipped_triples,
        "status": info.status.name,
        "rounds": len(info.rounds),
        "best_round": info.best_round,
    }
    return Model(graph.vocabulary, graph.triples, factors(solution.views, config), config, provenance)
