"""Labelled triples: the Graph, and how it is read and written."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from consmrf.errors import InputError
from consmrf.graph.read_report import ReadReport, SourceReport
from consmrf.graph.request import Request
from consmrf.graph.vocabulary import Vocabulary

__all__ = ["Encoded", "Graph", "check_graphs", "read_triples", "write_triples"]


@dataclass(frozen=True)
class Encoded:
    """Triples in the ids of another vocabulary, and how many had to be left out."""

    triples: NDArray[np.int32]
    unseen_entity: int
    unseen_relation: int


@dataclass(frozen=True, eq=False)
class Graph:
    """Distinct facts as ids (subject, relation, object), with the labels the ids stand for."""

    vocabulary: Vocabulary
    triples: NDArray[np.int32]  # [n, 3]
    weights: NDArray[np.float64] | None = None  # [n] how much each fact counts in training; None: all alike
    values: NDArray[np.float64] | None = None  # [n] y, what a loss may aim at; None: 1 for all
    report: ReadReport | None = field(default=None, repr=False)  # how it was read; no part of its identity

    __hash__ = None  # type: ignore[assignment]  # typeshed's way to say that an object cannot be hashed

    def __eq__(self, other: object) -> bool:
        """Say whether both hold the same triples in the same order, with the same ids, weights and values."""
        if not isinstance(other, Graph):
            return NotImplemented
        same = self.vocabulary == other.vocabulary and np.array_equal(self.triples, other.triples)
        return same and _alike(self.weights, other.weights) and _alike(self.values, other.values)

    def __len__(self) -> int:
        return len(self.triples)

    def labelled(self) -> list[tuple[str, str, str]]:
        """Hand on the triples as labels."""
        e, r = self.vocabulary.entities, self.vocabulary.relations
        return [(e[s], r[p], e[o]) for s, p, o in self.triples.tolist()]

    def encode(self, vocabulary: Vocabulary) -> Encoded:
        """Hand on these triples in another vocabulary's ids; those it lacks a label for are left out.

        A triple that lacks both an entity and the relation is counted with the relations.
        """
        entity = _translate(self.vocabulary.entities, vocabulary.entity_ids)
        relation = _translate(self.vocabulary.relations, vocabulary.relation_ids)
        s, r, o = entity[self.triples[:, 0]], relation[self.triples[:, 1]], entity[self.triples[:, 2]]
        no_relation = r < 0
        no_entity = ((s < 0) | (o < 0)) & ~no_relation
        kept = ~(no_relation | no_entity)
        return Encoded(np.stack([s, r, o], axis=1)[kept], int(no_entity.sum()), int(no_relation.sum()))


def read_triples(
    source: object,
    *,
    format: str | None = None,
    columns: str | Sequence[str | int] | None = None,
    header: bool | None = None,
    delimiter: str | None = None,
    literals: bool = False,
    weight: str | int | None = None,
    value: str | int | None = None,
) -> Graph:
    """Read labelled triples, sorted and without duplicates; `graph.report` says what was concluded.

    `source` is a path, a list of paths, "-" for standard input, a polars or pandas frame, an array of shape
    (n, 3), a tuple of three arrays, or rows (subject, relation, object). `format` is tsv, csv, parquet,
    ntriples, nquads, turtle, trig or rdfxml; without it, the suffix decides, then the first bytes. `columns`
    says where the triple stands: the order in letters ("sor"), three names, or three positions from 0.
    `header` says whether the first line is one; without it, it is one only when it names a triple's columns.
    `delimiter` is the character between cells of text, or "tab"; CSV that two fit equally well needs it.
    `literals` keeps RDF triples whose object is a literal. `weight` and `value` name a column each, or give
    its position from 0: how much a fact counts in training, and the number that a loss may aim at instead of
    1. The weights of a triple that is said several times are added, its values averaged by weight.
    """
    from consmrf.graph.codebook import Codebook
    from consmrf.graph.readers import frames_of, nothing_in

    request = Request(format, columns, header, literals, delimiter, weight, value)
    book = Codebook(request.fields)
    reports: list[SourceReport] = []
    for report, frames in frames_of(source, request):
        for frame in frames:
            book.add(frame)
        if not report.rows:
            raise nothing_in(report)
        reports.append(report)
    vocabulary, triples, numbers = book.finish()
    rows = sum(report.rows for report in reports)
    read = ReadReport(tuple(reports), rows - len(triples), joined=request.joined)
    return Graph(vocabulary, triples, numbers.get("weight"), numbers.get("value"), read)


def check_graphs(asked_by: str, *given: object) -> None:
    """Stop with a sentence where something else than a Graph is given, such as the name of a file."""
    for one in given:
        if not isinstance(one, Graph):
            what = type(one).__name__
            raise InputError(f"{asked_by} takes a Graph, not {what}; consmrf.read_triples makes one")


def write_triples(graph: Graph, path: str | os.PathLike[str]) -> None:
    """Write a graph as TSV, CSV, Parquet or N-Triples, by the suffix; `.gz` and `.zst` compress.

    Reading the file gives the same graph; a label that the format cannot hold is an error.
    """
    from consmrf.graph.writer import write

    write(graph, Path(path))


def _alike(one: NDArray[np.float64] | None, other: NDArray[np.float64] | None) -> bool:
    return one is other if one is None or other is None else np.array_equal(one, other)


def _translate(labels: Sequence[str], ids: dict[str, int]) -> NDArray[np.int32]:
    return np.fromiter((ids.get(label, -1) for label in labels), dtype=np.int32, count=len(labels))
