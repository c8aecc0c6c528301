"""Use an installed consmrf as a stranger would: its command on a small graph, in the current, empty folder.

`make smoke` runs it in an environment that holds the wheel and what the wheel asks for, nothing else.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

SCRIPT = Path(sys.executable).with_name("consmrf")
REPOSITORY = Path(__file__).resolve().parents[2]
HEAVY = ("numba", "llvmlite", "polars", "matplotlib", "pyoxigraph", "rich", "cyclopts")

# labels with a space, a quote and letters beyond ASCII
PEOPLE = [f"person {i}" for i in range(12)] + ['Ana "la" Óscar', "Ōe 健三郎"]


def command(*arguments: str, exit_code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run the console script; an exit code that was not expected ends the test with what was said."""
    done = subprocess.run(
        [SCRIPT, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    if done.returncode != exit_code:
        sys.exit(f"consmrf {' '.join(arguments)}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    print(f"consmrf {' '.join(arguments)}")
    return done


def importing_is_quick_to_start() -> None:
    """A fresh interpreter that imports the package loads nothing heavy; how long it took is only said."""
    code = (
        "import sys, time; before = time.perf_counter(); import consmrf; print(time.perf_counter() - before);"
        f"print(*(name for name in {HEAVY} if name in sys.modules))"
    )
    run = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    seconds, loaded = run.stdout.splitlines()
    assert not loaded, f"import consmrf loads {loaded}"
    print(f"import consmrf: {float(seconds):.3f} s")


def the_wheel_is_what_runs() -> None:
    """The package comes from the environment, complete and typed."""
    import consmrf

    package = Path(consmrf.__file__ or "").resolve().parent
    print(f"consmrf {consmrf.__version__} from {package}")
    assert package.is_relative_to(Path(sys.prefix).resolve()), f"consmrf is imported from {package}"
    assert not package.is_relative_to(REPOSITORY / "src"), f"consmrf is imported from {package}"
    assert (package / "py.typed").exists(), "the wheel lacks py.typed"
    assert all(hasattr(consmrf, name) for name in consmrf.__all__), "a public name is missing"
    licences = [file for file in metadata.files("consmrf") or [] if file.name == "LICENSE"]
    assert licences, "the wheel lacks its licence"


def write_graph() -> tuple[str, str, str]:
    """Write two circles of friends and what they read; hand on a test triple that was held out."""
    facts = []
    for i, a in enumerate(PEOPLE):
        facts += [(a, "follows", b) for j, b in enumerate(PEOPLE) if i != j and (i - j) % 2 == 0]
        facts += [(a, "reads", f"paper {n}") for n in range(4) if (i + n) % 2 == 0]
    held_out = facts.pop()
    Path("train.tsv").write_text("".join("\t".join(fact) + "\n" for fact in facts), encoding="utf-8")
    Path("test.tsv").write_text("\t".join(held_out) + "\n", encoding="utf-8")
    return held_out


def the_commands_work(held_out: tuple[str, str, str]) -> None:
    subject, relation, _ = held_out
    command(
        "fit",
        "train.tsv",
        "--out",
        "model",
        "--dim",
        "4",
        "--max-epochs",
        "3",
        "--seed",
        "0",
        "--threads",
        "2",
    )
    written = ("--json", "scores.json", "--ranks", "model.ranks", "--html", "page.html")
    command("evaluate", "model", "test.tsv", "--known", "train.tsv", *written)
    scores = json.loads(Path("scores.json").read_text(encoding="utf-8"))
    assert 0 < scores["both"]["mrr"] <= 1, scores["both"]
    assert "<svg" in Path("page.html").read_text(encoding="utf-8")
    assert "2 ranks are in both" in command("compare", "model.ranks", "model.ranks").stdout
    said = command("predict", "model", "--subject", subject, "--relation", relation, "--top", "3", "--json")
    assert json.loads(said.stdout), said.stdout
    assert relation in command("info", "model").stdout


def mistakes_are_one_line() -> None:
    said = command("fit", "absent.tsv", "--out", "other", exit_code=1)
    assert said.stderr.count("\n") == 1, said.stderr
    assert "absent.tsv" in said.stderr, said.stderr
    assert not Path("other").exists()
    # the study's file is in the wheel, its data are not here
    said = command("study", "--paper", "--out", "study", exit_code=1)
    assert "must hold one file train.*" in said.stderr, said.stderr


def main() -> None:
    importing_is_quick_to_start()
    the_wheel_is_what_runs()
    assert command("--version").stdout.split()[-1] == metadata.version("consmrf")
    the_commands_work(write_graph())
    mistakes_are_one_line()
    print(f"the wheel works on Python {sys.version.split()[0]}")


if __name__ == "__main__":
    main()
