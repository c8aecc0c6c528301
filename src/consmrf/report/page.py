"""One HTML page that needs nothing but itself: no script, no fetch, readable in light and in dark."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from typing import Any

from consmrf.report.tables import Table, printable

__all__ = ["columns", "folded", "heading", "listing", "page", "paragraph", "picture", "section", "settings"]
__all__ += ["tiles"]

_CSS = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --soft: #5b6470;
  --line: #d5dae0; --band: #f4f6f8; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ed; --paper: #15181c; --soft: #a3acb8; --line: #363c44; --band: #1d2126; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 66rem; color: var(--ink);
  background: var(--paper); font: 16px/1.55 system-ui, sans-serif; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .75rem; padding-top: 1rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.25rem 0 .25rem; }
p, li { max-width: 46rem; overflow-wrap: anywhere; } ul { margin: .25rem 0; padding-left: 1.25rem; }
.wide { overflow-x: auto; margin: 0 0 1rem; }
table { border-collapse: collapse; font-size: .8125rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .5rem; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--line); }
th:first-child { text-align: left; }
thead th { vertical-align: bottom; white-space: normal; }
tbody th { font-weight: 400; }
tbody tr:nth-child(even) { background: var(--band); }
figure { margin: 1rem 0 1.5rem; }
figure svg { display: block; width: 100%; height: auto; font-family: system-ui, sans-serif; }
figcaption { color: var(--soft); font-size: .875rem; max-width: 46rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1.25rem; font-size: .875rem; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
.columns { display: grid; gap: 0 2.5rem; align-items: start;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); }
.columns > * { min-width: 0; }
.tiles { display: grid; gap: .75rem; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); }
.tiles div { padding: .75rem 1rem; border: 1px solid var(--line); border-radius: .5rem;
  background: var(--band); }
.tiles b { display: block; font-size: clamp(1.25rem, 5vw, 1.75rem); line-height: 1.25;
  font-variant-numeric: tabular-nums; }
.tiles span { display: block; font-size: .8125rem; color: var(--soft); }
details { margin: 1rem 0; } summary { cursor: pointer; padding: .25rem 0; }
code { font-family: ui-monospace, monospace; font-size: .9em; }
""".strip()


def page(title: str, lead: str, sections: Iterable[str]) -> str:
    """Hand on the whole page; `title` and `lead` are plain text, `sections` are what `section` handed on."""
    name = html.escape(printable(title))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{name}</title>\n<style>\n{_CSS}\n</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{name}</h1>\n{paragraph(lead)}\n" + "\n".join(sections) + "\n</main>\n</body>\n</html>\n"
    )


def section(title: str, *parts: str | Table) -> str:
    """Set a heading over parts: HTML from the functions below, or tables."""
    body = "\n".join(part.html() if isinstance(part, Table) else part for part in parts)
    return f"<section>\n<h2>{html.escape(printable(title))}</h2>\n{body}\n</section>"


def heading(text: str) -> str:
    """Set a lesser heading within a section."""
    return f"<h3>{html.escape(printable(text))}</h3>"


def paragraph(text: str) -> str:
    """Set plain text as a paragraph."""
    return f"<p>{html.escape(printable(text))}</p>"


def listing(sentences: Iterable[str]) -> str:
    """Set plain sentences as a list."""
    return "<ul>" + "".join(f"<li>{html.escape(printable(s))}</li>\n" for s in sentences) + "</ul>"


def columns(*parts: str) -> str:
    """Set parts beside each other where the page is wide enough, below each other where it is not."""
    return '<div class="columns">\n' + "\n".join(f"<div>{part}</div>" for part in parts) + "\n</div>"


def tiles(values: Iterable[tuple[str, ...]]) -> str:
    """Set figures in large type: for each a title, the figure, and lines below it."""
    told = []
    for title, figure, *notes in values:
        lines = "".join(f"<span>{html.escape(printable(note))}</span>" for note in notes if note)
        told.append(
            f"<div><span>{html.escape(printable(title))}</span><b>{html.escape(figure)}</b>{lines}</div>"
        )
    return '<div class="tiles">\n' + "\n".join(told) + "\n</div>"


def folded(title: str, table: Table) -> str:
    """Set a table that is shown when its title is clicked."""
    return f"<details><summary>{html.escape(printable(title))}</summary>\n{table.html()}</details>"


def picture(svg: str, caption: str) -> str:
    """Set a picture of report/figures.py over its caption."""
    return f"<figure>\n{svg}\n<figcaption>{html.escape(printable(caption))}</figcaption>\n</figure>"


def settings(values: Mapping[str, Any]) -> str:
    """Set names and values as a list of definitions."""
    rows = (
        f"<dt>{html.escape(printable(k))}</dt><dd>{html.escape(printable(str(v)))}</dd>"
        for k, v in values.items()
    )
    return "<dl>\n" + "\n".join(rows) + "\n</dl>"
