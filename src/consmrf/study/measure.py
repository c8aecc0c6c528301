"""What a cell does: fit, then evaluate, by the package's two verbs, and write down what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from consmrf.config import Config
from consmrf.consensus.solve import Info, Round
from consmrf.evaluation.options import EvaluationOptions
from consmrf.evaluation.protocol import evaluate
from consmrf.evaluation.result import save_ranks
from consmrf.fit import fit
from consmrf.graph.triples import Graph
from consmrf.model import Model
from consmrf.report.files import departures
from consmrf.study.clock import Clock, machine, peak_bytes
from consmrf.study.datasets import Source, load
from consmrf.study.graphs import Parts, grouped_graph

__all__ = ["SCORES_MIB", "measure", "sampled_targets"]

SCORES_MIB = 128  # for scores at a time; no figure depends on it

Found = dict[str, Any]


def measure(job: Mapping[str, Any]) -> Found:
    """Run one cell; hand on plain values. The ranks of test triples are written beside the cell's file."""
    asked = job["asked"]
    cut = dict(asked["data"])
    parts = load(Source(job["dataset"], cut.pop("fold"), cut, tuple(job["files"])))
    config = Config.from_dict({**asked["settings"], "threads": job["threads"]})
    if asked["timed"]:
        _compile(config)
    scale = 1.0
    if asked["sampled"]:
        targets = sampled_targets(parts.train, asked["sampled"])
        config = replace(config, targets=targets)
        scale = len(parts.train.vocabulary.relations) / len(targets)
    clock = Clock()
    result = fit(parts.train, valid=parts.valid if asked["validated"] else None, config=config)
    found = {
        **_told(result.info, config),
        **_weight(result.model),
        "sizes": _sizes(parts),
        "scale": scale,
        "departures": departures(result.model) if asked["judged"] == "test" else None,
        "others": clock.others(),
    }
    if asked["judged"] != "none":
        found |= _judged(result.model, parts, job)
    return {**found, "peak_bytes": peak_bytes(), "machine": machine()}


def sampled_targets(graph: Graph, count: int) -> tuple[str, ...]:
    """Hand on up to `count` relations, spread evenly over their order by size."""
    sizes = np.bincount(graph.triples[:, 1], minlength=len(graph.vocabulary.relations))
    order = np.argsort(-sizes, kind="stable")
    count = min(count, len(order))
    places = (np.arange(count) + 0.5) * len(order) / count
    return tuple(graph.vocabulary.relations[r] for r in order[places.astype(np.intp)].tolist())


def _compile(config: Config) -> None:
    """Fit something small, so that the seconds to come hold no compilation."""
    # what names relations has no place here, and nothing is compiled for it
    free = {"targets": None, "alpha": 0.25, "max_seconds": None, "max_epochs": 2 * config.inner_epochs}
    values = {**config.to_dict(), **free}
    # more entities than a fact is ranked against, or the kernels would be others
    entities = 2 * config.negatives + 200
    warm = grouped_graph(0, entities=entities, relations=3, triples=1000, groups=4)
    fit(warm, valid=warm, config=Config.from_dict(values))


def _judged(model: Model, parts: Parts, job: Mapping[str, Any]) -> Found:
    """Evaluate on the hold-out, against training alone; or on the test triples, whose ranks are kept."""
    asked, ranks = job["asked"], Path(job["path"]).with_suffix(".parquet")
    values = {k: v for k, v in asked["evaluation"].items() if k != "full"}
    options = EvaluationOptions(**values, memory_mib=SCORES_MIB, threads=job["threads"])
    if asked["judged"] == "valid":
        return {"evaluation": _figures(evaluate(model, parts.valid, protocol="paper", options=options))}
    tested = evaluate(model, parts.test, known=[parts.valid], protocol="paper", options=options)
    save_ranks(tested, ranks)
    found = {"evaluation": _figures(tested)}
    if asked["evaluation"]["full"]:
        full = evaluate(model, parts.test, known=[parts.valid], options=options)
        found["full"] = _figures(full)
    return found


def _figures(evaluation: Any) -> Found:
    """Leave out the means of single relations, which follow from the ranks."""
    return {k: v for k, v in evaluation.to_dict().items() if k != "relations"}


def _told(info: Info, config: Config) -> Found:
    per_round = config.inner_epochs if config.solver == "paper" else 1
    rounds = info.rounds
    checked = sum(each.seconds.get("validation", 0.0) for each in rounds)
    # up to the end of the last round: what is chosen on validation triples afterwards is no training either
    training = (rounds[-1].seconds["elapsed"] if rounds else info.seconds["total"]) - checked
    return {
        "status": info.status.name,
        "sentence": info.summary,
        "best_round": info.best_round,
        "epochs": len(rounds) * per_round,
        "seconds": {
            "total": info.seconds["total"],
            "training": training,
            "validation": checked,
            "epoch": epoch_seconds(rounds, per_round),
        },
        "rounds": [
            {
                "stage": each.stage,
                "loss": each.loss,
                "validation": each.validation,
                "elapsed": each.seconds["elapsed"],
                "checked": each.seconds.get("validation", 0.0),
            }
            for each in rounds
        ],
    }


def epoch_seconds(rounds: Sequence[Round], per_round: int) -> float | None:
    """Hand on the seconds of an epoch, validation left out; None where nothing was iterated.

    Of each stage the fastest round counts, which other processes disturb least, as often as it has rounds.
    """
    if not rounds:
        return None
    took: dict[str, list[float]] = {}
    before = 0.0
    for each in rounds:
        took.setdefault(each.stage, []).append(
            each.seconds["elapsed"] - before - each.seconds.get("validation", 0.0)
        )
        before = each.seconds["elapsed"]
    return sum(len(x) * min(x) for x in took.values()) / len(rounds) / per_round


def _weight(model: Model) -> Found:
    """Count what the model has learned: its numbers, and all bytes that it scores by."""
    arrays = model.predictor.arrays().values()
    return {
        "parameters": int(sum(a.size for a in arrays if np.issubdtype(a.dtype, np.floating))),
        "bytes": int(sum(a.nbytes for a in arrays)),
    }


def _sizes(parts: Parts) -> dict[str, int]:
    """Hand on the sizes of a dataset as the paper's table has them, and those of its parts."""
    entities: set[str] = set()
    relations: set[str] = set()
    graphs: dict[str, Graph] = {"training": parts.train, "validation": parts.valid, "test": parts.test}
    for graph in graphs.values():
        entities.update(graph.vocabulary.entities)
        relations.update(graph.vocabulary.relations)
    counts = {name: len(graph) for name, graph in graphs.items()}
    return {
        "entities": len(entities),
        "relations": len(relations),
        "triples": sum(counts.values()),
        **counts,
    }
