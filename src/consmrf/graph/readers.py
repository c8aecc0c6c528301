"""Which reader a source needs: told by the option, then by the path's suffix, then by the first bytes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from io import BufferedReader

import polars as pl

from consmrf.errors import DataError, SettingError
from consmrf.graph.delimited import read_delimited
from consmrf.graph.frames import read_memory, read_parquet
from consmrf.graph.read_report import SourceReport
from consmrf.graph.request import FORMATS, Request
from consmrf.graph.source import STDIN, opened, suffixes

__all__ = ["frames_of"]

_NODE = r"(?:<[^<>\s]*>|_:\S+)"
_STATEMENT = re.compile(rf'{_NODE}\s+<[^<>\s]*>\s+(?:{_NODE}|".*"\S*)(\s+{_NODE})?\s*\.\s*(?:#.*)?')
_TURTLE = re.compile(r"@prefix\b|@base\b|(?i:prefix\s+\S*:\s*<|base\s+<)")


def frames_of(source: object, request: Request) -> Iterator[tuple[SourceReport, Iterator[pl.DataFrame]]]:
    """Hand on, per source, a report and the frames that fill it as they are consumed."""
    paths = _paths(source)
    if paths is None:
        if request.header is not None or request.delimiter is not None:
            given = "delimiter" if request.header is None else "header"
            raise SettingError(f"{given} applies to delimited text, not to values in memory; leave it out")
        report = SourceReport("")
        yield report, read_memory(source, report, request)
        return
    for nth, path in enumerate(paths):
        report = SourceReport(STDIN if path == "-" else path)
        yield report, _from_path(report, request, nth)


def _paths(source: object) -> list[str] | None:
    if isinstance(source, str | os.PathLike):
        return [os.fsdecode(source)]
    if isinstance(source, list | tuple) and source and all(isinstance(x, str | os.PathLike) for x in source):
        return [os.fsdecode(path) for path in source]
    return None


def _from_path(report: SourceReport, request: Request, nth: int) -> Iterator[pl.DataFrame]:
    with opened(report) as stream:
        format = request.format or FORMATS.get(suffixes(report.name)[0])
        report.format = format or _sniffed(stream, request.delimiter)
        if report.format in ("tsv", "csv"):
            yield from read_delimited(stream, report, request)
            return
        _check_applicable(report, request)
        if report.format == "parquet":
            yield from read_parquet(stream, report, request)
            return
        from consmrf.graph.rdf import read_rdf

        yield from read_rdf(stream, report, request.literals, nth)


def _check_applicable(report: SourceReport, request: Request) -> None:
    text = {"header": request.header, "delimiter": request.delimiter}
    table = {} if report.format == "parquet" else {"columns": request.columns, **request.numbers}
    for name, value in (text | table).items():
        if value is not None:
            raise SettingError(f"{report.name}: {name} does not apply to {report.format}; leave it out")


def _sniffed(stream: BufferedReader, delimiter: str | None) -> str:
    start = stream.peek(4096)[:4096]
    if start.startswith(b"PAR1"):
        return "parquet"
    lines = start.decode(errors="replace").removeprefix("\ufeff").splitlines()
    first = next((line for line in lines if line.strip()), "")
    fact = next((line.strip() for line in lines if line.strip() and not line.startswith("#")), "")
    if fact.startswith(("<?xml", "<rdf:RDF")):
        return "rdfxml"
    if statement := _STATEMENT.fullmatch(fact):
        return "nquads" if statement[1] else "ntriples"
    if _TURTLE.match(fact):
        return "turtle"
    tabs = "\t" in first if delimiter is None else delimiter == "\t"
    return "tsv" if tabs else "csv"


def nothing_in(report: SourceReport) -> DataError:
    """Say why a source that could be read gave no triple."""
    if report.literals:
        what = f"found {report.literals:,} triples, all with literals; read them with literals=True"
    elif report.format in ("tsv", "csv") and report.header:
        what = "found only a header, expected one triple per line below it"
    else:
        what = "found no triples; expected at least one"
    return report.error(what)
