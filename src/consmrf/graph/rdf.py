"""RDF syntaxes, streamed through pyoxigraph, and the terms that labels are written as.

An IRI's label is its full text, a blank node's is `_:` and its name in the file. A label that is neither
is written as the IRI `urn:consmrf:` + the label, percent-encoded, and read back as the label it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BufferedReader
from urllib.parse import quote, unquote

import polars as pl
import pyoxigraph as ox

from consmrf.graph.read_report import SourceReport

__all__ = ["read_rdf", "term"]

CHUNK = 100_000  # triples handed on at a time
URN = "urn:consmrf:"
_SYNTAXES = {
    "ntriples": ox.RdfFormat.N_TRIPLES,
    "nquads": ox.RdfFormat.N_QUADS,
    "turtle": ox.RdfFormat.TURTLE,
    "trig": ox.RdfFormat.TRIG,
    "rdfxml": ox.RdfFormat.RDF_XML,
}
# pyoxigraph draws such a name, another in each run, for a node that has none in the file
_DRAWN = re.compile(r"[a-f][0-9a-f]{23,31}")


def read_rdf(
    stream: BufferedReader, report: SourceReport, literals: bool, nth: int
) -> Iterator[pl.DataFrame]:
    """Hand on frames of the columns s, r, o, without graph names; `nth` tells it from its siblings."""
    if stream.peek(3)[:3] == b"\xef\xbb\xbf":
        stream.read(3)
    label = _Labels("" if nth == 0 else f"{nth + 1}.", named=report.format in ("ntriples", "nquads"))
    columns: tuple[list[str], list[str], list[str]] = ([], [], [])
    try:
        for quad in ox.parse(stream, format=_SYNTAXES[report.format]):
            if isinstance(quad.object, ox.Literal | ox.Triple) and not literals:
                report.literals += 1
                continue
            for column, node in zip(columns, (quad.subject, quad.predicate, quad.object), strict=True):
                column.append(label(node))
            if len(columns[0]) == CHUNK:
                yield _chunk(columns, report)
                columns = ([], [], [])
    except SyntaxError as error:
        raise report.error(f"found a syntax error: {_reason(error)}", error.lineno) from None
    if columns[0]:
        yield _chunk(columns, report)


def _chunk(columns: tuple[list[str], list[str], list[str]], report: SourceReport) -> pl.DataFrame:
    report.rows += len(columns[0])
    return pl.DataFrame(dict(zip("sro", columns, strict=True)), schema=dict.fromkeys("sro", pl.String))


def _reason(error: SyntaxError) -> str:
    text = re.sub(r"^Parser error at line.*?: ", "", error.msg or "unreadable")
    hint = "write the IRI in full, or declare a base in the file" if "scheme" in text else "correct the file"
    return f"{text}; {hint}"


class _Labels:
    """Labels of RDF terms; nodes without a name are numbered in the order of the file, alike in every run."""

    def __init__(self, prefix: str, named: bool) -> None:
        self._prefix, self._named = prefix, named
        self._numbers: dict[str, str] = {}

    def __call__(self, node: ox.NamedNode | ox.BlankNode | ox.Literal | ox.Triple) -> str:
        if isinstance(node, ox.NamedNode):
            own = len(node.value) > len(URN) and node.value.startswith(URN)
            return unquote(node.value[len(URN) :]) if own else node.value
        if not isinstance(node, ox.BlankNode):
            return str(node)
        if self._named or not _DRAWN.fullmatch(node.value):
            return f"_:{node.value}"
        return self._numbers.setdefault(node.value, f"_:anonymous{self._prefix}{len(self._numbers) + 1}")


def term(label: str, *, relation: bool = False) -> str:
    """Hand on the N-Triples term that stands for a label, and from which the same label is read back."""
    if label.startswith("_:") and not relation:
        try:
            return str(ox.BlankNode(label[2:]))
        except ValueError:
            pass
    try:
        if not label.startswith(URN):
            return str(ox.NamedNode(label))
    except ValueError:
        pass
    return f"<{URN}{quote(label, safe='')}>"
