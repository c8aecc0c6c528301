"""Ranks from a file, ours or another program's: one row per ranked positive, checked row by row."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

from consmrf.errors import DataError
from consmrf.evaluation.options import RANKED
from consmrf.graph.read_report import SourceReport
from consmrf.graph.source import opened

if TYPE_CHECKING:
    import polars

__all__ = ["COLUMNS", "check_ranks", "read_ranks"]

COLUMNS = ("s", "r", "o", "side", "rank", "lower", "upper", "candidates")
_TEXT = COLUMNS[:4]


def read_ranks(path: str | os.PathLike[str]) -> polars.DataFrame:
    """Read what `save_ranks` wrote, or CSV or TSV with the same columns, plain or compressed.

    A file that begins as Parquet does is Parquet; else its first line names columns between tabs or commas.
    """
    import polars as pl
    from polars.exceptions import PolarsError

    name = str(Path(path))
    try:
        with opened(SourceReport(name)) as file:
            data = file.read()
        if data[:4] == b"PAR1":
            frame = pl.read_parquet(io.BytesIO(data))
        else:
            tabs = b"\t" in data.split(b"\n", 1)[0]
            frame = pl.read_csv(
                io.BytesIO(data),
                separator="\t" if tabs else ",",
                schema_overrides=dict.fromkeys(_TEXT, pl.String),
            )
    except (PolarsError, UnicodeError) as problem:
        raise DataError(
            f"not a table of ranks ({problem}); evaluate --ranks writes one", source=name
        ) from None
    return check_ranks(frame, name)


def check_ranks(frame: polars.DataFrame, name: str) -> polars.DataFrame:
    """Hand on the columns of a table of ranks, in their types; what cannot be ranks is a DataError."""
    import polars as pl
    from polars.exceptions import PolarsError

    lacking = [column for column in COLUMNS if column not in frame.columns]
    if lacking:
        raise DataError(
            f"no column {', '.join(lacking)}: ranks have the columns {', '.join(COLUMNS)}", source=name
        )
    if not len(frame):
        raise DataError("holds no ranks; nothing can be compared", source=name)
    try:
        ranks = frame.select(
            *(pl.col(column).cast(pl.String) for column in _TEXT),
            *(pl.col(column).cast(pl.Float64) for column in COLUMNS[4:]),
        )
    except PolarsError:
        raise DataError(
            "rank, lower, upper and candidates must be numbers in every row", source=name
        ) from None
    lower, upper, whole = pl.col("lower"), pl.col("upper"), pl.col(COLUMNS[5:])
    rules = {
        "every cell must have a value": ~pl.any_horizontal(pl.col(COLUMNS).is_null()),
        f"side must be one of {', '.join(RANKED)}": pl.col("side").is_in(RANKED),
        "lower, upper and candidates must be whole": pl.all_horizontal(whole == whole.floor()),
        "1 ≤ lower ≤ upper ≤ candidates must hold": (lower >= 1)
        & (lower <= upper)
        & (upper <= pl.col("candidates")),
        "rank must be the middle of lower and upper": pl.col("rank") * 2 == lower + upper,
        "s, r, o and side must not occur twice": pl.struct(_TEXT).is_first_distinct(),
    }
    for rule, kept in rules.items():
        wrong = ranks.with_row_index("row", offset=1).filter(~kept)
        if len(wrong):
            row = wrong.row(0, named=True)
            told = ", ".join(f"{column} = {row[column]!r}" for column in COLUMNS)
            raise DataError(f"row {row['row']} ({told}): {rule}", source=name)
    return ranks.with_columns(whole.cast(pl.Int64))
