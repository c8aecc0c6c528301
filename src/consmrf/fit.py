"""The composition root.

A graph and settings in, a model and the record of its making out. Reads as the story.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
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
from consmrf.consensus.losses import LOSSES
from consmrf.consensus.memory import MemoryEstimate, estimate, estimate_waves
from consmrf.consensus.solve import Best, Info, Round, Stage, Status, admm, solve, waves
from consmrf.consensus.state import Views, initial_state
from consmrf.consensus.wave import WaveViews, initial_wave
from consmrf.engine.threads import Threads
from consmrf.engine.waves import Waves
from consmrf.engine.workers import Workers
from consmrf.errors import InputError
from consmrf.evaluation.ranking import ValidationScore, one_blas_thread
from consmrf.evaluation.selection import GRIDS, Mix, choose
from consmrf.graph.partition import partition
from consmrf.graph.triples import Graph, check_graphs
from consmrf.model import Model
from consmrf.predictors import Factors

__all__ = ["Result", "estimate_memory", "factors", "fit", "wave_factors"]

_DEFAULTS = Config()
# Of epochs and of time, what the wave solver's consensus may have. Its departures have what it leaves, but
# for a share of the time, in which validation decides how much of them is kept.
_CONSENSUS_SHARE, _TRAINED_SHARE = 0.75, 0.9
# Validation triples that stop training, at most. Those that decide what is kept: as many, or, where entities
# are few, as many as take so many scores.
_STOPPING, _DECIDING, _DECIDING_SCORES = 2000, 8000, 4 * 10**8


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
    _check_numbers(graph, config)
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
    validate = None if score is None else (lambda views: score.measure(factors(views, config)))
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
            validate=None if score is None else (lambda views: score.measure(baseline.factors(views))),
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
        losses=_losses(graph, config),
    )
    _check_learnable(graph, _counting(layout))
    score = _validation(graph, valid, config, targets)
    predicting = _predicting(layout, graph, config)
    validate = None if score is None else (lambda views: score.measure(predicting(views)))
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
            config.max_epochs,
            before=found.info.rounds,
            best=Best(found.views, found.score, found.info.best_round),
        )
        with Waves(layout, state, config, _taking_part(layout, targets)) as engine:
            found = solve(
                *(state, engine.sweep, _second_stage(config, validated=score is not None)),
                step=waves,
                stage=stage,
                validate=validate,
                on_round=on_round,
            )
    predictor, info = predicting(found.views), found.info
    if config.departs and score is not None and info.status is not Status.INTERRUPTED:
        over = None if config.max_seconds is None else begun + config.max_seconds
        most = _DECIDING_SCORES // (2 * layout.n_entities)
        deciding = _validation(graph, valid, config, targets, min(most, _DECIDING)) or score
        counted = Counted.of(layout, _losses(graph, config))
        predictor, whole = _settled(layout, counted, predictor, deciding, over)
        info = info if whole else replace(info, status=Status.INTERRUPTED)
    info = replace(info, skipped_triples=layout.skipped, seconds={"total": time.perf_counter() - begun})
    return Result(_model(graph, predictor, config, info), info)


def _first_stage(config: Config) -> Config:
    """Hand on the settings with the consensus' share of epochs and of time."""
    if not config.departs:
        return config
    share = _CONSENSUS_SHARE
    seconds = None if config.max_seconds is None else share * config.max_seconds
    epochs = max(1, min(round(share * config.max_epochs), config.max_epochs - 1))
    return replace(config, max_epochs=epochs, max_seconds=seconds)


def _second_stage(config: Config, *, validated: bool) -> Config:
    """Hand on the settings with what training may have of the time."""
    if config.max_seconds is None or not validated:
        return config
    return replace(config, max_seconds=_TRAINED_SHARE * config.max_seconds)


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


def _losses(graph: Graph, config: Config) -> tuple[str, ...]:
    """Hand on each relation's loss, in id order; a relation that the graph lacks is an error."""
    for label in dict(config.losses or ()):
        graph.vocabulary.relation(label)
    return tuple(config.loss_of(label) for label in graph.vocabulary.relations)


