"""One relation's data D_r as arrays: CSR from subject to sorted objects, and its entities E_r."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from consmrf.graph.triples import Graph

__all__ = ["Partition", "partition"]


@dataclass(frozen=True)
class Partition:
    """D_r. Ids are the graph's; `local_*` are positions in `entities`, that is, in E_r."""

    relation: int
    heads: NDArray[np.int32]  # [h] the distinct subjects, ascending
    indptr: NDArray[np.int64]  # [h + 1] where each subject's objects begin in `objects`
    objects: NDArray[np.int32]  # [n] ascending within a subject
    head_of: NDArray[np.int32]  # [n] the position in `heads` of each triple's subject
    entities: NDArray[np.int32]  # [m] E_r, ascending
    local_heads: NDArray[np.int32]  # [h]
    local_objects: NDArray[np.int32]  # [n]
    weights: NDArray[np.float32] | None = None  # [n] where the graph has any
    values: NDArray[np.float32] | None = None  # [n] likewise

    def __len__(self) -> int:
        return len(self.objects)

    @property
    def subjects(self) -> NDArray[np.int32]:
        """The subject of each triple, in the order of `objects`."""
        return self.heads[self.head_of]

    def objects_of(self, subject: int) -> NDArray[np.int32]:
        """Hand on the sorted objects that `subject` is linked to."""
        i = int(np.searchsorted(self.heads, subject))
        if i == len(self.heads) or self.heads[i] != subject:
            return self.objects[:0]
        return self.objects[self.indptr[i] : self.indptr[i + 1]]

    def contains(self, subject: int, obj: int) -> bool:
        """Say whether (subject, r, obj) is in D_r."""
        row = self.objects_of(subject)
        i = int(np.searchsorted(row, obj))
        return i < len(row) and int(row[i]) == obj


def partition(graph: Graph) -> list[Partition]:
    """Cut a graph into one partition per relation, in id order; one without triples is empty."""
    triples = graph.triples
    order = np.lexsort((triples[:, 2], triples[:, 0], triples[:, 1]))
    ordered = triples[order]
    bounds = np.searchsorted(ordered[:, 1], np.arange(len(graph.vocabulary.relations) + 1))
    told = [None if x is None else x[order].astype(np.float32) for x in (graph.weights, graph.values)]
    return [
        _one(r, ordered[lo:hi, 0], ordered[lo:hi, 2], *(None if x is None else x[lo:hi] for x in told))
        for r, (lo, hi) in enumerate(pairwise(bounds.tolist()))
    ]


def _one(
    relation: int,
    subjects: NDArray[np.int32],
    objects: NDArray[np.int32],
    weights: NDArray[np.float32] | None,
    values: NDArray[np.float32] | None,
) -> Partition:
    heads, head_of, counts = np.unique(subjects, return_inverse=True, return_counts=True)
    entities = np.unique(np.concatenate([heads, objects]))
    return Partition(
        relation=relation,
        heads=heads,
        indptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        objects=np.ascontiguousarray(objects),
        head_of=head_of.astype(np.int32),
        entities=entities,
        local_heads=np.searchsorted(entities, heads).astype(np.int32),
        local_objects=np.searchsorted(entities, objects).astype(np.int32),
        weights=weights,
        values=values,
    )
