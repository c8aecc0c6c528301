"""Triples out: TSV, CSV, Parquet or N-Triples by the path's suffix, whole or not at all."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from consmrf.errors import DataError, SettingError
from consmrf.graph.request import FORMATS, ROLES, roles_of
from consmrf.graph.source import replacing, suffixes
from consmrf.graph.triples import Graph

__all__ = ["write"]


def write(graph: Graph, path: Path) -> None:
    """Write a graph's triples to a path, whole or not at all."""
    writer = _WRITERS.get(FORMATS.get(suffixes(path.name)[0], ""))
    if writer is None:
        raise SettingError(
            f"{path}: the suffix says no format that can be written; use .tsv, .csv, .parquet or .nt, "
            "with .gz or .zst to compress"
        )
    try:
        with replacing(path) as file:
            writer(graph, file)
    except UnicodeEncodeError as error:
        raise DataError(f"the label {error.object!r} is not Unicode text; replace its surrogates") from None


def _write_tsv(graph: Graph, file: IO[bytes]) -> None:
    _refuse(
        graph, "\t\n\r\0", "a tab, a line break or a zero byte, which TSV cannot hold; write CSV or Parquet"
    )
    rows = _rows(graph)
    with _text(file) as text:
        first = next(rows, None)
        if first is None or _numbers(graph) or roles_of(first) or first[0].startswith("\ufeff"):
            text.write(
                "\t".join(_names(graph)) + "\n"
            )  # or the first triple would be taken for a header, or lose a mark
        text.writelines("\t".join(row) + "\n" for row in chain([first] if first else [], rows))


def _write_csv(graph: Graph, file: IO[bytes]) -> None:
    _refuse(graph, "\0", "a zero byte, which CSV cannot hold; write Parquet")
    with _text(file) as text:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(_names(graph))
        writer.writerows(_rows(graph))


def _write_parquet(graph: Graph, file: IO[bytes]) -> None:
    import polars as pl

    names = (graph.vocabulary.entities, graph.vocabulary.relations, graph.vocabulary.entities)
    labels = (pl.Series(x, dtype=pl.String).gather(graph.triples[:, i]) for i, x in enumerate(names))
    columns = dict(zip(ROLES, labels, strict=True))
    buffer = io.BytesIO()
    pl.DataFrame({**columns, **_numbers(graph)}).write_parquet(buffer)
    file.write(buffer.getbuffer())


def _write_ntriples(graph: Graph, file: IO[bytes]) -> None:
    from consmrf.graph.rdf import term

    for name in _numbers(graph):
        raise SettingError(f"N-Triples cannot hold each triple's {name}; write TSV, CSV or Parquet")
    entities = [term(label) for label in graph.vocabulary.entities]
    relations = [term(label, relation=True) for label in graph.vocabulary.relations]
    with _text(file) as text:
        text.writelines(
            f"{entities[s]} {relations[r]} {entities[o]} .\n" for s, r, o in graph.triples.tolist()
        )


_WRITERS: dict[str, Callable[[Graph, IO[bytes]], None]] = {
    "tsv": _write_tsv,
    "csv": _write_csv,
    "parquet": _write_parquet,
    "ntriples": _write_ntriples,
}


@contextmanager
def _text(file: IO[bytes]) -> Iterator[io.TextIOWrapper]:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    try:
        yield text
    finally:
        text.detach()  # the file is closed by whoever opened it


def _rows(graph: Graph) -> Iterator[tuple[str, ...]]:
    """Hand on labels, and the shortest text of each number from which the same number is read."""
    e, r = graph.vocabulary.entities, graph.vocabulary.relations
    labels = ((e[s], r[p], e[o]) for s, p, o in graph.triples.tolist())
    numbers = [map(repr, column.tolist()) for column in _numbers(graph).values()]
    return ((*row, *more) for row, *more in zip(labels, *numbers, strict=True))


def _numbers(graph: Graph) -> dict[str, NDArray[np.float64]]:
    numbers = {"weight": graph.weights, "value": graph.values}
    return {name: column for name, column in numbers.items() if column is not None}


def _names(graph: Graph) -> tuple[str, ...]:
    return (*ROLES, *_numbers(graph))


def _refuse(graph: Graph, characters: str, why: str) -> None:
    wrong = re.compile(f"[{characters}]")
    for kind, labels in (("entity", graph.vocabulary.entities), ("relation", graph.vocabulary.relations)):
        for label in labels:
            if wrong.search(label):
                raise DataError(f"the {kind} {label!r} holds {why}")
