"""The page of a comparison: what differs between two models, for which relations, and on which queries."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from consmrf.report.evaluation_figures import Dot, Row, dots, rank_histogram
from consmrf.report.page import columns, folded, heading, listing, page, paragraph, picture, section
from consmrf.report.tables import compared, compared_relations, metric_title, pairing, sides

if TYPE_CHECKING:
    from consmrf.evaluation.comparison import Comparison

__all__ = ["comparison_page", "moves", "told_apart"]

_MOST = 36  # relations in the picture


def told_apart(first: Path, second: Path) -> tuple[str, str]:
    """Hand on short names of two files: what they are called, or as much of their paths as differs."""
    for names in ((first.stem, second.stem), (first.name, second.name), (str(first), str(second))):
        if names[0] != names[1]:
            return names
    return f"{first} (first)", f"{second} (second)"


def comparison_page(comparison: Comparison) -> str:
    """Hand on the whole page."""
    plain = comparison.to_dict()
    first, second = comparison.names
    main, *others = plain["views"]
    moved = comparison.moved
    ranks = {name: moved[column].to_numpy() for name, column in ((first, "first"), (second, "second"))}
    stands = "All ranks that are in both files, each counted once; equals in the middle."
    histogram = heading("Where the right answers stand") + picture(rank_histogram(ranks, "ranks"), stands)
    parts = [
        section(
            "What differs",
            heading(f"All metrics, {sides(main)}"),
            compared(plain, main),
            *(folded(f"All metrics, {sides(view)}", compared(plain, view)) for view in others),
        ),
        section(
            "Relation by relation",
            columns(_forest(comparison), histogram),
            folded("The figures", compared_relations(plain, None)),
        ),
        section("The largest moves, in words", *_moved(comparison)),
    ]
    return page(f"{first} and {second}, compared", pairing(plain), parts)


def _forest(comparison: Comparison) -> str:
    """Draw the difference of each relation, the largest first, around a line of no difference."""
    told = comparison.relations
    metric = metric_title(comparison.options.metric)
    chosen = sorted(told, key=lambda r: (-told[r].count, r))[:_MOST]
    order = sorted(chosen, key=lambda r: (-(told[r].difference or 0.0), r))
    rows = []
    for label in order:
        own = told[label]
        star = "* " if own.p_holm is not None and own.p_holm < 0.05 else ""
        if own.difference is not None:
            dot = Dot(own.difference, own.low, own.high)
            rows.append(Row(label, {"difference": dot}, f"{star}{own.count:,}"))
    first, second = comparison.names
    words = (
        f"{metric} of {first} − {second}, {sides(comparison.view)}, lines: "
        f"{comparison.options.confidence:.0%} paired Student's intervals; the {len(rows)} relations with the "
        "most ranks. At the right, how many ranks; * where p, corrected by Holm over the relations tested, "
        "is below 5 %."
    )
    return picture(dots(rows, "forest", f"{metric}: {first} − {second}", zero=0.0), words)


def _moved(comparison: Comparison) -> list[str]:
    first, second = comparison.names
    parts = []
    for better, worse, column, other in (
        (first, second, "first", "second"),
        (second, first, "second", "first"),
    ):
        lines = moves(comparison, column, other)
        if lines:
            parts += [paragraph(f"Where {better} is better than {worse}:"), listing(lines)]
    return parts or [paragraph("Every answer has the same rank in both.")]


def moves(comparison: Comparison, better: str, worse: str, most: int = 6) -> list[str]:
    """Put the answers into words whose reciprocal rank rose the most from `worse` to `better`."""
    import polars as pl

    rise = 1 / pl.col(better) - 1 / pl.col(worse)
    chosen = comparison.moved.filter(pl.col(better) < pl.col(worse)).sort(
        -rise, -pl.col(worse), "r", "s", "o", "side"
    )
    return [
        f"{row['s']} —{row['r']}→ {row['o']}: {row['side'][:-1]} ranked {row[better]:,.10g}, not "
        f"{row[worse]:,.10g}, of {row['candidates']:,}"
        for row in chosen.head(most).iter_rows(named=True)
    ]
