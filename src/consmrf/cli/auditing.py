"""The command `audit`: what is odd about a graph and its split, in words, tables and pictures."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from consmrf.cli.options import Reading, described, whole
from consmrf.cli.terminal import say
from consmrf.errors import InputError

__all__ = ["audit"]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Limits:
    """From where on something counts as odd; None leaves the default."""

    share: Annotated[
        float | None, described("of a relation's facts that another has too, as they are or reversed; 0.8")
    ] = None
    symmetric: Annotated[float | None, described("of a relation's facts that are mirrored; 0.5")] = None
    density: Annotated[float | None, described("of a relation's possible pairs that are facts; 0.8")] = None
    functional: Annotated[float | None, described("subjects, or objects, per fact; 0.95")] = None
    least: Annotated[int | None, whole("facts that must bear a finding about relations out; 10")] = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Places:
    """Where what was found is written."""

    json: Annotated[Path | None, described("write everything that was found here")] = None
    html: Annotated[Path | None, described("write a page with tables and pictures here")] = None
    write_clean: Annotated[
        Path | None, described("a new folder for the split without held-out triples that leak")
    ] = None

    def check(self, held_out: bool) -> None:
        """Stop unless everything asked for could be written."""
        from consmrf.report.files import check_new_folder, check_writable

        for path in (self.json, self.html):
            if path is not None:
                check_writable(path)
        if self.write_clean is not None:
            if not held_out:
                raise InputError("--write-clean: nothing is held out that could leak; give --valid or --test")
            check_new_folder(self.write_clean)


_PLACES, _READING, _LIMITS = Places(), Reading(), Limits()


def audit(
    train: Annotated[Path, described("files of training triples, or of a graph that is not split")],
    /,
    *more: Annotated[Path, Parameter(show=False)],
    valid: Annotated[Path | None, described("validation triples")] = None,
    test: Annotated[Path | None, described("test triples")] = None,
    places: Places = _PLACES,
    limits: Limits = _LIMITS,
    reading: Reading = _READING,
) -> None:
    """Look for relations that repeat each other, and for held-out triples that training gives away."""
    from consmrf.evaluation.audit.audit import AuditOptions, without_leaks
    from consmrf.evaluation.audit.audit import audit as run
    from consmrf.report.audit import audit_lines, audit_page
    from consmrf.report.files import write_json, write_split, write_text

    given = {f.name: getattr(limits, f.name) for f in fields(limits)}
    options = AuditOptions(**{name: x for name, x in given.items() if x is not None})
    places.check(held_out=valid is not None or test is not None)
    graph = reading.read(train, *more)
    held = {name: reading.read(path) for name, path in (("valid", valid), ("test", test)) if path is not None}
    found = run(graph, **held, options=options).to_dict()
    say(f"\n{audit_lines(found)}")
    if places.json is not None:
        write_json(places.json, found)
    if places.html is not None:
        write_text(places.html, audit_page(found, f"Audit of {train.name}"))
    if places.write_clean is not None:
        clean = without_leaks(graph, **held, options=options)
        names = write_split(places.write_clean, clean.parts, {"train": graph, **held})
        dropped = ", ".join(f"{n:,} from {name}" for name, n in clean.dropped.items())
        say(f"\ndropped: {dropped}; written: {', '.join(str(places.write_clean / name) for name in names)}")
