"""How many objects a subject has, and how many subjects an object has, relation by relation: 1-1 to n-n."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["CATEGORIES", "MANY", "Cardinality", "cardinality"]

CATEGORIES = ("1-1", "1-n", "n-1", "n-n")  # subjects of an object, then objects of a subject
MANY = 1.5  # a mean from here on counts as n; the threshold of the link prediction literature


@dataclass(frozen=True)
class Cardinality:
    """One entry per relation, in id order. The means of a relation without triples are NaN."""

    triples: NDArray[np.int64]
    subjects: NDArray[np.int64]  # distinct ones
    objects: NDArray[np.int64]

    @property
    def objects_per_subject(self) -> NDArray[np.float64]:
        """The mean over the subjects that the relation has; 1 where it is a function."""
        return _mean(self.triples, self.subjects)

    @property
    def subjects_per_object(self) -> NDArray[np.float64]:
        """The mean over the objects that the relation has; 1 where its inverse is a function."""
        return _mean(self.triples, self.objects)

    @property
    def category(self) -> NDArray[np.int8]:
        """The position in CATEGORIES, −1 for a relation without triples: 1-n is one subject, n objects."""
        n_subjects, n_objects = self.subjects_per_object >= MANY, self.objects_per_subject >= MANY
        category = 2 * n_subjects + n_objects
        return np.where(self.triples > 0, category, -1).astype(np.int8)


def cardinality(triples: NDArray[np.int32], n_relations: int) -> Cardinality:
    """Count, for each relation, its triples, its subjects and its objects; `triples` are distinct ids."""
    s, r, o = triples.T
    return Cardinality(
        triples=np.bincount(r, minlength=n_relations),
        subjects=_distinct(r, s, n_relations),
        objects=_distinct(r, o, n_relations),
    )


def _distinct(r: NDArray[np.int32], end: NDArray[np.int32], n_relations: int) -> NDArray[np.int64]:
    if not len(r):
        return np.zeros(n_relations, dtype=np.int64)
    width = int(end.max()) + 1
    key = r.astype(np.int64) * width + end
    key.sort()  # np.unique would hash, many times as slow where there are millions
    return np.bincount(key[np.diff(key, prepend=-1) > 0] // width, minlength=n_relations)


def _mean(triples: NDArray[np.int64], among: NDArray[np.int64]) -> NDArray[np.float64]:
    mean = np.full(len(triples), np.nan)
    np.divide(triples, among, out=mean, where=among > 0)
    return mean
