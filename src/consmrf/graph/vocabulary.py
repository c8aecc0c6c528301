"""Labels and their ids, both ways, frozen."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from consmrf.errors import UnknownLabelError

__all__ = ["Vocabulary"]


@dataclass(frozen=True)
class Vocabulary:
    """The labels of entities and relations; a label's position is its id.

    A graph's own vocabulary is sorted by code point; labels that come later are appended, so ids never move.
    """

    entities: tuple[str, ...]
    relations: tuple[str, ...]

    @classmethod
    def of(cls, entities: Iterable[str], relations: Iterable[str]) -> Vocabulary:
        """Hand on the vocabulary of the distinct labels given, sorted by code point."""
        return cls(tuple(sorted(set(entities))), tuple(sorted(set(relations))))

    def extended(self, *others: Vocabulary) -> Vocabulary:
        """Hand on these labels, followed by those that only the others have, sorted; ids stay."""
        entities = set().union(*(other.entities for other in others)).difference(self.entities)
        relations = set().union(*(other.relations for other in others)).difference(self.relations)
        return Vocabulary(self.entities + tuple(sorted(entities)), self.relations + tuple(sorted(relations)))

    @cached_property
    def entity_ids(self) -> dict[str, int]:
        return {label: i for i, label in enumerate(self.entities)}

    @cached_property
    def relation_ids(self) -> dict[str, int]:
        return {label: i for i, label in enumerate(self.relations)}

    def entity(self, label: str) -> int:
        """Hand on the id of an entity; an unknown label is an error that names the nearest known ones."""
        return _look_up(label, "entity", self.entity_ids, self.entities)

    def relation(self, label: str) -> int:
        """Hand on the id of a relation; an unknown label is an error that names the nearest known ones."""
        return _look_up(label, "relation", self.relation_ids, self.relations)


def _look_up(label: str, kind: str, ids: dict[str, int], labels: Sequence[str]) -> int:
    try:
        return ids[label]
    except (KeyError, TypeError):
        near = _nearest(label, labels)
        asked, *shown = _told_apart([label, *near])
        hint = f"; the nearest known: {', '.join(shown)}" if shown else ""
        raise UnknownLabelError(
            f"unknown {kind} {asked}: it does not occur in the training triples{hint}"
        ) from None


def _told_apart(labels: Sequence[object]) -> list[str]:
    """Hand on the labels in quotes; those that look alike and are not the same are spelt out in escapes."""
    looks = [unicodedata.normalize("NFC", x) if isinstance(x, str) else x for x in labels]
    return [ascii(x) if looks.count(look) > 1 else repr(x) for x, look in zip(labels, looks, strict=True)]


def _nearest(label: object, labels: Sequence[str], most: int = 3) -> list[str]:
    """Hand on up to `most` labels that resemble the one given, the most alike first."""
    if not isinstance(label, str):
        return []
    folded = label.casefold()
    same = [x for x in labels if folded and folded in x.casefold()]
    # difflib compares in quadratic time per label: past this many, only labels that begin alike are compared
    pool = labels if len(labels) <= 50_000 else [x for x in labels if x[:1].casefold() == folded[:1]][:50_000]
    close = difflib.get_close_matches(label, pool, n=most, cutoff=0.6)
    shortest = sorted(same, key=lambda x: (len(x), x))[:most]
    look = unicodedata.normalize("NFC", label)
    twins = [x for x in labels if unicodedata.normalize("NFC", x) == look]
    return list(dict.fromkeys([*twins, *shortest, *close]))[:most]
