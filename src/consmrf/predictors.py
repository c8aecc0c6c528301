"""What scores: blocks of subjects or objects against all entities. Ids in, float32 out; needs no compiler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from consmrf.consensus.scorers import SCORERS, queries, transposed_queries
from consmrf.errors import ModelFileError, SettingError

__all__ = ["PREDICTORS", "Counts", "Factors", "Predictor"]


class Predictor(Protocol):
    """What a model asks of the thing that scores."""

    kind: ClassVar[str]  # its name in the model file

    def object_scores(self, relation: int, subjects: NDArray[np.int32]) -> NDArray[np.float32]:
        """Hand on [len(subjects), |E|]: the score of every entity as the object."""

    def subject_scores(self, relation: int, objects: NDArray[np.int32]) -> NDArray[np.float32]:
        """Hand on [len(objects), |E|]: the score of every entity as the subject."""

    def pair_scores(
        self, relation: int, subjects: NDArray[np.int32], objects: NDArray[np.int32]
    ) -> NDArray[np.float32]:
        """Hand on [n]: the score of each object for the subject beside it, as `object_scores` has it."""

    def relation_scores(self, subjects: NDArray[np.int32], objects: NDArray[np.int32]) -> NDArray[np.float32]:
        """Hand on [n, R]: the score of every relation between each subject and the object beside it."""

    def consensus(self) -> Predictor:
        """Hand on the view that all relations share; a SettingError where there is none."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Hand on what the model file must hold."""

    def settings(self) -> dict[str, Any]:
        """Hand on plain values for the manifest."""

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], settings: Mapping[str, Any]) -> Self:
        """Build from what `arrays` and `settings` handed on; a ModelFileError if they do not fit together."""


def _none(*shape: int) -> NDArray[Any]:
    return np.empty(shape, np.float32)


