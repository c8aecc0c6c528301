"""Tables, pictures and pages: true, well-formed, escaped, self-contained, and the same bytes every time."""

from __future__ import annotations

import functools
import json
import math
import os
import re
import subprocess
import sys
import threading
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from consmrf import OutputError, Status
from consmrf.report import figures, files, page, tables

NASTY = '<script>alert("1")</script> & $x_1$ \\ | "#id" \x1b[2J\n'
LABELS = ["reads", NASTY, "読む $x_1$", "a" * 80]


def evaluation(value, labels=LABELS, protocol="full"):
    metrics = {"mrr": value, "hits@1": 0.1, "hits@10": 0.3, "mr": 1234.5, "auc": None, "count": 12345}
    if protocol == "paper":
        metrics = {"auc": value, "precision@5": 0.1, "recall@5": math.nan, "count": 7}
    sides = ("both", "objects", "subjects") if protocol == "full" else ("objects",)
    lead = next(iter(metrics))
    return {
        "protocol": protocol,
        "filter": ["training triples of the model (10)", "test (5)"],
        "candidates": 2500,
        "triples": {"scored": 5, "unseen_entity": 2, "unseen_relation": 1},
        "options": {"unseen": "leave-out"},
        **dict.fromkeys(sides, metrics),
        "macro": dict.fromkeys(sides, metrics),
        "bounds": {side: {lead: [value - 0.01, value + 0.01]} for side in sides},
        "intervals": {side: {lead: [value - 0.02, value + 0.02]} for side in sides},
        "relations": {
            label: {side: {**metrics, "count": 10 - i, lead: value - i / 100} for side in sides}
            for i, label in enumerate(labels)
        },
        "relation_intervals": {labels[0]: {side: {lead: [value - 0.1, value + 0.1]} for side in sides}},
    }


def rounds(n=5, validation=True, stages=None):
    return [
        SimpleNamespace(
            round=i,
            loss=0.7 / i,
            primal_residual=5.0 / i,
            dual_residual=0.03 / i,
            validation=0.1 + i / 100 if validation else None,
            stage="rounds" if stages is None else stages[2 * i > n],
        )
        for i in range(1, n + 1)
    ]


DEPARTURES = {label: {"objects": 0.5 - i / 10, "subjects": 0.0} for i, label in enumerate(LABELS)}
METHODS = {"ours <b>": evaluation(0.3), "popularity": evaluation(0.2)}
PAPER = {name: evaluation(value, protocol="paper") for name, value in (("ours", 0.8), ("popularity", 0.7))}


@functools.cache
def pictures():
    return [
        figures.learning_curve(rounds(), 3),
        figures.learning_curve(rounds(60, validation=False), 0),
        figures.residuals(rounds()),
        figures.departure_bars(DEPARTURES, "departures"),
        figures.relation_bars(METHODS, LABELS, "full"),
        figures.relation_bars(PAPER, LABELS, "paper"),
    ]


def whole_page():
    parts = [page.section(NASTY, page.picture(svg, NASTY)) for svg in pictures()]
    parts.append(page.section("tables", tables.figures(METHODS), tables.relations(METHODS, LABELS)))
    parts.append(page.section("words", page.heading(NASTY), page.paragraph(NASTY), page.listing([NASTY])))
    parts.append(page.section("settings", page.settings({NASTY: NASTY, "dim": 3})))
    return page.page(NASTY, NASTY, parts)


class Reader(HTMLParser):
    """Notes what a page holds, and whether its tags are closed in order."""

    VOID = frozenset({"meta", "br", "link", "img", "input", "hr"})

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.wrong = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


# -- tables


def test_a_picture_of_stages_says_where_the_second_begins():
    staged, plain = rounds(stages=("consensus", "departures")), rounds()
    assert "departures" in figures.learning_curve(staged, 4)
    assert "departures" not in figures.learning_curve(plain, 4)
    assert "steps" in figures.residuals(staged)
    assert "dual" in figures.residuals(plain)


