"""Reading and writing: every format, every source, one graph."""

from __future__ import annotations

import csv
import gzip
import io
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from consmrf.errors import DataError, OutputError, SettingError
from consmrf.graph import delimited
from consmrf.graph.source import _zstd
from consmrf.graph.triples import Graph, read_triples, write_triples
from consmrf.graph.vocabulary import Vocabulary

Rows = list[tuple[str, str, str]]

TRICKY = [
    " leading",
    "trailing ",
    " ",
    "#hash",
    '"quoted"',
    'one " quote',
    "it's",
    "100%",
    "%41",
    "a,b;c|d",
    "001",
    "NA",
    "null",
    "NaN",
    "true",
    "1e5",
    "Björk",
    "Bjo\u0308rk",
    "東京",
    "عربى",
    "\u202eabc",
    "😀👩‍🚀",
    "\ufeffmark",
    "\u00a0nbsp",
    "a\\tb",
    "http://example.org/é?x=1#y",
    "urn:consmrf:already",
    "urn:consmrf:",
    "_:blank",
    "_:not a blank",
    "<a>",
    '"literal"@en',
    "item:1",
    "subject",
    "relation",
    "object",
    "\x1f\x85\u2028",
    "'",
    "=1+1",
]
ROWS: Rows = [(a, TRICKY[(3 * i) % 7], TRICKY[-1 - i]) for i, a in enumerate(TRICKY)] + [("a", "r", "a")]
PLAIN: Rows = [("b", "likes", "c"), ("a", "likes", "b"), ("a", "knows", "a"), ("c", "knows", "b")]

label = st.text(
    st.one_of(
        st.characters(exclude_categories=("Cs",), exclude_characters="\0\t\n\r"),
        st.sampled_from("\"',;|#% é😀ا"),
    ),
    min_size=1,
    max_size=12,
)
quoted_label = st.text(
    st.one_of(
        st.characters(exclude_categories=("Cs",), exclude_characters="\0"), st.sampled_from('",\r\n\t ')
    ),
    min_size=1,
    max_size=8,
)
some_settings = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)


def rows_of(labels: st.SearchStrategy[str]) -> st.SearchStrategy[Rows]:
    return st.lists(st.tuples(labels, labels, labels), min_size=1, max_size=12)


def write(path: Path, rows: Rows, separator: str = "\t", end: str = "\n") -> Path:
    path.write_bytes("".join(separator.join(row) + end for row in rows).encode())
    return path


@pytest.mark.parametrize("packing", ["", ".gz", ".zst"])
@pytest.mark.parametrize("suffix", ["tsv", "csv", "parquet", "nt"])
def test_what_is_written_reads_back_the_same(tmp_path: Path, suffix: str, packing: str) -> None:
    graph = read_triples(ROWS)
    path = tmp_path / f"graph.{suffix}{packing}"
    write_triples(graph, path)
    again = read_triples(path)
    assert again == graph
    assert again.labelled() == sorted(set(ROWS))
    assert [x.name for x in tmp_path.iterdir()] == [path.name]
    renamed = path.rename(tmp_path / "no-suffix")  # compression and most formats are known by their bytes
    assert read_triples(renamed) == graph


@some_settings
@given(rows_of(label))
def test_any_label_survives_every_format(tmp_path: Path, rows: Rows) -> None:
    graph = read_triples(rows)
    assert graph.labelled() == sorted(set(rows))
    for suffix in ("tsv", "csv", "parquet", "nt", "tsv.gz"):
        path = tmp_path / f"g.{suffix}"
        write_triples(graph, path)
        assert read_triples(path) == graph