@dataclass(frozen=True, eq=False)
class Factors:
    """Latent features: A_r = Z + Δ_r, with Δ_r as the few rows that differ from the consensus.

    With intercepts, ŷ_r(s, o) = q(a_s, w_r) · a_o + b_o, where b_o is the consensus intercept of o in its
    role (`b`), what relation r adds to it (`delta_b`), and β_r times the logarithm of how often o has that
    role (`log_share`). Reciprocal factors have 2R relations: number R + r is relation r turned round. Others
    may have intercepts of subjects: what relation r adds (`subject_b`), and a second half of `beta`.
    """

    kind: ClassVar[str] = "factors"

    scorer: str
    z: NDArray[Any]  # [E, k]
    w: NDArray[Any]  # [R, m], or [2R, m]
    delta_indptr: NDArray[np.int64]  # [R + 1] where each relation's rows begin
    delta_rows: NDArray[np.int32]  # [n] entities, ascending within a relation
    delta: NDArray[Any]  # [n, k]; [n, 0] where no features differ
    # What all relations share: "mean", z + (1/R) Σ_r Δ_r, for views that one round made from z; "z"; "none"
    shared: str = "mean"
    reciprocal: bool = False
    b: NDArray[Any] = field(default_factory=lambda: _none(0, 2))  # [E, 2] as object, as subject; or none
    delta_b: NDArray[Any] = field(default_factory=lambda: _none(0))  # [n], or none
    log_share: NDArray[Any] = field(default_factory=lambda: _none(0, 2))  # [E, 2], or none
    beta: NDArray[Any] = field(default_factory=lambda: _none(0))  # [R], or [2R]: then subjects' last; or none
    subject_b: NDArray[Any] = field(default_factory=lambda: _none(0))  # [n], or none

    @property
    def shape(self) -> tuple[int, int]:
        """The number of entities and of the user's relations."""
        return len(self.z), len(self.w) // (2 if self.reciprocal else 1)

    def object_scores(self, relation: int, subjects: NDArray[np.int32]) -> NDArray[np.float32]:
        return self._times_view(self.queries(np.full(len(subjects), relation), subjects, 0), relation, 0)

    def subject_scores(self, relation: int, objects: NDArray[np.int32]) -> NDArray[np.float32]:
        return self._times_view(self.queries(np.full(len(objects), relation), objects, 1), relation, 1)

    def queries(self, relations: NDArray[Any], given: NDArray[np.int32], side: int) -> NDArray[Any]:
        """Hand on q [n, k], so that a candidate e scores q · a_e + b_e as object (side 0) or subject (1).

        A row of q has the same bits whatever rows are asked for beside it.
        """
        seen = self.seen(relations, side)
        form, ask = SCORERS[self.scorer], transposed_queries if side and not self.reciprocal else queries
        starts = np.flatnonzero(np.diff(seen, prepend=-1)).tolist()
        a, q = np.empty((2, len(given), self.z.shape[1]), self.z.dtype)
        for begin, end in pairwise([*starts, len(seen)]):
            a[begin:end] = self.rows(int(seen[begin]), given[begin:end])
            if form.name == "full":
                q[begin:end] = ask(form, a[begin:end], self.w[seen[begin]])
        return q if form.name == "full" else np.ascontiguousarray(ask(form, a, self.w[seen].T), q.dtype)

    def seen(self, relations: Any, side: int) -> Any:
        """Hand on the numbers of the views and weights that rank this side of the relations."""
        return relations + self.shape[1] if side and self.reciprocal else relations

    def own(self, view: int) -> slice:
        """Hand on where a view's rows of Δ stand."""
        return slice(int(self.delta_indptr[view]), int(self.delta_indptr[view + 1]))

    def rows(self, view: int, entities: NDArray[np.int32]) -> NDArray[Any]:
        """Hand on these entities' rows of a view, without the rest of it."""
        a: NDArray[Any] = self.z[entities]
        if self.delta.shape[1]:
            at = self.departed(view, entities)
            a[at >= 0] += self.delta[at[at >= 0]]
        return a

    def departed(self, view: int, entities: NDArray[np.int32]) -> NDArray[np.intp]:
        """Hand on the row of Δ that each entity has in this view, or −1."""
        own = self.own(view)
        rows = self.delta_rows[own]
        if not len(rows):
            return np.full(len(entities), -1)
        at = np.minimum(np.searchsorted(rows, entities), len(rows) - 1)
        return np.where(rows[at] == entities, at + own.start, -1)

    def own_intercepts(self, side: int) -> NDArray[Any]:
        """Hand on δb by row of Δ, or none; a view that ranks both sides has those of subjects beside it."""
        return self.delta_b if self.reciprocal or side == 0 else self.subject_b

    def own_betas(self, relations: Any, side: int) -> Any:
        """Hand on β for this side of the relations, of factors that have any."""
        two = side == 1 and not self.reciprocal and len(self.beta) > len(self.w)
        return self.beta[relations + len(self.w) if two else self.seen(relations, side)]

    def pair_scores(
        self, relation: int, subjects: NDArray[np.int32], objects: NDArray[np.int32]
    ) -> NDArray[np.float32]:
        q = self.queries(np.full(len(subjects), relation), subjects, 0)
        scores: NDArray[Any] = np.einsum("nk,nk->n", q, self.rows(relation, objects))
        if len(self.b):
            scores = scores + self.b[objects, 0]
        if len(self.beta):
            scores = scores + self.beta[relation] * self.log_share[objects, 0]
        if len(self.delta_b):
            at = self.departed(relation, objects)
            scores[at >= 0] += self.delta_b[at[at >= 0]]
        return scores.astype(np.float32, copy=False)

    def relation_scores(self, subjects: NDArray[np.int32], objects: NDArray[np.int32]) -> NDArray[np.float32]:
        scores = np.empty((len(subjects), self.shape[1]), np.float32)
        for r in range(self.shape[1]):
            scores[:, r] = self.pair_scores(r, subjects, objects)
        return scores

    def consensus(self) -> Factors:
        """Hand on the same with every relation seeing the consensus."""
        if self.shared == "none":
            raise SettingError("view = 'consensus': these relations share nothing; use view = 'target'")
        z = self.z
        if self.shared == "mean":
            total = np.zeros_like(z)
            for lo, hi in pairwise(self.delta_indptr):
                total[self.delta_rows[lo:hi]] += self.delta[lo:hi]
            z = z + total / len(self.w)
        none = np.zeros_like(self.delta_indptr)
        return replace(
            self,
            z=z,
            delta_indptr=none,
            delta_rows=self.delta_rows[:0],
            delta=self.delta[:0],
            delta_b=self.delta_b[:0],
            log_share=self.log_share[:0],
            beta=self.beta[:0],
            subject_b=self.subject_b[:0],
        )

    def view(self, relation: int) -> NDArray[Any]:
        """Hand on the dense A_r [E, k]."""
        a = self.z.copy()
        if self.delta.shape[1]:
            own = self.own(relation)
            a[self.delta_rows[own]] += self.delta[own]
        return a

    def departures(self) -> NDArray[np.float64]:
        """Hand on, by relation, how far its view is from the consensus: ‖Δ_r‖ over ‖Z‖ on the rows of Δ_r."""
        told = np.zeros(len(self.delta_indptr) - 1)
        if self.delta.shape[1]:
            for r in range(len(told)):
                own = self.own(r)
                beside = float(np.linalg.norm(self.z[self.delta_rows[own]]))
                told[r] = float(np.linalg.norm(self.delta[own])) / beside if beside else 0.0
        return told

    def _times_view(self, q: NDArray[Any], relation: int, side: int) -> NDArray[np.float32]:
        """Hand on q A_rᵀ + b as q Zᵀ and a correction of Δ_r's columns: A_r is not built, Z not copied."""
        seen, own_b = self.seen(relation, side), self.own_intercepts(side)
        own = self.own(seen)
        rows = self.delta_rows[own]
        scores: NDArray[Any] = q @ self.z.T
        if len(self.b):
            scores += self.b[:, side]
        if len(self.beta):
            scores += self.own_betas(relation, side) * self.log_share[:, side]
        if len(rows) and self.delta.shape[1]:
            scores[:, rows] += q @ self.delta[own].T
        if len(rows) and len(own_b):
            scores[:, rows] += own_b[own]
        return scores.astype(np.float32, copy=False)

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {name: np.ascontiguousarray(getattr(self, name)) for name in _FACTOR_ARRAYS}

    def settings(self) -> dict[str, Any]:
        unusual: dict[str, Any] = {} if self.shared == "mean" else {"shared": self.shared}
        if self.reciprocal:
            unusual["reciprocal"] = True
        return {"scorer": self.scorer, "dim": self.z.shape[1], **unusual}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], settings: Mapping[str, Any]) -> Self:
        first = {"b": _none(0, 2), "delta_b": _none(0), "log_share": _none(0, 2), "beta": _none(0)}
        arrays = {**first, "subject_b": _none(0), **arrays}  # a model of the first version has no intercepts
        _check_arrays(arrays, _FACTOR_ARRAYS)
        name = str(settings.get("scorer"))
        if name not in SCORERS:
            raise ModelFileError(f"scorer {name!r}: must be one of {', '.join(SCORERS)}")
        shared = str(settings.get("shared", "mean"))
        if shared not in ("mean", "z", "none"):
            raise ModelFileError(f"shared {shared!r}: must be mean, z or none")
        reciprocal = settings.get("reciprocal", False)
        if not isinstance(reciprocal, bool):
            raise ModelFileError(f"reciprocal {reciprocal!r}: must be true or false")
        made = cls(scorer=name, shared=shared, reciprocal=reciprocal, **arrays)
        made._check(settings.get("dim"))
        return made

    def _check(self, dim: object) -> None:
        """Ask that the arrays fit together."""
        k, n = self.z.shape[1], len(self.delta_rows)
        if (
            k != dim
            or self.delta.shape[1] not in (0, k)
            or self.w.shape[1] != SCORERS[self.scorer].weights(k)
        ):
            raise ModelFileError("the factors z, w and delta differ in their number of features")
        if self.reciprocal and len(self.w) % 2:
            raise ModelFileError(f"{len(self.w)} relations: reciprocal factors have two for each")
        intercepts = {"b": len(self.z), "log_share": len(self.z), "delta_b": n, "subject_b": n}
        halves = 1 if self.reciprocal or len(self.beta) <= len(self.w) else 2
        intercepts["beta"] = halves * len(self.w)
        for name, length in intercepts.items():
            array = getattr(self, name)
            if len(array) not in (0, length) or (array.ndim == 2 and array.shape[1] != 2):
                raise ModelFileError(f"array {name!r} is {list(array.shape)}: it does not fit the factors")
        if bool(len(self.beta)) != bool(len(self.log_share)):
            raise ModelFileError("arrays 'beta' and 'log_share': one is there and the other is not")
        _check_csr(self.delta_indptr, self.delta_rows, self.delta, (len(self.z), len(self.w)))


