"""What an evaluation found: every number with its protocol, filter, bounds and interval, and its ranks."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from consmrf.errors import OutputError
from consmrf.evaluation.intervals import bootstrap_sums, percentile_interval, ratio
from consmrf.evaluation.options import EvaluationOptions
from consmrf.evaluation.ranking import SIDES
from consmrf.graph.source import replacing
from consmrf.graph.vocabulary import Vocabulary

if TYPE_CHECKING:
    import polars

__all__ = ["Evaluation", "Measured", "Metrics", "Ranks", "save_ranks", "summarise"]

Floats = NDArray[np.float64]
Metrics = dict[str, float | None]  # by metric; "count" is how many queries the others are means of
Interval = list[float | None]


@dataclass(frozen=True)
class Ranks:
    """One row per ranked positive, in the ids of the model's vocabulary, ordered by side, r, s and o."""

    s: NDArray[np.int32]
    r: NDArray[np.int32]
    o: NDArray[np.int32]
    side: NDArray[np.int8]  # the position in SIDES of the end that was ranked
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
    be compared row by row.
    """

    metrics: tuple[str, ...]
    relation: NDArray[np.int32]  # [n] ascending
    expected: Mapping[str, Floats]  # side → [n, metrics], NaN where undefined
    pessimistic: Mapping[str, Floats]
    optimistic: Mapping[str, Floats]

    @property
    def views(self) -> dict[str, tuple[str, ...]]:
        """What is reported: the sides taken together, where there are two, and each side by itself."""
        sides = tuple(self.expected)
        both: dict[str, tuple[str, ...]] = {"both": sides} if len(sides) > 1 else {}
        return both | {side: (side,) for side in sides}


@dataclass(frozen=True)
class Evaluation:
    """Metrics by view ("both", "objects", "subjects"), with all it takes to read and to recompute them."""

    protocol: str
    options: EvaluationOptions
    vocabulary: Vocabulary
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
    bounds: dict[
        str, dict[str, Interval]
    ]  # of micro: pessimistic (equals all ahead), optimistic (all behind)
    intervals: dict[
        str, dict[str, Interval]
    ]  # of micro: bootstrap percentiles; empty where there is no bootstrap
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
            "options": asdict(self.options) | {"sides": list(self.options.sides)},
        }
        return deepcopy(plain)


def summarise(measured: Measured, options: EvaluationOptions, labels: Sequence[str]) -> dict[str, Any]:
    """Hand on the fields of an Evaluation that are means of single queries."""
    micro, macro, relations = _means(measured, measured.expected, labels)
    worst, best = (_means(measured, x, labels)[0] for x in (measured.pessimistic, measured.optimistic))
    bounds = {v: {m: [worst[v][m], best[v][m]] for m in measured.metrics} for v in micro}
    intervals = _intervals(measured, options) if options.bootstrap and len(measured.relation) > 1 else {}
    return {"micro": micro, "macro": macro, "relations": relations, "bounds": bounds, "intervals": intervals}


def _means(
    measured: Measured, values: Mapping[str, Floats], labels: Sequence[str]
) -> tuple[dict[str, Metrics], dict[str, Metrics], dict[str, dict[str, Metrics]]]:
    """Hand on the means over queries, over relations, and over the queries of each relation, by view."""
    starts = np.flatnonzero(np.diff(measured.relation, prepend=-1))
    rows = np.diff(starts, append=len(measured.relation))
    names = [labels[r] for r in measured.relation[starts]]
    sums = {side: np.add.reduceat(np.nan_to_num(x), starts) for side, x in values.items()}
    defined = {side: np.add.reduceat((~np.isnan(x)).astype(np.int64), starts) for side, x in values.items()}
    micro, macro = {}, {}
    relations: dict[str, dict[str, Metrics]] = {name: {} for name in names}
    for view, sides in measured.views.items():
        total = np.sum([sums[s] for s in sides], axis=0)
        count = np.sum([defined[s] for s in sides], axis=0)
        own = ratio(total, count)
        overall = ratio(total.sum(0), count.sum(0))
        micro[view] = _named(measured.metrics, overall, int(rows.sum()) * len(sides))
        per_relation = ratio(np.nan_to_num(own).sum(0), (~np.isnan(own)).sum(0))
        macro[view] = _named(measured.metrics, per_relation, len(names))
        for name, mean, n in zip(names, own, rows.tolist(), strict=True):
            relations[name][view] = _named(measured.metrics, mean, n * len(sides))
    return micro, macro, relations


def _named(metrics: Sequence[str], values: Floats, count: int) -> Metrics:
    return {**{m: _number(x) for m, x in zip(metrics, values.tolist(), strict=True)}, "count": count}


def _number(x: float) -> float | None:
    return None if x != x else x


def _intervals(measured: Measured, options: EvaluationOptions) -> dict[str, dict[str, Interval]]:
    """Bootstrap over rows: the two queries of a triple are drawn together, since they are not independent."""
    columns = [np.nan_to_num(x) for x in measured.expected.values()]
    defined = [(~np.isnan(x)).astype(np.float64) for x in measured.expected.values()]
    drawn = bootstrap_sums(np.concatenate(columns + defined, axis=1), options.bootstrap, options.seed)
    sums, counts = (
        dict(zip(measured.expected, np.split(half, len(columns), axis=1), strict=True))
        for half in np.split(drawn, 2, axis=1)
    )
    intervals = {}
    for view, sides in measured.views.items():
        means = ratio(np.sum([sums[s] for s in sides], axis=0), np.sum([counts[s] for s in sides], axis=0))
        low, high = percentile_interval(means, options.confidence).tolist()
        intervals[view] = {
            m: [_number(a), _number(b)] for m, a, b in zip(measured.metrics, low, high, strict=True)
        }
    return intervals


def save_ranks(evaluation: Evaluation, path: str | os.PathLike[str]) -> None:
    """Write one row per ranked positive as Parquet: s, r, o (labels), side, rank, lower, upper, candidates.

    The file appears whole or not at all.
    """
    from polars.exceptions import PolarsError

    target = Path(path)
    try:
        table = _table(evaluation)
        with replacing(target) as file:
            table.write_parquet(file)
    except (PolarsError, UnicodeError) as problem:
        raise OutputError(
            f"{target}: the ranks cannot be written ({problem}); choose another place"
        ) from None


def _table(evaluation: Evaluation) -> polars.DataFrame:
    import polars as pl  # here, so that importing evaluation stays light

    columns = {name: pl.Series(array) for name, array in vars(evaluation.ranks).items()}
    ends = {"s": evaluation.vocabulary.entities, "r": evaluation.vocabulary.relations}
    for name, labels in {**ends, "o": ends["s"], "side": SIDES}.items():
        columns[name] = pl.Series(labels, dtype=pl.String).gather(columns[name])
    return pl.DataFrame(columns)
