"""From where on something counts as odd: one frozen record, checked when it is built."""

from __future__ import annotations

from dataclasses import dataclass, fields

from consmrf.errors import SettingError

__all__ = ["DEFAULTS", "AuditOptions"]


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """Settings of `consmrf.audit`. The shares are of facts, and what reaches one counts."""

    share: float = 0.8  # of a relation's facts that another has too, or has reversed
    symmetric: float = 0.5  # of a relation's facts whose mirror image is a fact as well
    density: float = 0.8  # of the pairs of a relation's subjects and objects that are facts
    functional: float = 0.95  # subjects per fact: 1 where every subject has one object
    least: int = 10  # facts that must bear a finding about relations out

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "least":
                if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                    raise SettingError(f"least = {value!r}: must be a whole number of at least 1")
            elif not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= 1:
                raise SettingError(f"{field.name} = {value!r}: must be a share above 0, and 1 at most")


DEFAULTS = AuditOptions()
