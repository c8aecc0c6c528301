"""What the wave solver learns from: the facts of all relations as one set of arrays.

With reciprocal relations, relation r of R has a twin R + r whose facts are turned round: it ranks the
subjects of r as objects of its own, with its own view.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from consmrf.graph.partition import Partition

__all__ = ["Facts", "Layout", "lay_out"]


class Facts(NamedTuple):
    """Facts by relation, subject, object; slots are rows of the views' one long table, −1 for none."""

    relations: NDArray[np.int32]  # [n]
    subjects: NDArray[np.int32]  # [n]
    objects: NDArray[np.int32]  # [n] ascending within (relation, subject): what o′ must not be
    subject_slots: NDArray[np.int32]  # [n]
    object_slots: NDArray[np.int32]  # [n]
    heads: NDArray[np.int32]  # [n] which (relation, subject) a fact belongs to
    head_indptr: NDArray[np.int64]  # [h + 1] where each (relation, subject) begins
    view_indptr: NDArray[np.int64]  # [R + 1] where each relation's rows begin among the slots
    view_entities: NDArray[np.int32]  # [m] the entity of each slot, ascending within a relation
    touches: NDArray[np.float32]  # [m] how often the slot's entity stands in its relation's facts
    range_indptr: NDArray[np.int64]  # [R + 1]
    range_entities: NDArray[np.int32]  # the distinct objects of each relation
    twins: int  # 1: the second half of the relations are the first half turned round


@dataclass(frozen=True)
class Layout:
    """The facts, where each relation's begin, and what had to be left out."""

    facts: Facts
    indptr: NDArray[np.int64]  # [R + 1]
    n_entities: int
    skipped: int  # facts, not turned round, whose subject is linked to every entity, so that no o′ exists

    @property
    def n_relations(self) -> int:
        """The number of relations, twins included."""
        return len(self.indptr) - 1


def lay_out(
    partitions: Sequence[Partition],
    n_entities: int,
    *,
    reciprocal: bool,
    views: Collection[int] | None,
) -> Layout:
    """Hand on the facts of all relations, and of their twins; `views` names those that get rows of their own.

    None is all of them, and a twin goes with its relation.
    """
    forward = [(p.subjects, p.objects) for p in partitions]
    sides = forward + [_sorted(o, s) for s, o in forward] if reciprocal else forward
    n, skipped = len(partitions), 0
    parts: list[_Part] = []
    for r, (subjects, objects) in enumerate(sides):
        part = _part(subjects, objects, n_entities, viewed=views is None or r % n in views)
        skipped += part.skipped if r < n else 0
        parts.append(part)
    facts = _joined(parts, twins=int(reciprocal))
    return Layout(facts, _indptr([len(p.subjects) for p in parts]), n_entities, skipped)


class _Part(NamedTuple):
    """One relation's share of `Facts`, counted from its own beginning."""

    subjects: NDArray[np.int32]
    objects: NDArray[np.int32]
    subject_slots: NDArray[np.int32]
    object_slots: NDArray[np.int32]
    heads: NDArray[np.int32]
    head_starts: NDArray[np.int64]
    entities: NDArray[np.int32]
    touches: NDArray[np.float32]
    reach: NDArray[np.int32]
    skipped: int


def _part(subjects: NDArray[np.int32], objects: NDArray[np.int32], n_entities: int, *, viewed: bool) -> _Part:
    counts = np.unique(subjects, return_inverse=True, return_counts=True)
    kept = counts[2][counts[1]] < n_entities
    skipped = len(kept) - int(np.count_nonzero(kept))
    if skipped:
        subjects, objects = subjects[kept], objects[kept]
    starts = np.flatnonzero(np.diff(subjects, prepend=-1))
    heads = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(subjects)))
    none = np.empty(0, np.int32)
    entities, touches = none, np.empty(0, np.float32)
    subject_slots = object_slots = np.full(len(subjects), -1, np.int32)
    if viewed:
        entities, counted = np.unique(np.concatenate([subjects, objects]), return_counts=True)
        touches = counted.astype(np.float32)
        subject_slots = np.searchsorted(entities, subjects).astype(np.int32)
        object_slots = np.searchsorted(entities, objects).astype(np.int32)
    return _Part(
        *(subjects, objects, subject_slots, object_slots, heads.astype(np.int32), starts),
        *(entities, touches, np.unique(objects), skipped),
    )


def _joined(parts: Sequence[_Part], twins: int) -> Facts:
    lengths = [len(p.subjects) for p in parts]
    views = _indptr([len(p.entities) for p in parts])
    if views[-1] > np.iinfo(np.int32).max:
        raise OverflowError("the views have more than 2³¹ rows")
    heads = _indptr([len(p.head_starts) for p in parts])
    begins = _indptr(lengths)

    def joined(name: str, dtype: type, shifts: NDArray[np.int64] | None = None) -> NDArray[np.int32]:
        arrays = [getattr(p, name) for p in parts]
        if shifts is not None:
            arrays = [np.where(a < 0, -1, a + s) for a, s in zip(arrays, shifts[:-1], strict=True)]
        return np.concatenate(arrays).astype(dtype) if arrays else np.empty(0, dtype)

    return Facts(
        relations=np.repeat(np.arange(len(parts), dtype=np.int32), lengths),
        subjects=joined("subjects", np.int32),
        objects=joined("objects", np.int32),
        subject_slots=joined("subject_slots", np.int32, views),
        object_slots=joined("object_slots", np.int32, views),
        heads=joined("heads", np.int32, heads),
        head_indptr=np.append(joined("head_starts", np.int64, begins), begins[-1]),
        view_indptr=views,
        view_entities=joined("entities", np.int32),
        touches=np.concatenate([p.touches for p in parts]) if parts else np.empty(0, np.float32),
        range_indptr=_indptr([len(p.reach) for p in parts]),
        range_entities=joined("reach", np.int32),
        twins=twins,
    )


def _indptr(counts: Sequence[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _sorted(
    subjects: NDArray[np.int32], objects: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    order = np.lexsort((objects, subjects))
    return subjects[order], objects[order]
