"""The findings of an audit in words: one sentence each, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from consmrf.evaluation.audit.profile import OF_FACTS, TIMES_MEDIAN

__all__ = ["Finding", "findings"]

_NAMED = 3  # labels that a sentence names before it says how many more there are
_PARTS = {"valid": "validation", "test": "test", "train": "training"}

Plain = Mapping[str, Any]


@dataclass(frozen=True)
class Finding:
    """What was found, and what to do about it."""

    kind: str
    sentence: str
    remedy: str


def findings(audit: Plain) -> tuple[Finding, ...]:
    """Put an audit's plain values into words: the split first, then the relations, then the entities."""
    told = (_leaks, _both_parts, _unseen, _repetitions, _overlaps, _relations, _loops, _shape)
    return tuple(finding for tell in told for finding in tell(audit))


def _leaks(audit: Plain) -> Iterator[Finding]:
    for part, leaks in audit["leaks"].items():
        name = _PARTS[part]
        if leaks["leaking"]:
            yield _leaking(leaks, name)
        else:
            yield Finding(
                "leaks", f"No trivial rule answers a {name} triple from training.", "Nothing to do."
            )
        if leaks["linked"]:
            yield Finding(
                "links",
                f"Training links the two entities of {_share(leaks['linked'], leaks['triples'])} {name} "
                "triples that no rule answers, in one direction or the other.",
                "No rule makes these certain, but they favour a model that merely remembers who is linked.",
            )


def _leaking(leaks: Plain, name: str) -> Finding:
    rules = [f"{rule} {n:,}" for rule, n in leaks["rules"].items() if n]
    more_than_once = "; a triple may count more than once" if len(rules) > 1 else ""
    worst = _largest(leaks["relations"], "leaking")
    return Finding(
        "leaks",
        f"A trivial rule answers {_share(leaks['leaking'], leaks['triples'])} {name} triples from training "
        f"({', '.join(rules)}{more_than_once}), most of them in {_listed(worst)}.",
        "Report scores with and without these triples, or on a split written without them.",
    )


def _both_parts(audit: Plain) -> Iterator[Finding]:
    if n := audit["in_valid_and_test"]:
        yield Finding(
            "in both",
            f"{_count(n, 'triple is', 'triples are')} in validation and in test.",
            "Take them out of validation: settings chosen there would be chosen on test triples.",
        )


def _unseen(audit: Plain) -> Iterator[Finding]:
    for name, part in audit["parts"].items():
        if name in ("train", "all") or not part["unseen_entity"] + part["unseen_relation"]:
            continue
        told = [
            f"{_share(part[f'unseen_{what}'], part['triples'])} {_PARTS[name]} triples have {article} {what} "
            f"that training lacks ({_count(part[f'new_{many}'], what, many)})"
            for what, article, many in (("entity", "an", "entities"), ("relation", "a", "relations"))
            if part[f"unseen_{what}"]
        ]
        yield Finding(
            "unseen",
            f"{', and '.join(told)}.",
            "Nothing can be learned about them. Say whether a score leaves them out; consmrf does and counts "
            "them.",
        )


def _repetitions(audit: Plain) -> Iterator[Finding]:
    told = [
        f"{part['repetitions']:,} in {_PARTS[name]}"
        for name, part in audit["parts"].items()
        if part["repetitions"]
    ]
    if told:
        yield Finding(
            "repetitions",
            f"Rows that say a triple again: {', '.join(told)}.",
            "consmrf counts a fact once; a split drawn over rows may hold the same fact in two parts.",
        )


_ALIKE = {
    "duplicate": (
        "nearly the same facts",
        "Keep one of the two, or keep both facts of a pair in the same part of the split.",
    ),
    "inverse": (
        "nearly the same facts, reversed",
        "Keep one of the two, or keep a fact and its inverse in the same part of the split.",
    ),
    "contained": (
        "the first inside the second",
        "A fact of the first in training gives the same fact of the second away.",
    ),
    "inverse contained": (
        "the first, reversed, inside the second",
        "A fact of the first in training gives the reversed fact of the second away.",
    ),
}


def _overlaps(audit: Plain) -> Iterator[Finding]:
    for kind, (how, remedy) in _ALIKE.items():
        pairs = [pair for pair in audit["overlaps"] if pair["kind"] == kind]
        if not pairs:
            continue
        told = [
            f"“{pair['first']}” and “{pair['second']}” ({pair['shared']:,} facts, "
            f"{_percent(pair['share_of_first'])} and {_percent(pair['share_of_second'])})"
            for pair in pairs
        ]
        many = _count(len(pairs), "pair of relations has", "pairs of relations have")
        yield Finding(kind, f"{many} {how}: {_some(told)}.", remedy)


