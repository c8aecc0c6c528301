"""Pictures that compare methods over datasets: bars with intervals, and lines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from consmrf.report.canvas import COLORS, INK, MARKERS, axes, shortened, style, svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

__all__ = ["Bar", "Panel", "bars", "lines"]

# A logarithmic axis is numbered at powers of ten alone where its ends are so many times apart.
_WIDE = 200
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
# From the value to the ends of its interval, which may be missing.
Bar = tuple[float, float | None, float | None]


@dataclass(frozen=True)
class Panel:
    """One set of axes of lines: points (x, y) by method."""

    title: str
    series: Mapping[str, Sequence[tuple[float, float]]]
    x: str
    y: str
    log_x: bool = False
    log_y: bool = False
    ticks: Sequence[float] = ()  # of x; chosen from the values where there are none


def bars(
    panels: Mapping[str, Mapping[str, Mapping[str, Bar]]],
    order: Sequence[str],
    name: str,
    *,
    chance: Mapping[str, float] | None = None,
) -> str:
    """Draw one panel per metric: a group of bars per dataset, in it a bar per method, with its interval.

    `panels` is by metric, dataset and method. `chance` is where the bars of a metric begin, 0 if not given.
    """
    said = []
    with style():
        groups = max(len(by) for by in panels.values())
        drawn = {method for by in panels.values() for methods in by.values() for method in methods}
        places = {method: i for i, method in enumerate(order) if method in drawn}
        figure, all_axes = axes(1, height=2.3 * len(panels) + 0.4, rows=len(panels))
        for axis, (metric, datasets) in zip(all_axes, panels.items(), strict=True):
            least = (chance or {}).get(metric, 0.0)
            _groups(axis, datasets, places, least)
            axis.set(title=metric)
            axis.set_xlim(-0.5, groups - 0.5)
            said += [
                f"{metric}, {dataset}, {method}: {bar[0]:.3f}"
                for dataset, methods in datasets.items()
                for method, bar in methods.items()
            ]
        _legend(figure, all_axes, order)
        return svg(figure, name, "; ".join(said))


def _groups(
    axis: Axes, datasets: Mapping[str, Mapping[str, Bar]], places: Mapping[str, int], least: float
) -> None:
    """Draw the bars of a metric; `places` holds the methods that have any, with their place in the order."""
    width = 0.84 / len(places)
    for i, (method, place) in enumerate(places.items()):
        shown = [(at, by[method]) for at, by in enumerate(datasets.values()) if method in by]
        at = [group + (i - (len(places) - 1) / 2) * width for group, _ in shown]
        heights = [max(bar[0] - least, 0.0) for _, bar in shown]
        axis.bar(at, heights, width * 0.92, bottom=least, color=COLORS[place % len(COLORS)], label=method)
        for x, (_, (_, low, high)) in zip(at, shown, strict=True):
            if low is not None and high is not None:
                axis.plot([x, x], [low, high], color=INK, linewidth=1, marker="_", markersize=4)
    axis.set_xticks(range(len(datasets)), [shortened(label) for label in datasets])
    axis.tick_params(axis="x", length=0)
    axis.yaxis.grid(True, color=INK, alpha=0.15, linewidth=0.6)
    axis.set_axisbelow(True)
    axis.set_ylim(bottom=least)


def lines(panels: Sequence[Panel], order: Sequence[str], name: str, columns: int = 3) -> str:
    """Draw panels of lines beside each other, with one legend for all."""
    columns = min(columns, len(panels) if len(panels) != 4 else 2)
    rows = -(-len(panels) // columns)
    with style():
        figure, all_axes = axes(columns, height=2.7 * rows + 0.3, rows=rows)
        for axis, panel in zip(all_axes, panels, strict=False):
            _panel(axis, panel, order)
        for axis in all_axes[len(panels) :]:
            axis.remove()
        _legend(figure, all_axes[: len(panels)], order)
        return svg(figure, name, "; ".join(_said(panel) for panel in panels))


def _panel(axis: Axes, panel: Panel, order: Sequence[str]) -> None:
    for method, points in panel.series.items():
        if not points:
            continue
        i = order.index(method)
        x, y = zip(*sorted(points), strict=True)
        axis.plot(
            x,
            y,
            color=COLORS[i % len(COLORS)],
            marker=MARKERS[i % len(MARKERS)],
            markersize=4.5,
            label=method,
        )
    axis.set(title=shortened(panel.title), xlabel=panel.x, ylabel=panel.y)
    if panel.log_x:
        axis.set_xscale("log")
        _sparse(axis.xaxis)
    if panel.log_y:
        axis.set_yscale("log")
        _sparse(axis.yaxis)
    if panel.ticks:
        axis.set_xticks(list(panel.ticks), [f"{x:g}" for x in panel.ticks])
        axis.minorticks_off()
    axis.grid(True, color=INK, alpha=0.12, linewidth=0.6)


def _sparse(axis: Axis) -> None:
    """Number a logarithmic axis at powers of ten, and at twice and five times these where there is room."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    subs = (1.0,) if high > _WIDE * low else (1.0, 2.0, 5.0)
    axis.set_major_locator(LogLocator(subs=subs, numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda x, _: _power(x)))
    axis.set_minor_formatter(NullFormatter())


def _power(x: float) -> str:
    """Write a small power of ten as a power, other numbers as they are."""
    exponent = round(math.log10(x))
    if exponent < -2 and math.isclose(x, 10.0**exponent):
        return f"10⁻{str(-exponent).translate(_RAISED)}"
    return f"{x:g}"


def _legend(figure: Figure, all_axes: Sequence[Axes], order: Sequence[str]) -> None:
    """Name each method once, under all panels."""
    handles = {
        label: handle
        for axis in all_axes
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    shown = [label for label in order if label in handles]
    columns = len(shown) if len(shown) <= 5 else -(-len(shown) // 2)
    if not shown:
        return
    figure.legend([handles[label] for label in shown], shown, loc="outside lower center", ncols=columns)


def _said(panel: Panel) -> str:
    ends = [
        f"{method} from {min(points)[1]:.4g} to {max(points)[1]:.4g}"
        for method, points in panel.series.items()
        if points
    ]
    return f"{panel.title}, {panel.y} by {panel.x}: {', '.join(ends)}"
