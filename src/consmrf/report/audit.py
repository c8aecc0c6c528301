"""An audit for readers: lines for a terminal, and a page."""

from __future__ import annotations

from collections.abc import Iterator

from consmrf.report import audit_pictures as pictures
from consmrf.report import audit_tables as tables
from consmrf.report.audit_tables import Plain
from consmrf.report.page import heading, listing, page, paragraph, picture, section, settings
from consmrf.report.tables import printable

__all__ = ["audit_lines", "audit_page"]

_FEW, _MANY = 10, 20  # rows of a table on a terminal, and on a page


def audit_lines(audit: Plain) -> str:
    """Hand on an audit for a terminal: the tables that have anything to say, then the findings in words."""
    told = [tables.parts(audit)]
    if audit["leaks"]:
        told.append(tables.rules(audit))
    told += [tables.leaky(leaks, _FEW) for leaks in audit["leaks"].values()][-1:]
    told += [table(audit, _FEW) for table in (tables.overlaps, tables.symmetric, tables.cartesian)]
    told += [tables.categories(audit), tables.shapes(audit), tables.supernodes(audit, _FEW)]
    words = [f"* {printable(told['sentence'])}\n  {told['remedy']}" for told in audit["findings"]]
    return "\n\n".join([*(table.text() for table in told if table.rows), "\n".join(words)])


def audit_page(audit: Plain, title: str = "Audit") -> str:
    """Hand on the whole audit as a page; the same audit makes the same bytes."""
    whole = audit["parts"]["all"]
    lead = (
        f"{whole['triples']:,} triples, {whole['entities']:,} entities, {whole['relations']:,} relations. "
        "What relations are like is measured on all triples given; leaks lead from training to the others."
    )
    words = listing(f"{found['sentence']} {found['remedy']}" for found in audit["findings"])
    parts = [section("In words", words), *_split(audit), *_relations(audit), *_entities(audit)]
    parts.append(section("Settings", settings(audit["options"])))
    return page(title, lead, parts)


def _split(audit: Plain) -> Iterator[str]:
    held = {name: part for name, part in audit["parts"].items() if name in audit["leaks"]}
    missing = {
        name: {what: part[f"unseen_{what}"] / part["triples"] for what in ("entity", "relation")}
        for name, part in held.items()
    }
    shown = [tables.parts(audit)]
    if any(share for shares in missing.values() for share in shares.values()):
        title, words = (
            "Triples with a label that training lacks",
            "They cannot be ranked by what was learned.",
        )
        drawn = pictures.bars(missing, "unseen", title, "share of triples")
        yield section("Parts", *shown, picture(drawn, words))
    else:
        yield section("Parts", *shown)
    if not held:
        return
    shares = {
        name: {label: n / leaks["triples"] for kind in ("rules", "links") for label, n in leaks[kind].items()}
        for name, leaks in audit["leaks"].items()
    }
    drawn = pictures.bars(shares, "rules", "Held-out triples that training answers", "share of triples")
    yield section(
        "Leaks",
        paragraph(_DEFINITION),
        tables.rules(audit),
        picture(
            drawn,
            "The last three are no rules, and in no score: many pairs are related in more than one way.",
        ),
        *(part for name, leaks in audit["leaks"].items() for part in _leaky(name, leaks)),
    )


_DEFINITION = (
    "A held-out triple leaks where a trivial rule answers it from training: the triple itself is there "
    "(repeated); its mirror image, of a symmetric relation; the same or the reversed pair under a relation "
    "that holds nearly the same pairs (duplicate, inverse), or whose pairs are nearly all this relation's "
    "too (contained); or the relation links nearly all its subjects to nearly all its objects (Cartesian). "
    "The leakage score of a relation is the share of its held-out triples that leak."
)


