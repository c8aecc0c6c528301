"""What reading concluded: per source, and for the whole graph."""

from __future__ import annotations

from dataclasses import dataclass

from consmrf.errors import DataError

__all__ = ["ReadReport", "SourceReport", "named_separator"]

_SEPARATORS = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "bars"}


@dataclass
class SourceReport:
    """One source: filled in while it is read."""

    name: str
    format: str = ""
    compression: str | None = None
    delimiter: str | None = None
    header: tuple[str, ...] | None = None  # the header's cells, None when there is none
    header_because: str = ""
    columns: tuple[str, ...] = (
        "subject",
        "relation",
        "object",
    )  # the role, or the name, of each column of the source
    rows: int = 0  # triples read, duplicates included
    blank: int = 0  # empty lines passed over
    literals: int = 0  # RDF triples left out because their object is not an entity

    def error(self, message: str, line: int | None = None) -> DataError:
        """Hand on the error that names this source."""
        return DataError(message, source=self.name, line=line)

    def describe(self) -> str:
        """Say in one line what was found."""
        how = [self.format, *([self.compression] if self.compression else [])]
        if self.delimiter:
            how.append(f"separated by {named_separator(self.delimiter)}")
        how.append(f"columns {', '.join(map(_plain, self.columns))}")
        how += [self.header_because] if self.header_because else []
        how += [f"{self.blank:,} empty lines passed over"] if self.blank else []
        how += [f"{self.literals:,} triples with literals skipped"] if self.literals else []
        return f"{_plain(self.name)}: {self.rows:,} triples ({'; '.join(how)})"


@dataclass(frozen=True)
class ReadReport:
    """All sources of one graph."""

    parts: tuple[SourceReport, ...]
    duplicates: int  # repetitions of a triple, dropped
    joined: str = ""  # what became of their weights and values, where there are any

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(part.name for part in self.parts)

    @property
    def format(self) -> str:
        return ", ".join(dict.fromkeys(part.format for part in self.parts))

    @property
    def delimiter(self) -> str | None:
        """The delimiter, when all sources share one."""
        found = {part.delimiter for part in self.parts}
        return found.pop() if len(found) == 1 else None

    @property
    def header(self) -> bool:
        """Whether any source had a header."""
        return any(part.header is not None for part in self.parts)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the first source."""
        return self.parts[0].columns

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    @property
    def literals(self) -> int:
        return sum(part.literals for part in self.parts)

    def describe(self) -> str:
        """Say in one line what was read and what was concluded on the way."""
        done = self.joined or "dropped"
        dropped = f"{self.duplicates:,} duplicates {done}" if self.duplicates else "no duplicates"
        return "; ".join([*(part.describe() for part in self.parts), dropped])


def named_separator(separator: str) -> str:
    """Hand on what a separator is called in a sentence."""
    return _SEPARATORS.get(separator, repr(separator))


def _plain(text: str) -> str:
    return " ".join(text.split())
