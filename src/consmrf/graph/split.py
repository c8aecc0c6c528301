"""Cutting a graph into training, validation and test triples: the paper's split, and k folds.

A cut depends on the triples, the settings and the seed, never on the order of the triples. Every part is a
graph of its own, with the sorted labels that occur in it, as if it had been read from a file: a model fitted
on `train` knows the labels of training and no others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from consmrf.errors import SettingError
from consmrf.graph.triples import Graph
from consmrf.graph.vocabulary import Vocabulary

__all__ = ["Split", "folds", "part", "split"]


@dataclass(frozen=True, eq=False)
class Split:
    """Three disjoint parts that together are the graph, and what training lacks of the other two."""

    train: Graph
    valid: Graph
    test: Graph
    moved: int  # triples that went to training because it lacked one of their labels
    unseen_valid: int  # triples with an entity or relation that training lacks
    unseen_test: int

    def describe(self) -> str:
        """Say in one line how large the parts are and what training lacks."""
        sizes = (
            f"{len(self.train):,} training, {len(self.valid):,} validation, {len(self.test):,} test triples"
        )
        lacks = (
            f"training lacks labels of {self.unseen_valid:,} validation and {self.unseen_test:,} test triples"
        )
        return f"{sizes}; {lacks}; {self.moved:,} moved to training"


def split(
    graph: Graph,
    *,
    test: float = 0.1,
    valid: float = 0.1,
    seed: int = 0,
    stratify: bool = False,
    unseen: str = "keep",
) -> Split:
    """Draw `test` of the triples, then `valid` of the rest; the others are for training.

    `stratify` draws that share of each relation, to within one triple. `unseen` says what becomes of drawn
    triples with a label that training lacks: "keep" leaves and counts them, "train" moves them to training.
    """
    _check(graph, unseen, seed, test=test, valid=valid)
    whole = _canonical(graph)
    order = _shuffled(whole, np.random.default_rng(seed), stratify)
    drawn = _every(len(order), test)
    return _cut(whole, order[drawn], order[~drawn], valid, unseen)


def folds(
    graph: Graph,
    k: int = 10,
    *,
    valid: float = 0.1,
    seed: int = 0,
    stratify: bool = False,
    unseen: str = "keep",
) -> Iterator[Split]:
    """Hand on k splits whose test parts together are the graph; `valid` is a share of the rest.

    With `unseen="train"`, moved triples are in no test part.
    """
    _check(graph, unseen, seed, valid=valid)
    if not isinstance(k, int) or isinstance(k, bool) or not 2 <= k <= len(graph):
        raise SettingError(
            f"k = {k!r}: must be a whole number from 2 to the number of triples, {len(graph):,}"
        )
    return _folds(graph, k, valid, seed, stratify, unseen)


def _folds(graph: Graph, k: int, valid: float, seed: int, stratify: bool, unseen: str) -> Iterator[Split]:
    whole = _canonical(graph)
    order = _shuffled(whole, np.random.default_rng(seed), stratify)
    fold = np.arange(len(order)) % k
    for i in range(k):
        yield _cut(whole, order[fold == i], order[fold != i], valid, unseen)


def _check(graph: Graph, unseen: str, seed: int, **shares: float) -> None:
    for name, share in shares.items():
        number = isinstance(share, int | float) and not isinstance(share, bool)
        if not number or not 0 <= share < 1:
            raise SettingError(f"{name} = {share!r}: must be a share from 0 to below 1")
    if unseen not in ("keep", "train"):
        raise SettingError(f"unseen = {unseen!r}: must be 'keep' or 'train'")
    if not isinstance(seed, int | np.integer) or isinstance(seed, bool) or seed < 0:
        raise SettingError(f"seed = {seed!r}: must be a whole number of at least 0")
    if not len(graph):
        raise SettingError("the graph has no triples to split; give one that has")


def _canonical(graph: Graph) -> Graph:
    """Hand on the same facts with sorted labels and rows, whatever order they came in."""
    return part(graph, np.arange(len(graph)))


def part(graph: Graph, rows: NDArray[np.int64]) -> Graph:
    """Hand on some triples as a graph with its own sorted vocabulary and sorted rows."""
    triples = graph.triples[rows]
    entities, entity = _kept(graph.vocabulary.entities, triples[:, [0, 2]])
    relations, relation = _kept(graph.vocabulary.relations, triples[:, 1])
    own = np.stack([entity[triples[:, 0]], relation[triples[:, 1]], entity[triples[:, 2]]], axis=1)
    order = np.lexsort((own[:, 2], own[:, 1], own[:, 0]))
    weights, values = (None if x is None else x[rows][order] for x in (graph.weights, graph.values))
    return Graph(Vocabulary(entities, relations), own[order], weights, values)


def _kept(labels: tuple[str, ...], used: NDArray[np.int32]) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """Hand on the sorted labels of the ids used, and each old id's new one (-1 where it is gone)."""
    old = sorted(np.unique(used).tolist(), key=labels.__getitem__)
    new = np.full(len(labels), -1, dtype=np.int32)
    new[old] = np.arange(len(old), dtype=np.int32)
    return tuple(labels[i] for i in old), new