def test_the_most_departed_relations_come_first_and_the_rest_is_left_out():
    departures = {f"r{i:02}": {"objects": i / 100, "subjects": (i % 7) / 10} for i in range(40)}
    label = re.search(r'aria-label="([^"]*)"', figures.departure_bars(departures, "d"))[1]
    assert label.count("objects:") == label.count("subjects:") == 12
    assert "r34, objects: 0.340" in label
    assert "r00" not in label
    lines = tables.departed(departures, 3).text().splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["r06", "0.060", "0.600"],
        ["r13", "0.130", "0.600"],
        ["r20", "0.200", "0.600"],
    ]


def test_columns_of_text_are_aligned():
    table = tables.Table(("name", "MRR"), (("reads", "0.123"), ("読む", "0.1"), ("e\u0301", "1,234.5")))
    assert table.text().splitlines() == [
        "name       MRR",
        "reads    0.123",
        "読む       0.1",
        "e\u0301      1,234.5",
    ]


def test_markdown_keeps_its_columns():
    lines = tables.Table(("a", "b"), (("x | y", "<b>"), (NASTY, "1"))).markdown().splitlines()
    assert lines[:3] == ["| a | b |", "| --- | ---: |", "| x \\| y | &lt;b> |"]
    assert len(lines) == 4
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 3 for line in lines)


def test_columns_without_a_figure_are_left_out():
    table = tables.Table(("", "a", "b"), (("x", "", "1"), ("y", "", "")))
    assert table.without_empty() == tables.Table(("", "b"), (("x", "1"), ("y", "")))


def test_figures_of_all_sides_and_methods():
    text = tables.figures(METHODS).text()
    rows = {line.split("  ")[0] for line in text.splitlines()}
    places = ("both sides", "objects", "subjects", "mean of relations")
    expected = {f"{place}: {method}" for place in places for method in METHODS}
    assert expected <= rows
    assert "0.280–0.320" in text  # the interval
    assert "0.290–0.310" in text  # the bounds
    assert "1,234.5" in text
    assert "12,345" in text


def test_what_is_undefined_is_a_dash():
    assert tables.number("mrr", None) == tables.number("recall@5", math.nan) == "–"
    assert "–" in tables.figures(PAPER).text()


def test_notable_relations_are_the_largest_then_the_worst():
    many = evaluation(0.9, labels=[f"r{i:02}" for i in range(20)])
    assert tables.notable(many, 3) == ["r00", "r01", "r02", "r19", "r18", "r17"]
    assert tables.notable(evaluation(0.5)) == LABELS


def test_conditions_are_said():
    said = tables.conditions(METHODS["popularity"])
    assert "full protocol: against 2,500 entities" in said
    assert "training triples of the model (10), test (5)" in said
    assert "5 triples scored; left out: 2 with an unseen entity, 1 with an unseen relation" in said
    assert "sampled objects" in tables.conditions(PAPER["ours"])


def test_control_characters_are_shown_as_escapes():
    assert tables.printable("a\x1b[2J\r\n\u2028b\ud800") == "a\\x1b[2J\\r\\n\\u2028b\\ud800"
    assert tables.printable("Łódź 読む किताब") == "Łódź 読む किताब"


# -- pictures


@pytest.mark.parametrize("number", range(5))
def test_a_picture_is_well_formed_and_says_what_it_shows(number):
    svg = pictures()[number]
    root = ElementTree.fromstring(svg)
    assert root.attrib["role"] == "img"
    assert len(root.attrib["aria-label"]) > 20
    assert "currentColor" in svg
    assert "#010203" not in svg
    assert not re.search(r"https?:|<script|<!--", svg)


def test_the_bars_say_their_values_and_keep_labels_as_text():
    svg = figures.relation_bars(METHODS, LABELS, "full")
    assert "reads, ours &lt;b&gt;: 0.300" in svg
    assert "$x_1$" in svg
    assert "読む" in svg
    assert "a" * 31 + "…" in svg