_FACTOR_ARRAYS = {
    "z": "f2",
    "w": "f2",
    "delta_indptr": "i1",
    "delta_rows": "i1",
    "delta": "f2",
    "b": "f2",
    "delta_b": "f1",
    "log_share": "f2",
    "beta": "f1",
    "subject_b": "f1",
}


@dataclass(frozen=True, eq=False)
class Ranks:
    """One side of `Counts`: the rank of each entity in a relation, stored where it occurs there."""

    overall: NDArray[np.float32]  # [E] the rank of an entity that the relation lacks
    indptr: NDArray[np.int64]  # [R + 1] where each relation's entities begin
    rows: NDArray[np.int32]  # [n] entities, ascending within a relation
    ranks: NDArray[np.float32]  # [n] above every rank in `overall`

    @classmethod
    def of(
        cls, entities: NDArray[np.int32], relations: NDArray[np.int32], n_entities: int, n_relations: int
    ) -> Ranks:
        """Rank by (count in the relation, count in all), given the entity and relation of each triple."""
        total = np.bincount(entities, minlength=n_entities)
        distinct, overall = np.unique(total, return_inverse=True)
        pairs, counts = np.unique(relations.astype(np.int64) * n_entities + entities, return_counts=True)
        indptr = np.searchsorted(pairs, np.arange(n_relations + 1, dtype=np.int64) * n_entities)
        rows = (pairs % max(n_entities, 1)).astype(np.int32)
        keys = counts.astype(np.int64) * len(distinct) + overall[rows]  # orders as (count, overall) does
        ranks = np.empty(len(rows), np.float32)
        for lo, hi in pairwise(indptr):
            ranks[lo:hi] = len(distinct) + np.unique(keys[lo:hi], return_inverse=True)[1]
        return cls(overall.astype(np.float32), indptr.astype(np.int64), rows, ranks)

    def of_each(self, relation: int, entities: NDArray[np.int32]) -> NDArray[np.float32]:
        """Hand on [n]: the rank of each of these entities in the relation."""
        lo, hi = self.indptr[relation], self.indptr[relation + 1]
        ranks: NDArray[np.float32] = self.overall[entities]
        if lo < hi:
            rows = self.rows[lo:hi]
            at = np.minimum(np.searchsorted(rows, entities), len(rows) - 1)
            found = rows[at] == entities
            ranks[found] = self.ranks[lo:hi][at[found]]
        return ranks

    def repeated(self, relation: int, times: int) -> NDArray[np.float32]:
        """Hand on [times, |E|]: the relation's ranks, the same in every row."""
        lo, hi = self.indptr[relation], self.indptr[relation + 1]
        scores = np.tile(self.overall, (times, 1))
        scores[:, self.rows[lo:hi]] = self.ranks[lo:hi]
        return scores


