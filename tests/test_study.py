"""Studies from the command to the report: complete, resumed after kills, and not lost by one bad cell."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest

from consmrf import cli

PROGRAM = [sys.executable, "-m", "consmrf.cli", "study"]
# What of a report no clock has a say in.
STEADY = ("comparison", "runs", "verdicts", "departures", "chosen", "failed")

DATA = """
title = "Small"
[budget]
cores = 2
cell_seconds = 200
[protocol]
candidates = 50
[datasets.grouped]
graph = "grouped"
with = { entities = 90, relations = 3, triples = 900, groups = 5 }
folds = 2
[datasets.social]
graph = "social"
with = { users = 60, items = 70, communities = 4 }
"""
WHOLE = (
    DATA
    + """
[methods.wave]
set = { dim = 4, negatives = 64, max_epochs = 2 }
[methods.independent]
set = { dim = 4, max_epochs = 2 }
grid = { reg = [0.005, 0.05] }
[methods.impossible]
set = { method = "independent", dim = 4, max_epochs = 2, learning_rate = 1e30 }
datasets = ["social"]
[methods.popularity]
[timing]
datasets = ["social"]
methods = ["wave", "independent", "popularity"]
[curves]
datasets = ["social"]
methods = ["independent"]
epochs = [1, 2]
[cores]
datasets = ["social"]
methods = ["independent"]
threads = [1, 2]
[rho]
datasets = ["social"]
methods = ["wave"]
values = [0.5, 2.0]
[growth]
methods = ["independent"]
entities = 90
relations = [2, 4, 8]
triples = 900
per_relation = 100
set = { max_epochs = 1 }
"""
)
BRIEF = (
    DATA
    + """
[methods.independent]
set = { dim = 4, max_epochs = 2 }
grid = { reg = [0.005, 0.05] }
[methods.popularity]
"""
)


def run(capsys, *arguments):
    """Hand on the exit code, the text on stdout, and the lines on stderr."""
    code = cli.main(["study", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err.splitlines()


def written(folder: Path, text: str) -> Path:
    (folder / "study.toml").write_text(text, "utf-8")
    return folder / "study.toml"


def rows(out: Path, name: str) -> list[dict[str, str]]:
    with open(out / "tables" / f"{name}.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def steady(out: Path) -> dict[str, str]:
    return {name: (out / "tables" / f"{name}.csv").read_text("utf-8") for name in STEADY}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a whole study; whoever writes there takes a copy."""
    folder = tmp_path_factory.mktemp("study")
    assert cli.main(["study", str(written(folder, WHOLE)), "--out", str(folder / "out")]) == 0
    return folder


@pytest.fixture
def copied(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "copy")
    return tmp_path / "copy"


# -- a whole study


def test_every_method_is_compared_on_every_dataset(finished):
    told = rows(finished / "out", "comparison")
    found = {(row["dataset"], row["method"], row["metric"]): row for row in told}
    for dataset, runs in (("grouped", "2"), ("social", "1")):
        for method in ("wave", "independent", "popularity"):
            for metric in ("auc", "recall@5", "precision@5"):
                row = found[dataset, method, metric]
                assert float(row["low"]) <= float(row["mean"]) <= float(row["high"])
                assert row["runs"] == runs
    assert not [at for at in found if at[1] == "impossible"]


def test_the_figures_are_those_of_fit_and_evaluate(finished):
    from consmrf import Config, EvaluationOptions, evaluate, fit
    from consmrf.study.graphs import GRAPHS

    parts = GRAPHS["social"](0, users=60, items=70, communities=4)
    model = fit(parts.train, valid=parts.valid, config=Config(dim=4, negatives=64, max_epochs=2)).model
    options = EvaluationOptions(candidates=50)
    told = evaluate(model, parts.test, known=[parts.valid], protocol="paper", options=options)
    [ours] = [
        float(row["value"])
        for row in rows(finished / "out", "runs")
        if (row["dataset"], row["method"], row["metric"]) == ("social", "wave", "auc")
    ]
    assert ours == told.summary()["auc"]


def test_a_failing_cell_is_told_and_loses_nothing(finished):
    [failed] = rows(finished / "out", "failed")
    assert (failed["method"], failed["kind"]) == ("impossible", "final")
    assert failed["reason"].startswith("DivergedError: training diverged")
    text = (finished / "out" / "report.md").read_text("utf-8")
    assert "Cells that failed" in text
    assert "Cells not run" not in text