def _check_numbers(graph: Graph, config: Config) -> None:
    """Ask that weights and values be given to losses that know what to do with them."""
    if config.method == "popularity":
        return
    given = {"weights": graph.weights, "values": graph.values}
    for name, numbers in given.items():
        if numbers is not None and config.solver != "wave":
            raise InputError(
                f"the graph has {name}: solver = 'paper' and the baselines other than shared know none; use "
                f"solver = 'wave', or read the triples without {name}"
            )
    if graph.values is None:
        return
    n, of = len(graph.vocabulary.relations), graph.triples[:, 1]
    least, most = np.full(n, 1.0), np.full(n, 1.0)
    np.minimum.at(least, of, graph.values)
    np.maximum.at(most, of, graph.values)
    for label, low, high in zip(graph.vocabulary.relations, least.tolist(), most.tolist(), strict=True):
        loss = LOSSES[config.loss_of(label)]
        if loss.aims is None and not low == high == 1:
            raise InputError(
                f"relation {label!r} has values other than 1, and loss = {loss.name!r} aims at none: use "
                f"squared or logistic, for this relation with losses = {{{label!r}: 'squared'}}"
            )
        if loss.aims is not None and not loss.aims[0] <= low <= high <= loss.aims[1]:
            worst = low if low < loss.aims[0] else high
            raise InputError(
                f"relation {label!r} has the value {worst:g}: loss = {loss.name!r} knows values from "
                f"{loss.aims[0]:g} to {loss.aims[1]:g}; scale them, or use squared"
            )


def _counting(layout: Layout) -> int:
    """Hand on the number of facts that count for something."""
    facts = layout.facts
    return int(np.count_nonzero(facts.weights)) if len(facts.weights) else len(facts.relations)


def _taking_part(layout: Layout, targets: Sequence[int] | None) -> NDArray[np.bool_] | None:
    """Hand on which of the layout's relations, twins included, are among the targets."""
    if targets is None:
        return None
    n = layout.n_relations // 2 if layout.facts.twins else layout.n_relations
    return np.isin(np.arange(layout.n_relations) % n, targets)


def _predicting(layout: Layout, graph: Graph, config: Config) -> Callable[[WaveViews], Factors]:
    """Hand on what makes factors of views; subjects that no inverse relation ranks get their intercepts."""
    if config.reciprocal:
        return lambda views: wave_factors(layout, views, config)
    counted, whole = Counted.of(layout, _losses(graph, config)), np.ones(layout.n_relations)
    return lambda views: counted.mixed(wave_factors(layout, views, config), whole, whole, 0 * whole)


def _settled(
    layout: Layout, counted: Counted, predictor: Factors, score: ValidationScore, over: float | None
) -> tuple[Factors, bool]:
    """Hand on the factors with the shares that validation bears out for each relation.

    No validation is begun after the time `over`. An interrupt, told by False beside the factors, ends the
    search as well; what was found by then counts.
    """
    n = layout.n_relations
    sides = np.arange(n) // (n // 2) if layout.facts.twins else np.zeros(n, np.intp)
    asked = score.triples[:, 1].astype(np.intp)
    both = np.concatenate([asked, asked + (n // 2 if layout.facts.twins else 0)])

    def ranks(mix: Mix) -> NDArray[np.float64]:
        if over is not None and time.perf_counter() >= over:
            raise TimeoutError
        return score.ranks(counted.mixed(predictor, mix.tau, mix.iota, mix.beta)).ravel()

    mix, whole = Mix.even(n, 1.0, 1.0, 0.0), True
    with suppress(TimeoutError):
        try:
            for chosen in choose(ranks, both, sides, layout.n_entities, _grids(predictor)):
                mix = chosen
        except KeyboardInterrupt:
            whole = False
    return counted.mixed(predictor, mix.tau, mix.iota, mix.beta), whole


def _grids(predictor: Factors) -> dict[str, Sequence[float]]:
    """Hand on what is tried of each share that there is something of."""
    there = {"tau": predictor.delta.shape[1], "beta": True, "iota": len(predictor.delta_b)}
    return {name: values for name, values in GRIDS.items() if there[name]}


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
    graph: Graph,
    valid: Graph | None,
    config: Config,
    targets: Sequence[int] | None = None,
    most: int = _STOPPING,
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
    entities, limit = len(graph.vocabulary.entities), max(most, _STOPPING)
    return ValidationScore(triples, graph.triples, entities, limit, config.seed, config.threads)


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
