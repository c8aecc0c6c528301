"""Tables of an audit, from the plain values that its JSON holds. Of many relations, the most telling ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from consmrf.graph.categories import CATEGORIES
from consmrf.report.tables import Table, number

__all__ = [
    "Plain",
    "cartesian",
    "categories",
    "largest",
    "leaky",
    "loops",
    "middle",
    "overlaps",
    "parts",
    "rules",
    "shapes",
    "supernodes",
    "symmetric",
]

Plain = Mapping[str, Any]  # an Audit's to_dict(), or a part of it

ARROWS = {"duplicate": "=", "inverse": "⇄", "contained": "⊂", "inverse contained": "⊂ reversed"}


def parts(audit: Plain) -> Table:
    """Tabulate how large the parts are, and what of them training lacks."""
    names = {"triples": "triples", "repetitions": "rows that repeat one", "loops": "self-loops"}
    names |= {"entities": "entities", "relations": "relations"}
    unseen = {"unseen_entity": "with an unseen entity", "unseen_relation": "with an unseen relation"}
    rows = []
    for name, part in audit["parts"].items():
        counts = [number("count", part[key]) for key in names]
        held = name not in ("train", "all")
        rest = [_of(part[key], part["triples"]) if held else "" for key in unseen]
        rows.append((name, *counts, *rest))
    return Table(("", *names.values(), *unseen.values()), tuple(rows)).without_empty()


def rules(audit: Plain) -> Table:
    """Tabulate how many held-out triples each rule answers; below, links that are no rule."""
    leaks = audit["leaks"]
    told = [("any rule", {name: part["leaking"] for name, part in leaks.items()})]
    for kind in ("rules", "links"):
        labels = next(iter(leaks.values()))[kind]
        told += [(label, {name: part[kind][label] for name, part in leaks.items()}) for label in labels]
    head = [column for name in leaks for column in (name, "share")]
    rows = []
    for label, counts in told:
        cells = [
            cell for name, n in counts.items() for cell in (f"{n:,}", number("", n / leaks[name]["triples"]))
        ]
        rows.append((label, *cells))
    return Table(("answered by", *head), tuple(rows))


def leaky(leaks: Plain, most: int) -> Table:
    """Tabulate the relations of which most triples leak: how many, their share, and by which rules."""
    rows = [
        (
            middle(label),
            f"{told['triples']:,}",
            f"{told['leaking']:,}",
            number("", told["score"]),
            ", ".join(f"{rule} {n:,}" for rule, n in told["rules"].items()),
        )
        for label, told in largest(leaks["relations"], "leaking", most).items()
    ]
    return Table(("relation", "triples", "leaking", "score", "rules"), tuple(rows))


def overlaps(audit: Plain, most: int) -> Table:
    """Tabulate pairs of relations that repeat each other."""
    rows = tuple(
        (
            f"{middle(pair['first'])} {ARROWS[pair['kind']]} {middle(pair['second'])}",
            f"{pair['shared']:,}",
            number("", pair["share_of_first"]),
            number("", pair["share_of_second"]),
        )
        for pair in audit["overlaps"][:most]
    )
    return Table(("relations", "shared facts", "of the first", "of the second"), rows)


def symmetric(audit: Plain, most: int) -> Table:
    """Tabulate symmetric relations, those with most facts mirrored first."""
    chosen = largest(audit["relations"], "mirrored", most, "symmetric")
    return _relations(chosen, {"triples": "facts", "mirrored": "mirrored", "symmetry": "share"})


def cartesian(audit: Plain, most: int) -> Table:
    """Tabulate Cartesian-product relations, the largest first."""
    chosen = largest(audit["relations"], "triples", most, "cartesian")
    names = {"triples": "facts", "subjects": "subjects", "objects": "objects", "density": "density"}
    return _relations(chosen, names)


def loops(audit: Plain, most: int) -> Table:
    """Tabulate the relations with most facts that link an entity to itself."""
    return _relations(largest(audit["relations"], "loops", most), {"triples": "facts", "loops": "self-loops"})


def categories(audit: Plain) -> Table:
    """Tabulate how many relations and facts are of each category, and how many are functions."""
    rows = []
    for name in CATEGORIES:
        of = [told for told in audit["relations"].values() if told["category"] == name]
        counts = [len(of), *(sum(told[key] for told in of) for key in ("triples", "functional"))]
        counts.append(sum(told["inverse_functional"] for told in of))
        rows.append((name, *(f"{n:,}" for n in counts)))
    return Table(("category", "relations", "facts", "functional", "inverse functional"), tuple(rows))


def shapes(audit: Plain) -> Table:
    """Tabulate how unevenly facts are spread over entities and relations, and entities over components."""
    told = {"facts of an entity": "degrees", "facts of a relation": "relation_sizes"}
    told |= {"entities of an island": "components"}
    rows = []
    for title, key in told.items():
        x = audit[key]
        quantiles = [f"{x['quantiles'][q]:,}" for q in ("0.5", "0.9", "0.99", "1")]
        rows.append(
            (
                title,
                f"{x['count']:,}",
                f"{x['once']:,}",
                f"{x['mean']:,.1f}",
                *quantiles,
                number("", x["gini"]),
            )
        )
    head = ("", "how many", "with one", "mean", "median", "90 %", "99 %", "most", "Gini")
    return Table(head, tuple(rows))


def supernodes(audit: Plain, most: int) -> Table:
    """Tabulate entities that stand in a suspicious share of all facts."""
    rows = tuple(
        (
            middle(node["entity"]),
            f"{node['degree']:,}",
            number("", node["share"]),
            f"{node['mostly']} of {middle(node['of'])}",
            number("", node["share_of_its_facts"]),
        )
        for node in audit["supernodes"][:most]
    )
    return Table(("entity", "facts", "of all", "mostly", "of its facts"), rows)


def largest(relations: Plain, by: str, most: int, flagged: str | None = None) -> dict[str, Plain]:
    """Hand on the relations flagged, or with anything at all, those with most first."""
    chosen = [label for label, told in relations.items() if told[flagged or by]]
    return {x: relations[x] for x in sorted(chosen, key=lambda x: (-relations[x][by], x))[:most]}


def middle(label: str, most: int = 44) -> str:
    """Hand on a label without its middle where it is long: paths and addresses differ at their ends."""
    return label if len(label) <= most else f"{label[: most // 2 - 1]}…{label[-(most // 2) :]}"


def _relations(chosen: Mapping[str, Plain], names: Mapping[str, str]) -> Table:
    rows = [
        (middle(label), *(number("count" if isinstance(told[k], int) else "", told[k]) for k in names))
        for label, told in chosen.items()
    ]
    return Table(("relation", *names.values()), tuple(rows))


def _of(n: int, total: int) -> str:
    return f"{n:,} ({number('', n / total)})"
