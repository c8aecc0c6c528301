"""Pictures of an evaluation and of a comparison, narrow enough for a phone.

Each is drawn 4.8 inches wide, so that its text stays legible where the page is narrow; wide pages set two
beside each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from consmrf.report.canvas import COLORS, INK, axes, shortened, style, svg
from consmrf.report.tables import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from consmrf.evaluation.calibration import Calibration

__all__ = ["Dot", "Row", "calibration_curve", "dots", "rank_histogram"]

_WIDTH = 4.8
_ROW = 0.27  # inches of height that a row takes
_MARKERS = "osD^v"
_ROWS = ("axes fraction", "data")
# Ranks are counted between these, three bins to a power of ten at first, then two.
_EDGES = (1, 2, 3, 4, 11, 31, 101, 317, 1001, 3163, 10_001, 100_001, 1_000_001)


@dataclass(frozen=True)
class Dot:
    """A value and, where it is known, its interval."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Row:
    """A line of a dot plot: one dot per method, or a heading without any."""

    label: str
    dots: Mapping[str, Dot]
    note: str = ""  # at the right end


def dots(rows: Sequence[Row], name: str, axis_title: str, zero: float | None = None) -> str:
    """Draw rows of dots with intervals, from top to bottom; `zero` is where a line marks no difference."""
    methods = list(dict.fromkeys(method for row in rows for method in row.dots))
    said = []
    with style():
        figure, axis = _narrow(0.6 + _ROW * len(rows) + 0.25 * (len(methods) > 1))
        for i, method in enumerate(methods):
            places = [(y, row.dots[method]) for y, row in enumerate(rows) if method in row.dots]
            shift = 0.0 if len(methods) == 1 else (i - (len(methods) - 1) / 2) * 0.34
            _series(axis, places, shift, method, i)
            said += [f"{shortened(rows[y].label)}, {method}: {dot.value:.3f}" for y, dot in places]
        if zero is not None:
            axis.axvline(zero, color=INK, linewidth=0.8, alpha=0.6)
        axis.set_yticks(range(len(rows)), [_fitting(row.label) if row.dots else "" for row in rows])
        for y, row in enumerate(rows):
            if not row.dots:
                axis.annotate(row.label, (0.01, y), xycoords=_ROWS, va="center", fontweight="bold")
        for y, row in enumerate(rows):
            axis.annotate(
                row.note,
                (1.0, y),
                xycoords=_ROWS,
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                fontsize=8.5,
                alpha=0.75,
            )
        axis.tick_params(axis="y", length=0)
        axis.set_ylim(len(rows) - 0.4, -0.6)
        axis.grid(axis="x", alpha=0.25, linewidth=0.6)
        axis.set_axisbelow(True)
        axis.margins(x=0.05)
        axis.set_xlabel(printable(axis_title))
        if len(methods) > 1:
            _legend(figure, axis)
        return svg(figure, name, f"{axis_title}. {'; '.join(said)}")


def _series(axis: Axes, places: Sequence[tuple[int, Dot]], shift: float, method: str, i: int) -> None:
    color = COLORS[i % len(COLORS)]
    for y, dot in places:
        if dot.low is not None and dot.high is not None:
            axis.plot([dot.low, dot.high], [y + shift] * 2, color=color, linewidth=1.6, alpha=0.55)
    axis.plot(
        [dot.value for _, dot in places],
        [y + shift for y, _ in places],
        _MARKERS[i % len(_MARKERS)],
        color=color,
        markersize=5,
        label=shortened(method),
        markerfacecolor=color if i == 0 else "none",
    )


def rank_histogram(ranks: Mapping[str, NDArray[np.floating]], name: str) -> str:
    """Draw the share of ranked positives by rank, in bins that widen."""
    most = max(float(own.max()) for own in ranks.values())
    edges = [edge for edge in _EDGES if edge <= most]
    edges.append(next((edge for edge in _EDGES if edge > most), int(most) + 1))
    labels = [f"{a:,}" if b == a + 1 else f"{a:,}–{b - 1:,}" for a, b in pairwise(edges)]
    said = []
    with style():
        figure, axis = _narrow(0.85 + _ROW * (0.4 + 0.6 * len(ranks)) * len(labels))
        height = 0.78 / len(ranks)
        for i, (method, own) in enumerate(ranks.items()):
            # a rank of 3.5, between equals, is counted with 3: it is not 4 yet
            share = np.histogram(np.floor(own), edges)[0] / len(own)
            at = np.arange(len(labels)) + (i - (len(ranks) - 1) / 2) * height
            bars = axis.barh(at, share, height * 0.92, color=COLORS[i % len(COLORS)], label=shortened(method))
            axis.bar_label(bars, [f"{x:.0%}" if x >= 0.005 else "" for x in share], padding=3, fontsize=8.5)
            said += [f"rank {b}, {method}: {x:.1%}" for b, x in zip(labels, share, strict=True)]
        axis.set_yticks(range(len(labels)), labels)
        axis.tick_params(axis="y", length=0)
        axis.invert_yaxis()
        axis.xaxis.set_major_formatter(lambda x, _: f"{x:.0%}")
        axis.margins(x=0.14)
        axis.set(xlabel="share of the ranked answers", ylabel="rank")
        _legend(figure, axis)
        return svg(figure, name, f"Ranks of the right answers. {'; '.join(said)}")


def calibration_curve(found: Mapping[str, Calibration], name: str) -> str:
    """Draw predicted probabilities against the share that are facts."""
    said = []
    with style():
        figure, axis = _narrow(4.4)
        axis.plot([0, 1], [0, 1], color=INK, linewidth=0.8, alpha=0.6, linestyle=":")
        for i, (method, own) in enumerate(found.items()):
            color = COLORS[i % len(COLORS)]
            axis.vlines(own.predicted, own.low, own.high, color=color, linewidth=1.6, alpha=0.55)
            axis.plot(
                own.predicted,
                own.observed,
                color=color,
                marker=_MARKERS[i % len(_MARKERS)],
                markersize=5,
                linewidth=1.2,
                markerfacecolor=color if i == 0 else "none",
                label=shortened(method),
            )
            said += [
                f"{method}: {p:.2f} predicted, {x:.2f} facts"
                for p, x in zip(own.predicted, own.observed, strict=True)
            ]
        axis.set(xlabel="predicted probability", ylabel="share that are facts", xlim=(0, 1), ylim=(0, 1))
        axis.set_aspect("equal")
        axis.grid(alpha=0.25, linewidth=0.6)
        _legend(figure, axis)
        return svg(figure, name, f"Calibration. {'; '.join(said)}")


def _narrow(height: float) -> tuple[Figure, Axes]:
    import matplotlib as mpl

    mpl.rcParams["font.size"] = 10.5
    figure, (axis,) = axes(1, height)
    figure.set_size_inches(_WIDTH, height)
    return figure, axis


def _fitting(label: str, most: int = 26) -> str:
    """Hand on a label that fits beside an axis: its beginning, and more of its end, where paths differ."""
    label = printable(label)
    return label if len(label) <= most else f"{label[: most // 3]}…{label[most // 3 + 1 - most :]}"


def _legend(figure: Figure, axis: Axes) -> None:
    """Set the legend over the whole width, above everything."""
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside upper left",
        ncols=2,
        handletextpad=0.4,
        borderaxespad=0,
        columnspacing=1.2,
    )
