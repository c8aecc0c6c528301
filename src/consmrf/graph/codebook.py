"""Labels to ids while chunks of text stream by: polars interns them, one sort at the end numbers them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from consmrf.graph.vocabulary import Vocabulary

__all__ = ["Codebook"]


class Codebook:
    """Collects frames of the text columns s, r, o; keeps each label once and four bytes per cell."""

    def __init__(self) -> None:
        entity = pl.Categorical(pl.Categories.random())
        self._types = {"s": entity, "r": pl.Categorical(pl.Categories.random()), "o": entity}
        self._chunks: list[pl.DataFrame] = []

    def add(self, frame: pl.DataFrame) -> None:
        """Take in labelled triples."""
        # one column after the other: together they would wait for each other at one table of labels
        self._chunks.append(pl.DataFrame([frame[name].cast(kind) for name, kind in self._types.items()]))

    def finish(self) -> tuple[Vocabulary, NDArray[np.int32]]:
        """Hand on the sorted vocabulary and the distinct triples, ordered by subject, relation, object."""
        coded = pl.concat(self._chunks, rechunk=True)
        self._chunks.clear()
        entities, (s, o) = _numbered([coded["s"], coded["o"]])
        relations, (r,) = _numbered([coded["r"]])
        return Vocabulary(entities, relations), _distinct(s, r, o, len(entities), len(relations))


def _numbered(columns: Sequence[pl.Series]) -> tuple[tuple[str, ...], list[NDArray[np.int32]]]:
    """Hand on the distinct labels sorted by code point, and each column as positions in them."""
    codes = [column.to_physical().to_numpy() for column in columns]
    used = pl.concat(columns).unique()
    labels = used.cast(pl.String)
    order = labels.arg_sort()  # UTF-8 bytes sort as code points do
    ids = np.empty(max(int(x.max()) for x in codes) + 1, dtype=np.int32)
    ids[used.to_physical().gather(order).to_numpy()] = np.arange(len(used), dtype=np.int32)
    return tuple(labels.gather(order).to_list()), [ids[x] for x in codes]


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
