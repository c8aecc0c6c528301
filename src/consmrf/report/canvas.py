"""What all pictures have in common: style, axes of a figure of their own, and SVG text to be set into a page.

Lines and text take the colour of the page around them, so a picture reads on light and on dark. Methods
differ in colour (safe for the colour-blind) and in marker, and keep their order. The same values give the
same bytes.
"""

from __future__ import annotations

import html
import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from consmrf.report.tables import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["COLORS", "INK", "MARKERS", "axes", "shortened", "style", "svg"]

INK = "#010203"  # becomes currentColor
# of Okabe and Ito, then two that stay apart from them
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#8c564b")
MARKERS = "osD^vPX*"
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "consmrf",
    "text.parse_math": False,
    "font.family": ["sans-serif"],
    "font.size": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


@contextmanager
def style() -> Iterator[None]:
    """Set our style, and nothing of the user's own, which would show in the bytes."""
    import matplotlib as mpl

    with mpl.rc_context(), warnings.catch_warnings():
        # the reader's fonts draw the text, so it is no matter what matplotlib's own font lacks
        warnings.filterwarnings("ignore", "Glyph", UserWarning)
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


def axes(columns: int, height: float = 2.9, rows: int = 1) -> tuple[Figure, list[Axes]]:
    """Hand on a figure of its own, not one of pyplot's, which would live on for ever."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, height), layout="constrained")
    figure.patch.set_alpha(0)
    made = [figure.add_subplot(rows, columns, i + 1) for i in range(rows * columns)]
    for axis in made:
        axis.patch.set_alpha(0)
        axis.margins(x=0.02)
    return figure, made


def svg(figure: Figure, name: str, words: str) -> str:
    """Hand on the figure as an <svg> that says in words what it shows, with ids that are the page's own."""
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = file.getvalue().replace(INK, "currentColor").replace("xlink:href", "href")
    text = re.sub(r'(\bid="|"#|url\(#)', rf"\g<1>{name}-", text)
    box = re.search(r'viewBox="[^"]*"', text)
    body = text[text.index("<defs>") :]  # without the prologue and the metadata, which name web addresses
    label = html.escape(printable(words))
    return f'<svg {box[0] if box else ""} role="img" aria-label="{label}">\n{body}'


def shortened(label: str, most: int = 32) -> str:
    """Hand on a label that fits beside an axis."""
    label = printable(label)
    return label if len(label) <= most else label[: most - 1] + "…"
