"""TSV and CSV in blocks of whole rows: polars parses, the block's counts vouch for it, a scan finds faults.

TSV has no quoting: a quote is a character like any other. CSV is quoted as RFC 4180 has it. Labels are never
trimmed or converted.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import polars as pl
from numpy.typing import NDArray

from consmrf.graph.numbers import expected, fits, numbers
from consmrf.graph.read_report import SourceReport, named_separator
from consmrf.graph.request import ROLES, Request, found, roles_of

__all__ = ["read_delimited"]

BLOCK = 1 << 24  # bytes parsed at a time, and the longest row there may be


@dataclass(frozen=True)
class _Layout:
    separator: str
    quoted: bool
    width: int = 3
    order: tuple[int, ...] = (0, 1, 2)
    roles: tuple[str, ...] = ROLES
    fields: tuple[str, ...] = ("s", "r", "o")


def read_delimited(
    stream: io.BufferedReader, report: SourceReport, request: Request
) -> Iterator[pl.DataFrame]:
    """Hand on frames of `request.fields`, and write into `report` what was concluded."""
    layout: _Layout | None = None
    for line, block in _blocks(stream, report):
        text = _text(block, line, report)
        if layout is None:
            separator = request.delimiter or _separator(text, report, len(request.roles))
            layout = _Layout(separator, report.format == "csv")
            _check_quotes(block, line, layout, report)
            layout, start = _begin(text, layout, request, report)
        else:
            _check_quotes(block, line, layout, report)
            start = 0
        rest = text[start:]
        if rest:
            here = line + text.count("\n", 0, start)
            frame = _parsed(block[-len(rest.encode()) :] if start else block, layout)
            frame = _scanned(rest, here, layout, report) if frame is None else frame
            report.rows += frame.height
            yield frame
    if layout is None:
        raise report.error("the file is empty; expected one triple per line")


def _blocks(stream: io.BufferedReader, report: SourceReport) -> Iterator[tuple[int, bytes]]:
    """Cut the stream after whole rows; hand on each block, newline included, and the line it begins at."""
    rest = stream.read(3).removeprefix(b"\xef\xbb\xbf")
    line = 1
    while data := stream.read(BLOCK):
        block = rest + data
        cut = _last_row_end(block, report.format == "csv")
        if not cut and len(block) > BLOCK:
            # inside quotes all along: the check of quotes will say where they began
            cut = block.rfind(b"\n") + 1
            if not cut:
                break
        if cut:
            yield line, block[:cut]
        line += block.count(b"\n", 0, cut)
        rest = block[cut:]
    else:
        if rest:
            yield line, rest if rest.endswith(b"\n") else rest + b"\n"
        return
    raise report.error(f"found a line of more than {BLOCK >> 20} MiB, expected one triple per line", line)


def _last_row_end(block: bytes, quoted: bool) -> int:
    if not quoted or b'"' not in block:
        return block.rfind(b"\n") + 1
    ends = _outside_quotes(np.frombuffer(block, np.uint8), 10)
    return int(ends[-1]) + 1 if len(ends) else 0


def _outside_quotes(data: NDArray[np.uint8], byte: int) -> NDArray[np.int64]:
    """Hand on where `byte` stands outside quotes: after an even number of them."""
    places: NDArray[np.int64] = np.flatnonzero(data == byte)
    quotes_before = np.searchsorted(np.flatnonzero(data == 34), places)
    outside: NDArray[np.bool_] = quotes_before % 2 == 0
    return places[outside]


def _text(block: bytes, line: int, report: SourceReport) -> str:
    zero = block.find(b"\0")
    if zero >= 0:
        line += block.count(b"\n", 0, zero)
        raise report.error("found a zero byte, expected UTF-8 text; is this a binary file?", line)
    try:
        return block.decode()
    except UnicodeDecodeError as error:
        line += block.count(b"\n", 0, error.start)
        wrong = f"0x{block[error.start]:02x}"
        raise report.error(
            f"found the byte {wrong}, expected UTF-8 text; save the file as UTF-8", line
        ) from None


def _separator(text: str, report: SourceReport, width: int) -> str:
    """Conclude what stands between cells: what gives `width` columns in the first rows, or in the first."""
    if report.format == "tsv":
        return "\t"
    widths = {}
    for separator in ",;\t|":
        rows = (cells for _, _, cells in _rows(text, _Layout(separator, True)) if cells)
        widths[separator] = [len(cells) for cells in islice(rows, 20)] or [0]
    throughout = [separator for separator, seen in widths.items() if set(seen) == {width}]
    if len(throughout) > 1:
        one, other = map(named_separator, throughout[:2])
        options = (f"delimiter={('tab' if x == chr(9) else x)!r}" for x in throughout[:2])
        raise report.error(
            f"found {width} columns in the first rows whether separated by {one} or by {other}; "
            "say which with " + " or ".join(options)
        )
    tests = (
        lambda x: set(x) == {width},
        lambda x: x[0] == width,
        lambda x: len(set(x)) == 1 and x[0] > width,
    )
    for test in tests:
        for separator, seen in widths.items():
            if test(seen):
                return separator
    return ","


def _begin(text: str, layout: _Layout, request: Request, report: SourceReport) -> tuple[_Layout, int]:
    """Conclude from the first row what the columns are, and hand on where the data begin."""
    line, end, cells = next((row for row in _rows(text, layout) if row[2]), (0, 0, []))
    if not cells:
        raise report.error("the file holds only empty lines; expected one triple per line")
    roles = roles_of(cells)
    header = request.header if request.header is not None else request.named or roles is not None
    if len(cells) < len(request.roles):
        wanted = f"{len(request.roles)} separated by {named_separator(layout.separator)}"
        raise report.error(f"{found(cells)}, expected {wanted}; fix or remove the line", line + 1)
    order = request.order(cells, roles if header else None, report.name, line + 1)
    report.delimiter = layout.separator
    report.header = tuple(cells) if header else None
    report.columns = _column_names(cells if header else [""] * len(cells), order, request.roles)
    report.header_because = _because(cells, header, roles is not None, request)
    layout = _Layout(layout.separator, layout.quoted, len(cells), order, request.roles, request.fields)
    return layout, end if header else 0


def _column_names(cells: list[str], order: tuple[int, ...], roles: tuple[str, ...]) -> tuple[str, ...]:
    role_at = dict(zip(order, roles, strict=True))
    return tuple(role_at.get(i, cell or "(unused)") for i, cell in enumerate(cells))


def _because(cells: list[str], header: bool, recognised: bool, request: Request) -> str:
    shown = found(cells).partition(" (")[2].removesuffix(")")
    if request.header is not None:
        return "a header, as asked" if header else "no header, as asked"
    if header:
        why = (
            "names the columns asked for"
            if request.named
            else "names a triple's columns; header=False reads it as data"
        )
        return f"a header: the first line ({shown}) {why}"
    assert not recognised
    return f"no header: the first line ({shown}) does not name a triple's columns"


def _check_quotes(block: bytes, line: int, layout: _Layout, report: SourceReport) -> None:
    """Refuse a quote that neither encloses a whole field nor stands doubled inside one."""
    if not layout.quoted or b'"' not in block:
        return
    data = np.frombuffer(b"\n" + block + b"\n\n", np.uint8)
    quotes = np.flatnonzero(data == 34)
    edges = np.array([ord(layout.separator), 10, 34], dtype=np.uint8)
    opening, closing = quotes[0::2], quotes[1::2]
    ends = np.isin(data[closing + 1], edges) | ((data[closing + 1] == 13) & (data[closing + 2] == 10))
    wrong = np.concatenate(
        [opening[~np.isin(data[opening - 1], edges)], closing[~ends], quotes[len(quotes) & ~1 :]]
    )
    if len(wrong):
        line += block.count(b"\n", 0, int(wrong.min()) - 1)
        raise report.error(
            "found a quote that does not enclose a whole field, expected RFC 4180 quoting (a field that "
            "holds quotes is enclosed in quotes, its own are doubled); fix the line, or read it as TSV",
            line,
        )


def _parsed(block: bytes, layout: _Layout) -> pl.DataFrame | None:
    """Parse with polars; hand on nothing unless the block's own counts agree with what came out."""
    columns = [f"c{i}" for i in range(layout.width)]
    head = (layout.separator.join(columns) + "\n").encode()
    try:
        frame = pl.read_csv(
            io.BytesIO(head + block),
            separator=layout.separator,
            quote_char='"' if layout.quoted else None,
            infer_schema=False,
        )
    except pl.exceptions.PolarsError:
        return None
    quotes = layout.quoted and b'"' in block
    if quotes:
        data = np.frombuffer(block, np.uint8)
        rows, separators = (len(_outside_quotes(data, x)) for x in (10, ord(layout.separator)))
    else:
        rows, separators = block.count(b"\n"), block.count(layout.separator.encode())
    if frame.height != rows or separators != rows * (layout.width - 1):
        return None
    lengths = frame.select(pl.all().str.len_bytes().sum()).sum_horizontal()[0]
    if not quotes and lengths + separators + rows + block.count(b"\r\n") != len(block):
        return None
    triples = frame.select(
        pl.col(columns[i]).alias(name) for name, i in zip(layout.fields, layout.order, strict=True)
    )
    empty = triples.select(pl.any_horizontal((pl.all().is_null() | (pl.all() == "")).any()))
    return None if empty.item() else _with_numbers(triples)


