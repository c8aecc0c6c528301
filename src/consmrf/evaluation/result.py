"""What an evaluation found: every number with its protocol, filter, bounds and interval, and its ranks."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from consmrf.errors import OutputError
from consmrf.evaluation.groups import Grouping
from consmrf.evaluation.intervals import (
    bootstrap_sums,
    percentile_interval,
    ratio,
    share_interval,
    weighted_intervals,
)
from consmrf.evaluation.metrics import QUERY_METRICS, limits
from consmrf.evaluation.options import RANKED, EvaluationOptions
from consmrf.evaluation.ranking import SIDES
from consmrf.evaluation.relations import RAW_HIT
from consmrf.evaluation.strata import stratified_intervals
from consmrf.graph.source import replacing
from consmrf.graph.vocabulary import Vocabulary

if TYPE_CHECKING:
    import polars

__all__ = ["RELATION_VIEW", "Evaluation", "Measured", "Metrics", "Ranks", "save_ranks", "summarise", "table"]

Floats = NDArray[np.float64]
# By metric. "count" is how many ranked positives the metrics of ranks are means of, "lists" how many queries,
# with all their positives each, AP and the like are means of.
Metrics = dict[str, float | None]
Interval = list[float | None]

RELATION_VIEW = "relation_prediction"
# Each relation's own interval is given for these.
_WITH_INTERVAL = ("mrr", "hits@10", "auc")


@dataclass(frozen=True)
class Ranks:
    """One row per ranked positive, in the ids of the model's vocabulary, ordered by side, r, s and o."""

    s: NDArray[np.int32]
    r: NDArray[np.int32]
    o: NDArray[np.int32]
    side: NDArray[np.int8]  # the position in RANKED of what was ranked
    rank: Floats
    lower: NDArray[np.int64]  # the optimistic bound
    upper: NDArray[np.int64]  # the pessimistic bound
    candidates: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.s)


@dataclass(frozen=True)
class Measured:
    """Metrics of single queries. A row is what the bootstrap draws: it holds one query of every side.

    Rows are test triples (full) or (relation, subject) pairs (paper) in the order of r, s and o. Which rows
    there are, and what each is ranked among, never depends on the model: models with the same vocabulary can
    be compared row by row. A metric is the mean of its column, weighted.
    """

    metrics: tuple[str, ...]
    relation: NDArray[np.int32]  # [n] ascending
    expected: Mapping[str, Floats]  # side → [n, metrics], NaN where undefined
    pessimistic: Mapping[str, Floats]
    optimistic: Mapping[str, Floats]
    weights: Mapping[str, Floats]
    stands_for: Floats | None = None  # [n] of a sample: how many test triples of its relation each row is for

    @property
    def views(self) -> dict[str, tuple[str, ...]]:
        """What is reported: the ends taken together, where there are two, each by itself, and relations."""
        ends = tuple(side for side in self.expected if side in SIDES)
        both: dict[str, tuple[str, ...]] = {"both": ends} if len(ends) > 1 else {}
        relations = {RELATION_VIEW: ("relations",)} if "relations" in self.expected else {}
        return both | {side: (side,) for side in ends} | relations

    def parts(self, values: Mapping[str, Floats]) -> tuple[dict[str, Floats], dict[str, Floats]]:
        """Hand on what the weighted means are quotients of, by side: weighted values, and weights."""
        return (
            {side: np.nan_to_num(x) * self.weights[side] for side, x in values.items()},
            {side: ~np.isnan(x) * self.weights[side] for side, x in values.items()},
        )


