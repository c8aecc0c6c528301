"""Weights and values of triples: read, joined, carried through splits and partitions, written, refused."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import consmrf
from consmrf import DataError, SettingError, folds, read_triples, split, write_triples
from consmrf.consensus.facts import lay_out
from consmrf.graph.partition import partition
from problems import random_graph

ROWS = [
    ("ann", "rates", "dune", 2.0, 4.5),
    ("bob", "rates", "dune", 0.0, -1.0),
    ("ann", "knows", "bob", 1, 1),
]
BOTH = {"weight": "weight", "value": "value"}


def by_label(graph):
    columns = [[1.0] * len(graph) if x is None else x.tolist() for x in (graph.weights, graph.values)]
    return dict(zip(graph.labelled(), zip(*columns, strict=True), strict=True))


WANTED = {row[:3]: (float(row[3]), float(row[4])) for row in ROWS}


def table(**columns):
    names = ("subject", "relation", "object", "weight", "value")
    return dict(zip(names, map(list, zip(*ROWS, strict=True)), strict=True)) | columns


def test_every_source_in_memory_gives_the_same_numbers():
    frame = table(weight=[2.0, 0, 1], value=[4.5, -1, 1])
    arrays = tuple(np.array(column) for column in frame.values())
    for source, options in (
        (ROWS, {"weight": 3, "value": 4}),
        ([(v, w, s, r, o) for s, r, o, w, v in ROWS], {"weight": 1, "value": 0}),
        (pl.DataFrame(frame), BOTH),
        (pl.DataFrame(frame).with_columns(pl.col("weight").cast(pl.Int8)), BOTH),
        (pd.DataFrame(frame), BOTH),
        (arrays, {"weight": 3, "value": 4}),
        (np.array([[str(x) for x in row] for row in ROWS]), {"weight": 3, "value": 4}),
        (np.array(ROWS, dtype=object), {"weight": 3, "value": 4}),
    ):
        assert by_label(read_triples(source, **options)) == WANTED


@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".csv.gz", ".parquet"])
def test_files_give_them_back_to_the_bit(tmp_path: Path, suffix: str) -> None:
    rng = np.random.default_rng(0)
    rows = [(f"s{i}", "r, 1", f"o{i}", 10.0 ** rng.uniform(-20, 20), rng.normal()) for i in range(50)]
    graph = read_triples(rows, weight=3, value=4)
    write_triples(graph, tmp_path / f"g{suffix}")
    assert read_triples(tmp_path / f"g{suffix}", **BOTH) == graph
    assert read_triples(tmp_path / f"g{suffix}") == replace(graph, weights=None, values=None)


def test_a_file_without_a_header_gives_its_numbers_by_position(tmp_path: Path) -> None:
    (tmp_path / "g.tsv").write_text("".join("\t".join(map(str, row)) + "\n" for row in ROWS))
    graph = read_triples(tmp_path / "g.tsv", weight=3, value=4)
    assert by_label(graph) == WANTED
    assert "columns subject, relation, object, weight, value" in graph.report.describe()
    (tmp_path / "h.csv").write_text("".join(f"{w},{o},{s},{r}\n" for s, r, o, w, _ in ROWS))
    turned = read_triples(tmp_path / "h.csv", weight=0, columns="osr")
    assert {k: w for k, (w, _) in by_label(turned).items()} == {k: w for k, (w, _) in WANTED.items()}


def test_n_triples_cannot_hold_them(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="cannot hold each triple's weight"):
        write_triples(read_triples(ROWS, weight=3, columns=[0, 1, 2]), tmp_path / "g.nt")
    assert not list(tmp_path.iterdir())


said = st.tuples(
    st.sampled_from("ab"), st.just("r"), st.sampled_from("cd"), st.integers(0, 4), st.integers(-3, 3)
)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(said, min_size=1, max_size=12), seed=st.integers(0, 5))
def test_what_is_said_several_times_is_joined_whatever_the_order(rows, seed):
    groups = defaultdict(list)
    for *labels, weight, value in rows:
        groups[tuple(labels)].append((weight, value))
    wanted = {}
    for labels, pairs in groups.items():
        total = sum(w for w, _ in pairs)
        shares = [w / total if total else 1 / len(pairs) for w, _ in pairs]
        wanted[labels] = (total, sum(x * v for x, (_, v) in zip(shares, pairs, strict=True)))
    graph = read_triples(rows, weight=3, value=4)
    found = by_label(graph)
    assert found.keys() == wanted.keys()
    for labels, numbers in wanted.items():
        assert found[labels] == pytest.approx(numbers)
    mixed = [rows[i] for i in np.random.default_rng(seed).permutation(len(rows))]
    assert read_triples(mixed, weight=3, value=4) == graph


def test_the_report_says_what_became_of_duplicates():
    twice = [*ROWS, ROWS[0]]
    told = read_triples(twice, weight=3, value=4).report.describe()
    assert told.endswith("1 duplicates joined, their weights added, their values averaged")
    assert read_triples(twice, weight=3, columns=[0, 1, 2]).report.describe().endswith("their weights added")


@pytest.mark.parametrize(
    ("cell", "role", "what"),
    [
        ("-1", "weight", "the weight '-1', expected a number from 0 to 1e+30"),
        ("nan", "weight", "the weight 'nan', expected"),
        ("inf", "value", "the value 'inf', expected a number from -1e+30 to 1e+30"),
        ("two", "value", "the value 'two', expected"),
        ("1e400", "weight", "the weight '1e400', expected"),
        ("1_0", "value", "the value '1_0', expected"),
        (" 1", "value", "the value ' 1', expected"),
        ("", "weight", "an empty weight, expected a number"),
    ],
)
def test_a_bad_number_in_a_file_is_named_with_its_line(
    tmp_path: Path, cell: str, role: str, what: str
) -> None:
    (tmp_path / "g.tsv").write_text(f"a\tr\tb\t1\nc\tr\td\t{cell}\ne\tr\tf\t1\n")
    with pytest.raises(DataError) as caught:
        read_triples(tmp_path / "g.tsv", **{role: 3})
    assert str(caught.value).startswith(f"{tmp_path / 'g.tsv'}:2: found {what}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("cell", "what"),
    [
        (-2.0, "float -2.0"),
        (None, "null"),
        (float("nan"), "float nan"),
        (True, "bool True"),
        ("x", "str 'x'"),
    ],
)
def test_a_bad_number_in_memory_is_named_with_its_row(cell: object, what: str) -> None:
    rows = [("a", "r", "b", 1.0), ("c", "r", "d", cell)]
    sources = [rows, pl.DataFrame({n: [r[i] for r in rows] for i, n in enumerate("srow")}, strict=False)]
    for source in sources[: 1 if isinstance(cell, bool | str) else 2]:
        with pytest.raises(DataError, match=f"row 2: found {what} as weight, expected a number from 0"):
            read_triples(source, weight=3)


def test_a_frame_column_that_holds_no_numbers_is_refused():
    frame = pl.DataFrame({"s": ["a"], "r": ["r"], "o": ["b"], "w": [True]})
    with pytest.raises(DataError, match="row 1: found bool True as weight"):
        read_triples(frame, weight="w")


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"weight": ""}, "weight = '': must be the name of the column, or its position"),
        ({"value": -1}, "value = -1: must be"),
        ({"weight": True}, "weight = True: must be"),
        ({"weight": 3, "value": 3}, "weight and value = 3: must be two columns"),
        ({"weight": 1, "columns": [0, 1, 2]}, "weight = 1: this column is the relation; give another"),
        ({"weight": "w", "header": False}, "'w' with header=False: names need a header"),
        ({"value": 7}, "expected column 7; correct value="),
        ({"weight": "w"}, "expected column 'w'; correct weight="),
    ],
)
def test_columns_that_cannot_be_are_refused(tmp_path: Path, options: dict, what: str) -> None:
    (tmp_path / "g.tsv").write_text("a\tr\tb\t1\n")
    with pytest.raises(consmrf.InputError, match=what.replace("(", r"\(")) as caught:
        read_triples(tmp_path / "g.tsv", **options)
    assert "\n" not in str(caught.value)


def test_rdf_has_no_columns(tmp_path: Path) -> None:
    (tmp_path / "g.nt").write_text("<a:a> <a:r> <a:b> .\n")
    with pytest.raises(SettingError, match="weight does not apply to ntriples"):
        read_triples(tmp_path / "g.nt", weight=3)


def numbered(seed=0):
    """A graph whose weight and value say which triple it is."""
    graph = random_graph(seed)
    s, r, o = graph.triples.T.astype(float)
    return replace(graph, weights=1 + s + 100 * r + 1000 * o, values=s - o)


def check(graph):
    for (s, r, o), weight, value in zip(graph.labelled(), graph.weights, graph.values, strict=True):
        s, r, o = int(s[1:]), int(r[1:]), int(o[1:])
        assert (weight, value) == (1 + s + 100 * r + 1000 * o, s - o)


def test_a_split_and_folds_keep_each_triples_numbers():
    graph = numbered()
    for cut in (split(graph, seed=1), split(graph, unseen="train", stratify=True), *folds(graph, 3)):
        for part in (cut.train, cut.valid, cut.test):
            check(part)


@pytest.mark.parametrize("reciprocal", [False, True])
def test_the_layout_keeps_each_facts_numbers(reciprocal: bool) -> None:
    graph = numbered()
    order = np.random.default_rng(2).permutation(len(graph))
    mixed = replace(
        graph, triples=graph.triples[order], weights=graph.weights[order], values=graph.values[order]
    )
    n, parts = len(graph.vocabulary.entities), partition(mixed)
    facts = lay_out(parts, n, reciprocal=reciprocal, views=None).facts
    turned = facts.relations >= len(parts)
    s, o = np.where(turned, facts.objects, facts.subjects), np.where(turned, facts.subjects, facts.objects)
    np.testing.assert_array_equal(facts.weights, 1 + s + 100 * (facts.relations % len(parts)) + 1000 * o)
    np.testing.assert_array_equal(facts.values, s - o)
    touched = np.zeros(len(facts.touches))
    for ends in (facts.subject_slots, facts.object_slots):
        np.add.at(touched, ends, facts.weights)
    np.testing.assert_allclose(facts.touches, touched)


def test_a_layout_without_numbers_has_none():
    graph = random_graph(0)
    facts = lay_out(partition(graph), 17, reciprocal=True, views=None).facts
    assert not len(facts.weights)
    assert not len(facts.values)


def test_graphs_that_differ_in_their_numbers_are_not_the_same():
    graph = numbered()
    assert graph == numbered()
    assert graph != replace(graph, weights=graph.weights + 1)
    assert graph != replace(graph, values=None)