def _with_numbers(triples: pl.DataFrame) -> pl.DataFrame | None:
    """Hand on the frame with doubles for the text of its numbers; nothing if one is not what it must be."""
    for name in triples.columns[len(ROLES) :]:
        column, bad = numbers(triples[name], name)
        if bad is not None:
            return None
        triples = triples.with_columns(column.alias(name))
    return triples


def _scanned(text: str, line: int, layout: _Layout, report: SourceReport) -> pl.DataFrame:
    """Go row by row: stop at the first that is wrong, pass over empty lines and count them."""
    triples = []
    for offset, _, cells in _rows(text, layout):
        if not cells:
            report.blank += 1
            continue
        if len(cells) != layout.width:
            wanted = f"{layout.width} separated by {named_separator(layout.separator)}"
            raise report.error(f"{found(cells)}, expected {wanted}; fix or remove the line", line + offset)
        triple = [cells[i] for i in layout.order]
        for role, cell in zip(layout.roles, triple, strict=True):
            number = role not in ROLES
            if not cell or (number and not fits(cell, role)):
                what = f"the {role} {cell!r}" if cell else f"an empty {role}"
                wanted = expected(role) if number else "a label"
                raise report.error(f"found {what}, expected {wanted}; fix or remove the line", line + offset)
        triples.append(triple)
    frame = _with_numbers(pl.DataFrame(triples, schema=dict.fromkeys(layout.fields, pl.String), orient="row"))
    assert frame is not None  # each cell was looked at
    return frame


def _rows(text: str, layout: _Layout) -> Iterator[tuple[int, int, list[str]]]:
    """Hand on each row as (lines before it, where it ends, cells); an empty line has no cells."""
    start = line = 0
    if not layout.quoted:
        while start < len(text):
            end = text.index("\n", start)
            row = text[start:end].removesuffix("\r")
            yield line, end + 1, row.split(layout.separator) if row else []
            start, line = end + 1, line + 1
        return
    between = re.escape(layout.separator)
    field = re.compile(rf'(?:"([^"]*(?:""[^"]*)*)"|([^"\n{between}]*))({between}|\r?\n)')
    cells: list[str] = []
    begin = 0
    while match := field.match(text, start):
        quoted, plain, end_mark = match.groups()
        cells.append(
            plain.removesuffix("\r" * (end_mark == "\n")) if quoted is None else quoted.replace('""', '"')
        )
        start = match.end()
        if end_mark != layout.separator:
            yield line, start, [] if text[begin:start].strip("\r\n") == "" else cells
            line += text.count("\n", begin, start)
            begin, cells = start, []
