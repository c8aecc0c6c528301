"""Tables of an evaluation and of a fit, from the plain values that their JSON holds."""

from __future__ import annotations

import html
import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = [
    "Figures",
    "Table",
    "conditions",
    "departed",
    "described",
    "figures",
    "notable",
    "number",
    "printable",
    "relations",
]

Figures = Mapping[str, Any]  # an Evaluation's to_dict()

_TITLES = {
    "mrr": "MRR",
    "hits@1": "Hits@1",
    "hits@3": "Hits@3",
    "hits@10": "Hits@10",
    "mr": "mean rank",
    "auc": "AUC",
    "precision@5": "Prec@5",
    "recall@5": "Rec@5",
    "count": "count",
}
_SIDES = {"both": "both sides", "objects": "objects", "subjects": "subjects"}


@dataclass(frozen=True)
class Table:
    """A head and rows of cells. The first column is of words, the others are of figures."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def text(self) -> str:
        """Hand on aligned lines for a terminal."""
        lines = [[printable(cell) for cell in row] for row in (self.head, *self.rows)]
        widths = [max(map(_width, column)) for column in zip(*lines, strict=True)]
        return "\n".join("  ".join(map(_pad, line, widths, range(len(line)))).rstrip() for line in lines)

    def without_empty(self) -> Table:
        """Hand on the same table without the columns that are empty in every row."""
        kept = [i for i in range(len(self.head)) if i == 0 or any(row[i] for row in self.rows)]
        head, *rows = (tuple(row[i] for i in kept) for row in (self.head, *self.rows))
        return Table(head, tuple(rows))

    def markdown(self) -> str:
        """Hand on a Markdown table."""
        rule = ["---", *["---:"] * (len(self.head) - 1)]
        rows = [[_escape(printable(cell)) for cell in row] for row in (self.head, *self.rows)]
        return "\n".join(f"| {' | '.join(row)} |" for row in (rows[0], rule, *rows[1:]))

    def html(self) -> str:
        """Hand on an HTML table; every cell is escaped."""
        head, *rows = [[html.escape(printable(cell)) for cell in row] for row in (self.head, *self.rows)]
        top = "".join(f'<th scope="col">{cell}</th>' for cell in head)
        lines = []
        for first, *rest in rows:
            lines.append(
                f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in rest)}</tr>'
            )
        body = "\n".join(lines)
        whole = f"<thead><tr>{top}</tr></thead>\n<tbody>\n{body}\n</tbody>"
        return f'<div class="wide"><table>{whole}</table></div>'


def figures(methods: Mapping[str, Figures]) -> Table:
    """Tabulate evaluations under one protocol: over all queries of each side, and their mean over relations.

    The interval and the bounds (equals all ahead, equals all behind) are those of the leading metric.
    """
    first = next(iter(methods.values()))
    places: list[tuple[str, tuple[str, ...]]] = [(_SIDES[side], (side,)) for side in _SIDES if side in first]
    places.append(("mean of relations", ("macro", main_side(first))))
    return _long(places, methods)


def relations(methods: Mapping[str, Figures], labels: Sequence[str]) -> Table:
    """Tabulate the relations named, each method beside the others."""
    side = main_side(next(iter(methods.values())))
    return _long([(label, ("relations", label, side)) for label in labels], methods)


def _long(places: Sequence[tuple[str, tuple[str, ...]]], methods: Mapping[str, Figures]) -> Table:
    lead, *others = metrics(next(iter(methods.values())))
    rows = []
    for title, path in places:
        for method, tree in methods.items():
            values = _at(tree, *path)
            spans = [_span(_at(tree, kind, *path).get(lead)) for kind in ("intervals", "bounds")]
            rest = [number(name, values.get(name)) for name in others]
            rows.append((f"{title}: {method}", number(lead, values.get(lead)), *spans, *rest))
    table = Table(("", _TITLES[lead], "interval", "bounds", *(_TITLES[name] for name in others)), tuple(rows))
    return table.without_empty()


def notable(evaluation: Figures, most: int = 5) -> list[str]:
    """Hand on the relations worth a first look: those with most test triples, then the worst of the rest."""
    side, lead = main_side(evaluation), metrics(evaluation)[0]
    values = {label: _at(evaluation, "relations", label, side) for label in evaluation["relations"]}
    largest = sorted(values, key=lambda x: (-values[x]["count"], x))
    return largest[:most] + sorted(largest[most:], key=lambda x: (values[x][lead] or 0.0, x))[:most]


def conditions(evaluation: Figures) -> str:
    """Say what the figures hold for: protocol, candidates, filter, and what was left out."""
    triples, known = evaluation["triples"], ", ".join(evaluation["filter"])
    kind = "sampled objects" if evaluation["protocol"] == "paper" else "entities"
    return (
        f"{evaluation['protocol']} protocol: against {evaluation['candidates']:,} {kind}, "
        f"without known facts: {known}. {triples['scored']:,} triples scored; "
        f"left out: {triples['unseen_entity']:,} with an unseen entity, "
        f"{triples['unseen_relation']:,} with an unseen relation."
    )


def described(model: Mapping[str, Any], most: int = 20) -> str:
    """Put what `model_to_dict` handed on into lines; of many relations the largest."""
    counts = sorted(model["relations"].items(), key=lambda item: (-item[1], item[0]))
    size = f"{model['entities']:,} entities, {len(counts):,} relations, {model['triples']:,} triples"
    shown = [(label, f"{n:,}") for label, n in counts[:most]]
    rest = [("smaller relations", f"{len(counts) - most:,}")] if len(counts) > most else []
    tables = [Table(("relation", "triples"), (*shown, *rest))]
    if model["departures"]:
        tables.append(departed(model["departures"], most))
    for title in ("config", "provenance"):
        values = model[title] or {}
        tables.append(Table((title, ""), tuple((str(k), str(v)) for k, v in values.items())))
    return "\n\n".join([f"{model['kind']}: {size}", *(table.text() for table in tables if table.rows)])


def departed(departures: Mapping[str, Mapping[str, float]], most: int) -> Table:
    """Tabulate the relations whose views are farthest from the consensus."""
    order = sorted(departures, key=lambda label: (-max(departures[label].values()), label))
    rows = tuple((label, *(number("", x) for x in departures[label].values())) for label in order[:most])
    kinds = next(iter(departures.values()))
    return Table(("most target-specific: ‖Δ_r‖/‖Z‖", *kinds), rows)


def metrics(evaluation: Figures) -> list[str]:
    """Hand on the names of the metrics that an evaluation holds, the leading one first."""
    return [name for name in _TITLES if name in evaluation[main_side(evaluation)]]


def main_side(evaluation: Figures) -> str:
    """Hand on "both", or the only side that was evaluated."""
    return next(side for side in _SIDES if side in evaluation)


def number(name: str, value: float | None) -> str:
    """Write a figure: whole counts, mean ranks to one decimal, shares to three, a dash for none."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:,.0f}" if name == "count" else f"{value:,.1f}" if name == "mr" else f"{value:.3f}"


def printable(label: str) -> str:
    """Hand on a label that a terminal shows on one line: control characters are written as escapes."""
    return "".join(_shown(c) for c in label)


def _shown(char: str) -> str:
    return (
        char.encode("unicode_escape").decode()
        if unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"}
        else char
    )


def _at(values: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    for key in path:
        values = values.get(key, {})
    return values


def _span(ends: Sequence[float] | None) -> str:
    return "" if ends is None else f"{number('', ends[0])}–{number('', ends[1])}"


def _escape(cell: str) -> str:
    return cell.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")


def _pad(cell: str, width: int, column: int) -> str:
    space = " " * (width - _width(cell))
    return space + cell if column else cell + space


def _width(text: str) -> int:
    """Columns that a text takes on a terminal: two for wide characters, none for marks set above another."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )
