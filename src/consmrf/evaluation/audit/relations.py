"""What each relation looks like by itself: how many to how many, symmetric, reflexive, Cartesian."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from consmrf.evaluation.audit.options import AuditOptions
from consmrf.evaluation.audit.pairs import Longs
from consmrf.graph.categories import Cardinality

__all__ = ["RelationFacts"]

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RelationFacts:
    """One entry per relation, in id order; shares of nothing are NaN."""

    cardinality: Cardinality
    proper: Longs  # facts that are not from an entity to itself
    mirrored: Longs  # of these, how many have their mirror image among the relation's facts
    options: AuditOptions

    @property
    def loops(self) -> Longs:
        """Facts from an entity to itself."""
        return self.cardinality.triples - self.proper

    @property
    def symmetry(self) -> Floats:
        """The share of facts whose mirror image is a fact."""
        return _share(self.mirrored, self.proper)

    @property
    def density(self) -> Floats:
        """The share of all pairs of its subjects and objects that are facts, |D_r| / (|S_r|·|O_r|)."""
        pairs = self.cardinality.subjects.astype(np.float64) * self.cardinality.objects
        return _share(self.cardinality.triples, pairs)

    @property
    def functionality(self) -> Floats:
        """Subjects per fact: 1 where every subject has one object."""
        return _share(self.cardinality.subjects, self.cardinality.triples)

    @property
    def inverse_functionality(self) -> Floats:
        """Objects per fact: 1 where every object has one subject."""
        return _share(self.cardinality.objects, self.cardinality.triples)

    @property
    def symmetric(self) -> Flags:
        return (self.mirrored >= self.options.least) & (self.symmetry >= self.options.symmetric)

    @property
    def cartesian(self) -> Flags:
        """Those of density; one subject or one object makes every relation dense, and is not enough."""
        sides = np.minimum(self.cardinality.subjects, self.cardinality.objects)
        return self._borne_out & (sides > 1) & (self.density >= self.options.density)

    @property
    def functional(self) -> Flags:
        return self._borne_out & (self.functionality >= self.options.functional)

    @property
    def inverse_functional(self) -> Flags:
        return self._borne_out & (self.inverse_functionality >= self.options.functional)

    @property
    def _borne_out(self) -> Flags:
        enough: Flags = self.cardinality.triples >= self.options.least
        return enough


def _share(part: Longs, whole: Longs | Floats) -> Floats:
    share = np.full(len(part), np.nan)
    np.divide(part, whole, out=share, where=whole > 0)
    return share
