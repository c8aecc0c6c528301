"""What an audit hands on: counts, relations, leaks, the graph's shape; as records and as plain values."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from consmrf.evaluation.audit.findings import Finding, findings
from consmrf.evaluation.audit.leaks import LINKS, RULES, Example, Leaks
from consmrf.evaluation.audit.options import AuditOptions
from consmrf.evaluation.audit.overlaps import Overlaps
from consmrf.evaluation.audit.profile import QUANTILES, Supernode, Unevenness
from consmrf.evaluation.audit.relations import RelationFacts
from consmrf.graph.categories import CATEGORIES
from consmrf.graph.vocabulary import Vocabulary

__all__ = ["Audit", "Part"]

_KINDS = {  # by whether the facts are reversed, and whether most of either relation are the other's
    (False, True): "duplicate",
    (False, False): "contained",
    (True, True): "inverse",
    (True, False): "inverse contained",
}


@dataclass(frozen=True)
class Part:
    """One part of a split, and what of it training lacks."""

    triples: int
    repetitions: int | None  # rows dropped in reading because they repeat a triple; None: nothing was read
    loops: int  # triples from an entity to itself
    entities: int
    relations: int
    new_entities: int  # that training lacks
    new_relations: int
    unseen_entity: int  # triples with a new entity
    unseen_relation: int  # triples with a new relation


@dataclass(frozen=True, eq=False)
class Audit:
    """Relations and entities in the ids of `vocabulary`: training's labels, then those of the other parts."""

    options: AuditOptions
    vocabulary: Vocabulary
    parts: dict[str, Part]
    whole: Part  # all triples given, each once
    in_both: int  # triples of both validation and test
    relations: RelationFacts
    overlaps: Overlaps
    leaks: dict[str, Leaks]  # by part that is not training
    degrees: Unevenness  # of entities; a triple counts once at each end
    sizes: Unevenness  # of relations
    supernodes: tuple[Supernode, ...]
    components: Unevenness  # entities in each

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What is worth knowing, a sentence each, and what to do about it."""
        return findings(self._plain)

    def to_dict(self) -> dict[str, Any]:
        """Hand on the whole audit as plain values for JSON, labels in place of ids; None where undefined."""
        return {"findings": [asdict(finding) for finding in self.findings], **self._plain}

    @cached_property
    def _plain(self) -> dict[str, Any]:
        return {
            "options": asdict(self.options),
            "parts": {name: asdict(part) for name, part in {**self.parts, "all": self.whole}.items()},
            "in_valid_and_test": self.in_both,
            "leaks": {name: self._leaks(leaks) for name, leaks in self.leaks.items()},
            "overlaps": self._overlaps(),
            "relations": self._relations(),
            "degrees": _uneven(self.degrees),
            "relation_sizes": _uneven(self.sizes),
            "components": _uneven(self.components),
            "supernodes": [self._supernode(node) for node in self.supernodes],
        }

    def _relations(self) -> dict[str, dict[str, Any]]:
        told, counts = self.relations, self.relations.cardinality
        columns = {
            "triples": counts.triples,
            "subjects": counts.subjects,
            "objects": counts.objects,
            "objects_per_subject": counts.objects_per_subject,
            "subjects_per_object": counts.subjects_per_object,
            "functional": told.functional,
            "inverse_functional": told.inverse_functional,
            "loops": told.loops,
            "mirrored": told.mirrored,
            "symmetry": told.symmetry,
            "symmetric": told.symmetric,
            "density": told.density,
            "cartesian": told.cartesian,
        }
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        names = np.array([*CATEGORIES, None], dtype=object)[counts.category].tolist()
        return {
            label: {"category": name, **{k: _number(x) for k, x in zip(columns, row, strict=True)}}
            for label, name, row in zip(self.vocabulary.relations, names, rows, strict=True)
        }

    def _overlaps(self) -> list[dict[str, Any]]:
        """Name each pair of relations once where the rule holds both ways, these first, by facts shared."""
        found, labels = self.overlaps, self.vocabulary.relations
        both = np.minimum(found.share_of_body, found.share_of_head) >= self.options.share
        told = np.flatnonzero((found.body != found.head) & ~(both & (found.body > found.head)))
        return [
            {
                "kind": _KINDS[bool(found.reversed[i]), bool(both[i])],
                "first": labels[found.body[i]],
                "second": labels[found.head[i]],
                "shared": int(found.shared[i]),
                "share_of_first": float(found.share_of_body[i]),
                "share_of_second": float(found.share_of_head[i]),
            }
            for i in told[np.lexsort((-found.shared[told], ~both[told]))].tolist()
        ]

    def _leaks(self, leaks: Leaks) -> dict[str, Any]:
        """Tell a part's leaks over all its triples and by relation; a score is the share that leaks."""
        n = len(self.vocabulary.relations)
        r = leaks.triples[:, 1]
        total = np.bincount(r, minlength=n)
        leaking = np.bincount(r[leaks.leaking], minlength=n)
        rules = np.stack([np.bincount(r[answered], minlength=n) for answered in leaks.answered.T], axis=1)
        return {
            "triples": len(r),
            "leaking": int(leaking.sum()),
            "score": float(leaks.leaking.mean()),
            "linked": int((leaks.linked.any(axis=1) & ~leaks.leaking).sum()),
            "rules": dict(zip(RULES, rules.sum(0).tolist(), strict=True)),
            "links": dict(zip(LINKS, leaks.linked.sum(0).tolist(), strict=True)),
            "relations": {
                self.vocabulary.relations[i]: {
                    "triples": int(total[i]),
                    "leaking": int(leaking[i]),
                    "score": float(leaking[i] / total[i]),
                    "rules": {k: x for k, x in zip(RULES, rules[i].tolist(), strict=True) if x},
                }
                for i in np.flatnonzero(total).tolist()
            },
            "examples": [self._example(example) for example in leaks.examples],
        }

    def _example(self, example: Example) -> dict[str, Any]:
        because = None if example.because is None else self._labels(*example.because)
        return {"rule": example.rule, "triple": self._labels(*example.triple), "because": because}

    def _labels(self, s: int, r: int, o: int) -> list[str]:
        e = self.vocabulary.entities
        return [e[s], self.vocabulary.relations[r], e[o]]

    def _supernode(self, node: Supernode) -> dict[str, Any]:
        return {
            "entity": self.vocabulary.entities[node.entity],
            "degree": node.degree,
            "share": node.degree / self.whole.triples,
            "mostly": "object" if node.as_object else "subject",
            "of": self.vocabulary.relations[node.relation],
            "share_of_its_facts": node.main / node.degree,
        }


def _uneven(told: Unevenness) -> dict[str, Any]:
    return {
        "count": told.count,
        "once": told.once,
        "mean": told.mean,
        "gini": told.gini,
        "quantiles": {f"{q:g}": x for q, x in zip(QUANTILES, told.quantiles, strict=True)},
        "histogram": {str(2**i): x for i, x in enumerate(told.histogram)},
    }


def _number(x: Any) -> Any:
    return None if x != x else x
