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
    weight: str | int | None = None
    value: str | int | None = None

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
        self._check_numbers()
        if self.named and self.header is False:
            given = self.columns if isinstance(self.columns, str | None) else list(self.columns)
            given = next((x for x in (self.weight, self.value) if isinstance(x, str)), given)
            raise SettingError(f"{given!r} with header=False: names need a header; give positions from 0")

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

    def _check_numbers(self) -> None:
        for name, given in self.numbers.items():
            position = isinstance(given, int) and not isinstance(given, bool) and given >= 0
            if not position and (not isinstance(given, str) or not given):
                raise SettingError(
                    f"{name} = {given!r}: must be the name of the column, or its position from 0"
                )
        if len(set(self.numbers.values())) < len(self.numbers):
            raise SettingError(f"weight and value = {self.value!r}: must be two columns; leave one out")

    @property
    def numbers(self) -> dict[str, str | int]:
        """The columns of numbers that are asked for, by role."""
        asked = {"weight": self.weight, "value": self.value}
        return {role: column for role, column in asked.items() if column is not None}

    @property
    def roles(self) -> tuple[str, ...]:
        """What stands in a row: subject, relation, object, then the numbers that are asked for."""
        return (*ROLES, *self.numbers)

    @property
    def fields(self) -> tuple[str, ...]:
        """The same, as frames name their columns."""
        return ("s", "r", "o", *self.numbers)

    @property
    def joined(self) -> str:
        """What becomes of the numbers of a triple that is said several times."""
        done = {"weight": "their weights added", "value": "their values averaged"}
        return ", ".join(["joined", *(done[role] for role in self.numbers)]) if self.numbers else ""

    @property
    def named(self) -> bool:
        """Whether columns are asked for by name."""
        asked = [*self.numbers.values()]
        if self.columns is not None and not isinstance(self.columns, str):
            asked += self.columns
        return any(isinstance(column, str) for column in asked)

    def order(
        self, names: Sequence[str], roles: tuple[int, int, int] | None, where: str, line: int | None
    ) -> tuple[int, ...]:
        """Hand on the positions of `roles` among the columns called `names`.

        `roles` is the triple's order that the names tell, if they do. What is missing is an error at `where`.
        """
        numbers = [self._found(names, column, role, where, line) for role, column in self.numbers.items()]
        order = (*self._triple(names, roles, numbers, where, line), *numbers)
        for role, at in zip(self.numbers, numbers, strict=True):
            if order.count(at) > 1:
                also = next(other for other, i in zip(self.roles, order, strict=True) if i == at)
                raise SettingError(
                    f"{role} = {self.numbers[role]!r}: this column is the {also}; give another"
                )
        return order

    def _triple(
        self,
        names: Sequence[str],
        roles: tuple[int, int, int] | None,
        taken: Sequence[int],
        where: str,
        line: int | None,
    ) -> tuple[int, ...]:
        """Hand on the positions of subject, relation and object; where nothing tells, not those `taken`."""
        rest = [i for i in range(len(names)) if i not in taken]
        if self.columns is None and roles is not None:
            return roles
        if (self.columns is None or isinstance(self.columns, str)) and len(rest) == 3:
            by_role = {_LETTERS[letter]: i for letter, i in zip(self.columns or "sro", rest, strict=True)}
            return by_role[0], by_role[1], by_role[2]
        if self.columns is None or isinstance(self.columns, str):
            beside = f" beside {' and '.join(self.numbers)}" if taken else ""
            raise DataError(
                f"{found(names)}, expected 3{beside}; say which three with columns=", source=where, line=line
            )
        return tuple(self._found(names, column, "columns", where, line) for column in self.columns)

    def _found(
        self, names: Sequence[str], column: str | int, option: str, where: str, line: int | None
    ) -> int:
        at = _position(names, column)
        if at is None:
            raise DataError(
                f"{found(names)}, expected column {column!r}; correct {option}=", source=where, line=line
            )
        return at


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