def _relations(audit: Plain) -> Iterator[Finding]:
    symmetric = _largest(audit["relations"], "mirrored", "symmetric")
    if symmetric:
        told = [f"“{x}” ({_percent(audit['relations'][x]['symmetry'])})" for x in symmetric]
        yield Finding(
            "symmetric",
            f"In {_count(len(told), 'relation', 'relations')} the mirror image of a fact mostly is a fact: "
            f"{_some(told)}.",
            "Keep both directions of a fact in the same part of the split.",
        )
    cartesian = _largest(audit["relations"], "triples", "cartesian")
    if cartesian:
        told = [f"“{x}” ({_percent(audit['relations'][x]['density'])})" for x in cartesian]
        yield Finding(
            "cartesian",
            f"{_count(len(told), 'relation links', 'relations link')} nearly every subject to every object: "
            f"{_some(told)}.",
            "Leave them out of scores: to know who takes part is to know the facts.",
        )
    functions = _largest(audit["relations"], "triples", "functional")
    inverses = _largest(audit["relations"], "triples", "inverse_functional")
    if functions or inverses:
        told = [
            f"{_count(len(labels), 'relation gives', 'relations give')} {what}: {_listed(labels)}"
            for labels, what in ((functions, "a subject one object"), (inverses, "an object one subject"))
            if labels
        ]
        yield Finding(
            "functional",
            f"{'; '.join(told)}.",
            "Where training has the one answer, there is none left to predict: expect no more.",
        )


def _loops(audit: Plain) -> Iterator[Finding]:
    if loops := audit["parts"]["all"]["loops"]:
        labels = _largest(audit["relations"], "loops")
        told = [f"“{x}” ({audit['relations'][x]['loops']:,})" for x in labels]
        yield Finding(
            "loops",
            f"{_share(loops, audit['parts']['all']['triples'])} facts link an entity to itself: "
            f"{_some(told)}.",
            "Check whether they are meant; labels that were merged leave such facts behind.",
        )


def _shape(audit: Plain) -> Iterator[Finding]:
    if nodes := audit["supernodes"]:
        told = [
            f"“{node['entity']}” ({_percent(node['share'])} of all facts, mostly as {node['mostly']} of "
            f"“{node['of']}”)"
            for node in nodes
        ]
        yield Finding(
            "supernodes",
            f"{_count(len(nodes), 'entity stands', 'entities stand')} in {_percent(OF_FACTS)} of all facts "
            f"or more, and in {TIMES_MEDIAN} times as many as the median entity: {_some(told)}.",
            "Compare with popularity, which ranks them first; a label such as “unknown” should go.",
        )
    sizes, triples = audit["relation_sizes"], audit["parts"]["all"]["triples"]
    largest = _largest(audit["relations"], "triples")[0]
    once = f", and {_count(sizes['once'], 'has', 'have')} one fact" if sizes["once"] else ""
    yield Finding(
        "sizes",
        f"The largest of {_count(sizes['count'], 'relation', 'relations')}, “{largest}”, holds "
        f"{_percent(sizes['quantiles']['1'] / triples)} of all facts{once}.",
        "Read means over triples beside means over relations: the former are those of the largest.",
    )
    islands, entities = audit["components"], audit["parts"]["all"]["entities"]
    if islands["count"] > 1:
        yield Finding(
            "components",
            f"The graph falls into {islands['count']:,} islands that no fact links; the largest holds "
            f"{_percent(islands['quantiles']['1'] / entities)} of the entities.",
            "What is known on one says nothing of entities on another.",
        )


def _largest(relations: Plain, by: str, flagged: str | None = None) -> list[str]:
    """Hand on the relations flagged, or with anything at all, those with most first."""
    chosen = [x for x, facts in relations.items() if (facts[flagged] if flagged else facts[by])]
    return sorted(chosen, key=lambda x: -relations[x][by])


def _listed(labels: Sequence[str]) -> str:
    return _some([f"“{label}”" for label in labels])


def _some(told: Sequence[str]) -> str:
    more = len(told) - _NAMED
    return ", ".join(told[:_NAMED]) + (f", and {more:,} more" if more > 0 else "")


def _count(n: int, one: str, many: str) -> str:
    return f"{n:,} {one if n == 1 else many}"


def _share(n: int, total: int) -> str:
    return f"{n:,} of {total:,} ({_percent(n / total)})"


def _percent(share: float) -> str:
    """Write a share with one decimal; 100 % and 0 % are said of nothing less or more."""
    shown = f"{100 * share:.1f}"
    if shown == "100.0" and share < 1:
        return "over 99.9 %"
    if shown == "0.0" and share > 0:
        return "under 0.1 %"
    return f"{shown.removesuffix('.0')} %"
