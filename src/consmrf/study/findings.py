"""What the cells of a study come to: plain records, which tables and pictures are made from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from consmrf.errors import InputError
from consmrf.evaluation.intervals import mean_interval
from consmrf.study.cells import Found, Store
from consmrf.study.evidence import (
    FEWEST_RUNS,
    METRICS,
    Difference,
    Exponent,
    Queries,
    difference,
    exponent,
    pooled_means,
    queries,
    read_ranks,
)
from consmrf.study.plan import FIXED, PER_RELATION, Planned, Planner
from consmrf.study.spec import Settings, Study

__all__ = ["Estimate", "Findings", "Run", "Timed", "Verdict", "gather"]


@dataclass(frozen=True)
class Run:
    """One tested fit: of a cell, or of ranks from outside."""

    dataset: str
    method: str
    fold: int
    seed: int
    metrics: Mapping[str, float]
    ranks: Path
    found: Found | None  # what the cell holds

    def queries(self) -> Queries:
        """Hand on the single queries."""
        return queries(read_ranks(self.ranks))


@dataclass(frozen=True)
class Estimate:
    """A metric's mean and its interval: over five and more runs, else over the pairs of all runs."""

    mean: float
    low: float | None
    high: float | None
    runs: int


@dataclass(frozen=True)
class Verdict:
    """Where our method stands on one dataset, in AUC."""

    dataset: str
    first: str  # the method with the highest mean
    against: Mapping[str, Difference]  # by method, ours less theirs

    @property
    def ahead(self) -> list[str]:
        """The methods that are better than ours, beyond the interval."""
        return [name for name, gap in self.against.items() if gap.verdict == "worse"]


@dataclass(frozen=True)
class Timed:
    """A timed cell: what the study wanted it for, and what it found."""

    dataset: str
    method: str
    x: Any
    found: Found

    @property
    def seconds(self) -> float:
        """The seconds of training, validation left out; of all targets, where some were timed."""
        return float(self.found["seconds"]["training"]) * self.scale

    @property
    def epoch(self) -> float | None:
        """The seconds of one epoch; None where nothing is iterated."""
        epoch = self.found["seconds"]["epoch"]
        return None if epoch is None else float(epoch) * self.scale

    @property
    def scale(self) -> float:
        """How many times more targets there are than were timed."""
        return float(self.found["scale"])


@dataclass(frozen=True)
class Findings:
    """All that a report is made from."""

    study: Study
    methods: tuple[str, ...]  # in the order of the study; those from outside come last
    runs: tuple[Run, ...]
    estimates: Mapping[str, Mapping[str, Mapping[str, Estimate]]]  # metric → dataset → method
    verdicts: tuple[Verdict, ...]
    timed: Mapping[str, tuple[Timed, ...]]  # by kind: stop, curve, cores, growth; and rho, which is not timed
    chosen: Mapping[tuple[str, str, int], Settings]
    failed: tuple[tuple[Planned, str], ...]
    missing: tuple[Planned, ...]

    def first_runs(self) -> dict[str, dict[str, Run]]:
        """Hand on the first run of each method on each dataset."""
        found: dict[str, dict[str, Run]] = {name: {} for name in self.study.datasets}
        for run in self.runs:
            if run.found is not None:
                found[run.dataset].setdefault(run.method, run)
        return found

    def exponents(self) -> dict[str, dict[str, Exponent]]:
        """Hand on, by way of growing and method, the exponent of an epoch's seconds in R."""
        told: dict[str, dict[str, Exponent]] = {}
        for way in (FIXED, PER_RELATION):
            for method in self.methods:
                points = [
                    (t.x[1], t.epoch)
                    for t in self.timed.get("growth", ())
                    if t.method == method and t.x[0] == way and t.epoch
                ]
                if len({r for r, _ in points}) > 1:
                    told.setdefault(way, {})[method] = exponent(*zip(*points, strict=True))
        return told


def gather(planner: Planner, store: Store, outside: Mapping[str, Sequence[Path]]) -> Findings:
    """Collect what the cells found; `outside` are files of ranks by the name of a method."""
    planned = planner.plan(store.get)
    study = planner.study
    runs = [run for p in planned if p.kind == "final" for run in _run(p, store)]
    runs += [
        _from_outside(name, path, runs, study.options.candidates)
        for name, paths in outside.items()
        for path in paths
    ]
    names = tuple(dict.fromkeys([*study.methods, *outside]))
    estimates = _estimates(runs, names, study)
    return Findings(
        study=study,
        methods=names,
        runs=tuple(runs),
        estimates=estimates,
        verdicts=tuple(_verdicts(study, names, runs, estimates["auc"])),
        timed=_timed(planner, store),
        chosen=_chosen(planner, store),
        failed=tuple((p, why) for p in planned if (why := store.error(p.cell)) is not None),
        missing=tuple(p for p in planned if store.get(p.cell) is None),
    )