@dataclass(frozen=True)
class Evaluation:
    """Metrics by view (both, objects, subjects, relation_prediction), with all it takes to read them."""

    protocol: str
    options: EvaluationOptions
    vocabulary: Vocabulary  # of the ranks: the model's, and after it the unseen labels that are ranked last
    filter: tuple[str, ...]  # which facts counted as known, and how many there were
    candidates: int  # entities each query starts from (full), or objects drawn for it (paper)
    triples: dict[str, int]  # scored, unseen_entity, unseen_relation
    pairs: dict[
        str, int
    ]  # paper protocol: (relation, subject) scored, and left out for want of an unobserved object
    ranks: Ranks
    micro: dict[str, Metrics]  # means over queries
    macro: dict[str, Metrics]  # means over relations
    relations: dict[str, dict[str, Metrics]]  # by relation label: means over its queries
    groups: dict[str, dict[str, dict[str, Metrics]]]  # by grouping and group: means over its queries
    bounds: dict[
        str, dict[str, Interval]
    ]  # of micro: pessimistic (equals all ahead), optimistic (all behind)
    intervals: dict[str, dict[str, Interval]]  # of micro; empty where there is no bootstrap
    relation_intervals: dict[str, dict[str, dict[str, Interval]]]  # of relations: Student's
    measured: Measured = field(repr=False)  # the single queries that all these are means of

    @property
    def view(self) -> str:
        """The view to show first: both sides where both were ranked."""
        return next(iter(self.micro))

    def summary(self, view: str | None = None) -> Metrics:
        """Hand on the micro metrics of a view, by default of the first."""
        return dict(self.micro[view or self.view])

    def to_dict(self) -> dict[str, Any]:
        """Hand on all but ranks and single queries as plain values for JSON; None where one is undefined."""
        plain = {
            "protocol": self.protocol,
            "filter": list(self.filter),
            "candidates": self.candidates,
            "triples": self.triples,
            **({"pairs": self.pairs} if self.pairs else {}),
            **self.micro,
            "macro": self.macro,
            "bounds": self.bounds,
            "intervals": self.intervals,
            "relations": self.relations,
            "relation_intervals": self.relation_intervals,
            **self.groups,
            "options": asdict(self.options) | {"sides": list(self.options.sides)},
        }
        return deepcopy(plain)


def summarise(
    measured: Measured, options: EvaluationOptions, labels: Sequence[str], groups: Sequence[Grouping] = ()
) -> dict[str, Any]:
    """Hand on the fields of an Evaluation that are means of single queries."""
    micro, macro, relations = _means(measured, measured.expected, labels)
    worst, best = (_means(measured, x, labels)[0] for x in (measured.pessimistic, measured.optimistic))
    return {
        "micro": micro,
        "macro": macro,
        "relations": relations,
        "groups": {group.name: _grouped(measured, group) for group in groups},
        "bounds": {v: {m: [worst[v][m], best[v][m]] for m in _metrics(measured, v)} for v in micro},
        "intervals": _intervals(measured, options),
        "relation_intervals": _relation_intervals(measured, options.confidence, labels),
    }


def _means(
    measured: Measured, values: Mapping[str, Floats], labels: Sequence[str]
) -> tuple[dict[str, Metrics], dict[str, Metrics], dict[str, dict[str, Metrics]]]:
    """Hand on the means over queries, over relations, and over the queries of each relation, by view."""
    starts = np.flatnonzero(np.diff(measured.relation, prepend=-1))
    rows = np.diff(starts, append=len(measured.relation))
    names = [labels[r] for r in measured.relation[starts]]
    sums, weights = (
        {side: np.add.reduceat(x, starts) for side, x in part.items()} for part in measured.parts(values)
    )
    lists = {side: np.add.reduceat(x, starts) for side, x in _lists(measured).items()}
    micro, macro = {}, {}
    relations: dict[str, dict[str, Metrics]] = {name: {} for name in names}
    for view, sides in measured.views.items():
        total, weight = (_over(part, sides) for part in (sums, weights))
        queries = _over(lists, sides)
        own = ratio(total, weight)
        overall = ratio(total.sum(0), weight.sum(0))
        micro[view] = _named(measured, view, overall, int(rows.sum()) * len(sides), int(queries.sum()))
        per_relation = ratio(np.nan_to_num(own).sum(0), (~np.isnan(own)).sum(0))
        macro[view] = _named(measured, view, per_relation, len(names), None)
        for name, mean, n, q in zip(names, own, rows.tolist(), queries.tolist(), strict=True):
            relations[name][view] = _named(measured, view, mean, n * len(sides), q)
    return micro, macro, relations


