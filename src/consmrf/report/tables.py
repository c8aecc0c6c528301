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
    "compared",
    "compared_relations",
    "conditions",
    "departed",
    "described",
    "figures",
    "further",
    "grouped",
    "groups_of",
    "main_side",
    "metric_title",
    "metrics",
    "notable",
    "number",
    "pairing",
    "printable",
    "relations",
    "sides",
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
    "hits@5%": "Hits@5%",
    "count": "count",
}
# adjusted for chance, and of queries with all their positives: in tables of their own
_MORE = {
    "amri": "AMRI",
    "adjusted_mrr": "adj. MRR",
    "adjusted_hits@1": "adj. Hits@1",
    "adjusted_hits@3": "adj. Hits@3",
    "adjusted_hits@10": "adj. Hits@10",
    "ap": "MAP",
    "ndcg": "NDCG",
    "precision@5": "Prec@5",
    "recall@5": "Rec@5",
    "precision@10": "Prec@10",
    "recall@10": "Rec@10",
    "lists": "lists",
}
_SIDES = {
    "both": "both sides",
    "objects": "objects",
    "subjects": "subjects",
    "relation_prediction": "relations",
}
_GROUPS = {
    "categories": "kind of relation",
    "relation_frequency": "training triples of the relation",
    "answer_frequency": "training triples of the answer",
}


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


def further(methods: Mapping[str, Figures]) -> Table:
    """Tabulate the metrics adjusted for chance and those of queries with all their positives."""
    first = next(iter(methods.values()))
    leading = metrics(first)
    names = [name for name in _MORE if name in first[main_side(first)] and name not in leading]
    rows = [
        (f"{title}: {method}", *(number(name, tree[side].get(name)) for name in names))
        for side, title in _SIDES.items()
        if side in first
        for method, tree in methods.items()
    ]
    return Table(("", *(_MORE[name] for name in names)), tuple(rows))


def grouped(methods: Mapping[str, Figures]) -> Table:
    """Tabulate the groups of queries, each method beside the others: the leading metrics, all sides."""
    first = next(iter(methods.values()))
    side, names = main_side(first), metrics(first)
    rows = []
    for name, title, labels in groups_of(first):
        for label, shown in labels.items():
            for method, tree in methods.items():
                values = _at(tree, name, label, side)
                row = (number(m, values.get(m)) for m in names)
                rows.append((f"{title} {shown}: {method}", *row))
    return Table(("", *(_TITLES[m] for m in names)), tuple(rows))


def groups_of(evaluation: Figures) -> list[tuple[str, str, dict[str, str]]]:
    """Hand on (key, title, {group: how it is written}) of each grouping that an evaluation holds."""
    return [
        (name, title, {x: x if name == "categories" else _range(x) for x in evaluation[name]})
        for name, title in _GROUPS.items()
        if evaluation.get(name)
    ]


def _range(label: str) -> str:
    """Write a range of counts with an en dash and groups of thousands."""
    return "–".join(f"{int(end):,}" for end in label.split("-"))


def metric_title(metric: str) -> str:
    """Hand on what a metric is called at the head of a column."""
    return (_TITLES | _MORE)[metric]


def sides(view: str) -> str:
    """Hand on what a view is called in a sentence."""
    return _SIDES[view]


def compared(comparison: Mapping[str, Any], view: str) -> Table:
    """Tabulate the metrics of a view of a Comparison's to_dict()."""
    rows = [
        (title, *_difference(metric, comparison["views"][view][metric]))
        for metric, title in (_TITLES | _MORE).items()
        if metric in comparison["views"][view]
    ]
    return Table(("", *comparison["names"], "difference", "interval", "p"), tuple(rows))


def compared_relations(comparison: Mapping[str, Any], most: int | None = 20) -> Table:
    """Tabulate relations by how sure their difference is; `most` of them, or all."""
    metric = comparison["options"]["metric"]
    told = comparison["relations"]
    order = sorted(told, key=lambda r: (told[r]["p"] is None, told[r]["p"] or 0.0, -told[r]["count"], r))
    rows = [
        (r, *_difference(metric, told[r]), _p(told[r]["p_holm"]), f"{told[r]['count']:,}")
        for r in order[:most]
    ]
    head = (f"{(_TITLES | _MORE)[metric]} by relation", *comparison["names"], "difference", "interval", "p")
    return Table((*head, "Holm's p", "count"), tuple(rows))


