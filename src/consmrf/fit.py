"""The composition root.

A graph and settings in, a model and the record of its making out. Reads as the story.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from consmrf.baselines.counted import Counted
from consmrf.baselines.independent import no_change
from consmrf.baselines.memory import estimate_baseline
from consmrf.baselines.methods import begin
from consmrf.baselines.popularity import popularity
from consmrf.baselines.rounds import record
from consmrf.config import Config
from consmrf.consensus.facts import Layout, lay_out
from consmrf.consensus.local import local_problems
from consmrf.consensus.memory import MemoryEstimate, estimate, estimate_waves
from consmrf.consensus.solve import Best, Info, Round, Stage, Status, admm, solve, waves
from consmrf.consensus.state import Views, initial_state
from consmrf.consensus.wave import WaveViews, initial_wave
from consmrf.engine.threads import Threads
from consmrf.engine.waves import Waves
from consmrf.engine.workers import Workers
from consmrf.errors import InputError
from consmrf.evaluation.ranking import ValidationScore, one_blas_thread
from consmrf.evaluation.selection import choose
from consmrf.graph.partition import partition
from consmrf.graph.triples import Graph, check_graphs
from consmrf.model import Model
from consmrf.predictors import Factors

__all__ = ["Result", "estimate_memory", "factors", "fit", "wave_factors"]

_DEFAULTS = Config()
# Of epochs and of time, what the wave solver's consensus may have; its departures have the rest.
_CONSENSUS_SHARE = 0.75


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
    if _by_rounds(config):
        return _baseline(graph, valid, config, on_round)
    if config.solver == "paper":
        return _rounds(graph, valid, config, on_round)
    return _waves(graph, valid, config, on_round)


def estimate_memory(graph: Graph, config: Config = _DEFAULTS, *, validated: bool = False) -> MemoryEstimate:
    """Hand on what `fit` is expected to need at its peak; `validated` says whether it is given `valid`."""
    partitions, n_entities = partition(graph), len(graph.vocabulary.entities)
    if _by_rounds(config):
        labels, targets = graph.vocabulary.relations, _targets(graph, config)
        return estimate_baseline(
            *(partitions, n_entities, config), labels=labels, targets=targets, validated=validated
        )
    if config.solver == "wave" and config.method != "popularity":
        targets = _targets(graph, config)
        return estimate_waves(partitions, n_entities, config, targets=targets, validated=validated)
    return estimate(
        partitions, local_problems(partitions, n_entities, config.inner_epochs), n_entities, config
    )


def _rounds(
    graph: Graph, valid: Graph | None, config: Config, on_round: Callable[[Round], None] | None
) -> Result:
    """The paper's algorithm: rounds of local updates and averages."""
    begun = time.perf_counter()
    n_entities = len(graph.vocabulary.entities)
    partitions = partition(graph)
    problems = local_problems(partitions, n_entities, config.inner_epochs)
    skipped = sum(problem.skipped for problem in problems)
    _check_learnable(graph, len(graph) - skipped)
    score = _validation(graph, valid, config)
    validate = None if score is None else (lambda views: score(factors(views, config)))
    state = initial_state(partitions, n_entities, config)
    setup = time.perf_counter() - begun
    with Threads(problems, n_entities, config) as engine:
        solution = solve(
            state,
            engine.sweep,
            config,
            step=admm if config.shares else partial(admm, average=no_change),
            validate=validate,
            on_round=on_round,
        )
    seconds = {"setup": setup, **solution.info.seconds, "total": time.perf_counter() - begun}
    info = replace(solution.info, skipped_triples=skipped, seconds=seconds)
    return Result(_model(graph, factors(solution.views, config), config, info), info)


def _by_rounds(config: Config) -> bool:
    """Say whether the method is a baseline with loops of its own, on the facts of all relations."""
    return config.solver != "wave" and config.method in ("shared", "dmf", "catsmf", "rescal")


def _baseline(
    graph: Graph, valid: Graph | None, config: Config, on_round: Callable[[Round], None] | None
) -> Result:
    """A baseline that is trained in rounds; what the method's own fit does around them, it does too."""
    begun = time.perf_counter()
    entities, relations = graph.vocabulary.entities, graph.vocabulary.relations
    targets = _targets(graph, config)
    baseline = begin(partition(graph), len(entities), config, labels=relations, targets=targets)
    _check_learnable(graph, baseline.facts)
    score = _validation(graph, valid, config, targets)
    with Workers(config.threads, len(relations)) as crew, one_blas_thread():
        found = solve(
            *(baseline, lambda state, epoch: state.sweep(epoch, crew), config),
            step=record,
            stage=Stage(config.method, config.max_rounds),
            validate=None if score is None else (lambda views: score(baseline.factors(views))),
            on_round=on_round,
        )
    info = replace(
        found.info, skipped_triples=baseline.skipped, seconds={"total": time.perf_counter() - begun}
    )
    return Result(_model(graph, baseline.factors(found.views), config, info), info)