@dataclass(frozen=True, eq=False)
class Counts:
    """Popularity: how often an entity is the object (subject) in the relation, then in all relations.

    A score is the rank of that pair among the relation's: a whole number, so ties stay ties. Even 2³¹ triples
    have room for no more distinct pairs than a float32 holds exactly. Relations are ranked by their triples.
    """

    kind: ClassVar[str] = "counts"

    objects: Ranks
    subjects: Ranks
    relations: NDArray[np.float32] = field(default_factory=lambda: _none(0))  # [R] the rank of each, or none

    @classmethod
    def from_triples(cls, triples: NDArray[np.int32], n_entities: int, n_relations: int) -> Counts:
        """Count triples [n, 3] of ids (subject, relation, object)."""
        s, r, o = triples.T
        sizes = np.unique(np.bincount(r, minlength=n_relations), return_inverse=True)[1].astype(np.float32)
        return cls(Ranks.of(o, r, n_entities, n_relations), Ranks.of(s, r, n_entities, n_relations), sizes)

    @property
    def shape(self) -> tuple[int, int]:
        """The number of entities and of relations."""
        return len(self.objects.overall), len(self.objects.indptr) - 1

    def object_scores(self, relation: int, subjects: NDArray[np.int32]) -> NDArray[np.float32]:
        return self.objects.repeated(relation, len(subjects))

    def subject_scores(self, relation: int, objects: NDArray[np.int32]) -> NDArray[np.float32]:
        return self.subjects.repeated(relation, len(objects))

    def pair_scores(
        self, relation: int, subjects: NDArray[np.int32], objects: NDArray[np.int32]
    ) -> NDArray[np.float32]:
        del subjects  # whoever asks
        return self.objects.of_each(relation, objects)

    def relation_scores(self, subjects: NDArray[np.int32], objects: NDArray[np.int32]) -> NDArray[np.float32]:
        del objects
        if not len(self.relations):
            raise SettingError(
                "popularity of relations: this model was made before it was counted; fit again"
            )
        return np.tile(self.relations, (len(subjects), 1))

    def consensus(self) -> Counts:
        raise SettingError("view = 'consensus': popularity has no consensus; use view = 'target'")

    def arrays(self) -> dict[str, NDArray[Any]]:
        sides = {"objects": self.objects, "subjects": self.subjects}
        return {"relations": self.relations} | {
            f"{side}_{name}": array for side, ranks in sides.items() for name, array in vars(ranks).items()
        }

    def settings(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], settings: Mapping[str, Any]) -> Self:
        layout = {"overall": "f1", "indptr": "i1", "rows": "i1", "ranks": "f1"}
        sides = ("objects", "subjects")
        arrays = {"relations": _none(0), **arrays}  # a model of the first version does not count them
        expected = {f"{side}_{name}": what for side in sides for name, what in layout.items()}
        _check_arrays(arrays, {"relations": "f1", **expected})
        if settings:
            raise ModelFileError(f"settings {sorted(settings)}: counts have none")
        objects, subjects = (Ranks(**{name: arrays[f"{side}_{name}"] for name in layout}) for side in sides)
        made = cls(objects, subjects, arrays["relations"])
        if len(made.relations) not in (0, made.shape[1]):
            raise ModelFileError(f"{len(made.relations)} counts of relations: there are {made.shape[1]}")
        for side in (made.objects, made.subjects):
            if (len(side.overall), len(side.indptr) - 1) != made.shape:
                raise ModelFileError("objects and subjects differ in their number of entities or relations")
            _check_csr(side.indptr, side.rows, side.ranks, made.shape)
        return made


