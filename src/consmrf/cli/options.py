"""Groups of options that commands share, and how an option is described to cyclopts."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from consmrf.cli.terminal import say
from consmrf.config import PRESETS, Config
from consmrf.errors import SettingError

if TYPE_CHECKING:
    from consmrf.evaluation.comparison import ComparisonOptions
    from consmrf.evaluation.options import EvaluationOptions
    from consmrf.graph.triples import Graph

__all__ = ["Budgeting", "Comparing", "Ranking", "Reading", "Settings", "described", "flag", "whole"]


def described(words: str) -> Parameter:
    """Hand on an option that takes a value."""
    return Parameter(help=words, negative_iterable="")


def whole(words: str) -> Parameter:
    """Hand on an option that takes a whole number; cyclopts by itself would round 1.5."""
    return Parameter(help=words, converter=lambda _, tokens: int(tokens[0].value))


def flag(words: str) -> Parameter:
    """Hand on an option that is there or not, without a value."""
    return Parameter(help=words, negative="")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Settings:
    """What may be set of a Config; None leaves the preset's value."""

    method: Annotated[
        str | None,
        described(
            "consensus (ConsMRF), or a baseline: shared (CD), independent, dmf, catsmf, rescal, popularity"
        ),
    ] = None
    solver: Annotated[
        str | None, described("wave: ours, the default; paper: Algorithms 1 and 2 as printed (shared: SGD)")
    ] = None
    scorer: Annotated[
        str | None, described("form of W_r: identity, diagonal, complex, full; sme_linear, sme_bilinear")
    ] = None
    loss: Annotated[str | None, described("what is minimised: softmax, bpr, logistic, squared")] = None
    losses: Annotated[
        list[str] | None, described("RELATION=LOSS, for a relation that has another; repeats")
    ] = None
    dim: Annotated[int | None, whole("features per entity, k")] = None
    max_epochs: Annotated[int | None, whole("the most passes over the data")] = None
    learning_rate: Annotated[float | None, described("η, the step")] = None
    optimizer: Annotated[
        str | None, described("adagrad; sgd: plain steps, with at most 7 negatives (wave)")
    ] = None
    regulariser: Annotated[str | None, described("Ω: n3 or l2")] = None
    reg: Annotated[float | None, described("λ, its strength; too large, and the factors vanish")] = None
    alpha: Annotated[
        float | None, described("dmf, catsmf: how much the other relations count for a target, α")
    ] = None
    reg_weight: Annotated[
        str | None,
        described("frequency: Ω counts at each fact of an entity; uniform: alike for all entities"),
    ] = None
    rho: Annotated[float | None, described("ρ, pull of a relation's own features to the consensus")] = None
    negatives: Annotated[int | None, whole("objects that a fact is ranked against in a step")] = None
    sampling: Annotated[
        str | None, described("where they are drawn from: uniform, degree, range (objects of the relation)")
    ] = None
    reciprocal: Annotated[
        bool | None,
        Parameter(help="whether inverse relations, with views of their own, rank subjects"),
    ] = None
    targets: Annotated[
        list[str] | None,
        described("a relation that gets a view of its own and is validated; repeats; default: all"),
    ] = None
    init_scale: Annotated[float | None, described("σ of the initial factors")] = None
    batch: Annotated[int | None, whole("wave: facts whose gradients are taken together")] = None
    wave_width: Annotated[int | None, whole("wave: blocks that start from one consensus")] = None
    inner_epochs: Annotated[int | None, whole("paper: passes of one round, between two updates of Z")] = None
    max_seconds: Annotated[float | None, described("begin no round after this long")] = None
    tol: Annotated[float | None, described("ε: stop when the training loss changes by less")] = None
    patience: Annotated[int | None, whole("with --valid: rounds without a better score")] = None
    seed: Annotated[int | None, whole("same seed, same model, for any number of threads")] = None
    threads: Annotated[int | None, whole("default: one per core")] = None
    precision: Annotated[str | None, described("of the factors: single, double")] = None

    def over(self, preset: str) -> Config:
        """Hand on the preset's settings, overridden by those given."""
        if preset not in PRESETS:
            raise SettingError(f"preset = {preset!r}: must be one of {', '.join(PRESETS)}")
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        given["losses"] = None if self.losses is None else _pairs(self.losses)
        return Config(**PRESETS[preset] | {name: x for name, x in given.items() if x is not None})