def _leaky(name: str, leaks: Plain) -> Iterator[str]:
    if not leaks["leaking"]:
        return
    chosen = tables.largest(leaks["relations"], "leaking", _MANY)
    scores = {name: {label: told["score"] for label, told in chosen.items()}}
    yield heading(f"Leakage score by relation, {name}")
    yield tables.leaky(leaks, _MANY).html()
    drawn = pictures.bars(
        scores, f"leaks-{name}", f"Leakage score by relation, {name}", "share that leaks", 1.0
    )
    yield picture(drawn, f"The {len(chosen):,} relations of which most {name} triples leak.")
    yield heading("For example")
    yield listing(_example(told) for told in leaks["examples"])


def _example(told: Plain) -> str:
    triple = " ".join(f"“{label}”" for label in told["triple"])
    if told["because"] is None:
        return f"{told['rule']}: {triple}, since training has both ends in facts of the relation."
    because = " ".join(f"“{label}”" for label in told["because"])
    return f"{told['rule']}: {triple}, since training has {because}."


def _relations(audit: Plain) -> Iterator[str]:
    options, relations = audit["options"], audit["relations"]
    if pairs := audit["overlaps"]:
        words = (
            f"Pairs of relations with at least {options['least']} facts in common that are at least "
            f"{options['share']:.0%} of either's facts (=, or ⇄ when reversed) or of the first's only (⊂)."
        )
        drawn = pictures.overlap_dots(pairs[:_MANY], options["share"], "overlaps")
        caption = f"The {min(len(pairs), _MANY):,} of {len(pairs):,} pairs with most facts in common."
        yield section(
            "Relations that repeat each other",
            paragraph(words),
            tables.overlaps(audit, _MANY),
            picture(drawn, caption),
        )
    if chosen := tables.largest(relations, "mirrored", _MANY, "symmetric"):
        shares = {"": {label: told["symmetry"] for label, told in chosen.items()}}
        drawn = pictures.bars(
            shares, "symmetric", "Symmetric relations", "share of facts that are mirrored", 1.0
        )
        words = (
            f"At least {options['symmetric']:.0%} of their facts have their mirror image among the facts; "
            "facts that link an entity to itself are left out."
        )
        yield section("Symmetric relations", tables.symmetric(audit, _MANY), picture(drawn, words))
    drawn = pictures.densities(relations, options["density"], "densities")
    words = (
        f"Each point is a relation. A Cartesian one has at least {options['density']:.0%} of all pairs of "
        "its subjects and objects for facts, and more than one of either."
    )
    found = tables.cartesian(audit, _MANY)
    yield section("Cartesian relations", *([found] if found.rows else []), picture(drawn, words))
    if chosen := tables.largest(relations, "loops", _MANY):
        shares = {"": {label: told["loops"] / told["triples"] for label, told in chosen.items()}}
        drawn = pictures.bars(shares, "loops", "Facts that link an entity to itself", "share of facts")
        words = "The relations with most such facts."
        yield section("Self-loops", tables.loops(audit, _MANY), picture(drawn, words))
    words = (
        "Each point is a relation; a mean of 1.5 and more counts as n. Functional: at least "
        f"{options['functional']:.0%} as many subjects as facts; inverse functional: objects."
    )
    drawn = pictures.cardinalities(relations, "cardinalities")
    yield section("Categories of relations", tables.categories(audit), picture(drawn, words))


def _entities(audit: Plain) -> Iterator[str]:
    histograms = {
        "Facts of an entity": audit["degrees"]["histogram"],
        "Facts of a relation": audit["relation_sizes"]["histogram"],
    }
    words = "How many entities, and how many relations, have as many facts; both scales are logarithmic."
    yield section("Shape", tables.shapes(audit), picture(pictures.shapes(histograms, "shapes"), words))
    if nodes := audit["supernodes"][:_MANY]:
        shares = {"": {node["entity"]: node["share"] for node in nodes}}
        drawn = pictures.bars(shares, "supernodes", "Supernodes", "share of all facts")
        words = "Entities that stand in 1 % of all facts, and in 100 times as many as the median entity."
        yield section("Supernodes", tables.supernodes(audit, _MANY), picture(drawn, words))
