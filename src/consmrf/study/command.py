"""What `consmrf study` does: read the study, run its cells, and write the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from consmrf.errors import InputError, OutputError
from consmrf.report.files import check_folder, write_text
from consmrf.report.progress import CellProgress
from consmrf.study.document import Picture, as_html, as_markdown, standalone
from consmrf.study.findings import Findings, gather
from consmrf.study.run import Desk, locked, run_cells
from consmrf.study.sheets import sheets
from consmrf.study.spec import Budget, Study
from consmrf.study.telling import lead, sections

__all__ = ["run_study", "within"]


def run_study(
    study: Study,
    out: Path,
    *,
    root: Path,
    retry: bool,
    outside: Mapping[str, Sequence[Path]],
    say: Callable[[str], None],
) -> None:
    """Finish the cells of a study in the folder `out`, and write its report there.

    `root` is where the data's paths begin; `outside` are files of ranks by the name of a method.
    """
    for name in outside:
        if name in study.methods:
            raise InputError(f"ranks of {name!r}: the study has a method of this name; choose another")
    _prepare(out)
    with locked(out):
        _sweep(out)
        desk = Desk(study, out, root)
        with CellProgress(say) as progress:
            left_out = run_cells(desk, progress, retry=retry)
        findings = gather(desk.planner, desk.store, outside)
        write_report(findings, out)
    say(f"\n{lead(findings)}")
    for reason in dict.fromkeys(left_out.values()):
        say(f"cells left out, {list(left_out.values()).count(reason)}: {reason}")
    if findings.failed:
        say(f"cells failed, {len(findings.failed)}: see the report; --retry runs them again")
    say(f"look at {out / 'report.html'}")


def within(study: Study, budget: Mapping[str, float | int | None]) -> Study:
    """Hand on the study with the parts of its budget that are given."""
    given = {name: value for name, value in budget.items() if value is not None}
    for name, value in given.items():
        if value <= 0:
            raise InputError(f"budget: {name} = {value!r}: must be above 0")
    merged: Budget = replace(study.budget, **given)  # type: ignore[arg-type]
    return replace(study, budget=merged)


def _prepare(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise OutputError(f"{out}: is a file; choose another folder for the study with --out")
    check_folder(out if out.is_dir() else out.parent, out)
    for folder in _folders(out):
        folder.mkdir(exist_ok=True)


def _folders(out: Path) -> list[Path]:
    return [out, *(out / name for name in ("cells", "tables", "pictures"))]


def _sweep(out: Path) -> None:
    """Remove the drafts of files that a run left when it was killed."""
    for folder in _folders(out):
        for draft in folder.glob(".*.tmp"):
            draft.unlink(missing_ok=True)


def write_report(findings: Findings, out: Path) -> None:
    """Write the page, the text, the tables and the pictures; the same cells make the same bytes."""
    parts, title, words = sections(findings), findings.study.title, lead(findings)
    for section in parts:
        for block in section.blocks:
            if isinstance(block, Picture):
                write_text(out / "pictures" / f"{block.name}.svg", standalone(block))
    for name, text in sheets(findings).items():
        write_text(out / "tables" / f"{name}.csv", text)
    write_text(out / "report.md", as_markdown(title, words, parts, "pictures"))
    write_text(out / "report.html", as_html(title, words, parts))