def _pairs(words: list[str]) -> dict[str, str]:
    """Hand on what RELATION=LOSS says, once for each relation; a label may hold the sign itself."""
    pairs: dict[str, str] = {}
    for word in words:
        relation, sign, loss = word.rpartition("=")
        if not sign or not relation:
            raise SettingError(f"losses = {word!r}: must be RELATION=LOSS")
        if pairs.setdefault(relation, loss) != loss:
            raise SettingError(f"losses: {relation!r} has two, {pairs[relation]} and {loss}; give one")
    return pairs


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Reading:
    """How files of triples are read; None concludes it from the file."""

    format: Annotated[str | None, described("tsv, csv, parquet, ntriples, turtle, rdfxml, …")] = None
    columns: Annotated[str | None, described("where the triple stands: sor, or head,edge,tail, or 0,3,1")] = (
        None
    )
    header: Annotated[bool | None, Parameter(help="whether the first line names columns")] = None
    delimiter: Annotated[str | None, described("character between cells of text, or tab")] = None
    literals: Annotated[bool, flag("keep RDF triples whose object is a literal")] = False
    weight: Annotated[
        str | None, described("column of weights, by name or position from 0: how much a fact counts")
    ] = None
    value: Annotated[
        str | None, described("column of values, likewise: what squared and logistic losses aim at, not 1")
    ] = None

    def read(self, *paths: Path) -> Graph:
        """Hand on the graph of these files, and print what was concluded."""
        from consmrf.graph.triples import read_triples

        columns: Any = self.columns
        if columns is not None and "," in columns:
            names = [name.strip() for name in columns.split(",")]
            columns = [int(name) for name in names] if all(map(str.isdecimal, names)) else names
        graph = read_triples(
            [*map(str, paths)],
            format=self.format,
            columns=columns,
            header=self.header,
            delimiter=self.delimiter,
            literals=self.literals,
            weight=_column(self.weight),
            value=_column(self.value),
        )
        if graph.report is not None:
            say(graph.report.describe())
        return graph


def _column(given: str | None) -> str | int | None:
    return int(given) if given is not None and given.isascii() and given.isdecimal() else given


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Ranking:
    """How an evaluation ranks, and where its figures go."""

    protocol: Annotated[str, described("full: filtered, all entities; paper: sampled objects")] = "full"
    candidates: Annotated[int, whole("paper protocol: objects drawn per (relation, subject)")] = 1000
    sides: Annotated[
        list[str] | None,
        Parameter(
            help="full protocol: what is ranked: objects, subjects, both (the default), relations",
            consume_multiple=True,
            negative_iterable="",
        ),
    ] = None
    unseen: Annotated[
        str, described("full protocol: triples with an unseen label: leave-out, or worst (ranked last)")
    ] = "leave-out"
    sample: Annotated[
        int | None, whole("full protocol: test triples drawn, each relation its share; default: all")
    ] = None
    auc_candidates: Annotated[
        int | None, whole("full protocol: draw so many candidates per query, for AUC alone; default: all")
    ] = None
    memory: Annotated[int, whole("MiB for scores")] = 512
    threads: Annotated[int | None, whole("default: one per core; the same figures for any number")] = None
    seed: Annotated[int, whole("of drawn objects and of the intervals' resampling")] = 0
    intervals: Annotated[str, described("bootstrap, or analytic (Student's)")] = "bootstrap"
    relations: Annotated[bool, flag("show every relation, not the largest and the worst, and groups")] = False
    json: Annotated[Path | None, described("write the figures here, as plain numbers")] = None
    ranks: Annotated[Path | None, described("write every rank here, as Parquet")] = None
    html: Annotated[Path | None, described("write a report with pictures here, one page by itself")] = None

    def options(self) -> EvaluationOptions:
        """Hand on what is asked of the evaluation."""
        from consmrf.evaluation.options import EvaluationOptions

        ends = [side for word in self.sides or ["both"] for side in _SIDES.get(word, (word,))]
        return EvaluationOptions(
            candidates=self.candidates,
            sides=tuple(dict.fromkeys(ends)),
            unseen=self.unseen,
            sample=self.sample,
            auc_candidates=self.auc_candidates,
            memory_mib=self.memory,
            threads=self.threads,
            seed=self.seed,
            intervals=self.intervals,
        )


_SIDES = {"both": ("objects", "subjects")}


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Comparing:
    """How two files of ranks are compared, and where the figures go."""

    metric: Annotated[str, described("what relations are compared by: mrr, hits@10, auc, ap, …")] = "mrr"
    flips: Annotated[int, whole("patterns of signs that p is read from")] = 10_000
    resamples: Annotated[int, whole("of the intervals")] = 2000
    confidence: Annotated[float, described("of the intervals")] = 0.95
    seed: Annotated[int, whole("of flips and resamples")] = 0
    relations: Annotated[bool, flag("show every relation, not the surest differences")] = False
    json: Annotated[Path | None, described("write the figures here, as plain numbers")] = None
    html: Annotated[Path | None, described("write a report with pictures here, one page by itself")] = None

    def options(self) -> ComparisonOptions:
        """Hand on what is asked of the comparison."""
        from consmrf.evaluation.comparison import ComparisonOptions

        return ComparisonOptions(
            metric=self.metric,
            flips=self.flips,
            resamples=self.resamples,
            confidence=self.confidence,
            seed=self.seed,
        )


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Budgeting:
    """What a study may take; None leaves what its file says."""

    cores: Annotated[int | None, whole("cells at a time, each on one core")] = None
    memory: Annotated[float | None, described("GiB that all running cells may need together")] = None
    hours: Annotated[float | None, described("begin no cell after this long")] = None

    def given(self) -> dict[str, float | int | None]:
        """Hand on the budget as a study names its parts."""
        seconds = None if self.hours is None else 3600 * self.hours
        return {"cores": self.cores, "memory_gib": self.memory, "total_seconds": seconds}