def _shuffled(graph: Graph, rng: np.random.Generator, stratify: bool) -> NDArray[np.int64]:
    """Hand on the rows in random order; stratified, relation after relation, they too in random order."""
    order = rng.permutation(len(graph))
    if not stratify:
        return order
    turn = rng.permutation(len(graph.vocabulary.relations))
    return order[np.argsort(turn[graph.triples[order, 1]], kind="stable")]


def _every(n: int, share: float) -> NDArray[np.bool_]:
    """Mark round(n · share) of n places, evenly spread: any run of places gets its share to within one."""
    passed = np.floor(np.arange(n + 1) * share + 0.5)
    marked: NDArray[np.bool_] = passed[1:] > passed[:-1]
    return marked


def _cut(graph: Graph, test: NDArray[np.int64], rest: NDArray[np.int64], valid: float, unseen: str) -> Split:
    drawn = _every(len(rest), valid)
    train, held = rest[~drawn], rest[drawn]
    if not len(train):
        raise SettingError(
            f"no triple of {len(graph):,} is left for training; lower the shares of test and valid"
        )
    known = _Known(graph, train)
    moved: list[int] = []
    if unseen == "train":
        moved = [int(row) for row in np.sort(known.lacking(held)) if known.learn(row)]
        moved += [int(row) for row in np.sort(known.lacking(test)) if known.learn(row)]
        train = np.concatenate([train, np.array(moved, dtype=np.int64)])
        held, test = (rows[~np.isin(rows, moved)] for rows in (held, test))
    return Split(
        train=part(graph, train),
        valid=part(graph, held),
        test=part(graph, test),
        moved=len(moved),
        unseen_valid=len(known.lacking(held)),
        unseen_test=len(known.lacking(test)),
    )


class _Known:
    """Which labels occur in training."""

    def __init__(self, graph: Graph, train: NDArray[np.int64]) -> None:
        self._triples = graph.triples
        self._entity = np.zeros(len(graph.vocabulary.entities), dtype=bool)
        self._relation = np.zeros(len(graph.vocabulary.relations), dtype=bool)
        self._entity[self._triples[train][:, [0, 2]]] = True
        self._relation[self._triples[train, 1]] = True

    def lacking(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Hand on those rows that have a label unknown so far."""
        s, r, o = self._triples[rows].T
        known: NDArray[np.bool_] = self._entity[s] & self._relation[r] & self._entity[o]
        return rows[~known]

    def learn(self, row: int) -> bool:
        """Take a row's labels in; say whether one of them was new."""
        s, r, o = self._triples[row]
        new = not (self._entity[s] and self._relation[r] and self._entity[o])
        self._entity[[s, o]] = True
        self._relation[r] = True
        return new
