"""Numbers that go with triples: weights and values, from text or typed columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from numbers import Real

import polars as pl

__all__ = ["column_of", "expected", "fits", "numbers"]

MOST = 1e30  # what single floats hold, with room for products
_TEXT = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"


def expected(role: str) -> str:
    """Say what a number in this role must be."""
    return f"a number from {_least(role):g} to {MOST:g}"


def fits(text: str, role: str) -> bool:
    """Say whether a cell's text is such a number."""
    return re.fullmatch(_TEXT, text) is not None and _least(role) <= float(text) <= MOST


def numbers(column: pl.Series, role: str) -> tuple[pl.Series, int | None]:
    """Hand on a column as doubles, and the place of the first cell that is not what its role asks for."""
    if column.dtype == pl.String:
        column = column.set(~column.str.contains(f"^{_TEXT}$").fill_null(False), None)
    elif not column.dtype.is_numeric():
        column = pl.Series([None] * len(column), dtype=pl.Float64)
    doubles = column.cast(pl.Float64, strict=False)
    good = doubles.is_between(_least(role), MOST).fill_null(False)
    return doubles, None if good.all() else good.arg_min()


def column_of(values: Sequence[object]) -> pl.Series:
    """Hand on Python values as a column that `numbers` judges; what is neither text nor a number is null."""
    if set(map(type, values)) == {float}:
        return pl.Series(values, dtype=pl.Float64)
    return pl.Series([_text(value) for value in values], dtype=pl.String)


def _text(value: object) -> str | None:
    if isinstance(value, str):
        return value if value.isascii() else None
    if type(value) is bool or not isinstance(value, Real):
        return None
    try:
        return repr(float(value))
    except OverflowError:
        return None


def _least(role: str) -> float:
    return 0.0 if role == "weight" else -MOST
