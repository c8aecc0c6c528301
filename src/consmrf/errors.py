"""Every exception consmrf raises on purpose.

    ConsmrfError
    ├── InputError            what the user gave cannot be used
    │   ├── DataError         a triple file: names the file and the line
    │   ├── SettingError      a setting out of its range
    │   ├── UnknownLabelError a label the model has never seen; names the nearest known ones
    │   └── ModelFileError    a model folder that is missing, damaged or from a later version
    ├── OutputError           a result could not be written; nothing half-written is left
    └── DivergedError         training produced values that are not finite, before any usable state

Each message is one line: what was found, where, which rule it breaks, and what to do.
"""

from __future__ import annotations

__all__ = [
    "ConsmrfError",
    "DataError",
    "DivergedError",
    "InputError",
    "ModelFileError",
    "OutputError",
    "SettingError",
    "UnknownLabelError",
]


class ConsmrfError(Exception):
    """The root: catch this to catch everything consmrf raises on purpose."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class InputError(ConsmrfError, ValueError):
    """What the user gave cannot be used."""


class DataError(InputError):
    """A triple source that cannot be read; says where and what was expected."""

    def __init__(self, message: str, *, source: str | None = None, line: int | None = None) -> None:
        self.source, self.line = source, line
        where = "" if source is None else f"{source}: " if line is None else f"{source}:{line}: "
        super().__init__(where + message)


class SettingError(InputError):
    """A setting outside its range."""


class UnknownLabelError(InputError, KeyError):
    """A label that is not in the vocabulary."""

    __str__ = Exception.__str__


class ModelFileError(InputError):
    """A model folder that is missing, damaged, or written by a later version."""


class OutputError(ConsmrfError, OSError):
    """A result could not be written."""

    __str__ = Exception.__str__


class DivergedError(ConsmrfError, ArithmeticError):
    """Training produced non-finite values before there was any state worth keeping."""