def test_the_report_is_complete_and_needs_nothing_else(finished):
    out = finished / "out"
    page, text = ((out / name).read_text("utf-8") for name in ("report.html", "report.md"))
    HTMLParser().feed(page)
    assert page.count("<svg") == page.count("</svg>") == 5
    assert not re.search(r"https?://|<script|<link", page)
    first = text.splitlines()[2]
    assert first.startswith("In AUC, wave is ")
    for title in ("Where wave stands", "Runtime on one core", "Learning curves", "Cores", "Sensitivity to ρ"):
        assert f"## {title}" in text
        assert f"<h2>{title}</h2>" in page
    for title in ("Cost as relations grow", "How target-specific", "What a model weighs", "Settings chosen"):
        assert f"## {title}" in text
    for name in re.findall(r"\]\((pictures/[a-z]+\.svg)\)", text):
        assert (out / name).read_text("utf-8").startswith("<?xml")


def test_the_tables_hold_what_is_timed(finished):
    out = finished / "out"
    kinds = {(row["kind"], row["method"]) for row in rows(out, "timings")}
    assert kinds == {
        *(("stop", m) for m in ("wave", "independent", "popularity")),
        *((kind, "independent") for kind in ("curve", "cores", "growth")),
        ("rho", "wave"),
    }
    assert {row["way"] for row in rows(out, "exponents")} == {"fixed |D|", "fixed |D_r|"}
    assert all(int(row["parameters"]) > 0 for row in rows(out, "weights"))
    assert json.loads(rows(out, "chosen")[0]["settings"])["dim"] == 4


def test_a_finished_study_runs_nothing_and_reports_the_same(capsys, copied):
    out = copied / "out"
    before = {path: path.read_bytes() for path in sorted(out.rglob("*.*")) if path.is_file()}
    stamps = {path: path.stat().st_mtime_ns for path in (out / "cells").iterdir()}
    code, said, err = run(capsys, copied / "study.toml", "--out", out)
    assert (code, err) == (0, [])
    assert "s of training" not in said
    assert {path: path.read_bytes() for path in before} == before
    assert {path: path.stat().st_mtime_ns for path in (out / "cells").iterdir()} == stamps


def test_failed_cells_are_run_again_when_asked(capsys, copied):
    _, said, _ = run(capsys, copied / "study.toml", "--out", copied / "out", "--retry")
    [line] = [line for line in said.splitlines() if "FAILED" in line]
    assert "social, impossible, final" in line


def test_a_damaged_cell_is_told(capsys, copied):
    path = next((copied / "out" / "cells").glob("*popularity*.json"))
    path.write_text('{"found": ')
    code, _, err = run(capsys, copied / "study.toml", "--out", copied / "out")
    assert code == 1
    assert f"{path}: damaged; remove it" in err[0]


def test_methods_from_outside_join_by_their_ranks(capsys, copied):
    out = copied / "out"
    ranks = sorted((out / "cells").glob("*-popularity-*.parquet"))
    asked = [part for path in ranks for part in ("--ranks", f"theirs={path}")]
    code, _, err = run(capsys, copied / "study.toml", "--out", out, *asked)
    assert (code, err) == (0, [])
    told = {(r["dataset"], r["method"], r["metric"]): r for r in rows(out, "comparison")}
    for dataset in ("grouped", "social"):
        theirs, own = (told[dataset, m, "auc"] for m in ("theirs", "popularity"))
        assert float(theirs["mean"]) == pytest.approx(float(own["mean"]), abs=1e-12)
        assert theirs["runs"] == own["runs"]
    assert "theirs" in (out / "report.html").read_text("utf-8")


def test_ranks_of_other_triples_are_refused(capsys, copied):
    path = next((copied / "out" / "cells").glob("*.parquet"))
    pl.read_parquet(path).head(3).write_parquet(copied / "few.parquet")
    code, _, [line] = run(
        capsys, copied / "study.toml", "--out", copied / "out", "--ranks", f"theirs={copied / 'few.parquet'}"
    )
    assert code == 1
    assert "are those of no tested fold" in line
    pl.read_parquet(path).with_columns(candidates=9999).write_parquet(copied / "all.parquet")
    code, _, [line] = run(
        capsys, copied / "study.toml", "--out", copied / "out", "--ranks", f"theirs={copied / 'all.parquet'}"
    )
    assert code == 1
    assert "ranks among 9,999 candidates, and this study samples 50" in line
    for given, told in (("theirs", "must be NAME=FILE"), ("wave=x", "the study has a method of this name")):
        code, _, [line] = run(capsys, copied / "study.toml", "--out", copied / "out", "--ranks", given)
        assert code == 1
        assert told in line


# -- limits


def test_a_cell_is_ended_at_its_limit(capsys, tmp_path):
    file = written(tmp_path, BRIEF.replace("cell_seconds = 200", "cell_seconds = 0.01"))
    code, said, _ = run(capsys, file, "--out", tmp_path / "out")
    assert code == 0
    reasons = {row["reason"] for row in rows(tmp_path / "out", "failed")}
    assert reasons
    assert all(reason.endswith("(budget.cell_seconds)") for reason in reasons)
    assert "cells failed" in said