def test_a_label_that_looks_like_an_id_or_like_ink_stays_as_it_is():
    label = 'id="x" url(#y) "#z" #010203'
    text = "".join(
        ElementTree.fromstring(
            figures.relation_bars({"m": evaluation(0.5, [label])}, [label], "n")
        ).itertext()
    )
    assert label in text


def test_the_kept_round_is_marked():
    assert "kept: round 3" in figures.learning_curve(rounds(), 3)


def test_residuals_of_zero_can_be_drawn():
    flat = [SimpleNamespace(round=1, primal_residual=0.0, dual_residual=0.0, stage="rounds")]
    assert "<svg" in figures.residuals(flat)


def test_the_same_values_give_the_same_bytes_whatever_the_style():
    import matplotlib as mpl

    once = pictures()
    pictures.cache_clear()
    with mpl.rc_context({"axes.grid": True, "font.size": 30, "lines.linewidth": 9}):
        assert pictures() == once
        assert mpl.rcParams["font.size"] == 30


def test_drawing_leaves_no_figure_behind():
    import matplotlib.pyplot as plt

    figures.residuals(rounds())
    assert plt.get_fignums() == []


# -- pages


def test_a_page_is_well_formed_and_escaped():
    text = whole_page()
    read = Reader(text)
    assert (read.open, read.wrong) == ([], [])
    assert "script" not in read.tags
    assert "b" not in read.tags
    assert "&lt;script&gt;" in text
    assert "\x1b" not in text


def test_a_page_fetches_nothing():
    text = whole_page()
    read = Reader(text)
    assert not set(read.tags) & {"link", "script", "img", "iframe", "object", "embed"}
    links = [value for _, name, value in read.attributes if name in {"href", "src", "xlink:href", "action"}]
    assert all(link.startswith("#") for link in links)
    assert not re.search(r"url\((?!#)|@import|https?:", text)


def test_a_page_has_its_ids_once_and_every_reference_has_one():
    read = Reader(whole_page().replace("learning-", "first-", 1))
    svgs = pictures()
    ids = [re.findall(r'\bid="([^"]+)"', svg) for svg in (svgs[0], svgs[2], svgs[3], svgs[4])]
    flat = [name for part in ids for name in part]
    assert len(flat) == len(set(flat))
    defined = {value for _, name, value in read.attributes if name == "id"}
    asked = {value[1:] for _, name, value in read.attributes if name == "href"}
    assert asked <= defined | {name.replace("learning-", "first-") for name in defined}


def test_a_page_is_for_light_and_dark():
    text = whole_page()
    assert "prefers-color-scheme: dark" in text
    assert '<html lang="en">' in text
    assert '<meta charset="utf-8">' in text


# -- files


def test_json_has_a_word_for_every_number(tmp_path):
    value = {"a": math.nan, "b": [math.inf, 1.5, None], "読": {"c": (1, 2)}}
    files.write_json(tmp_path / "f.json", value)
    assert json.loads((tmp_path / "f.json").read_text("utf-8")) == {
        "a": None,
        "b": [None, 1.5, None],
        "読": {"c": [1, 2]},
    }
    assert [p.name for p in tmp_path.iterdir()] == ["f.json"]


def test_the_sentence_of_a_fit_says_that_nothing_was_learned():
    summary = f"{Status.MAX_EPOCHS.value} But nothing was learned."
    kept = SimpleNamespace(
        status=Status.MAX_EPOCHS, summary=summary, best_round=1, skipped_triples=0, seconds={}, rounds=()
    )
    told = files.info_to_dict(kept)
    assert (told["status"], told["sentence"]) == ("MAX_EPOCHS", summary)


def test_text_with_half_a_surrogate_pair_is_written(tmp_path):
    files.write_text(tmp_path / "t", "a\ud800b")
    assert (tmp_path / "t").read_bytes() == b"a\\ud800b"