@some_settings
@given(rows_of(quoted_label), st.sampled_from(",;\t|"), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_quoted_text_with_breaks_reads_back(
    tmp_path: Path, rows: Rows, separator: str, end: str, everything: bool
) -> None:
    text = io.StringIO()
    quoting = csv.QUOTE_ALL if everything else csv.QUOTE_MINIMAL
    writer = csv.writer(text, delimiter=separator, lineterminator=end, quoting=quoting)
    writer.writerow(["subject", "relation", "object"])
    writer.writerows(rows)
    (tmp_path / "g.csv").write_bytes(text.getvalue().encode())
    graph = read_triples(tmp_path / "g.csv")
    assert graph.labelled() == sorted(set(rows))
    assert graph.report is not None
    assert (graph.report.delimiter, graph.report.header) == (separator, True)


@some_settings
@given(rows_of(label), st.integers(1, 40), st.sampled_from(["g.tsv", "g.csv"]))
def test_the_size_of_a_block_changes_nothing(tmp_path: Path, rows: Rows, size: int, name: str) -> None:
    path = tmp_path / name
    write_triples(read_triples(rows), path)
    longest = max(len(line) for line in path.read_bytes().split(b"\n"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delimited, "BLOCK", longest + size)
        assert read_triples(path).labelled() == sorted(set(rows))


@some_settings
@given(rows_of(label))
def test_the_slow_scan_agrees_with_the_fast_parse(tmp_path: Path, rows: Rows) -> None:
    for name in ("g.tsv", "g.csv"):
        path = tmp_path / name
        write_triples(read_triples(rows), path)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(delimited, "_parsed", lambda *_: None)
            assert read_triples(path).labelled() == sorted(set(rows))


@pytest.mark.parametrize("name", ["g.tsv", "g.csv"])
def test_the_fast_parse_takes_what_is_well_formed(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_triples(read_triples(ROWS), tmp_path / name)
    monkeypatch.delattr(delimited, "_scanned")
    assert read_triples(tmp_path / name).labelled() == sorted(set(ROWS))


RDF = {
    "nt": "<x:b> <x:likes> <x:c> .\n<x:a> <x:likes> _:n .\n<x:a> <x:knows> <x:a> .\n",
    "nq": "<x:b> <x:likes> <x:c> <x:g> .\n<x:a> <x:likes> _:n .\n<x:a> <x:knows> <x:a> .\n",
    "ttl": "@prefix x: <x:> .\nx:b x:likes x:c .\nx:a x:likes _:n ;\n x:knows x:a .\n",
    "trig": "@prefix x: <x:> .\nx:g { x:b x:likes x:c . }\nx:a x:likes _:n ; x:knows x:a .\n",
    "rdf": '<?xml version="1.0"?>\n'
    '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:x="x:">'
    '<rdf:Description rdf:about="x:b"><x:likes rdf:resource="x:c"/></rdf:Description>'
    '<rdf:Description rdf:about="x:a"><x:likes rdf:nodeID="n"/><x:knows rdf:resource="x:a"/>'
    "</rdf:Description>"
    "</rdf:RDF>",
}
FACTS: Rows = [("x:a", "x:knows", "x:a"), ("x:a", "x:likes", "_:n"), ("x:b", "x:likes", "x:c")]


@pytest.mark.parametrize("packing", ["", ".gz", ".zst"])
@pytest.mark.parametrize("suffix", RDF)
def test_every_rdf_syntax_gives_the_same_graph(tmp_path: Path, suffix: str, packing: str) -> None:
    text = ("\ufeff" if suffix in ("nt", "ttl") else "") + RDF[suffix]
    pack = {"": bytes, ".gz": gzip.compress, ".zst": _zstd().compress}[packing]
    path = tmp_path / f"g.{suffix}{packing}"
    path.write_bytes(pack(text.encode()))
    assert read_triples(path).labelled() == FACTS
    if suffix != "trig":  # which begins as Turtle does
        bare = path.rename(tmp_path / "bare")
        assert read_triples(bare).labelled() == FACTS


def test_literals_are_counted_or_kept(tmp_path: Path) -> None:
    path = tmp_path / "g.nt"
    path.write_text(
        '<x:a> <x:age> "7"^^<x:int> .\n<x:a> <x:name> "A \\"b\\""@en .\n<x:a> <x:knows> <x:b> .\n'
    )
    graph = read_triples(path)
    assert graph.labelled() == [("x:a", "x:knows", "x:b")]
    assert graph.report is not None
    assert graph.report.literals == 2
    assert "2 triples with literals skipped" in graph.report.describe()
    kept = read_triples(path, literals=True)
    assert {o for _, _, o in kept.labelled()} == {'"7"^^<x:int>', '"A \\"b\\""@en', "x:b"}


def test_nameless_nodes_have_the_same_labels_in_every_run(tmp_path: Path) -> None:
    path = tmp_path / "g.ttl"
    path.write_text("<x:a> <x:b> [ <x:c> _:named ], [ <x:c> <x:d> ] .")
    first = read_triples(path).labelled()
    assert first == read_triples(path).labelled()
    assert {label for row in first for label in row if label.startswith("_:")} == {
        "_:named",
        "_:anonymous1",
        "_:anonymous2",
    }
    both = read_triples([path, path])
    assert "_:anonymous2.1" in both.vocabulary.entities  # another file's nameless node is another node


def test_every_source_in_memory_gives_the_same_graph() -> None:
    want = read_triples(PLAIN)
    s, r, o = zip(*PLAIN, strict=True)
    frame = pl.DataFrame({"subject": s, "relation": r, "object": o})
    swapped = frame.select("object", "subject", "relation")
    sources: list[object] = [
        frame,
        swapped,
        frame.lazy(),
        frame.cast(pl.Categorical),
        frame.rename({"subject": "x", "relation": "y", "object": "z"}),
        frame.with_columns(weight=1.5),
        frame.to_pandas(),
        swapped.to_pandas().astype("category"),
        pd.DataFrame(PLAIN),
        np.array(PLAIN),
        np.array(PLAIN, dtype=object),
        (np.array(s), np.array(r), np.array(o)),
        (row for row in PLAIN),
        [list(row) for row in PLAIN],
        dict.fromkeys(PLAIN),
    ]
    for source in sources:
        assert read_triples(source) == want
    assert read_triples(np.array(PLAIN)[:, [0, 2, 1]], columns="sor") == want
    assert read_triples([(1.5, *row) for row in PLAIN], columns=[1, 2, 3]) == want
    assert read_triples(frame.rename({"subject": "x"}), columns=["x", "relation", "object"]) == want


def test_whole_numbers_become_their_digits() -> None:
    rows = [(10, 0, 9), (9, 1, 10)]
    want = [("10", "0", "9"), ("9", "1", "10")]
    for source in (np.array(rows), rows, pl.DataFrame(rows, orient="row"), pd.DataFrame(rows)):
        assert read_triples(source).labelled() == want


def test_the_callers_frame_is_left_alone() -> None:
    frame = pl.DataFrame({"subject": ["a"], "relation": ["r"], "object": ["b"]})
    copy = frame.clone()
    read_triples(frame)
    assert frame.equals(copy)


def test_order_of_lines_changes_nothing_and_duplicates_are_counted(tmp_path: Path) -> None:
    rows = [*ROWS, *ROWS[:5]]
    want = read_triples(write(tmp_path / "a.tsv", [*PLAIN, *rows]), header=False)
    for seed in range(3):
        random.Random(seed).shuffle(rows)
        again = read_triples(write(tmp_path / "b.tsv", [*PLAIN, *rows]))
        assert again == want
        assert again.report is not None
        assert (again.report.rows, again.report.duplicates) == (len(PLAIN) + len(rows), 5)


def test_labels_are_sorted_by_code_point_and_rows_by_id() -> None:
    graph = read_triples(ROWS)
    assert graph.vocabulary == Vocabulary.of([x for s, _, o in ROWS for x in (s, o)], [r for _, r, _ in ROWS])
    assert graph.triples.dtype == np.int32
    assert graph.triples.tolist() == sorted(graph.triples.tolist())


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("last", [True, False])
def test_line_ends_and_byte_order_marks(tmp_path: Path, end: str, mark: str, last: bool) -> None:
    for name, separator in (("a.tsv", "\t"), ("a.csv", ",")):
        text = mark + end.join(separator.join(row) for row in PLAIN) + end * last
        (tmp_path / name).write_bytes(text.encode())
        assert read_triples(tmp_path / name) == read_triples(PLAIN)


def test_empty_lines_are_passed_over_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes(b"\na\tr\tb\n\r\n\nb\tr\ta\n\n")
    graph = read_triples(path)
    assert len(graph) == 2
    assert graph.report is not None
    assert "4 empty lines passed over" in graph.report.describe()


@pytest.mark.parametrize(
    ("first", "header", "order"),
    [
        ("subject,relation,object", True, ("subject", "relation", "object")),
        ("Head,Tail,Relation", True, ("subject", "object", "relation")),
        ("predicate,object,subject", True, ("relation", "object", "subject")),
        ("source,weight,relation,target", True, ("subject", "weight", "relation", "object")),
        ("s,r,o", False, ("subject", "relation", "object")),
        ("h,r,t", False, ("subject", "relation", "object")),
        ("subject,likes,object", False, ("subject", "relation", "object")),
        ("subject,subject,object", False, ("subject", "relation", "object")),
    ],
)
def test_a_header_is_concluded_only_from_names(
    tmp_path: Path, first: str, header: bool, order: tuple[str, ...]
) -> None:
    row = ",".join({"subject": "a", "relation": "r", "object": "b"}.get(role, "5") for role in order)
    (tmp_path / "g.csv").write_text(f"{first}\n{row}\n")
    graph = read_triples(tmp_path / "g.csv")
    assert graph.report is not None
    assert (graph.report.header, graph.report.columns) == (header, order)
    assert ("a", "r", "b") in graph.labelled()
    assert len(graph) == (1 if header else 2)
    assert ("a header:" if header else "no header:") in graph.report.describe()
    if len(order) == 3:
        assert len(read_triples(tmp_path / "g.csv", header=False)) == 2
    assert len(read_triples(tmp_path / "g.csv", header=True, columns=[0, 1, 2])) == 1


@pytest.mark.parametrize("columns", ["ors", "otr", [2, 1, 0], ["to whom", "what", "who"]])
def test_columns_may_stand_in_any_order(tmp_path: Path, columns: str | list[str] | list[int]) -> None:
    path = tmp_path / "g.tsv"
    if columns == "otr":
        columns = "trh"
    rows = [(o, r, s) for s, r, o in PLAIN]
    names = [("to whom", "what", "who")] if isinstance(columns, list) and "who" in columns else []
    wanted = ["who", "what", "to whom"] if names else columns
    assert read_triples(write(path, names + rows), columns=wanted) == read_triples(PLAIN)


def test_a_tsv_whose_first_row_looks_like_a_header_is_written_with_one(tmp_path: Path) -> None:
    graph = read_triples([("head", "relation", "tail"), ("z", "r", "z")])
    write_triples(graph, tmp_path / "g.tsv")
    assert (tmp_path / "g.tsv").read_text().startswith("subject\trelation\tobject\nhead\t")
    assert read_triples(tmp_path / "g.tsv") == graph


@pytest.mark.parametrize("delimiter", [";", ",", "|", "\t", "tab", " ", "]", "^", "\\", "-", "x"])
@pytest.mark.parametrize("name", ["g.csv", "g.tsv", "g.txt"])
@pytest.mark.parametrize("blank", ["", "\n"])  # with an empty line, the slow scan reads
def test_the_delimiter_may_be_said(tmp_path: Path, delimiter: str, name: str, blank: str) -> None:
    path, character = tmp_path / name, "\t" if delimiter == "tab" else delimiter
    cells = [name + ",;|".replace(character, "") for name in "ARB"]
    path.write_text(character.join(cells) + "\n" + blank)
    graph = read_triples(path, delimiter=delimiter)
    assert graph.labelled() == [tuple(cells)]
    assert graph.report is not None
    assert graph.report.delimiter == character


def test_the_delimiter_decides_what_two_would_fit(tmp_path: Path) -> None:
    path = tmp_path / "g.csv"
    path.write_text("Doe, John;knows;Smith, Ann\n")
    assert read_triples(path, delimiter=";").labelled() == [("Doe, John", "knows", "Smith, Ann")]
    assert read_triples(path, delimiter=",").labelled() == [("Doe", " John;knows;Smith", " Ann")]


def test_several_files_make_one_graph(tmp_path: Path) -> None:
    a = write(tmp_path / "a.tsv", PLAIN[:3])
    b = write(tmp_path / "b.csv", PLAIN[2:], ",")
    graph = read_triples([a, str(b)])
    assert graph == read_triples(PLAIN)
    assert graph.report is not None
    assert graph.report.sources == (str(a), str(b))
    assert (graph.report.format, graph.report.duplicates) == ("tsv, csv", 1)
    assert "\n" not in graph.report.describe()


@pytest.mark.parametrize("packed", [False, True])
def test_standard_input(tmp_path: Path, packed: bool) -> None:
    data = write(tmp_path / "a", PLAIN).read_bytes()
    code = (
        "from consmrf.graph.triples import read_triples as read; g = read('-');"
        "print(len(g), g.report.sources[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=gzip.compress(data) if packed else data,
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode().split() == ["4", "<stdin>"]


def test_reading_paths_needs_no_pandas(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", PLAIN)
    code = (
        "import sys; from consmrf.graph.triples import read_triples;"
        "heavy = {'polars', 'pandas', 'pyoxigraph'};"
        "assert not heavy & set(sys.modules); read_triples(sys.argv[1]); assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)


def test_a_graph_compares_without_its_report() -> None:
    a, b = read_triples(PLAIN), read_triples(np.array(PLAIN))
    assert a == b
    assert a != Graph(a.vocabulary, a.triples[:2])
    assert a != "graph"
    with pytest.raises(TypeError):
        hash(a)
    assert Graph(a.vocabulary, a.triples).report is None


def test_encode_translates_and_counts() -> None:
    graph = read_triples(PLAIN)
    smaller = read_triples([("a", "likes", "b")])
    encoded = graph.encode(smaller.vocabulary)
    assert (encoded.triples.tolist(), encoded.unseen_entity, encoded.unseen_relation) == ([[0, 0, 1]], 1, 2)


@pytest.mark.parametrize("text", ["a\tb", "a\nb", "a\rb", "a\0b"])
def test_what_tsv_cannot_hold_is_named_and_nothing_is_written(tmp_path: Path, text: str) -> None:
    path = tmp_path / "g.tsv"
    path.write_text("before")
    with pytest.raises(DataError, match="write CSV or Parquet") as caught:
        write_triples(read_triples([(text, "r", "b")]), path)
    assert repr(text) in str(caught.value)
    assert path.read_text() == "before"
    assert len(list(tmp_path.iterdir())) == 1
    write_triples(read_triples([(text, "r", "b")]), tmp_path / "g.parquet")
    assert read_triples(tmp_path / "g.parquet").labelled() == [(text, "r", "b")]


def test_failures_to_write(tmp_path: Path) -> None:
    graph = read_triples(PLAIN)
    with pytest.raises(SettingError, match=r"use \.tsv"):
        write_triples(graph, tmp_path / "g.ttl")
    with pytest.raises(OutputError, match="No such file"):
        write_triples(graph, tmp_path / "missing" / "g.tsv")
    with pytest.raises(DataError, match="surrogates"):
        write_triples(Graph(Vocabulary(("\ud800",), ("r",)), np.zeros((1, 3), np.int32)), tmp_path / "g.csv")
    assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    path = tmp_path / "g.tsv"
    path.write_text("before")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(OutputError, match="No space left"):
            write_triples(read_triples(PLAIN), path)
    assert path.read_text() == "before"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("name", ["nations", "umls", "wn18rr"])
def test_the_datasets_have_no_header(name: str) -> None:
    path = Path(__file__).parents[2] / "shared" / "data" / name / "train.tsv.gz"
    if not path.exists():
        pytest.skip("the shared datasets are not here")
    graph = read_triples(path)
    assert graph.report is not None
    assert not graph.report.header
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    assert graph.labelled() == sorted({tuple(line.split("\t")) for line in lines})
