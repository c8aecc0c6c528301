"""The command audit and its page: what is said and written, in any script, whole or not at all."""

from __future__ import annotations

import errno
import gzip
import json
import os
import re
from pathlib import Path

import pytest

from consmrf import Graph, audit, cli, read_triples, write_triples
from consmrf.report import files
from consmrf.report.audit import audit_lines, audit_page
from consmrf.report.audit_tables import middle
from test_report import NASTY, Reader

LONG = "/very/long/" + "x" * 300 + "/label"


def triples() -> tuple[list[tuple[str, str, str]], list[tuple[str, str, str]], list[tuple[str, str, str]]]:
    """A split with a finding of every kind; its labels are of many scripts, and some are nasty."""
    pairs = [(f"α{i}", f"ब{i}") for i in range(40)]
    train = [(s, r, o) for s, o in pairs for r in ("読む", NASTY)]
    train += [(o, LONG, s) for s, o in pairs]
    train += [(f"c{i}", "مع", f"c{j}") for i in range(12) for j in range(12)]
    train += [(f"x{i}", "inside", f"y{i}") for i in range(320)]
    train += [(f"x{i}", "around", "hub") for i in range(319)]
    train += [(f"x{i}", "around", f"y{i}") for i in range(320)]
    held = [("α1", "読む", "ब1"), ("c1", "مع", "c1"), ("new", "inside", "newer"), ("x1", "fresh", "y1")]
    train = sorted(set(train) - {held[0], held[1]})
    return train, [("y5", "inside", "x5"), held[2]], held


@pytest.fixture(scope="module")
def plain() -> dict:
    train, valid, test = map(read_triples, triples())
    return audit(train, valid=valid, test=test).to_dict()


