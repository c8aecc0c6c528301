"""Reading a study file's tables key by key, so that a mistake is one line that names the file and the key."""

from __future__ import annotations

import difflib
import math
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from consmrf.errors import InputError

__all__ = ["Entries", "nearest", "read_toml"]


def read_toml(path: Path) -> Entries:
    """Hand on a file's top table."""
    try:
        return Entries(str(path), "", tomllib.loads(path.read_text("utf-8")))
    except (FileNotFoundError, IsADirectoryError):
        raise InputError(f"{path}: no such file; a study is a file in TOML, see docs/study.md") from None
    except UnicodeDecodeError as problem:
        raise InputError(f"{path}: is not UTF-8 at byte {problem.start}; a study is a text in TOML") from None
    except tomllib.TOMLDecodeError as problem:
        raise InputError(f"{path}: is not TOML: {problem}; mend that line") from None


class Entries:
    """One table of a file: each key is asked for once, and `close` refuses those nobody asked for."""

    def __init__(self, file: str, path: str, values: Mapping[str, Any]) -> None:
        self.file, self.path, self._values = file, path, values
        self._asked: set[str] = set()

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def error(self, key: str, rule: str) -> InputError:
        """Hand on the error that a key's value breaks a rule."""
        shown = f" = {self._values[key]!r}" if key in self._values else ""
        return InputError(f"{self.file}: {self._at(key)}{shown}: {rule}")

    def whole(self, key: str, default: int | None = None, *, least: int = 1) -> int:
        """Hand on a whole number."""
        value = self._get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise self.error(key, f"must be a whole number of at least {least}")
        return value

    def real(self, key: str, default: float | None = None) -> float | None:
        """Hand on a number above 0; None where it is not there and has no default."""
        value = self._get(key, default)
        if value is not None and not (_number(value) and value > 0):
            raise self.error(key, "must be a number above 0")
        return None if value is None else float(value)

    def flag(self, key: str, default: bool) -> bool:
        """Hand on true or false."""
        value = self._get(key, default)
        if not isinstance(value, bool):
            raise self.error(key, "must be true or false")
        return value

    def text(self, key: str, default: str | None = None, *, choices: Collection[str] = ()) -> str:
        """Hand on a text, one of `choices` where there are any."""
        value = self._get(key, default)
        if not isinstance(value, str) or not value:
            raise self.error(key, "must be a text in quotes")
        if choices and value not in choices:
            raise self.error(key, f"must be one of {', '.join(choices)}{nearest(value, choices)}")
        return value

    def wholes(self, key: str, default: list[int] | None = None, *, least: int = 0) -> tuple[int, ...]:
        """Hand on distinct whole numbers."""
        values = self._list(key, default)
        if any(not isinstance(x, int) or isinstance(x, bool) or x < least for x in values):
            raise self.error(key, f"must hold whole numbers of at least {least}")
        return values

    def reals(self, key: str, default: list[float] | None = None) -> tuple[float, ...]:
        """Hand on distinct numbers."""
        values = self._list(key, default)
        if not all(map(_number, values)):
            raise self.error(key, "must hold numbers")
        return tuple(map(float, values))

    def names(self, key: str, known: Collection[str]) -> tuple[str, ...]:
        """Hand on names among those known; all of them where the key is not there."""
        values = self._list(key, list(known))
        for name in values:
            if name not in known:
                raise self.error(key, f"{name!r} is none of {', '.join(known)}{nearest(name, known)}")
        return values

    def values(self, key: str) -> dict[str, Any]:
        """Hand on a table as it is; empty where it is not there."""
        found = self._get(key, {})
        if not isinstance(found, dict):
            raise self.error(key, "must be a table, { name = value, … }")
        return dict(found)

    def table(self, key: str) -> Entries:
        """Hand on a table within this one; empty where it is not there."""
        return Entries(self.file, self._at(key), self.values(key))

    def tables(self, key: str) -> dict[str, Entries]:
        """Hand on the named tables within a table, in the order of the file."""
        outer = self.table(key)
        return {name: outer.table(name) for name in outer._values}

    def close(self, known: Collection[str] = ()) -> None:
        """Refuse what nobody has asked for; `known` are keys that could have been asked for."""
        for key in self._values:
            if key not in self._asked:
                hint = nearest(key, self._asked | set(known))
                places = ", ".join(sorted(self._asked | set(known)))
                raise InputError(f"{self.file}: {self._at(key)}: unknown key{hint}; known here: {places}")

    def _get(self, key: str, default: Any) -> Any:
        self._asked.add(key)
        return self._values.get(key, default)

    def _list(self, key: str, default: list[Any] | None) -> tuple[Any, ...]:
        values = self._get(key, default)
        if not isinstance(values, list) or not values or any(values.count(x) > 1 for x in values):
            raise self.error(key, "must be a list of distinct values, [ … ]")
        return tuple(values)

    def _at(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key


def nearest(name: object, known: Collection[str]) -> str:
    """Hand on a hint at the names that resemble the one given; empty where none does."""
    found = difflib.get_close_matches(str(name), known, n=3, cutoff=0.5)
    return f"; the nearest known: {', '.join(found)}" if found else ""


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