def _grouped(measured: Measured, group: Grouping) -> dict[str, dict[str, Metrics]]:
    """Hand on the means over the queries of each group that has any, by view."""
    sums, weights = measured.parts(measured.expected)
    lists = _lists(measured)
    told: dict[str, dict[str, Metrics]] = {}
    for i, label in enumerate(group.labels):
        for view, sides in measured.views.items():
            masks = {side: group.keys[side] == i for side in sides if side in group.keys}
            count = sum(int(mask.sum()) for mask in masks.values())
            if count:
                total, weight, queries = (
                    np.sum([part[side][mask].sum(0) for side, mask in masks.items()], axis=0)
                    for part in (sums, weights, lists)
                )
                means = _named(measured, view, ratio(total, weight), count, int(queries))
                dropped = () if group.whole else (*QUERY_METRICS, "lists")
                told.setdefault(label, {})[view] = {m: x for m, x in means.items() if m not in dropped}
    return told


def _lists(measured: Measured) -> dict[str, NDArray[np.int64]]:
    """Hand on, by side and row, whether the values of a query with all its positives stand there."""
    column = measured.metrics.index("ap") if "ap" in measured.metrics else None
    none = np.zeros(len(measured.relation), np.int64)
    return {
        side: none if column is None else (~np.isnan(x[:, column])).astype(np.int64)
        for side, x in measured.expected.items()
    }


def _metrics(measured: Measured, view: str) -> list[str]:
    """Hand on the metrics of a view: the raw one is of relation prediction alone."""
    return [m for m in measured.metrics if m != RAW_HIT or view == RELATION_VIEW]


def _named(measured: Measured, view: str, values: Floats, count: int, lists: int | None) -> Metrics:
    told = dict(zip(measured.metrics, map(_number, values.tolist()), strict=True))
    shown: Metrics = {m: told[m] for m in _metrics(measured, view)}
    with_lists = lists is not None and "ap" in shown
    return shown | {"count": count} | ({"lists": lists} if with_lists else {})


def _number(x: float) -> float | None:
    return None if x != x else x


def _span(metric: str, low: float, high: float) -> Interval:
    """Hand on an interval within the values that the metric can have."""
    least, most = limits(metric)
    return [_number(min(max(end, least), most)) for end in (low, high)]


def _intervals(measured: Measured, options: EvaluationOptions) -> dict[str, dict[str, Interval]]:
    """Hand on intervals over rows: the queries of a triple go together, since they are not independent."""
    if len(measured.relation) < 2 or (options.intervals == "bootstrap" and not options.bootstrap):
        return {}
    sums, weights = measured.parts(measured.expected)
    if measured.stands_for is not None:
        spans = _of_sample(sums, weights, measured, options)
    else:
        found = _student if options.intervals == "analytic" else _bootstrapped
        spans = found(sums, weights, measured.views, options)
    told: dict[str, dict[str, Interval]] = {}
    for view, (low, high) in spans.items():
        ends = zip(measured.metrics, low.tolist(), high.tolist(), strict=True)
        named = {m: _span(m, a, b) for m, a, b in ends}
        told[view] = {m: named[m] for m in _metrics(measured, view)}
    return told


Spans = dict[str, Floats]  # by view: [2, metrics]
Parts = Mapping[str, Floats]