@pytest.fixture
def split(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    for name, part in zip(("train.parquet", "valid.csv.zst", "test.csv.gz"), triples(), strict=True):
        write_triples(read_triples(part), tmp_path / "in" / name)
    return tmp_path / "in"


def asked(split: Path, *more: object) -> list[str]:
    parts = [split / "train.parquet", "--valid", split / "valid.csv.zst", "--test", split / "test.csv.gz"]
    return ["audit", *map(str, parts), *map(str, more)]


# -- words and tables


def test_a_finding_of_every_kind_is_a_sentence_and_what_to_do(plain: dict) -> None:
    kinds = {found["kind"] for found in plain["findings"]}
    assert kinds >= {"leaks", "links", "unseen", "duplicate", "inverse", "symmetric", "cartesian", "in both"}
    assert kinds >= {"contained", "functional", "loops", "sizes", "components", "supernodes"}
    for found in plain["findings"]:
        assert re.fullmatch(r"\S.*\.", found["sentence"], re.DOTALL)
        assert re.fullmatch(r"\S.*\.", found["remedy"], re.DOTALL)
        assert "  " not in found["sentence"]


def test_without_anything_odd_little_is_said() -> None:
    found = audit(read_triples([("a", "p", "b"), ("b", "p", "c")])).to_dict()
    assert [x["kind"] for x in found["findings"]] == ["sizes"]
    assert found["leaks"] == {}
    assert "answered by" not in audit_lines(found)
    assert Reader(audit_page(found)).wrong == []


def test_lines_are_for_a_terminal(plain: dict) -> None:
    text = audit_lines(plain)
    assert "\x1b" not in text
    tables = text.split("\n* ")[0].splitlines()
    assert max(map(len, tables)) < 200
    assert "/very/long/" in text


def test_a_long_label_keeps_its_ends() -> None:
    assert middle("a" * 44) == "a" * 44
    assert len(middle(LONG)) == 44
    assert middle(LONG).startswith("/very/long/")
    assert middle(LONG).endswith("/label")


# -- the page


@pytest.fixture(scope="module")
def text(plain: dict) -> str:
    return audit_page(plain, NASTY)


def test_the_page_is_well_formed_escaped_and_fetches_nothing(text: str) -> None:
    read = Reader(text)
    assert (read.open, read.wrong) == ([], [])
    assert not set(read.tags) & {"link", "script", "img", "iframe", "object", "embed"}
    assert not re.search(r"url\((?!#)|@import|https?:", text)
    assert "\x1b" not in text
    ids = [value for _, name, value in read.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert {value[1:] for _, name, value in read.attributes if name == "href"} <= set(ids)
    assert "読む" in text
    assert "mathdefault" not in text


def test_the_page_has_a_picture_and_a_table_of_each_finding(text: str) -> None:
    titles = re.findall(r"<h2>(.*?)</h2>", text)
    assert titles == [
        "In words",
        "Parts",
        "Leaks",
        "Relations that repeat each other",
        "Symmetric relations",
        "Cartesian relations",
        "Self-loops",
        "Categories of relations",
        "Shape",
        "Supernodes",
        "Settings",
    ]
    for section in text.split("<section>")[2:-1]:
        assert "<table>" in section
        assert "<svg" in section


def test_the_same_audit_makes_the_same_bytes(plain: dict, text: str) -> None:
    assert text == audit_page(json.loads(json.dumps(plain)), NASTY)


# -- the command


def test_the_command_says_and_writes_what_the_audit_found(capsys, split: Path, tmp_path: Path) -> None:
    places = tmp_path / "a.json", tmp_path / "a.html"
    assert cli.main(asked(split, "--json", places[0], "--html", places[1])) == 0
    out, err = capsys.readouterr()
    assert err == ""
    parts = (split / "train.parquet", split / "valid.csv.zst", split / "test.csv.gz")
    train, valid, test = map(read_triples, parts)
    found = audit(train, valid=valid, test=test).to_dict()
    assert json.loads(places[0].read_text("utf-8")) == json.loads(json.dumps(found))
    assert "<title>Audit of train.parquet</title>" in places[1].read_text("utf-8")
    assert audit_lines(found) in out


def test_the_command_takes_limits_and_several_files_of_training(capsys, tmp_path: Path) -> None:
    for part, r in (("one", "p"), ("two", "q")):
        rows = [(f"a{i}", r, f"b{i}") for i in range(4)]
        write_triples(read_triples(rows), tmp_path / f"{part}.tsv")
    place = tmp_path / "a.json"
    line = ["audit", str(tmp_path / "one.tsv"), str(tmp_path / "two.tsv"), "--json", str(place)]
    assert cli.main([*line, "--least", "4"]) == 0
    assert [x["kind"] for x in json.loads(place.read_text())["overlaps"]] == ["duplicate"]
    assert cli.main(line) == 0
    assert json.loads(place.read_text())["overlaps"] == []
    capsys.readouterr()


# -- a split without its leaks


def test_the_clean_split_is_written_as_it_was_read(capsys, split: Path, tmp_path: Path) -> None:
    place = tmp_path / "clean"
    assert cli.main(asked(split, "--write-clean", place)) == 0
    out = capsys.readouterr().out
    assert "dropped: 1 from valid, 2 from test" in out
    assert sorted(os.listdir(place)) == ["test.csv.gz", "train.parquet", "valid.csv.zst"]
    assert gzip.decompress((place / "test.csv.gz").read_bytes())
    train, valid, test = (
        read_triples(place / name) for name in ("train.parquet", "valid.csv.zst", "test.csv.gz")
    )
    assert train.labelled() == sorted(triples()[0])
    assert valid.labelled() == [("y5", "inside", "x5")]
    assert test.labelled() == [("new", "inside", "newer"), ("x1", "fresh", "y1")]
    found = audit(train, valid=valid, test=test)
    assert not any(x.leaking.any() for x in found.leaks.values())


@pytest.mark.parametrize("empty", [False, True])
def test_a_split_is_written_whole_or_not_at_all(
    capsys, monkeypatch, split: Path, tmp_path: Path, empty: bool
) -> None:
    place = tmp_path / "clean"
    if empty:
        place.mkdir()
    before = sorted(tmp_path.rglob("*"))
    whole, synced = os.fsync, []

    def full(descriptor: int) -> None:
        synced.append(descriptor)
        if len(synced) == 3:  # the last of the three files
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        whole(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    assert cli.main(asked(split, "--write-clean", place)) == 1
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    assert str(place) in err
    assert "No space left on device" in err
    assert ".tmp" not in err
    assert sorted(tmp_path.rglob("*")) == before
    monkeypatch.undo()
    assert cli.main(asked(split, "--write-clean", place)) == 0


def test_a_label_the_format_cannot_hold_leaves_nothing(tmp_path: Path) -> None:
    good, bad = read_triples([("a", "p", "b")]), read_triples([("a\tb", "p", "c")])
    with pytest.raises(Exception, match="a tab, a line break"):
        files.write_split(tmp_path / "clean", {"train": good, "test": bad}, {"train": good, "test": bad})
    assert list(tmp_path.iterdir()) == []


def test_formats_that_cannot_be_written_become_ntriples(tmp_path: Path) -> None:
    (tmp_path / "g.ttl").write_text("@prefix : <http://x/> . :a :p :b .")
    turtle = read_triples(tmp_path / "g.ttl")
    made: Graph = read_triples([("a", "p", "b")])
    parts = {"train": turtle, "test": made}
    names = files.write_split(tmp_path / "c", parts, parts)
    assert names == ["train.nt", "test.tsv"]
    assert read_triples(tmp_path / "c" / "train.nt").labelled() == turtle.labelled()
