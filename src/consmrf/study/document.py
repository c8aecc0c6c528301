"""A report as sections of words, tables and pictures, rendered as Markdown and as one HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from consmrf.report import page
from consmrf.report.tables import Table, printable

__all__ = ["Block", "Picture", "Section", "Sentences", "as_html", "as_markdown", "standalone"]


@dataclass(frozen=True)
class Picture:
    """An SVG of report/charts.py, the name of its file, and what stands under it."""

    name: str
    svg: str
    caption: str


@dataclass(frozen=True)
class Sentences:
    """A list."""

    lines: tuple[str, ...]


Block = str | Table | Picture | Sentences


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it; a text is a paragraph."""

    title: str
    blocks: Sequence[Block]


def as_html(title: str, lead: str, sections: Sequence[Section]) -> str:
    """Hand on the page, pictures within it."""
    return page.page(title, lead, [page.section(s.title, *map(_html, s.blocks)) for s in sections])


def _html(block: Block) -> str | Table:
    if isinstance(block, Picture):
        return page.picture(block.svg, block.caption)
    if isinstance(block, Sentences):
        return page.listing(block.lines)
    return block if isinstance(block, Table) else page.paragraph(block)


def as_markdown(title: str, lead: str, sections: Sequence[Section], pictures: str) -> str:
    """Hand on the text; pictures are links into the folder named."""
    parts = [f"# {printable(title)}", printable(lead)]
    for section in sections:
        parts += [f"## {printable(section.title)}", *(_markdown(block, pictures) for block in section.blocks)]
    return "\n\n".join(parts) + "\n"


def _markdown(block: Block, pictures: str) -> str:
    if isinstance(block, Picture):
        return f"![{printable(block.caption)}]({pictures}/{block.name}.svg)\n\n*{printable(block.caption)}*"
    if isinstance(block, Sentences):
        return "\n".join(f"* {printable(line)}" for line in block.lines)
    return block.markdown() if isinstance(block, Table) else printable(block)


def standalone(picture: Picture) -> str:
    """Hand on a picture as a file of its own, in black on whatever it is set upon."""
    head = '<svg xmlns="http://www.w3.org/2000/svg" color="#111111" font-family="sans-serif" '
    return '<?xml version="1.0" encoding="utf-8"?>\n' + picture.svg.replace("<svg ", head, 1) + "\n"
