"""Two models, or two files of ranks, on the same queries: what differs, how surely, in which relations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from consmrf.errors import InputError, SettingError
from consmrf.evaluation.intervals import bootstrap_sums, percentile_interval, ratio, weighted_intervals
from consmrf.evaluation.metrics import ADJUSTED_METRICS, METRICS, limits, measure
from consmrf.evaluation.options import RANKED
from consmrf.evaluation.ranking import SIDES, one_blas_thread
from consmrf.evaluation.result import RELATION_VIEW, Evaluation, table
from consmrf.evaluation.saved_ranks import check_ranks
from consmrf.evaluation.significance import Verdict, holm, sign_flip, verdict

if TYPE_CHECKING:
    import polars

__all__ = ["Compared", "Comparison", "ComparisonOptions", "OfRelation", "compare"]

Floats = NDArray[np.float64]

# Fewer rows than this cannot give a p below 5 %, whatever they hold: such relations are not tested.
FEWEST = 6
# For relations, signs are drawn until so many were as extreme, or up to the most: p is told down to 1e-5.
_ENOUGH, _MOST = 100, 100_000


@dataclass(frozen=True, kw_only=True)
class ComparisonOptions:
    """Settings of `consmrf.compare`."""

    metric: str = "mrr"  # what relations are compared by
    flips: int = 10_000  # patterns of signs that p is read from
    resamples: int = 2000  # of the intervals
    confidence: float = 0.95  # of the intervals
    seed: int = 0

    def __post_init__(self) -> None:
        if self.metric not in METRICS:
            raise SettingError(f"metric = {self.metric!r}: must be one of {', '.join(METRICS)}")
        for name, least, most in (("flips", 100, 10**7), ("resamples", 100, 10**6), ("seed", 0, 2**63 - 1)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
                raise SettingError(f"{name} = {value!r}: must be a whole number from {least} to {most}")
        real = isinstance(self.confidence, int | float) and not isinstance(self.confidence, bool)
        if not real or not 0 < self.confidence < 1:
            raise SettingError(f"confidence = {self.confidence!r}: must lie between 0 and 1, both excluded")


DEFAULTS = ComparisonOptions()


@dataclass(frozen=True)
class Compared:
    """One metric of both, and first − second with its paired interval and sign-flip p."""

    first: float | None
    second: float | None
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    count: int  # paired ranks that the metric is taken over

    def verdict(self, metric: str) -> Verdict:
        """Say whether the first is better, by the interval; of mean ranks the lower is better."""
        if self.low is None or self.high is None:
            return Verdict.TIED
        lower_is_better = limits(metric)[0] == 1
        return verdict(-self.high, -self.low) if lower_is_better else verdict(self.low, self.high)


@dataclass(frozen=True)
class OfRelation(Compared):
    """The same for one relation; p is None where there are too few rows for any p below 5 %."""

    p_holm: float | None  # corrected over the relations tested


@dataclass(frozen=True)
class Comparison:
    """Every metric by view, one metric by relation, and how the ranks paired."""

    names: tuple[str, str]
    options: ComparisonOptions
    pairs: dict[str, int]  # paired, only_first, only_second, other_candidates
    views: dict[str, dict[str, Compared]]
    relations: dict[str, OfRelation]
    moved: polars.DataFrame  # the paired ranks: s, r, o, side, first, second, candidates

    @property
    def view(self) -> str:
        """The view that relations are compared in."""
        return next(iter(self.views))

    def to_dict(self) -> dict[str, Any]:
        """Hand on all but the single ranks as plain values for JSON; None where one is undefined."""
        return {
            "names": list(self.names),
            "options": asdict(self.options),
            "pairs": dict(self.pairs),
            "views": {view: {m: asdict(x) for m, x in own.items()} for view, own in self.views.items()},
            "relations": {label: asdict(x) for label, x in self.relations.items()},
        }


def compare(
    first: Evaluation | polars.DataFrame,
    second: Evaluation | polars.DataFrame,
    *,
    names: tuple[str, str] = ("first", "second"),
    options: ComparisonOptions = DEFAULTS,
) -> Comparison:
    """Pair the ranks of two evaluations, or of two tables of ranks, by s, r, o and side; compare them.

    Rows are triples: all that is ranked of one triple is drawn, or flipped, together.
    """
    frames = [
        check_ranks(table(x) if isinstance(x, Evaluation) else x, name)
        for x, name in zip((first, second), names, strict=True)
    ]
    moved, pairs = _paired(*frames)
    if not len(moved):
        raise InputError(
            f"{names[0]} and {names[1]}: no rank of one has the same s, r, o and side as one of the other; "
            "compare ranks of the same test triples"
        )
    metrics = [m for m in METRICS if not (pairs["other_candidates"] and m in ADJUSTED_METRICS)]
    if options.metric not in metrics:
        other = pairs["other_candidates"]
        raise InputError(
            f"metric = {options.metric!r}: {other} paired ranks are among different numbers of candidates, "
            "so what chance gets is not the same; choose a metric that is not adjusted"
        )
    rows = _Rows.of(moved, [METRICS.index(m) for m in metrics])
    with one_blas_thread():
        views = {
            view: dict(zip(metrics, _compared(rows.of_view(sides), options), strict=True))
            for view, sides in rows.views().items()
        }
        first_sides = next(iter(rows.views().values()))
        own = rows.of_view(first_sides).column(metrics.index(options.metric))
        relations = _by_relation(rows, own, options)
    shown = moved.select("s", "r", "o", "side", "first", "second", "candidates")
    return Comparison(names, options, pairs, views, relations, shown)


def _paired(first: polars.DataFrame, second: polars.DataFrame) -> tuple[polars.DataFrame, dict[str, int]]:
    """Hand on the ranks that both have, ordered by relation, and how many paired and did not."""
    import polars as pl

    keys = ["s", "r", "o", "side"]
    both = first.join(second, on=keys, suffix="_second").sort("r", "s", "o", "side")
    other = int((both["candidates"] != both["candidates_second"]).sum())
    counts = {
        "paired": len(both),
        "only_first": len(first) - len(both),
        "only_second": len(second) - len(both),
        "other_candidates": other,
    }
    return both.with_columns(first=pl.col("rank"), second=pl.col("rank_second")), counts


@dataclass(frozen=True)
class _Sums:
    """What means over rows are quotients of: weighted values of both, and weights [n, metrics]."""

    first: Floats
    second: Floats
    weights: Floats
    count: NDArray[np.int64]  # [n] ranks

    def column(self, i: int) -> _Sums:
        return _Sums(self.first[:, [i]], self.second[:, [i]], self.weights[:, [i]], self.count)

    def rows(self, chosen: slice) -> _Sums:
        return _Sums(*(getattr(self, field.name)[chosen] for field in fields(self)))


@dataclass(frozen=True)
class _Rows:
    """The paired values by side, one row per triple, ordered by relation; what a row lacks weighs nothing."""

    relations: dict[str, slice]
    sides: Mapping[str, _Sums]

    def views(self) -> dict[str, tuple[str, ...]]:
        ends = tuple(side for side in SIDES if side in self.sides)
        both: dict[str, tuple[str, ...]] = {"both": ends} if len(ends) > 1 else {}
        relations = {RELATION_VIEW: ("relations",)} if "relations" in self.sides else {}
        return both | {side: (side,) for side in ends} | relations

    def of_view(self, sides: tuple[str, ...]) -> _Sums:
        parts = [self.sides[side] for side in sides]
        return _Sums(*(np.sum([getattr(p, f.name) for p in parts], axis=0) for f in fields(_Sums)))

    @classmethod
    def of(cls, moved: polars.DataFrame, chosen: list[int]) -> _Rows:
        keys = ["r", "s", "o"]
        triples = moved.select(keys).unique(maintain_order=True).with_row_index("row")
        names = triples["r"].to_list()
        starts = [i for i, name in enumerate(names) if i == 0 or name != names[i - 1]]
        relations = {names[a]: slice(a, b) for a, b in zip(starts, [*starts[1:], len(names)], strict=True)}
        placed = moved.join(triples, on=keys, maintain_order="left")
        sides = {}
        for side, given in zip(RANKED, (["s", "r"], ["r", "o"], ["s", "o"]), strict=True):
            own = placed.filter(placed["side"] == side)
            if len(own):
                queries = own.select(given).unique(maintain_order=True).with_row_index("query")
                own = own.join(queries, on=given, maintain_order="left")
                sides[side] = _side(own, len(triples), chosen)
        return cls(relations, sides)


def _side(own: polars.DataFrame, n: int, chosen: list[int]) -> _Sums:
    """Hand on the values of one side's ranks in the rows of their triples."""
    row, query = own["row"].to_numpy(), own["query"].to_numpy().astype(np.int64)
    one, other = (
        measure(query, *(own[f"{name}{suffix}"].to_numpy() for name in ("lower", "upper", "candidates")))
        for suffix in ("", "_second")
    )
    kept = ~np.isnan(one.expected) & ~np.isnan(other.expected)
    weights = np.where(kept, one.weights, 0.0)
    parts = [np.where(kept, x.expected * weights, 0.0) for x in (one, other)]
    whole = [np.zeros((n, len(chosen))) for _ in range(3)]
    for target, values in zip(whole, (*parts, weights), strict=True):
        target[row] = values[:, chosen]
    count = np.zeros(n, np.int64)
    count[row] = 1
    return _Sums(whole[0], whole[1], whole[2], count)