def _bootstrapped(
    sums: Parts, weights: Parts, views: Mapping[str, tuple[str, ...]], options: EvaluationOptions
) -> Spans:
    columns = np.concatenate([*sums.values(), *weights.values()], axis=1)
    drawn = bootstrap_sums(columns, options.bootstrap, options.seed)
    total, weight = (
        dict(zip(sums, np.split(half, len(sums), axis=1), strict=True)) for half in np.split(drawn, 2, axis=1)
    )
    means = {view: ratio(_over(total, sides), _over(weight, sides)) for view, sides in views.items()}
    return {view: percentile_interval(x, options.confidence) for view, x in means.items()}


def _student(
    sums: Parts, weights: Parts, views: Mapping[str, tuple[str, ...]], options: EvaluationOptions
) -> Spans:
    return {
        view: weighted_intervals(_over(sums, sides), _over(weights, sides), options.confidence)
        for view, sides in views.items()
    }


def _of_sample(sums: Parts, weights: Parts, measured: Measured, options: EvaluationOptions) -> Spans:
    """Hand on intervals over drawn rows; a share without any spread in the sample gets Wilson's instead."""
    assert measured.stands_for is not None
    drawn = measured.relation, measured.stands_for
    spans = {}
    for view, sides in measured.views.items():
        total, weight = _over(sums, sides), _over(weights, sides)
        span = stratified_intervals(total, weight, *drawn, options.confidence)
        for i, metric in enumerate(measured.metrics):
            n = int((weight[:, i] > 0).sum())
            if limits(metric) == (0.0, 1.0) and n and span[0, i] == span[1, i]:
                span[:, i] = share_interval(round(n * span[0, i]), n, options.confidence)
        spans[view] = span
    return spans


def _over(parts: Mapping[str, NDArray[Any]], sides: Sequence[str]) -> NDArray[Any]:
    """Hand on the sum of some sides."""
    total: NDArray[Any] = np.sum([parts[side] for side in sides], axis=0)
    return total


def _relation_intervals(
    measured: Measured, confidence: float, labels: Sequence[str]
) -> dict[str, dict[str, dict[str, Interval]]]:
    """Hand on each relation's own intervals, of few metrics, by relation and view."""
    chosen = [i for i, m in enumerate(measured.metrics) if m in _WITH_INTERVAL]
    sums, weights = measured.parts(measured.expected)
    bounds = [*np.flatnonzero(np.diff(measured.relation, prepend=-1)).tolist(), len(measured.relation)]
    told: dict[str, dict[str, dict[str, Interval]]] = {}
    for lo, hi in pairwise(bounds):
        own = told.setdefault(labels[measured.relation[lo]], {})
        for view, sides in measured.views.items():
            total, weight = (
                _over({s: part[s][lo:hi, chosen] for s in sides}, sides) for part in (sums, weights)
            )
            ends = weighted_intervals(total, weight, confidence).T.tolist()
            named = zip((measured.metrics[i] for i in chosen), ends, strict=True)
            own[view] = {m: _span(m, *pair) for m, pair in named}
    return told


def save_ranks(evaluation: Evaluation, path: str | os.PathLike[str]) -> None:
    """Write one row per ranked positive as Parquet: s, r, o (labels), side, rank, lower, upper, candidates.

    The file appears whole or not at all.
    """
    from polars.exceptions import PolarsError

    target = Path(path)
    try:
        rows = table(evaluation)
        with replacing(target) as file:
            rows.write_parquet(file)
    except (PolarsError, UnicodeError) as problem:
        raise OutputError(
            f"{target}: the ranks cannot be written ({problem}); choose another place"
        ) from None


def table(evaluation: Evaluation) -> polars.DataFrame:
    """Hand on the ranks with labels, as `save_ranks` writes them."""
    import polars as pl  # here, so that importing evaluation stays light

    columns = {name: pl.Series(array) for name, array in vars(evaluation.ranks).items()}
    ends = {"s": evaluation.vocabulary.entities, "r": evaluation.vocabulary.relations}
    for name, labels in {**ends, "o": ends["s"], "side": RANKED}.items():
        columns[name] = pl.Series(labels, dtype=pl.String).gather(columns[name])
    return pl.DataFrame(columns)