def pairing(comparison: Mapping[str, Any]) -> str:
    """Say how the ranks of a Comparison paired, and what its figures are."""
    pairs, options = comparison["pairs"], comparison["options"]
    first, second = comparison["names"]
    other = (
        f" {pairs['other_candidates']:,} of them are among different numbers of candidates: metrics adjusted "
        "for chance are left out."
        if pairs["other_candidates"]
        else ""
    )
    return (
        f"{pairs['paired']:,} ranks are in both; {pairs['only_first']:,} only in {first}, "
        f"{pairs['only_second']:,} only in {second}.{other} Differences are {first} − {second}; intervals "
        f"({options['confidence']:.0%}) by paired bootstrap over triples, of relations Student's; p by "
        f"{options['flips']:,} sign flips over triples, each metric by itself."
    )


def _difference(metric: str, told: Mapping[str, Any]) -> tuple[str, ...]:
    values = [number(metric, told[name]) for name in ("first", "second")]
    span = "" if told["low"] is None else f"{_signed(metric, told['low'])} to {_signed(metric, told['high'])}"
    return (*values, _signed(metric, told["difference"]), span, _p(told["p"]))


def _signed(metric: str, value: float | None) -> str:
    if value is None:
        return "–"
    sign = "+" if value > 0 else "−" if value < 0 else ""
    return sign + number(metric, abs(value))


def _p(value: float | None) -> str:
    return "–" if value is None else f"{value:.1e}" if value < 0.001 else f"{value:.3f}"


def relations(methods: Mapping[str, Figures], labels: Sequence[str]) -> Table:
    """Tabulate the relations named, each method beside the others."""
    side = main_side(next(iter(methods.values())))
    return _long([(label, ("relations", label, side)) for label in labels], methods)


def _long(places: Sequence[tuple[str, tuple[str, ...]]], methods: Mapping[str, Figures]) -> Table:
    lead, *others = metrics(next(iter(methods.values())))
    raw = "hits@5%"  # of relation prediction alone
    shown = (_at(tree, *path) for _, path in places for tree in methods.values())
    others += [raw] if raw not in others and any(raw in values for values in shown) else []
    rows = []
    for title, path in places:
        for method, tree in methods.items():
            values = _at(tree, *path)
            spans = [_span(_at(tree, kind, *path).get(lead)) for kind in ("intervals", "bounds")]
            rest = [number(name, values.get(name)) if name in values else "" for name in others]
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
    unseen = "ranked last" if evaluation["options"]["unseen"] == "worst" else "left out"
    drawn = evaluation["options"].get("auc_candidates")
    kind = "sampled objects" if evaluation["protocol"] == "paper" else "entities"
    kind += "" if drawn is None else f", {drawn:,} of them drawn for each query, for AUC alone"
    whole = triples.get("drawn_from")
    sample = "" if whole is None else f", drawn from {whole:,}, each relation its share"
    return (
        f"{evaluation['protocol']} protocol: against {evaluation['candidates']:,} {kind}, "
        f"without known facts: {known}. {triples['scored']:,} triples scored{sample}; "
        f"{unseen}: {triples['unseen_entity']:,} with an unseen entity, "
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
    own = evaluation[main_side(evaluation)]
    lists = () if evaluation["protocol"] == "paper" else _MORE  # the paper's lists are its leading metrics
    return [name for name in _TITLES if name in own and name not in lists]


def main_side(evaluation: Figures) -> str:
    """Hand on "both", or the first side that was evaluated."""
    return next(side for side in _SIDES if side in evaluation)


def number(name: str, value: float | None) -> str:
    """Write a figure: whole counts, mean ranks to one decimal, shares to three, a dash for none."""
    if value is None or not math.isfinite(value):
        return "–"
    return (
        f"{value:,.0f}" if name in ("count", "lists") else f"{value:,.1f}" if name == "mr" else f"{value:.3f}"
    )


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