def _run(planned: Planned, store: Store) -> Iterator[Run]:
    found = store.found(planned.cell)
    if found is None:
        return
    evaluation = found["evaluation"]
    metrics = {metric: evaluation["objects"][metric] for metric in METRICS}
    if "full" in found:
        metrics["mrr"] = found["full"]["both"]["mrr"]
    at = (planned.dataset, planned.method, planned.fold, planned.seed)
    yield Run(*at, metrics, store.ranks(planned.cell), found)


def _from_outside(name: str, path: Path, runs: Sequence[Run], candidates: int) -> Run:
    """Find the fold whose test triples a file of ranks is of."""
    ranks = read_ranks(path)
    most = max(ranks["candidates"].to_list(), default=0)
    if most > candidates + 1:
        raise InputError(
            f"{path}: ranks among {most:,} candidates, and this study samples {candidates:,}; make them with "
            f"consmrf evaluate --protocol paper --candidates {candidates} --ranks"
        )
    theirs = queries(ranks)
    for run in runs:
        if run.found is not None and run.queries().same_pairs(theirs):
            means = dict(zip(METRICS, theirs.values.mean(axis=0).tolist(), strict=True))
            return Run(run.dataset, name, run.fold, run.seed, means, path, None)
    raise InputError(
        f"{path}: its {len(theirs.subject):,} (relation, subject) pairs are those of no tested fold of this "
        "study; rank the test triples of one of its datasets, all of them"
    )


def _estimates(
    runs: Sequence[Run], names: Sequence[str], study: Study
) -> dict[str, dict[str, dict[str, Estimate]]]:
    """Hand on each metric's estimates by dataset and method."""
    found: dict[str, dict[str, dict[str, Estimate]]] = {metric: {} for metric in METRICS}
    for dataset in study.datasets:
        for method in names:
            own = [r for r in runs if (r.dataset, r.method) == (dataset, method)]
            for metric, estimate in _estimated(own, study.options.confidence).items():
                found.setdefault(metric, {}).setdefault(dataset, {})[method] = estimate
    return found


def _estimated(runs: Sequence[Run], confidence: float) -> dict[str, Estimate]:
    if not runs:
        return {}
    shared = [name for name in runs[0].metrics if all(name in run.metrics for run in runs)]
    if len(runs) >= FEWEST_RUNS:
        values = {name: [run.metrics[name] for run in runs] for name in shared}
        return {name: Estimate(*mean_interval(x, confidence), len(runs)) for name, x in values.items()}
    pooled = pooled_means([run.queries() for run in runs], confidence)
    means = {name: sum(run.metrics[name] for run in runs) / len(runs) for name in shared}
    return {
        name: Estimate(*pooled[name], len(runs)) if name in pooled else Estimate(x, None, None, len(runs))
        for name, x in means.items()
    }


def _verdicts(
    study: Study, names: Sequence[str], runs: Sequence[Run], auc: Mapping[str, Mapping[str, Estimate]]
) -> Iterator[Verdict]:
    """Compare our method with each other on the folds that both have been tested on."""
    for dataset, by_method in auc.items():
        if study.ours not in by_method:
            continue
        known: dict[str, dict[tuple[int, int], Queries]] = {
            name: {(r.fold, r.seed): r.queries() for r in runs if (r.dataset, r.method) == (dataset, name)}
            for name in names
            if name in by_method
        }
        ours, against = known[study.ours], {}
        for name, theirs in known.items():
            both = [at for at in ours if at in theirs]
            if name != study.ours and both:
                against[name] = difference(
                    [ours[at] for at in both], [theirs[at] for at in both], study.options.confidence
                )
        yield Verdict(dataset, max(by_method, key=lambda m: by_method[m].mean), against)


def _timed(planner: Planner, store: Store) -> dict[str, tuple[Timed, ...]]:
    """Hand on the cells beside the comparison, also those that are cells of the comparison, too."""
    found: dict[str, list[Timed]] = {}
    for planned in planner.extras(store.get):
        held = store.found(planned.cell)
        if held is not None:
            told = Timed(planned.dataset, planned.method, planned.x, held)
            found.setdefault(planned.kind, []).append(told)
    return {kind: tuple(told) for kind, told in found.items()}


def _chosen(planner: Planner, store: Store) -> dict[tuple[str, str, int], Settings]:
    each = planner.study.search_folds == "each"
    return {
        (data.name, method.name, fold): settings
        for data, method in planner.study.pairs()
        for fold in range(data.folds if each else 1)
        if (settings := planner.chosen(data, method, fold, store.get)) is not None
    }
