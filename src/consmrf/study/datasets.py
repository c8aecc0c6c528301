"""From a dataset of a study to the three parts of a fold, and to the checksum that a fold's cells go by."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from consmrf.errors import InputError
from consmrf.graph.split import Split, folds, split
from consmrf.graph.triples import Graph, read_triples
from consmrf.graph.vocabulary import Vocabulary
from consmrf.study.graphs import GRAPHS, Parts
from consmrf.study.spec import PARTS, Data, Study

__all__ = ["Source", "load", "source_of"]


@dataclass(frozen=True)
class Source:
    """How one fold of a dataset is made: plain values, the same wherever its files lie."""

    dataset: str
    fold: int
    cut: dict[str, Any]  # what makes the graph, and how it is cut
    files: tuple[str, ...]  # where they lie; no part of what determines a cell

    def to_dict(self) -> dict[str, Any]:
        """Hand on what determines the parts."""
        return {"fold": self.fold, **self.cut}


def source_of(study: Study, data: Data, fold: int, root: Path) -> Source:
    """Hand on how a fold is made; its files are read for their digests, and must be there."""
    if data.graph is not None:
        cut: dict[str, Any] = {"graph": data.graph, "with": {**GRAPHS[data.graph].sizes, **data.arguments}}
        return Source(data.name, fold, cut, ())
    files = tuple(str(root / name) for name in _names(data, root))
    cut = {"digests": [_digest(file) for file in files], "folds": data.folds, "pooled": data.pooled}
    if len(files) == 1 or data.pooled:
        cut |= {"valid": study.valid, "seed": study.split_seed}
    return Source(data.name, fold, cut, files)


def _names(data: Data, root: Path) -> tuple[str, ...]:
    if data.file is not None:
        return (data.file,)
    if data.parts is not None:
        return data.parts
    folder = Path(str(data.folder))
    found = []
    for part in PARTS:
        names = sorted(path.name for path in (root / folder).glob(f"{part}.*"))
        if len(names) != 1:
            told = ", ".join(names) or "none"
            raise InputError(
                f"{root / folder}: must hold one file {part}.*, and holds {told}; name the three files by "
                f"train, valid and test, or say with --data where the folder lies"
            )
        found.append(str(folder / names[0]))
    return tuple(found)


def _digest(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except OSError as error:
        raise InputError(
            f"{path}: {error.strerror}; correct the study's path, or say with --data where data lie"
        ) from None


def load(source: Source) -> Parts:
    """Make or read the parts of a fold."""
    cut = source.cut
    if "graph" in cut:
        return GRAPHS[cut["graph"]](source.fold, **cut["with"])
    graphs = [read_triples(file) for file in source.files]
    if len(graphs) == 3 and not cut["pooled"]:
        return Parts(*graphs)
    return _folded(_pooled(graphs), source.fold, cut)


def _folded(graph: Graph, fold: int, cut: dict[str, Any]) -> Parts:
    """Cut as the paper does: a tenth for the test where there is one fold, else the fold's part."""
    found: Split
    if cut["folds"] == 1:
        found = split(graph, valid=cut["valid"], seed=cut["seed"])
    else:
        [found] = islice(folds(graph, cut["folds"], valid=cut["valid"], seed=cut["seed"]), fold, fold + 1)
    return Parts(found.train, found.valid, found.test)


def _pooled(graphs: list[Graph]) -> Graph:
    """Put graphs together, each fact once."""
    if len(graphs) == 1:
        return graphs[0]
    vocabulary = Vocabulary.of(
        (label for g in graphs for label in g.vocabulary.entities),
        (label for g in graphs for label in g.vocabulary.relations),
    )
    together = np.concatenate([g.encode(vocabulary).triples for g in graphs])
    return Graph(vocabulary, np.unique(together, axis=0))
