"""What the wave solver learns from: the facts of all relations as one set of arrays.

With reciprocal relations, relation r of R has a twin R + r whose facts are turned round: it ranks the
subjects of r as objects of its own, with its own view.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

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
    touches: NDArray[np.float32]  # [m] how often the slot's entity stands in its relation's facts, by weight
    range_indptr: NDArray[np.int64]  # [R + 1]
    range_entities: NDArray[np.int32]  # the distinct objects of each relation
    weights: NDArray[np.float32]  # [n] how much a fact's terms count; [0]: each once
    values: NDArray[np.float32]  # [n] y, what a loss aims at; [0]: 1
    twins: int  # 1: the second half of the relations are the first half turned round


@dataclass(frozen=True)
class Layout:
    """The facts, where each relation's begin, and what had to be left out."""

    facts: Facts
    indptr: NDArray[np.int64]  # [R + 1]
    n_entities: int
    skipped: int  # facts, not turned round, whose subject is linked to every entity, so that no o′ exists
    losses: tuple[str, ...] = ()  # [R] each relation's loss; none: all have the settings' one

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
    losses: Sequence[str] = (),
) -> Layout:
    """Hand on the facts of all relations, and of their twins; `views` names those that get rows of their own.

    None is all of them. `losses` has one for each relation, or none at all. A twin goes with its relation.
    """
    sides = [_Side(p.subjects, p.objects, p.weights, p.values) for p in partitions]
    n, skipped = len(partitions), 0
    if reciprocal:
        sides += [side.turned() for side in sides]
        losses = [*losses, *losses]
    parts: list[_Part] = []
    for r, side in enumerate(sides):
        part = _part(side, n_entities, viewed=views is None or r % n in views)
        skipped += part.skipped if r < n else 0
        parts.append(part)
    facts = _joined(parts, twins=int(reciprocal))
    return Layout(facts, _indptr([len(p.subjects) for p in parts]), n_entities, skipped, tuple(losses))


class _Side(NamedTuple):
    """One relation's facts in one direction, by subject and object; weights and values if there are any."""

    subjects: NDArray[np.int32]
    objects: NDArray[np.int32]
    weights: NDArray[np.float32] | None
    values: NDArray[np.float32] | None

    def at(self, rows: NDArray[Any]) -> _Side:
        """Hand on some of the facts."""
        return _Side(*(None if x is None else x[rows] for x in self))  # type: ignore[arg-type]

    def turned(self) -> _Side:
        """Hand on the facts with subject and object exchanged."""
        turned = self._replace(subjects=self.objects, objects=self.subjects)
        return turned.at(np.lexsort((turned.objects, turned.subjects)))


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
    weights: NDArray[np.float32]
    values: NDArray[np.float32]
    skipped: int


def _part(side: _Side, n_entities: int, *, viewed: bool) -> _Part:
    counts = np.unique(side.subjects, return_inverse=True, return_counts=True)
    kept = counts[2][counts[1]] < n_entities
    skipped = len(kept) - int(np.count_nonzero(kept))
    subjects, objects, weights, values = side.at(kept) if skipped else side
    starts = np.flatnonzero(np.diff(subjects, prepend=-1))
    heads = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(subjects)))
    none = np.empty(0, np.int32)
    entities, touches = none, np.empty(0, np.float32)
    subject_slots = object_slots = np.full(len(subjects), -1, np.int32)
    if viewed:
        ends = np.concatenate([subjects, objects])
        entities, place, counted = np.unique(ends, return_inverse=True, return_counts=True)
        touches = counted.astype(np.float32)
        if weights is not None:
            touches = np.bincount(place, np.tile(weights, 2), len(entities)).astype(np.float32)
            touches[touches == 0] = 1  # of weightless facts, which pull at nothing
        subject_slots = np.searchsorted(entities, subjects).astype(np.int32)
        object_slots = np.searchsorted(entities, objects).astype(np.int32)
    nothing = np.empty(0, np.float32)
    return _Part(
        *(subjects, objects, subject_slots, object_slots, heads.astype(np.int32), starts),
        *(entities, touches, np.unique(objects)),
        nothing if weights is None else weights,
        nothing if values is None else values,
        skipped,
    )


def _joined(parts: Sequence[_Part], twins: int) -> Facts:
    lengths = [len(p.subjects) for p in parts]
    views = _indptr([len(p.entities) for p in parts])
    if views[-1] > np.iinfo(np.int32).max:
        raise OverflowError("the views have more than 2³¹ rows")
    heads = _indptr([len(p.head_starts) for p in parts])
    begins = _indptr(lengths)

    def joined(name: str, dtype: type, shifts: NDArray[np.int64] | None = None) -> NDArray[Any]:
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
        touches=joined("touches", np.float32),
        range_indptr=_indptr([len(p.reach) for p in parts]),
        range_entities=joined("reach", np.int32),
        weights=joined("weights", np.float32),
        values=joined("values", np.float32),
        twins=twins,
    )


def _indptr(counts: Sequence[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