def _compared(sums: _Sums, options: ComparisonOptions) -> list[Compared]:
    """Hand on each column's comparison, with the interval of a paired bootstrap."""
    p = sign_flip(sums.first - sums.second, options.flips, seed=[options.seed, 1])
    span = np.full((2, sums.weights.shape[1]), np.nan)
    if (sums.count > 0).sum() > 1:
        pooled = np.concatenate([sums.first - sums.second, sums.weights], axis=1)
        drawn = np.split(bootstrap_sums(pooled, options.resamples, options.seed), 2, axis=1)
        span = percentile_interval(ratio(*drawn), options.confidence)
    count = int(sums.count.sum())
    return [
        Compared(**told, p=_number(alone), count=count)
        for told, alone in zip(_means(sums, span), p.tolist(), strict=True)
    ]


def _by_relation(rows: _Rows, sums: _Sums, options: ComparisonOptions) -> dict[str, OfRelation]:
    """Compare one metric, the only column, for each relation; correct p over those that are tested.

    There may be thousands of relations, many of them small: their intervals are Student's.
    """
    least, greatest = limits(options.metric)
    most = greatest - least  # no difference is larger
    parts = {label: sums.rows(own) for label, own in rows.relations.items() if sums.count[own].any()}
    p = np.full(len(parts), np.nan)
    for i, own in enumerate(parts.values()):
        if (own.weights > 0).sum() >= FEWEST:
            seed = [options.seed, 2, i]
            p[i] = sign_flip(own.first - own.second, _MOST, enough=_ENOUGH, seed=seed)[0]
    told = {}
    for (label, own), alone, corrected in zip(parts.items(), p.tolist(), holm(p).tolist(), strict=True):
        span = weighted_intervals(own.first - own.second, own.weights, options.confidence).clip(-most, most)
        [values] = _means(own, span)
        count = int(own.count.sum())
        told[label] = OfRelation(**values, p=_number(alone), count=count, p_holm=_number(corrected))
    return told


def _means(sums: _Sums, span: Floats) -> list[dict[str, float | None]]:
    """Hand on for each column the two means, their difference, and its interval."""
    total = sums.weights.sum(axis=0)
    first, second = (ratio(x.sum(axis=0), total) for x in (sums.first, sums.second))
    names = ("first", "second", "difference", "low", "high")
    columns = zip(*(x.tolist() for x in (first, second, first - second, *span)), strict=True)
    return [dict(zip(names, map(_number, values), strict=True)) for values in columns]


def _number(x: float) -> float | None:
    return None if x != x else x