PREDICTORS: dict[str, type[Factors] | type[Counts]] = {cls.kind: cls for cls in (Factors, Counts)}


def _check_arrays(arrays: Mapping[str, NDArray[Any]], expected: Mapping[str, str]) -> None:
    """Ask for exactly these arrays; "f2" is a matrix of floats, "i1" a vector of whole numbers."""
    if set(arrays) != set(expected):
        raise ModelFileError(f"arrays {sorted(arrays)}: must be {sorted(expected)}")
    for name, what in expected.items():
        array = arrays[name]
        if f"{array.dtype.kind}{array.ndim}" != what:
            raise ModelFileError(
                f"array {name!r} is {array.dtype}{list(array.shape)}: not what the kind asks for"
            )


def _check_csr(
    indptr: NDArray[np.int64], rows: NDArray[np.int32], values: NDArray[Any], shape: tuple[int, int]
) -> None:
    """Ask that indptr cuts rows [n] and values [n, …] into one ascending run of entities per relation."""
    n_entities, n_relations = shape
    if not len(indptr) or len(indptr) != n_relations + 1 or len(rows) != len(values):
        raise ModelFileError(f"{len(indptr)} bounds, {len(rows)} rows, {len(values)} values: they must match")
    if indptr[0] != 0 or indptr[-1] != len(rows) or (np.diff(indptr) < 0).any():
        raise ModelFileError("the bounds of the relations' rows must ascend from 0 to the number of rows")
    if len(rows) and not (rows.min() >= 0 and rows.max() < n_entities):
        raise ModelFileError(f"rows must be ids of entities, from 0 to {n_entities - 1}")
    rises = np.diff(rows) > 0
    rises[indptr[(indptr > 0) & (indptr < len(rows))] - 1] = True  # where the next relation begins
    if not rises.all():
        raise ModelFileError("a relation's rows must ascend")
