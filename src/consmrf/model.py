"""What comes out of a fit: a model that scores, ranks, and is saved and loaded."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from consmrf.config import Config
from consmrf.errors import InputError, ModelFileError, SettingError
from consmrf.graph.vocabulary import Vocabulary
from consmrf.predictors import PREDICTORS, Predictor
from consmrf.storage import Stored, read, write

__all__ = ["Answer", "Model"]

VIEWS = ("target", "consensus")
KNOWN = ("exclude", "include")


class Answer(NamedTuple):
    """One entity or relation of a ranking; `known` says that the fact is among the training triples."""

    label: str
    score: float
    known: bool


class Model:
    """A predictor, the labels its ids stand for, and the training triples that it need not predict.

    Views: "target" scores a relation by its own A_r, as the paper predicts; "consensus" by the shared Z.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        known: NDArray[np.int32],
        predictor: Predictor,
        config: Config | None = None,
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        self.vocabulary = vocabulary
        self.known = known  # [n, 3] the training triples
        self.predictor = predictor
        self.config = config
        self.provenance = dict(provenance or {})
        self._facts: dict[tuple[int, int], NDArray[np.int32]] = {}

    @property
    def entities(self) -> tuple[str, ...]:
        """The labels of the entities, in id order."""
        return self.vocabulary.entities

    @property
    def relations(self) -> tuple[str, ...]:
        """The labels of the relations, in id order."""
        return self.vocabulary.relations

    def __repr__(self) -> str:
        details = {"kind": self.predictor.kind, **self.predictor.settings()}
        told = ", ".join(f"{name}={value!r}" for name, value in details.items())
        return f"Model({len(self.entities)} entities, {len(self.relations)} relations, {told})"

    def object_scores(self, relation: int, subjects: NDArray[np.int32]) -> NDArray[np.float32]:
        """Hand on [len(subjects), |E|]: the score of every entity as the object. Ids, not labels."""
        return self.predictor.object_scores(relation, subjects)

    def subject_scores(self, relation: int, objects: NDArray[np.int32]) -> NDArray[np.float32]:
        """Hand on [len(objects), |E|]: the score of every entity as the subject. Ids, not labels."""
        return self.predictor.subject_scores(relation, objects)

    def pair_scores(
        self, relation: int, subjects: NDArray[np.int32], objects: NDArray[np.int32]
    ) -> NDArray[np.float32]:
        """Hand on [n]: the score of each object for the subject beside it. Ids, not labels."""
        return self.predictor.pair_scores(relation, subjects, objects)

    def relation_scores(self, subjects: NDArray[np.int32], objects: NDArray[np.int32]) -> NDArray[np.float32]:
        """Hand on [n, R]: the score of every relation between a subject and the object beside it. Ids."""
        return self.predictor.relation_scores(subjects, objects)

    def score(self, s: str, r: str, o: str, *, view: str = "target") -> float:
        """Hand on the score of one fact, as `score_objects` gives it."""
        obj = self.vocabulary.entity(o)
        return float(self.score_objects(s, r, view=view)[obj])

    def score_objects(self, s: str, r: str, *, view: str = "target") -> NDArray[np.float32]:
        """Hand on the score of every entity as the object of (s, r, ·), in id order."""
        relation, subject = self.vocabulary.relation(r), self.vocabulary.entity(s)
        scores = self._view(view).object_scores(relation, np.array([subject], np.int32))
        return scores.reshape(-1)

    def score_subjects(self, r: str, o: str, *, view: str = "target") -> NDArray[np.float32]:
        """Hand on the score of every entity as the subject of (·, r, o), in id order."""
        relation, obj = self.vocabulary.relation(r), self.vocabulary.entity(o)
        scores = self._view(view).subject_scores(relation, np.array([obj], np.int32))
        return scores.reshape(-1)

    def score_relations(self, s: str, o: str, *, view: str = "target") -> NDArray[np.float32]:
        """Hand on the score of every relation as the one of (s, ·, o), in id order.

        A relation's score is that of the fact. Training compares entities under one relation, never
        relations: their scores need not be on one scale.
        """
        subject, obj = (np.array([self.vocabulary.entity(label)], np.int32) for label in (s, o))
        return self._view(view).relation_scores(subject, obj).reshape(-1)

    def objects(
        self, s: str, r: str, *, top: int = 10, known: str = "exclude", view: str = "target"
    ) -> list[Answer]:
        """Hand on the `top` best objects of (s, r, ·); equal scores in id order.

        Training facts are left out (known="exclude") or shown and marked ("include").
        """
        _check_ranking(top, known)
        scores = self.score_objects(s, r, view=view)
        return _best(self.entities, scores, self._linked(r, s, given=0), top, known)

    def subjects(
        self, r: str, o: str, *, top: int = 10, known: str = "exclude", view: str = "target"
    ) -> list[Answer]:
        """Hand on the `top` best subjects of (·, r, o), like `objects`."""
        _check_ranking(top, known)
        scores = self.score_subjects(r, o, view=view)
        return _best(self.entities, scores, self._linked(r, o, given=2), top, known)

    def relations_between(
        self, s: str, o: str, *, top: int = 10, known: str = "exclude", view: str = "target"
    ) -> list[Answer]:
        """Hand on the `top` best relations of (s, ·, o), like `objects`."""
        _check_ranking(top, known)
        scores = self.score_relations(s, o, view=view)
        subject, obj = self.vocabulary.entity(s), self.vocabulary.entity(o)
        facts = self.known[(self.known[:, 0] == subject) & (self.known[:, 2] == obj), 1]
        return _best(self.relations, scores, facts, top, known)

    def _view(self, view: str) -> Predictor:
        if view not in VIEWS:
            raise SettingError(f"view = {view!r}: must be one of {', '.join(VIEWS)}")
        return self.predictor if view == "target" else self.predictor.consensus()

    def _linked(self, relation: str, entity: str, given: int) -> NDArray[np.int32]:
        """Hand on what training links to an entity given as the subject (column 0) or the object (2).

        The relation's facts are sorted by that column when first asked for.
        """
        r, e = self.vocabulary.relation(relation), self.vocabulary.entity(entity)
        if (r, given) not in self._facts:
            pairs = self.known[self.known[:, 1] == r][:, [given, 2 - given]]
            self._facts[r, given] = np.ascontiguousarray(pairs[np.argsort(pairs[:, 0], kind="stable")].T)
        entities, linked = self._facts[r, given]
        lo, hi = np.searchsorted(entities, np.array([e, e + 1], entities.dtype))
        found: NDArray[np.int32] = linked[lo:hi]
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as a folder, whole or not at all; an older model there is replaced."""
        values = {
            "kind": self.predictor.kind,
            "settings": self.predictor.settings(),
            "config": self.config and self.config.to_dict(),
            "seed": self.config and self.config.seed,
            "provenance": self.provenance,
        }
        files = {
            "predictor": self.predictor.arrays(),
            "triples": {"known": self.known},
            "vocabulary": _encode("entities", self.entities) | _encode("relations", self.relations),
        }
        write(path, values, files)

    @classmethod
    def load(cls, path: str | os.PathLike[str], mmap: bool = True, *, verify: bool = True) -> Model:
        """Read a model folder; one that is damaged, or of a later version, is a ModelFileError.

        `mmap` maps the arrays, so that processes share them; `verify` reads every byte once to check it.
        """
        stored = read(path, mmap=mmap, verify=verify)
        try:
            return cls._from_stored(stored)
        except InputError as error:
            raise ModelFileError(f"{Path(path)}: {error}") from None
        except (KeyError, TypeError, AttributeError) as error:
            raise ModelFileError(f"{Path(path)}: not what a model holds: {error!r}") from None

    @classmethod
    def _from_stored(cls, stored: Stored) -> Model:
        values, arrays = stored.values, stored.files
        kind = values["kind"]
        if kind not in PREDICTORS:
            raise ModelFileError(f"kind {kind!r}: must be one of {', '.join(PREDICTORS)}")
        predictor = PREDICTORS[kind].from_arrays(arrays["predictor"], values["settings"])
        entities, relations = (_decode(name, arrays["vocabulary"]) for name in ("entities", "relations"))
        if predictor.shape != (len(entities), len(relations)):
            raise ModelFileError(
                f"it scores {predictor.shape[0]} entities and {predictor.shape[1]} relations, "
                f"and has labels for {len(entities)} and {len(relations)}"
            )
        known = arrays["triples"]["known"]
        _check_triples(known, predictor.shape)
        config = None if values["config"] is None else Config.from_dict(values["config"])
        return cls(Vocabulary(entities, relations), known, predictor, config, values["provenance"])


def _encode(name: str, labels: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """Hand on labels as one run of UTF-8 bytes and the offsets [n + 1] that cut it."""
    encoded = [label.encode("utf-8", "surrogatepass") for label in labels]
    offsets = np.zeros(len(labels) + 1, np.int64)
    np.cumsum([len(label) for label in encoded], out=offsets[1:])
    return {f"{name}_utf8": np.frombuffer(b"".join(encoded), np.uint8), f"{name}_offsets": offsets}


def _decode(name: str, arrays: Mapping[str, NDArray[Any]]) -> tuple[str, ...]:
    """Hand on the distinct labels that `_encode` took."""
    text, offsets = arrays[f"{name}_utf8"], arrays[f"{name}_offsets"]
    if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != len(text) or (np.diff(offsets) < 0).any():
        raise ModelFileError(f"the offsets of {name} must ascend from 0 to the end of the labels' text")
    data = text.tobytes()
    try:
        labels = tuple(data[lo:hi].decode("utf-8", "surrogatepass") for lo, hi in pairwise(offsets.tolist()))
    except UnicodeDecodeError as error:
        raise ModelFileError(f"a label of {name} is not UTF-8: {error}") from None
    if len(set(labels)) < len(labels):
        raise ModelFileError(f"a label of {name} occurs twice")
    return labels


def _check_triples(triples: NDArray[np.int32], shape: tuple[int, int]) -> None:
    n_entities, n_relations = shape
    if triples.dtype != np.int32 or triples.ndim != 2 or triples.shape[1] != 3:
        raise ModelFileError(
            f"training triples are {triples.dtype}{list(triples.shape)}: must be int32 [n, 3]"
        )
    if len(triples) and (
        triples.min() < 0 or (triples.max(axis=0) >= (n_entities, n_relations, n_entities)).any()
    ):
        raise ModelFileError("training triples hold ids that have no label")


def _check_ranking(top: int, known: str) -> None:
    try:
        valid = not isinstance(top, bool) and operator.index(top) >= 1
    except TypeError:
        valid = False
    if not valid:
        raise SettingError(f"top = {top!r}: must be a whole number of at least 1")
    if known not in KNOWN:
        raise SettingError(f"known = {known!r}: must be one of {', '.join(KNOWN)}")


def _best(
    labels: Sequence[str], scores: NDArray[np.float32], facts: NDArray[np.int32], top: int, known: str
) -> list[Answer]:
    is_known = np.zeros(len(scores), bool)
    is_known[facts] = True
    ids = np.flatnonzero(~is_known) if known == "exclude" else np.arange(len(scores))
    best = ids[_first(scores[ids], top)]
    return [Answer(labels[i], float(scores[i]), bool(is_known[i])) for i in best.tolist()]


def _first(scores: NDArray[np.float32], n: int) -> NDArray[np.intp]:
    """Hand on the positions of the n highest scores, in falling order; equal scores by position."""
    candidates = np.arange(len(scores))
    if n < len(scores):
        least = np.partition(scores, len(scores) - n)[len(scores) - n]
        candidates = np.flatnonzero(scores >= least)  # with all that equal the last one in
    return candidates[np.argsort(-scores[candidates], kind="stable")][:n]