@pytest.mark.parametrize(
    ("option", "told"),
    [(("--memory", "0.01"), "raise budget.memory_gib or --memory"), (("--hours", "1e-9"), "time was over")],
)
def test_what_the_budget_does_not_allow_is_left_for_later(capsys, tmp_path, option, told):
    code, said, _ = run(capsys, written(tmp_path, BRIEF), "--out", tmp_path / "out", *option)
    assert code == 0
    assert told in said
    assert not list((tmp_path / "out" / "cells").glob("*.json"))
    assert "Cells not run" in (tmp_path / "out" / "report.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--out", "x"), "which study: give a file, or --quick, or --paper"),
        (("--out", "x", "--quick", "--paper"), "which study"),
        (("absent.toml", "--out", "x"), "absent.toml: no such file"),
        (("study.toml", "--out", "study.toml"), "is a file; choose another folder"),
        (("study.toml", "--out", "no/such"), "does not exist"),
        (("study.toml", "--out", "x", "--cores", "0"), "cores = 0: must be above 0"),
        (("--paper", "--out", "x"), "must hold one file train.*"),
    ],
)
def test_a_mistake_is_one_line(capsys, tmp_path, monkeypatch, arguments, told):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, BRIEF)
    code, _, [line] = run(capsys, *arguments)
    assert code == 1
    assert told in line


def test_one_study_at_a_time_in_a_folder(capsys, tmp_path):
    fcntl = pytest.importorskip("fcntl")
    (tmp_path / "out").mkdir()
    with open(tmp_path / "out" / ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        code, _, [line] = run(capsys, written(tmp_path, BRIEF), "--out", tmp_path / "out")
    assert code == 1
    assert "another study is running here" in line


# -- kills


def alive(folder: Path) -> list[str]:
    """Hand on the command lines of the processes that run cells of this folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:  # it has just ended
            continue
        if "consmrf.study.worker" in line and str(folder) in line:
            found.append(line)
    return found


def patiently(asked, seconds: float = 120.0) -> bool:
    """Say whether something came true before the patience was over."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if asked():
            return True
        time.sleep(0.02)
    return False


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="processes are looked for in /proc")
def test_killed_at_any_moment_it_completes_with_the_same_numbers(tmp_path):
    file, out = written(tmp_path, BRIEF), tmp_path / "killed"
    (out / "cells").mkdir(parents=True)
    (out / "cells" / ".half.json.1.tmp").write_text("{")  # what a kill in the middle of a write leaves
    # kills while the first cells run, after the first has ended, and in the finals; then one of cells alone
    for files, victim in ((0, "study"), (1, "study"), (4, "study"), (6, "cells")):
        study = subprocess.Popen([*PROGRAM, str(file), "--out", str(out)], stdout=subprocess.DEVNULL)
        try:
            assert patiently(partial(_running, out, files))
            if victim == "cells":
                for path in Path("/proc").glob("[0-9]*/cmdline"):
                    _end_cell(path, out)
                assert study.wait(300) == 0
        finally:
            study.kill()
            study.wait()
        assert patiently(lambda: not alive(out)), "cells outlive their study"
    again = subprocess.run(
        [*PROGRAM, str(file), "--out", str(out), "--retry"], capture_output=True, text=True, check=False
    )
    assert (again.returncode, again.stderr) == (0, "")
    whole = subprocess.run(
        [*PROGRAM, str(file), "--out", str(tmp_path / "whole")], capture_output=True, text=True, check=False
    )
    assert (whole.returncode, whole.stderr) == (0, "")
    assert steady(out) == steady(tmp_path / "whole")
    assert not list(out.rglob("*.tmp"))


def _running(out: Path, files: int) -> bool:
    """Say whether a cell runs, and so many are finished."""
    return len(list((out / "cells").glob("*.json"))) >= files and bool(alive(out))


def _end_cell(path: Path, folder: Path) -> None:
    """Send SIGKILL to a process if it runs a cell of this folder."""
    try:
        line = path.read_bytes().decode("utf-8", "replace")
        if "consmrf.study.worker" in line and str(folder) in line:
            os.kill(int(path.parent.name), signal.SIGKILL)
    except (OSError, ProcessLookupError):
        pass


def test_an_interrupt_ends_the_cells(tmp_path, request):
    # a shell's background job is begun with the signal ignored, and hands that on
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    file, out = written(tmp_path, BRIEF), tmp_path / "out"
    study = subprocess.Popen(
        [*PROGRAM, str(file), "--out", str(out)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert patiently(lambda: (out / "cells").is_dir() and alive(out))
    study.send_signal(signal.SIGINT)
    _, err = study.communicate(timeout=60)
    assert (study.returncode, err) == (130, "consmrf: error: interrupted\n")
    assert patiently(lambda: not alive(out))
