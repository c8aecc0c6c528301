"""Pictures of a fit and of evaluations, as SVG text to be set into a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from consmrf.report.canvas import COLORS, INK, axes, shortened, style, svg
from consmrf.report.tables import Figures, main_side, metrics

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from consmrf.consensus.solve import Round

__all__ = ["departure_bars", "learning_curve", "relation_bars", "residuals"]

_METRICS = {  # by leading metric: the title, the axis, and where it begins
    "mrr": ("MRR, filtered, against all entities", "MRR (1 is best)", 0.0),
    "auc": ("AUC of the paper's protocol", "AUC (½ is chance, 1 is best)", 0.5),
}


def learning_curve(rounds: Sequence[Round], best_round: int) -> str:
    """Draw training loss and, where there was one, the validation score by round."""
    x = [r.round for r in rounds]
    score = [(r.round, r.validation) for r in rounds if r.validation is not None]
    with style():
        figure, (axis, *others) = axes(1 + bool(score))
        axis.plot(x, [r.loss for r in rounds], color=COLORS[0], marker=_marker(x, "o"))
        axis.set(title="Training loss", xlabel="round", ylabel="mean loss")
        _stages(axis, rounds)
        for other in others:
            other.plot(*zip(*score, strict=True), color=COLORS[1], marker=_marker(x, "s"))
            other.set(title="Score on the validation triples", xlabel="round", ylabel="validation score")
            _stages(other, rounds)
            if best_round:
                other.axvline(best_round, color=INK, linestyle=":", label=f"kept: round {best_round}")
                other.legend()
        ends = f"from {rounds[0].loss:.3f} to {rounds[-1].loss:.3f} in {len(rounds)} rounds"
        return svg(figure, "learning", f"The training loss goes {ends}")


def residuals(rounds: Sequence[Round]) -> str:
    """Draw the primal and the dual residual by round, on a logarithmic scale."""
    waves = rounds[-1].stage != "rounds"
    moved = "√Σ‖steps‖² of what the stage trains" if waves else "dual ρ√R ‖Z − Z before‖"
    with style():
        figure, (axis,) = axes(1)
        x = [r.round for r in rounds]
        _stages(axis, rounds)
        for values, name, color, mark in (
            ([r.primal_residual for r in rounds], "primal √Σ‖A_r − Z‖²", COLORS[0], "o"),
            ([r.dual_residual for r in rounds], moved, COLORS[1], "s"),
        ):
            axis.plot(x, values, color=color, marker=_marker(x, mark), label=name)
        if any(r.primal_residual > 0 or r.dual_residual > 0 for r in rounds):
            axis.set_yscale("log")
            axis.yaxis.set_major_formatter("{x:g}")
        axis.set(title="Residuals of the consensus", xlabel="round", ylabel="Frobenius norm (log scale)")
        axis.legend()
        last = rounds[-1]
        second = "moved" if waves else "dual"
        words = f"In the end: primal residual {last.primal_residual:.3g}, {second} {last.dual_residual:.3g}"
        return svg(figure, "residuals", words)


def relation_bars(methods: Mapping[str, Figures], labels: Sequence[str], name: str) -> str:
    """Draw the leading metric of each method for each relation named, with intervals where they are known.

    Intervals are looked for under "relation_intervals" of each evaluation; `name` is for the ids of the page.
    """
    first = next(iter(methods.values()))
    side, metric = main_side(first), metrics(first)[0]
    title, axis_title, least = _METRICS[metric]
    height = 0.8 / len(methods)
    said = []
    with style():
        figure, (axis,) = axes(1, height=1.2 + 0.25 * len(labels) * len(methods))
        for i, (method, tree) in enumerate(methods.items()):
            at = [y + (i - (len(methods) - 1) / 2) * height for y in range(len(labels))]
            values = [tree["relations"][label][side][metric] or 0.0 for label in labels]
            axis.barh(at, values, height * 0.9, color=COLORS[i % len(COLORS)], label=method)
            said += [
                f"{shortened(label)}, {method}: {x:.3f}" for label, x in zip(labels, values, strict=True)
            ]
            for y, label in zip(at, labels, strict=True):
                span = tree.get("relation_intervals", {}).get(label, {}).get(side, {}).get(metric)
                if span is not None:
                    axis.plot(span, [y, y], color=INK, linewidth=1, marker="|", markersize=4)
        axis.set_yticks(range(len(labels)), [shortened(label) for label in labels])
        axis.invert_yaxis()
        axis.set(title=f"{title}, by relation", xlabel=axis_title)
        axis.set_xlim(left=least)
        axis.legend(loc="upper left", bbox_to_anchor=(1, 1))
        return svg(figure, name, f"{title}. {'; '.join(said)}")


def departure_bars(departures: Mapping[str, Mapping[str, float]], name: str, most: int = 12) -> str:
    """Draw how far relations' views are from the consensus, the most departed ones first.

    `departures` is what `report.files.departures` handed on: by relation, then by what its view ranks.
    """
    shown = sorted(departures, key=lambda label: (-max(departures[label].values()), label))[:most]
    kinds = list(next(iter(departures.values())))
    height = 0.8 / len(kinds)
    said = []
    with style():
        figure, (axis,) = axes(1, height=1.2 + 0.25 * len(shown) * len(kinds))
        for i, kind in enumerate(kinds):
            at = [y + (i - (len(kinds) - 1) / 2) * height for y in range(len(shown))]
            values = [departures[label][kind] for label in shown]
            axis.barh(at, values, height * 0.9, color=COLORS[i % len(COLORS)], label=f"ranking {kind}")
            said += [f"{shortened(label)}, {kind}: {x:.3f}" for label, x in zip(shown, values, strict=True)]
        axis.set_yticks(range(len(shown)), [shortened(label) for label in shown])
        axis.invert_yaxis()
        axis.set(title="How target-specific each relation is", xlabel="‖Δ_r‖ / ‖Z‖ on the entities of r")
        axis.set_xlim(left=0)
        axis.legend(loc="upper left", bbox_to_anchor=(1, 1))
        return svg(figure, name, f"Departure from the consensus. {'; '.join(said)}")


def _stages(axis: Axes, rounds: Sequence[Round]) -> None:
    """Draw a line where one stage of a fit ends and the next begins, named after the latter."""
    for before, after in pairwise(rounds):
        if before.stage != after.stage:
            axis.axvline(after.round - 0.5, color=INK, linewidth=0.8, alpha=0.5)
            place = (after.round - 0.5, 0.03)
            axis.annotate(f" {after.stage}", place, xycoords=("data", "axes fraction"), va="bottom")


def _marker(x: Sequence[int], shape: str) -> str | None:
    return shape if len(x) <= 40 else None