def test_a_reader_sees_the_old_file_or_the_new_one(tmp_path):
    path, texts = tmp_path / "t", ("old" * 50_000, "new" * 50_000)
    files.write_text(path, texts[0])
    seen, ended = set(), threading.Event()

    def read():
        while not ended.is_set():
            seen.add(path.read_text())

    reader = threading.Thread(target=read)
    reader.start()
    for i in range(50):
        files.write_text(path, texts[i % 2])
    ended.set()
    reader.join()
    assert seen <= set(texts)


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path):
    (tmp_path / "there").mkdir()
    link, target = tmp_path / "link", tmp_path / "there" / "t"
    link.symlink_to(Path("there") / "t")
    for text in ("new", "replaced"):  # at first the link leads nowhere
        files.check_writable(link)
        files.write_text(link, text)
        assert link.is_symlink()
        assert not target.is_symlink()
        assert target.read_text() == text
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["link", "t", "there"]
    link.unlink()
    link.symlink_to(link)
    with pytest.raises(OutputError, match="symbolic links"):
        files.write_text(link, "new")
    assert link.is_symlink()


@pytest.mark.parametrize("through_a_link", [False, True])
def test_a_pipe_is_written_to_and_stays(tmp_path, through_a_link):
    pipe = path = tmp_path / "pipe"
    os.mkfifo(pipe)
    if through_a_link:
        path = tmp_path / "link"
        path.symlink_to(pipe)
    before = sorted(tmp_path.iterdir())
    files.check_writable(path)
    told = []
    reader = threading.Thread(target=lambda: told.append(pipe.read_text()))
    reader.start()
    files.write_text(path, "new" * 50_000)
    reader.join()
    assert told == ["new" * 50_000]
    assert sorted(tmp_path.iterdir()) == before
    assert pipe.is_fifo()


def test_a_device_is_written_to_and_stays():
    null = Path("/dev/null")
    if not null.is_char_device():
        pytest.skip("no /dev/null here")
    files.check_writable(null)
    files.write_text(null, "gone")
    assert null.is_char_device()


@pytest.mark.parametrize("named", ["/dev/stdout", "out"])
def test_what_goes_to_stdout_joins_what_is_there(tmp_path, named):
    """Also when stdout is a file: replaced or opened anew, it would lose what was printed before or after."""
    if not Path("/dev/stdout").exists():
        pytest.skip("no /dev/stdout here")
    code = (
        "import sys; from pathlib import Path; from consmrf.report import files\n"
        "print('before', flush=True)\n"
        "files.check_writable(Path(sys.argv[1])); files.write_text(Path(sys.argv[1]), 'text\\n')\n"
        "print('after')"
    )
    with open(tmp_path / "out", "wb") as out:
        place = named if named.startswith("/") else tmp_path / named
        subprocess.run([sys.executable, "-c", code, place], stdout=out, check=True)
    assert (tmp_path / "out").read_text() == "before\ntext\nafter\n"
    piped = subprocess.run([sys.executable, "-c", code, "/dev/stdout"], capture_output=True, check=True)
    assert piped.stdout == b"before\ntext\nafter\n"


def test_a_reader_that_leaves_is_an_error_of_output(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: open(pipe, "rb").close())
    reader.start()
    with pytest.raises(OutputError, match="pipe: cannot be written: Broken pipe"):
        files.write_text(pipe, "new" * 500_000)
    reader.join()
    assert pipe.is_fifo()


def test_a_place_is_checked_without_a_trace(tmp_path):
    files.check_writable(tmp_path / "new.json")
    files.check_model_place(tmp_path / "model")
    (tmp_path / "empty").mkdir()
    files.check_model_place(tmp_path / "empty")
    assert [p.name for p in tmp_path.iterdir()] == ["empty"]
    (tmp_path / "empty" / "manifest.json").write_text('["not ours"]')
    with pytest.raises(OutputError, match="is not a consmrf model"):
        files.check_model_place(tmp_path / "empty")
