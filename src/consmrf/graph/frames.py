"""Parquet, polars and pandas frames, arrays and plain rows: typed values become labels, or an error."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from io import BufferedReader, BytesIO
from itertools import islice
from numbers import Integral
from typing import Any

import numpy as np
import polars as pl

from consmrf.errors import DataError
from consmrf.graph.numbers import column_of, expected, numbers
from consmrf.graph.read_report import SourceReport
from consmrf.graph.request import ROLES, Request, found, roles_of

__all__ = ["read_memory", "read_parquet"]

CHUNK = 250_000  # rows taken at a time from an iterable
_COUNTED = {3: "three", 4: "four", 5: "five"}


def read_parquet(stream: BufferedReader, report: SourceReport, request: Request) -> Iterator[pl.DataFrame]:
    """Hand on a Parquet file as one frame of `request.fields`; only those columns are read."""
    try:
        file = BytesIO(stream.read())
        order = _order(list(pl.read_parquet_schema(file)), report, request)
        file.seek(0)
        frame = pl.read_parquet(file, columns=sorted(order))
    except pl.exceptions.PolarsError as error:
        raise report.error(f"found no readable Parquet data ({error}); write the file again") from None
    position = {i: at for at, i in enumerate(sorted(order))}
    yield _labelled([frame.to_series(position[i]) for i in order], report, request)


def read_memory(source: object, report: SourceReport, request: Request) -> Iterator[pl.DataFrame]:
    """Hand on frames of `request.fields` from whatever stands in memory."""
    pandas = sys.modules.get("pandas")
    if isinstance(source, pl.LazyFrame):
        source = source.collect()
    if isinstance(source, pl.DataFrame):
        report.name, report.format = "<polars frame>", "frame"
        order = _order(source.columns, report, request)
        yield _labelled([source.to_series(i) for i in order], report, request)
    elif pandas is not None and isinstance(source, pandas.DataFrame):
        report.name, report.format = "<pandas frame>", "frame"
        order = _order([str(name) for name in source.columns], report, request)
        cells = [source.iloc[:, i].tolist() for i in order]
        yield _labelled(
            [_series(x, role, report) for x, role in zip(cells, request.roles, strict=True)], report, request
        )
    elif isinstance(source, np.ndarray) or _is_columns(source, len(request.roles)):
        report.name, report.format, report.columns = "<array>", "array", request.roles
        yield _from_array(source, report, request)
    elif isinstance(source, Iterable) and not isinstance(source, str | bytes):
        report.name, report.format, report.columns = "<rows>", "rows", request.roles
        yield from _from_rows(source, report, request)
    else:
        raise DataError(
            f"cannot read triples from {type(source).__name__}: expected a path, a list of paths, '-' for "
            "standard input, a polars or pandas frame, an (n, 3) array, or rows (subject, relation, object)"
        )


def _order(names: Sequence[str], report: SourceReport, request: Request) -> tuple[int, ...]:
    if len(names) < len(request.roles):
        raise report.error(f"{found(names)}, expected {len(request.roles)}: {', '.join(request.roles)}")
    order = request.order(names, roles_of(names, letters=True), report.name, None)
    roles = dict(zip(order, request.roles, strict=True))
    report.header = tuple(names)
    report.columns = tuple(roles.get(i, name) for i, name in enumerate(names))
    return order


def _labelled(columns: Sequence[pl.Series], report: SourceReport, request: Request) -> pl.DataFrame:
    """Make text of three columns and doubles of the others; what is no label, or no such number, is an error.

    Whole numbers as labels become their digits.
    """
    frame = {}
    for name, role, column in zip(request.fields, request.roles, columns, strict=True):
        if role not in ROLES:
            frame[name], wrong = numbers(column, role)
            if wrong is not None:
                raise _bad_row(report.rows + wrong, role, column[wrong], report)
            continue
        if not (column.dtype.is_integer() or column.dtype in (pl.String, pl.Categorical, pl.Enum)):
            raise report.error(
                f"the {role} column {column.name!r} holds {column.dtype}, expected text or whole numbers; "
                "convert it to text"
            )
        text = column.cast(pl.String)
        bad = (text.is_null() | (text == "")).fill_null(True).arg_max() if len(text) else None
        if bad is not None and not text[bad]:
            raise _bad_row(report.rows + bad, role, text[bad], report)
        frame[name] = text
    report.rows += len(columns[0])
    return pl.DataFrame(frame)


def _bad_row(row: int, role: str, value: object, report: SourceReport) -> DataError:
    shown = repr(value) if value is None or len(repr(value)) <= 40 else repr(value)[:39] + "…"
    what = "null" if value is None else "an empty text" if value == "" else f"{type(value).__name__} {shown}"
    wanted = "text or a whole number" if role in ROLES else expected(role)
    return report.error(f"row {row + 1}: found {what} as {role}, expected {wanted}; fix or drop the row")


def _series(values: list[Any], role: str, report: SourceReport) -> pl.Series:
    """Make a column of Python values; labels other than text and whole numbers are errors with their row."""
    if role not in ROLES:
        column = column_of(values)
        wrong = numbers(column, role)[1]
        if wrong is not None:
            raise _bad_row(report.rows + wrong, role, values[wrong], report)
        return column
    if set(map(type, values)) != {str}:
        for row, value in enumerate(values):
            whole = isinstance(value, Integral) and not isinstance(value, bool)
            if not whole and not isinstance(value, str):
                raise _bad_row(report.rows + row, role, value, report)
        values = [str(value) for value in values]
    try:
        return pl.Series(values, dtype=pl.String)
    except UnicodeEncodeError as error:
        raise report.error(
            f"found a label that is not Unicode text: {error.object!r}; replace its surrogates"
        ) from None


def _is_columns(source: object, n: int) -> bool:
    arrays = isinstance(source, tuple) and len(source) == n
    return arrays and all(isinstance(x, np.ndarray) and x.ndim == 1 for x in source)  # type: ignore[attr-defined]


def _from_array(source: Any, report: SourceReport, request: Request) -> pl.DataFrame:
    """One array with a column for each role, or a tuple of as many arrays of one length."""
    width = len(request.roles)
    if isinstance(source, tuple):
        if len({len(x) for x in source}) != 1:
            lengths = ", ".join(str(len(x)) for x in source)
            raise report.error(f"found arrays of lengths {lengths}, expected {_COUNTED[width]} of one length")
        columns = list(source)
    elif source.ndim != 2 or source.shape[1] < width:
        raise report.error(f"found an array of shape {source.shape}, expected (n, {width})")
    else:
        columns = list(source.T)
    order = request.order([f"column {i}" for i in range(len(columns))], None, report.name, None)
    picked = []
    for role, i in zip(request.roles, order, strict=True):
        typed = np.issubdtype(columns[i].dtype, np.integer)
        typed |= role not in ROLES and np.issubdtype(columns[i].dtype, np.floating)
        values = np.ascontiguousarray(columns[i])
        picked.append(pl.Series(values) if typed else _series(values.tolist(), role, report))
    return _labelled(picked, report, request)


def _from_rows(source: Iterable[Any], report: SourceReport, request: Request) -> Iterator[pl.DataFrame]:
    rows = iter(source)
    order: tuple[int, ...] | None = None
    least = width = len(request.roles)
    while chunk := list(islice(rows, CHUNK)):
        if order is None:
            width = len(chunk[0]) if isinstance(chunk[0], Sequence | np.ndarray) else least
            names = [f"column {i}" for i in range(width)]
            order = (0, 1, 2) if width < least else request.order(names, None, report.name, None)
            width = max(width, least)
        for row, cells in enumerate(chunk):
            if (
                isinstance(cells, str | bytes)
                or not isinstance(cells, Sequence | np.ndarray)
                or len(cells) != width
            ):
                shown = repr(cells) if len(repr(cells)) <= 60 else repr(cells)[:59] + "…"
                raise report.error(
                    f"row {report.rows + row + 1}: found {shown}, expected {width} values; fix or drop it"
                )
        columns = zip(request.roles, order, strict=True)
        yield _labelled(
            [_series([x[i] for x in chunk], role, report) for role, i in columns], report, request
        )