def _waves(
    graph: Graph, valid: Graph | None, config: Config, on_round: Callable[[Round], None] | None
) -> Result:
    """The wave solver: relations find the consensus, then each leaves it as far as validation bears out."""
    begun = time.perf_counter()
    targets = _targets(graph, config)
    layout = lay_out(
        partition(graph),
        len(graph.vocabulary.entities),
        reciprocal=config.reciprocal,
        views=targets if config.departs else (),
    )
    _check_learnable(graph, len(layout.facts.relations))
    score = _validation(graph, valid, config, targets)
    validate = None if score is None else (lambda views: score(wave_factors(layout, views, config)))
    first = _first_stage(config)
    state = initial_wave(layout, first)
    with Waves(layout, state, config) as engine:
        found = solve(
            *(state, engine.sweep, first),
            step=waves,
            stage=Stage("consensus", first.max_epochs),
            validate=validate,
            on_round=on_round,
        )
    if _may_depart(config, first, found.info):
        state = state.depart(found.views, config)
        stage = Stage(
            "departures",
            len(found.info.rounds) + config.max_epochs - first.max_epochs,
            before=found.info.rounds,
            best=Best(found.views, found.score, found.info.best_round),
        )
        with Waves(layout, state, config, _taking_part(layout, targets)) as engine:
            found = solve(
                *(state, engine.sweep, config), step=waves, stage=stage, validate=validate, on_round=on_round
            )
    predictor = wave_factors(layout, found.views, config)
    if config.departs and score is not None:
        predictor = _settled(layout, predictor, score)
    info = replace(found.info, skipped_triples=layout.skipped, seconds={"total": time.perf_counter() - begun})
    return Result(_model(graph, predictor, config, info), info)


def _first_stage(config: Config) -> Config:
    """Hand on the settings with the consensus' share of epochs and of time."""
    if not config.departs:
        return config
    share = _CONSENSUS_SHARE
    seconds = None if config.max_seconds is None else share * config.max_seconds
    epochs = max(1, min(round(share * config.max_epochs), config.max_epochs - 1))
    return replace(config, max_epochs=epochs, max_seconds=seconds)


def _may_depart(config: Config, first: Config, info: Info) -> bool:
    """Say whether there is a second stage: the first one ended well, and left epochs and time to it."""
    if not config.departs or info.status in (Status.INTERRUPTED, Status.DIVERGED):
        return False
    if config.max_seconds is not None and info.rounds[-1].seconds["elapsed"] >= config.max_seconds:
        return False
    return first.max_epochs < config.max_epochs


def _targets(graph: Graph, config: Config) -> list[int] | None:
    """Hand on the ids of the relations that the user cares about; None for all."""
    if config.targets is None:
        return None
    return [graph.vocabulary.relation(label) for label in config.targets]


def _taking_part(layout: Layout, targets: Sequence[int] | None) -> NDArray[np.bool_] | None:
    """Hand on which of the layout's relations, twins included, are among the targets."""
    if targets is None:
        return None
    n = layout.n_relations // 2 if layout.facts.twins else layout.n_relations
    return np.isin(np.arange(layout.n_relations) % n, targets)


def _settled(layout: Layout, predictor: Factors, score: ValidationScore) -> Factors:
    """Hand on the factors with the share of its departure that validation bears out for each relation."""
    counted = Counted.of(layout)

    def ranks(tau: float, beta: float) -> NDArray[np.float64]:
        same = np.ones(layout.n_relations)
        return score.ranks(counted.mixed(predictor, tau * same, beta * same)).ravel()

    asked = score.triples[:, 1]
    turned = asked + (layout.n_relations // 2 if layout.facts.twins else 0)
    both = np.concatenate([asked, turned])
    choice = choose(ranks, both, layout.n_relations, layout.n_entities)
    return counted.mixed(predictor, choice.tau, choice.beta)


def _check_learnable(graph: Graph, facts: int) -> None:
    """Ask for facts, turned round or not, with something to rank them against."""
    if not facts:
        what = (
            f"each of the {len(graph)} triples has a subject that its relation links to every entity"
            if len(graph)
            else "the graph has no triples"
        )
        raise InputError(
            f"nothing to learn: {what}, so there is no unobserved object to rank against; add facts"
        )


def _validation(
    graph: Graph, valid: Graph | None, config: Config, targets: Sequence[int] | None = None
) -> ValidationScore | None:
    if valid is None:
        return None
    triples = valid.encode(graph.vocabulary).triples
    if targets is not None:
        triples = triples[np.isin(triples[:, 1], targets)]
    if not len(triples):
        raise InputError(
            f"nothing to validate on: none of the {len(valid)} validation triples has labels that all occur "
            "in the training triples; check that both files name things alike, or fit without validation"
        )
    return ValidationScore(triples, graph.triples, len(graph.vocabulary.entities), seed=config.seed)


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


def wave_factors(layout: Layout, views: WaveViews, config: Config) -> Factors:
    """Hand on what predicts after a wave; the arrays are the views' own."""
    facts = layout.facts
    return Factors(
        scorer=config.scorer,
        z=views.z,
        w=views.w,
        delta_indptr=facts.view_indptr,
        delta_rows=facts.view_entities,
        delta=views.delta,
        shared="z",
        reciprocal=config.reciprocal,
        b=views.b,
        delta_b=views.delta_b,
    )


def _model(graph: Graph, predictor: Factors, config: Config, info: Info) -> Model:
    provenance = {
        "triples": len(graph),
        "skipped_triples": info.skipped_triples,
        "status": info.status.name,
        "rounds": len(info.rounds),
        "best_round": info.best_round,
    }
    return Model(graph.vocabulary, graph.triples, predictor, config, provenance)
