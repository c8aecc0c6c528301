"""Audit a graph and how it is split: what stands out, and which held-out facts training gives away."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from consmrf.errors import InputError
from consmrf.evaluation.audit.leaks import Flags, Leaks, Rules, find_leaks
from consmrf.evaluation.audit.options import DEFAULTS, AuditOptions
from consmrf.evaluation.audit.overlaps import Overlaps, overlaps
from consmrf.evaluation.audit.pairs import Ids, Longs, Pairs
from consmrf.evaluation.audit.profile import components, supernodes, unevenness
from consmrf.evaluation.audit.relations import RelationFacts
from consmrf.evaluation.audit.result import Audit, Part
from consmrf.graph.categories import cardinality
from consmrf.graph.split import part
from consmrf.graph.triples import Graph, check_graphs
from consmrf.graph.vocabulary import Vocabulary

__all__ = ["Audit", "AuditOptions", "Cleaned", "audit", "without_leaks"]


@dataclass(frozen=True)
class Cleaned:
    """A split without its leaks: training as it was, and what is left of the other parts."""

    parts: dict[str, Graph]
    dropped: dict[str, int]  # by part that is not training


def audit(
    train: Graph, *, valid: Graph | None = None, test: Graph | None = None, options: AuditOptions = DEFAULTS
) -> Audit:
    """Look for what is odd about a graph and its split; hand on an Audit.

    What relations are like is measured on all triples given. A held-out triple leaks where a triple of
    training, together with what relations are like, names it.
    """
    graphs = _given(train, valid, test)
    split = _Split.of(graphs)
    facts = split.pairs(*split.ids)
    whole = facts.triples
    sizes = len(split.vocabulary.entities), len(split.vocabulary.relations)
    found, relations = split.relations(facts, options)
    degree = np.bincount(whole[:, [0, 2]].ravel(), minlength=facts.n_entities)
    roots = components(*facts.ends, facts.n_entities)
    return Audit(
        options=options,
        vocabulary=split.vocabulary,
        parts={
            name: _counted(ids, split.ids["train"], sizes, graphs[name]) for name, ids in split.ids.items()
        },
        whole=_counted(whole, whole, sizes),
        in_both=int(split.in_both().sum()),
        relations=relations,
        overlaps=found,
        leaks=split.leaks(found, relations, options),
        degrees=unevenness(degree),
        sizes=unevenness(relations.cardinality.triples),
        supernodes=tuple(supernodes(whole, degree)),
        components=unevenness(np.bincount(roots[degree > 0])),
    )


def without_leaks(
    train: Graph, *, valid: Graph | None = None, test: Graph | None = None, options: AuditOptions = DEFAULTS
) -> Cleaned:
    """Drop held-out triples that leak until an audit finds none; training stays as it is.

    A triple of both validation and test stays in test only. What is dropped changes what relations are like,
    so the search is repeated.
    """
    graphs = _given(train, valid, test)
    split = _Split.of(graphs)
    split = split.without({"valid": split.in_both()} if len(graphs) == 3 else {})
    while True:
        found, relations = split.relations(split.pairs(*split.ids), options)
        leaking = {name: x.leaking for name, x in split.leaks(found, relations, options).items()}
        if not any(flags.any() for flags in leaking.values()):
            break
        split = split.without(leaking)
    for name, rows in split.rows.items():
        if not len(rows):
            raise InputError(
                f"nothing would be left of {name}: training gives away all {len(graphs[name]):,} triples; "
                "split the graph anew, or raise the shares from which on relations count as alike"
            )
    parts = {name: part(graph, split.rows[name]) for name, graph in graphs.items()}
    return Cleaned(parts, {name: len(graphs[name]) - len(parts[name]) for name in parts if name != "train"})


@dataclass(frozen=True)
class _Split:
    """The parts given, in the ids of one vocabulary, training's labels first."""

    vocabulary: Vocabulary
    ids: dict[str, Ids]
    rows: dict[str, Longs]  # which row of its graph each triple is

    @classmethod
    def of(cls, graphs: dict[str, Graph]) -> _Split:
        train, *others = graphs.values()
        vocabulary = train.vocabulary.extended(*(graph.vocabulary for graph in others))
        ids = {
            name: train.triples if graph is train else graph.encode(vocabulary).triples
            for name, graph in graphs.items()
        }
        return cls(vocabulary, ids, {name: np.arange(len(own)) for name, own in ids.items()})

    def pairs(self, *names: str) -> Pairs:
        triples = np.concatenate([self.ids[name] for name in names])
        return Pairs.of(triples, len(self.vocabulary.entities), len(self.vocabulary.relations))

    def relations(self, facts: Pairs, options: AuditOptions) -> tuple[Overlaps, RelationFacts]:
        """Hand on which relations repeat each other, and what each is like by itself."""
        n = len(self.vocabulary.relations)
        found, proper, mirrored = overlaps(facts, n, options)
        return found, RelationFacts(cardinality(facts.triples, n), proper, mirrored, options)

    def leaks(self, found: Overlaps, relations: RelationFacts, options: AuditOptions) -> dict[str, Leaks]:
        """Hand on what training gives away of each other part."""
        rules = Rules.of(found, relations.cartesian, options.share)
        train = self.pairs("train")
        n = len(self.vocabulary.relations)
        return {name: find_leaks(train, ids, rules, n) for name, ids in self.ids.items() if name != "train"}

    def in_both(self) -> Flags:
        """Say of each validation triple whether it is in test too; of none where not both are given."""
        if len(self.ids) < 3:
            return np.zeros(0, dtype=bool)
        test = self.pairs("test")
        found = np.zeros(len(self.ids["valid"]), dtype=bool)
        s, r, o = self.ids["valid"].T
        for row, relation in test.meet(test.find(s, o)):
            found[row[relation == r[row]]] = True
        return found

    def without(self, dropped: dict[str, Flags]) -> _Split:
        kept = {name: ~flags for name, flags in dropped.items()}
        ids = {name: own[kept[name]] if name in kept else own for name, own in self.ids.items()}
        rows = {name: own[kept[name]] if name in kept else own for name, own in self.rows.items()}
        return _Split(self.vocabulary, ids, rows)


def _given(train: Graph, valid: Graph | None, test: Graph | None) -> dict[str, Graph]:
    graphs = {"train": train}
    graphs |= {name: graph for name, graph in (("valid", valid), ("test", test)) if graph is not None}
    check_graphs("audit", *graphs.values())
    for name, graph in graphs.items():
        if not len(graph):
            raise InputError(f"nothing to audit: the {name} graph holds no triples")
    return graphs


def _counted(ids: Ids, train: Ids, sizes: tuple[int, int], graph: Graph | None = None) -> Part:
    """Count a part, and what of it training has never seen; `sizes` are |E| and R."""
    (s, r, o), (known_s, known_r, known_o) = ids.T, train.T
    entities, relations, old_entities, old_relations = (np.zeros(n, dtype=bool) for n in (*sizes, *sizes))
    entities[s] = entities[o] = relations[r] = True
    old_entities[known_s] = old_entities[known_o] = old_relations[known_r] = True
    return Part(
        triples=len(ids),
        repetitions=None if graph is None or graph.report is None else graph.report.duplicates,
        loops=int((s == o).sum()),
        entities=int(entities.sum()),
        relations=int(relations.sum()),
        new_entities=int((entities & ~old_entities).sum()),
        new_relations=int((relations & ~old_relations).sum()),
        unseen_entity=int((~(old_entities[s] & old_entities[o])).sum()),
        unseen_relation=int((~old_relations[r]).sum()),
    )
