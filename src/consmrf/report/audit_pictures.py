"""Pictures of an audit, from the plain values that its JSON holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from consmrf.graph.categories import MANY
from consmrf.report.audit_tables import ARROWS, Plain, largest, middle
from consmrf.report.canvas import COLORS, INK, axes, style, svg
from consmrf.report.tables import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["bars", "cardinalities", "densities", "overlap_dots", "shapes"]

_LABEL = 40  # characters of a label beside a picture


def bars(groups: Mapping[str, Mapping[str, float]], name: str, title: str, x: str, most: float = 0.0) -> str:
    """Draw horizontal bars: `groups` is by series, then by label; `most` is where the axis ends at least."""
    labels = list(dict.fromkeys(label for values in groups.values() for label in values))
    height = 0.8 / len(groups)
    said = []
    with style():
        figure, (axis,) = axes(1, height=1.1 + (0.14 + 0.14 * len(groups)) * len(labels))
        for i, (series, values) in enumerate(groups.items()):
            at = [labels.index(label) + (i - (len(groups) - 1) / 2) * height for label in values]
            axis.barh(at, list(values.values()), height * 0.9, color=COLORS[i], label=series)
            said += [f"{_short(label)}, {series}: {value:.4g}" for label, value in values.items()]
        _named(axis, labels)
        axis.set(title=title, xlabel=x)
        axis.set_xlim(0, max(most, axis.get_xlim()[1]))
        if len(groups) > 1:
            axis.legend(loc="upper left", bbox_to_anchor=(1, 1))
        return svg(figure, name, f"{title}. {'; '.join(said)}")


def overlap_dots(pairs: Sequence[Plain], share: float, name: str) -> str:
    """Draw for each pair of relations the share of either relation's facts that the other has too."""
    said = []
    with style():
        figure, (axis,) = axes(1, height=1.4 + 0.42 * len(pairs))
        for y, pair in enumerate(pairs):
            first, second = pair["share_of_first"], pair["share_of_second"]
            axis.plot([first, second], [y, y], color=INK, linewidth=1, alpha=0.5, zorder=1)
            axis.scatter([first], [y], color=COLORS[0], marker="o", label="of the first" if not y else None)
            axis.scatter(
                [second], [y], color=COLORS[1], marker="D", s=22, label="of the second" if not y else None
            )
            said.append(f"{_short(pair['first'])} and {_short(pair['second'])}: {first:.3f} and {second:.3f}")
        axis.axvline(share, color=INK, linestyle=":", linewidth=1)
        shown = [f"{_short(p['first'])}\n{ARROWS[p['kind']]} {_short(p['second'])}" for p in pairs]
        axis.set_yticks(range(len(pairs)), shown, fontsize=8)
        axis.set_ylim(len(pairs) - 0.4, -0.6)
        axis.set(title="Relations that repeat each other", xlabel="share of the relation's facts")
        axis.set_xlim(0, 1.03)
        axis.legend(loc="upper left", bbox_to_anchor=(1, 1))
        return svg(figure, name, f"Shares of facts that two relations have in common. {'; '.join(said)}")


def densities(relations: Plain, density: float, name: str) -> str:
    """Draw each relation's facts over the pairs of its subjects and objects; Cartesian ones are marked."""
    told = {x: facts for x, facts in relations.items() if facts["triples"]}
    place = {x: (float(facts["subjects"] * facts["objects"]), facts["triples"]) for x, facts in told.items()}
    flagged = largest(told, "triples", len(told), "cartesian")
    with style():
        figure, (axis,) = axes(1, height=4.2)
        top = max(x for x, _ in place.values()) * 2
        axis.plot([1, top], [1, top], color=INK, linewidth=0.8, label="all pairs are facts")
        axis.plot(
            [1, top],
            [density, density * top],
            color=INK,
            linestyle=":",
            linewidth=0.8,
            label=f"{density:.0%} of them are",
        )
        others = [place[x] for x in told if x not in flagged]
        _points(axis, others, COLORS[0], "relation")
        _points(axis, [place[x] for x in flagged], COLORS[1], "Cartesian relation", "D")
        _logarithmic(axis)
        axis.set(
            title="Facts and possible pairs of each relation",
            xlabel="subjects × objects",
            ylabel="facts",
        )
        axis.legend(loc="upper left", bbox_to_anchor=(1, 1))
        said = "; ".join(f"{_short(x)}: {told[x]['density']:.3f}" for x in flagged) or "none"
        return svg(figure, name, f"Density of each relation. Cartesian: {said}")


