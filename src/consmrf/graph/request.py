"""What a caller asks of a read: the format, which columns hold the triple, what stands around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from consmrf.errors import DataError, SettingError

__all__ = ["FORMATS", "ROLES", "Request", "found", "roles_of"]

ROLES = ("subject", "relation", "object")
FORMATS = {  # every name a format goes by, as an option or as a suffix of a path
    **dict.fromkeys(("tsv", "tab"), "tsv"),
    "csv": "csv",
    **dict.fromkeys(("parquet", "pq"), "parquet"),
    **dict.fromkeys(("ntriples", "nt"), "ntriples"),
    **dict.fromkeys(("nquads", "nq"), "nquads"),
    **dict.fromkeys(("turtle", "ttl"), "turtle"),
    "trig": "trig",
    **dict.fromkeys(("rdfxml", "rdf", "xml", "owl"), "rdfxml"),
}
# Whole words only: a single letter in a file's first line may well be a label.
_WORDS = {
    **dict.fromkeys(("subject", "subj", "head", "source", "src", "from"), 0),
    **dict.fromkeys(("relation", "rel", "predicate", "pred", "property", "edge", "relationship"), 1),
    **dict.fromkeys(("object", "obj", "tail", "target", "tgt", "destination", "dst", "to"), 2),
}
_LETTERS = {"s": 0, "h": 0, "r": 1, "p": 1, "o": 2, "t": 2}


@dataclass(frozen=True)
class Request:
    """The options of `read_triples`, checked when built."""

    format: str | None = None
    columns: str | Sequence[str | int] | None = None
    header: bool | None = None
    literals: bool = False
    delimiter: str | None = None

    def __post_init__(self) -> None:
        if self.format is not None:
            known = FORMATS.get(str(self.format).lower())
            if known is None:
                raise SettingError(
                    f"format = {self.format!r}: must be one of {', '.join(dict.fromkeys(FORMATS.values()))}"
                )
            object.__setattr__(self, "format", known)
        if self.columns is not None:
            self._check_columns()
        if self.delimiter is not None:
            self._check_delimiter()

    def _check_delimiter(self) -> None:
        given = self.delimiter
        if given == "tab":
            object.__setattr__(self, "delimiter", "\t")
        elif not isinstance(given, str) or len(given) != 1 or not given.isascii() or given in '"\r\n\0':
            raise SettingError(
                f"delimiter = {given!r}: must be one ASCII character, no quote and no line break, or 'tab'"
            )

    def _check_columns(self) -> None:
        columns = self.columns
        if isinstance(columns, str):
            good = len(columns) == 3 and sorted(_LETTERS.get(x, 3) for x in columns) == [0, 1, 2]
        elif isinstance(columns, Sequence):
            whole = all(isinstance(x, int) and not isinstance(x, bool) and x >= 0 for x in columns)
            named = all(isinstance(x, str) for x in columns)
            good = len(columns) == 3 and (whole or named) and len(set(columns)) == 3
        else:
            good = False
        if not good:
            raise SettingError(
                f"columns = {columns!r}: must be the file's order in letters, such as 'sro' or 'sor', or the "
                "three different names, or positions from 0, of the subject, relation and object columns"
            )
        if self.named and self.header is False:
            raise SettingError(
                f"columns = {columns!r} with header=False: names need a header; give positions from 0"
            )

    @property
    def named(self) -> bool:
        """Whether the columns are asked for by name."""
        return (
            self.columns is not None
            and not isinstance(self.columns, str)
            and isinstance(self.columns[0], str)
        )

    def order(
        self, names: Sequence[str], roles: tuple[int, int, int] | None, where: str, line: int | None
    ) -> tuple[int, int, int]:
        """Hand on the positions of subject, relation and object among the columns called `names`.

        `roles` is the order that the names tell, if they do. What cannot be had is an error at `where`.
        """
        if isinstance(self.columns, str) and len(names) == 3:
            by_role = {_LETTERS[letter]: i for i, letter in enumerate(self.columns)}
            return by_role[0], by_role[1], by_role[2]
        if self.columns is None and (roles is not None or len(names) == 3):
            return roles or (0, 1, 2)
        if self.columns is None or isinstance(self.columns, str):
            raise DataError(
                f"{found(names)}, expected 3; say which three with columns=", source=where, line=line
            )
        positions = [_position(names, wanted) for wanted in self.columns]
        missing = [wanted for wanted, i in zip(self.columns, positions, strict=True) if i is None]
        if missing:
            raise DataError(
                f"{found(names)}, expected column {missing[0]!r}; correct columns=", source=where, line=line
            )
        s, r, o = (i for i in positions if i is not None)
        return s, r, o


def _position(names: Sequence[str], wanted: str | int) -> int | None:
    if isinstance(wanted, int):
        return wanted if wanted < len(names) else None
    return names.index(wanted) if names.count(wanted) == 1 else None


def roles_of(names: Sequence[str], *, letters: bool = False) -> tuple[int, int, int] | None:
    """Hand on where subject, relation and object stand, if the names say all three, each once."""
    words = {**_WORDS, **_LETTERS} if letters else _WORDS
    roles = [words.get(name.strip(" #:").casefold()) for name in names]
    if any(roles.count(role) != 1 for role in range(3)):
        return None
    return roles.index(0), roles.index(1), roles.index(2)


def found(cells: Sequence[str]) -> str:
    """Say in a few words what a row holds."""
    shown = ", ".join(repr(x if len(x) <= 40 else x[:39] + "…") for x in cells[:5])
    more = ", …" if len(cells) > 5 else ""
    return f"found {len(cells)} column{'s' * (len(cells) != 1)} ({shown}{more})"
