"""Labels to ids while chunks of text stream by: polars interns them, one sort at the end numbers them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from consmrf.graph.vocabulary import Vocabulary

__all__ = ["Codebook"]

LABELS = ("s", "r", "o")


class Codebook:
    """Collects frames of the text columns s, r, o; keeps each label once and four bytes per cell.

    Columns named "weight" and "value" are numbers, and stay what they are.
    """

    def __init__(self, fields: Sequence[str] = LABELS) -> None:
        """Receive the names of the frames' columns."""
        entity = pl.Categorical(pl.Categories.random())
        relation = pl.Categorical(pl.Categories.random())
        labels = {"s": entity, "r": relation, "o": entity}
        self._types = {name: labels.get(name, pl.Float64()) for name in fields}
        self._chunks: list[pl.DataFrame] = []

    def add(self, frame: pl.DataFrame) -> None:
        """Take in labelled triples."""
        # one column after the other: together they would wait for each other at one table of labels
        self._chunks.append(pl.DataFrame([frame[name].cast(kind) for name, kind in self._types.items()]))

    def finish(self) -> tuple[Vocabulary, NDArray[np.int32], dict[str, NDArray[np.float64]]]:
        """Hand on the sorted vocabulary, the distinct triples, and the numbers that go with them, by name.

        Triples are ordered by subject, relation, object.
        """
        coded = pl.concat(self._chunks, rechunk=True)
        self._chunks.clear()
        entities, (s, o) = _numbered([coded["s"], coded["o"]])
        relations, (r,) = _numbered([coded["r"]])
        vocabulary = Vocabulary(entities, relations)
        numbers = {name: coded[name].to_numpy() for name in coded.columns if name not in LABELS}
        if numbers:
            triples, numbers = _joined(np.stack([s, r, o], axis=1), **numbers)
            return vocabulary, triples, numbers
        return vocabulary, _distinct(s, r, o, len(entities), len(relations)), {}


def _numbered(columns: Sequence[pl.Series]) -> tuple[tuple[str, ...], list[NDArray[np.int32]]]:
    """Hand on the distinct labels sorted by code point, and each column as positions in them."""
    codes = [column.to_physical().to_numpy() for column in columns]
    used = pl.concat(columns).unique()
    labels = used.cast(pl.String)
    order = labels.arg_sort()  # UTF-8 bytes sort as code points do
    ids = np.empty(max(int(x.max()) for x in codes) + 1, dtype=np.int32)
    ids[used.to_physical().gather(order).to_numpy()] = np.arange(len(used), dtype=np.int32)
    return tuple(labels.gather(order).to_list()), [ids[x] for x in codes]


def _joined(
    triples: NDArray[np.int32],
    weight: NDArray[np.float64] | None = None,
    value: NDArray[np.float64] | None = None,
) -> tuple[NDArray[np.int32], dict[str, NDArray[np.float64]]]:
    """Hand on the distinct triples in ascending order, their weights added, their values averaged by weight.

    A loss at y₁ that counts w₁ times and one at y₂ that counts w₂ times have together the slope of one at
    their mean that counts w₁ + w₂ times.
    """
    # so that sums do not depend on the order of lines
    keys: list[NDArray[Any]] = [x for x in (value, weight) if x is not None]
    order = np.lexsort([*keys, triples[:, 2], triples[:, 1], triples[:, 0]])
    ordered = triples[order]
    first = np.flatnonzero(np.append(True, (ordered[1:] != ordered[:-1]).any(axis=1))[: len(ordered)])
    numbers = {}
    if weight is not None:
        numbers["weight"] = np.add.reduceat(weight[order], first)
    if value is not None:
        share = np.ones(len(order)) if weight is None else weight[order]
        share = np.where(np.repeat(np.add.reduceat(share, first), _lengths(first, share)) > 0, share, 1.0)
        means = np.add.reduceat(share * value[order], first) / np.add.reduceat(share, first)
        once = _lengths(first, share) == 1
        means[once] = value[order][first[once]]  # as it was read, to the bit
        numbers["value"] = means
    return ordered[first], numbers


def _lengths(first: NDArray[np.int64], whole: NDArray[Any]) -> NDArray[np.int64]:
    return np.diff(first, append=len(whole))


def _distinct(
    s: NDArray[np.int32], r: NDArray[np.int32], o: NDArray[np.int32], entities: int, relations: int
) -> NDArray[np.int32]:
    """Hand on the distinct rows (s, r, o) in ascending order."""
    if entities**2 * relations >= 2**63:  # too many for one whole number per triple
        return np.unique(np.stack([s, r, o], axis=1), axis=0)
    key = (s.astype(np.int64) * relations + r) * entities + o
    key.sort()
    key = key[np.concatenate([[True], key[1:] != key[:-1]])]
    triples = np.empty((len(key), 3), dtype=np.int32)
    rest = key // entities
    triples[:, 2] = key - rest * entities
    triples[:, 0] = rest // relations
    triples[:, 1] = rest - triples[:, 0].astype(np.int64) * relations
    return triples