def cardinalities(relations: Plain, name: str) -> str:
    """Draw each relation by how many objects a subject has and how many subjects an object has."""
    told = [facts for facts in relations.values() if facts["triples"]]
    with style():
        figure, (axis,) = axes(1, height=4.2)
        _points(axis, [(f["objects_per_subject"], f["subjects_per_object"]) for f in told], COLORS[0], None)
        for line in (axis.axvline, axis.axhline):
            line(MANY, color=INK, linestyle=":", linewidth=0.8)
        _logarithmic(axis)
        axis.set(
            title="How many to how many",
            xlabel="objects per subject (mean)",
            ylabel="subjects per object (mean)",
        )
        axis.set_xlim(left=0.6, right=max(12.0, axis.get_xlim()[1]))
        axis.set_ylim(bottom=0.6, top=max(12.0, axis.get_ylim()[1]))
        for category, place, across, up in (
            ("1-1", (0.01, 0.01), "left", "bottom"),
            ("1-n", (0.99, 0.01), "right", "bottom"),
            ("n-1", (0.01, 0.99), "left", "top"),
            ("n-n", (0.99, 0.99), "right", "top"),
        ):
            axis.annotate(category, place, xycoords="axes fraction", ha=across, va=up, fontweight="bold")
        counts = Counter(facts["category"] for facts in told)
        said = "; ".join(f"{category}: {n:,} relations" for category, n in sorted(counts.items()))
        return svg(figure, name, f"Categories of relations. {said}")


def shapes(histograms: Mapping[str, Plain], name: str) -> str:
    """Draw log-log histograms beside each other: `histograms` is by title, what `to_dict` calls histogram."""
    said = []
    with style():
        figure, made = axes(len(histograms), height=3.2)
        for i, (axis, (title, histogram)) in enumerate(zip(made, histograms.items(), strict=True)):
            left = [float(edge) for edge in histogram]
            axis.bar(left, list(histogram.values()), [x * 0.94 for x in left], align="edge", color=COLORS[i])
            _logarithmic(axis)
            axis.set(title=title, xlabel="facts", ylabel="how many have as many")
            axis.set_ylim(bottom=0.7)
            said += [f"{title}, from {edge}: {n:,}" for edge, n in histogram.items()]
        return svg(figure, name, "; ".join(said))


def _points(
    axis: Axes, places: Sequence[tuple[float, float]], color: str, label: str | None, marker: str = "o"
) -> None:
    if places:
        x, y = zip(*places, strict=True)
        axis.scatter(x, y, s=18, alpha=0.7, linewidths=0, color=color, marker=marker, label=label)


def _named(axis: Axes, labels: Sequence[str]) -> None:
    axis.set_yticks(range(len(labels)), [_short(label) for label in labels])
    axis.set_ylim(len(labels) - 0.4, -0.6)


def _logarithmic(axis: Axes) -> None:
    """Set both scales; matplotlib would write powers of ten in a language of its own."""
    for of, scale in ((axis.xaxis, axis.set_xscale), (axis.yaxis, axis.set_yscale)):
        scale("log")
        of.set_major_formatter(lambda x, _: _power(x))
        of.set_minor_formatter("")


def _power(x: float) -> str:
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if x >= unit:
            return f"{x / unit:,.0f}{letter}"
    return f"{x:g}"


def _short(label: str) -> str:
    return middle(printable(label), _LABEL)
