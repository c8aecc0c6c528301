"""How sure a comparison is: paired differences of the same queries from their ranks, and exponents."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from consmrf.errors import InputError
from consmrf.evaluation.intervals import bootstrap_sums, mean_interval, percentile_interval

if TYPE_CHECKING:
    import polars

__all__ = ["FEWEST_RUNS", "METRICS", "Difference", "Exponent", "Queries"]
__all__ += ["difference", "exponent", "pooled_means", "queries", "read_ranks"]

METRICS = ("auc", "recall@5", "precision@5")
_TOP = 5
# From so many independent runs on, an interval is Student's over runs; below, a bootstrap over queries.
FEWEST_RUNS = 5
_RESAMPLES = 1000
_COLUMNS = ("s", "r", "o", "side", "rank", "lower", "upper", "candidates")

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Queries:
    """The (relation, subject) pairs of one tested fold, ascending, and the metrics of each."""

    relation: tuple[str, ...]
    subject: tuple[str, ...]
    values: Floats  # [pairs, METRICS]

    def same_pairs(self, other: Queries) -> bool:
        """Say whether both are of the same pairs."""
        return self.relation == other.relation and self.subject == other.subject


class Difference(NamedTuple):
    """Ours less theirs, with its interval."""

    mean: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """What the interval says of ours."""
        return "better" if self.low > 0 else "worse" if self.high < 0 else "tied"


class Exponent(NamedTuple):
    """b of y ∝ x^b, and its standard error; NaN where there are only two values."""

    value: float
    error: float


def read_ranks(path: Path) -> polars.DataFrame:
    """Read ranks as `consmrf evaluate --ranks` and a study's cells write them; those of objects only."""
    import polars as pl

    try:
        table = pl.read_parquet(path)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file of ranks") from None
    except (pl.exceptions.PolarsError, OSError) as problem:
        raise InputError(f"{path}: is not a Parquet file of ranks: {problem}") from None
    lacking = [name for name in _COLUMNS if name not in table.columns]
    if lacking:
        raise InputError(
            f"{path}: lacks the column {lacking[0]!r}; ranks have the columns {', '.join(_COLUMNS)}, as "
            "consmrf evaluate --protocol paper --ranks writes them"
        )
    return table.filter(pl.col("side") == "objects").sort("r", "s", "lower", "upper", "o")


def queries(ranks: polars.DataFrame) -> Queries:
    """Hand on the metrics of each (relation, subject), from the ranks of its objects: the evaluation's own.

    Objects of a pair that stand alike to its sampled objects share the places that their group reaches into.
    """
    import polars as pl

    pair, count = ["r", "s"], pl.col("count")
    beaten = 1 - (pl.col("rank") - 1) / (pl.col("candidates") - 1)
    better = count.cum_sum().over(pair) - count
    room = (_TOP + 1 - pl.col("lower") - better) / (pl.col("upper") - pl.col("lower") + count)
    found = (
        ranks.with_columns(beaten=beaten)
        .group_by(*pair, "lower", "upper", maintain_order=True)
        .agg(pl.col("beaten").sum(), count=pl.len().cast(pl.Int64))
        .with_columns(hits=room.clip(0, 1) * count)
        .group_by(pair, maintain_order=True)
        .agg(pl.col("beaten", "count", "hits").sum())
        .with_columns(
            pl.col("beaten") / count, recall=pl.col("hits") / count, precision=pl.col("hits") / _TOP
        )
    )
    values = found.select("beaten", "recall", "precision").to_numpy().astype(np.float64)
    return Queries(tuple(found["r"].to_list()), tuple(found["s"].to_list()), values)


def difference(ours: Sequence[Queries], theirs: Sequence[Queries], confidence: float) -> Difference:
    """Compare the AUC of runs on the same folds, query by query."""
    gaps = [a.values[:, 0] - b.values[:, 0] for a, b in zip(ours, theirs, strict=True)]
    if len(gaps) >= FEWEST_RUNS:
        return Difference(*mean_interval([float(gap.mean()) for gap in gaps], confidence))
    [found] = _bootstrapped(np.concatenate(gaps)[:, None], confidence)
    return Difference(*found)


def pooled_means(runs: Sequence[Queries], confidence: float) -> dict[str, tuple[float, float, float]]:
    """Hand on, by metric, the mean over the pairs of all runs and its bootstrap interval."""
    values = np.concatenate([run.values for run in runs])
    return dict(zip(METRICS, _bootstrapped(values, confidence), strict=True))


def _bootstrapped(values: Floats, confidence: float) -> list[tuple[float, float, float]]:
    """Hand on (mean, low, high) of each column."""
    drawn = bootstrap_sums(values, _RESAMPLES, seed=0) / len(values)
    low, high = percentile_interval(drawn, confidence)
    return list(zip(values.mean(axis=0).tolist(), low.tolist(), high.tolist(), strict=True))


def exponent(x: Sequence[float], y: Sequence[float]) -> Exponent:
    """Fit log y to log x by least squares."""
    a, b = np.log(np.asarray(x, np.float64)), np.log(np.asarray(y, np.float64))
    if len(np.unique(a)) < 2:
        raise InputError("an exponent needs at least two different sizes")
    spread = float(((a - a.mean()) ** 2).sum())
    slope = float(((a - a.mean()) * (b - b.mean())).sum()) / spread
    residual = b - b.mean() - slope * (a - a.mean())
    free = len(a) - 2
    error = math.sqrt(float(residual @ residual) / free / spread) if free else math.nan
    return Exponent(slope, error)
