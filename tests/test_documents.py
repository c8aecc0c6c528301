"""What the documents promise: their links lead somewhere, and the README's lines work as they stand."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from urllib.parse import unquote

import pytest

from consmrf import cli, write_triples
from consmrf.demo.social import make_social_graph

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text("utf-8")
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


def fenced(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def headings(document: Path) -> set[str]:
    """Hand on the anchors of a document's headings, as the sites that show it make them."""
    titles = re.findall(r"^#+ +(.+)$", document.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.casefold()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_leads_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text("utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = unquote(target).partition("#")
        place = (document.parent / name) if name else document
        assert place.exists(), f"{document.name} links to {target}"
        assert not anchor or anchor in headings(place), f"{document.name} links to {target}"


def test_every_document_is_linked_from_the_readme() -> None:
    linked = re.findall(r"\]\((docs/[^)\s]+)\)", README)
    assert set(linked) == {f"docs/{path.name}" for path in ROOT.glob("docs/*.md")}


@pytest.fixture
def after_the_demo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder with the graph that the demo leaves, to stand in."""
    graph = make_social_graph(0)
    (tmp_path / "demo").mkdir()
    for part in ("train", "valid", "test"):
        write_triples(getattr(graph, part), tmp_path / "demo" / f"{part}.tsv")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_readmes_commands_work(after_the_demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line for block in fenced("sh") for line in block.splitlines() if line.startswith("consmrf ")]
    assert {shlex.split(line)[1] for line in lines} == {"fit", "evaluate", "compare", "predict", "info"}
    for line in lines:
        assert cli.main(shlex.split(line)[1:]) == 0, line
        assert capsys.readouterr().err == "", line
    assert json.loads((after_the_demo / "figures.json").read_text())["protocol"] == "paper"


@pytest.mark.usefixtures("after_the_demo")
def test_the_readmes_python_works(capsys: pytest.CaptureFixture[str]) -> None:
    [block] = fenced("python")
    exec(compile(block, "README.md", "exec"), {})
    assert len(capsys.readouterr().out.splitlines()) == 5


def test_the_readme_names_targets_that_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert (
        set(re.findall(r"\bmake ([a-z]+)\b", "\n".join(re.findall(r"`[^`]*`|^make .*$", README, re.M))))
        <= targets
    )
