"""Input that cannot be used: each case stops with one line that says where, what was found and what to do."""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from consmrf.errors import ConsmrfError, DataError, SettingError
from consmrf.graph import delimited
from consmrf.graph.source import _zstd
from consmrf.graph.triples import read_triples

GOOD = "".join(f"entity {i}\tknows\tentity {i + 1}\n" for i in range(2000))
NOISE = "".join(f"{i * 7919 % 10007}\tr{i % 13}\t{i * 104729 % 10007}\n" for i in range(20000)).encode()
FACT = "<x:a> <x:b> <x:c> .\n"
PARQUET_NULL = {"subject": ["a", "b"], "relation": ["r", None], "object": ["c", "d"]}


def parquet(data: dict[str, list[Any]]) -> Callable[[Path], None]:
    return lambda path: pl.DataFrame(data).write_parquet(path)


# file name, content, line (None: the whole file), what the message says
FILES: list[tuple[str, bytes | str, int | None, str]] = [
    (
        "short.tsv",
        GOOD + "a\tb\n" + GOOD,
        2001,
        r"found 2 columns \('a', 'b'\), expected 3 separated by tabs; fix",
    ),
    ("long.tsv", "a\tr\tb\na\tr\tb\tc\n", 2, r"found 4 columns \('a', 'r', 'b', 'c'\), expected 3"),
    ("long-first.tsv", "a\tr\tb\tc\n", 1, r"found 4 columns .* say which three with columns="),
    ("one.tsv", "a b c\n", 1, r"found 1 column \('a b c'\), expected 3 separated by tabs"),
    ("crlf.tsv", "a\tr\tb\r\na\tr\r\n", 2, r"found 2 columns \('a', 'r'\)"),
    ("blank.tsv", "a\tr\tb\n \na\tr\tb\n", 2, r"found 1 column \(' '\)"),
    ("after-blank.tsv", "\n\na\tr\tb\n\na\tr\n", 5, r"found 2 columns"),
    ("short.csv", "subject,relation,object\na,r,b\na,r\n", 3, r"found 2 columns .* separated by commas"),
    ("bars.csv", "a|r|b\n" * 30 + "a|r\n", 31, r"expected 3 separated by bars"),
    (
        "semicolons.csv",
        "a;r;b\n\na;r\n",
        3,
        r"found 2 columns \('a', 'r'\), expected 3 separated by semicolons",
    ),
    ("wide.csv", "head,relation,tail,note\na,r,b,\na,r,b\n", 3, r"found 3 columns .*, expected 4"),
    ("multi.csv", 'a,r,"b\nc"\na,r\n', 3, r"found 2 columns"),
    ("stray.csv", 'a,r,b\na,r,b"c\n', 2, r"found a quote that does not enclose a whole field"),
    ("after.csv", 'a,r,b\na,r,"b"c\n', 2, r"found a quote"),
    ("open.csv", 'a,r,b\na,r,"b\na,r,b\n', 2, r"found a quote"),
    ("returned.csv", 'a,r,"b"\rx\na,r,b\n', 1, r"found a quote"),
    (
        "either.csv",
        "Doe, John;knows;Smith, Ann\n" * 3,
        None,
        r"by commas or by semicolons; say which with del",
    ),
    (
        "either.txt",
        "a;r;b|c|d\n",
        None,
        r"semicolons or by bars; say which with delimiter=';' or delimiter='\|'",
    ),
    ("either-tab.csv", "a,r\tb\tc,d\n", None, r"with delimiter=',' or delimiter='tab'"),
    ("empty-s.tsv", "a\tr\tb\n\tr\tb\n", 2, r"found an empty subject, expected a label"),
    ("empty-r.tsv", "a\t\tb\n", 1, r"found an empty relation"),
    ("empty-o.tsv", GOOD + "a\tr\t\n", 2001, r"found an empty object"),
    ("empty-o.csv", 'a,r,b\na,r,""\n', 2, r"found an empty object"),
    ("nothing.tsv", "", None, r"the file is empty"),
    ("nothing.tsv.gz", gzip.compress(b""), None, r"the file is empty"),
    ("mark.tsv", "\ufeff", None, r"the file is empty"),
    ("lines.tsv", "\n\n\n", None, r"only empty lines"),
    ("header.tsv", "subject\trelation\tobject\n", None, r"only a header"),
    (
        "binary.tsv",
        b"a\tr\tb\n\x7fELF\x00\x01\n",
        2,
        r"found a zero byte, expected UTF-8 text; is this a binary",
    ),
    ("latin.tsv", GOOD.encode() + "Bj\xf6rk\tr\tb\n".encode("latin-1"), 2001, r"found the byte 0xf6.*UTF-8"),
    ("cut-character.tsv", "a\tr\tbö".encode()[:-1], 1, r"found the byte 0xc3"),
    ("utf16.tsv", "a\tr\tb\n".encode("utf-16"), None, r"UTF-16"),
    ("archive.tsv", b"PK\x03\x04....", None, r"found a zip archive"),
    ("old.tsv.bz2", b"BZh91AY&SY", None, r"found data compressed with bzip2; use gzip or zstd"),
    ("cut.tsv.gz", gzip.compress(NOISE)[:-100], None, r"the gzip data end too early"),
    ("broken.tsv.gz", gzip.compress(NOISE)[:5000] + b"\xff" * 99, None, r"broken gzip data|gzip data end"),
    ("tail.tsv.gz", gzip.compress(NOISE) + b"garbage", None, r"broken gzip data"),
    ("checksum.tsv.gz", gzip.compress(NOISE)[:-8] + b"\0" * 8, None, r"broken gzip data"),
    ("cut.tsv.zst", _zstd().compress(NOISE)[:-100], None, r"the zstd data end too early"),
    ("broken.tsv.zst", _zstd().compress(NOISE)[:4] + b"\xff" * 500, None, r"broken zstd data"),
    ("no.parquet", b"PAR1 but no more", None, r"no readable Parquet data"),
    ("text.parquet", GOOD, None, r"no readable Parquet data"),
    ("syntax.nt", FACT * 3 + "<x:a> <x:b> .\n", 4, r"found a syntax error"),
    ("bytes.nt", FACT.encode() + b"<x:a> <x:b> <x:\xff> .\n", 2, r"found a syntax error: Invalid UTF-8"),
    ("relative.ttl", "<x:a> <x:b> <c> .\n", 1, r"write the IRI in full"),
    ("prefix.ttl", "@prefix x: <x:> .\n\nx:a y:b x:c .\n", 3, r"found a syntax error"),
    ("open.ttl", FACT + "<x:a> <x:b>", 2, r"found a syntax error"),
    ("tags.rdf", "<?xml version='1.0'?>\n<a><b></a>", None, r"found a syntax error"),
    ("empty.nt", "", None, r"found no triples"),
    ("literals.nt", '<x:a> <x:b> "c" .\n', None, r"found 1 triples, all with literals; read them with"),
    ("cut.nt.gz", gzip.compress(FACT.encode() * 9999)[:-20], None, r"the gzip data end too early"),
]


def one_line(error: ConsmrfError) -> str:
    text = str(error)
    assert "\n" not in text
    assert 20 < len(text) < 500
    return text


@pytest.mark.parametrize(("name", "content", "line", "says"), FILES, ids=[case[0] for case in FILES])
def test_a_bad_file_is_named_with_its_line(
    tmp_path: Path, name: str, content: bytes | str, line: int | None, says: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(DataError) as caught:
        read_triples(path)
    text = one_line(caught.value)
    assert text.startswith(f"{path}: " if line is None else f"{path}:{line}: ")
    assert re.search(says, text)
    assert (caught.value.source, caught.value.line) == (str(path), line)


@pytest.mark.parametrize("name", ["g.tsv", "g.csv"])
@pytest.mark.parametrize("where", [1, 5, 6, 7, 19])
def test_lines_are_counted_across_blocks(
    tmp_path: Path, name: str, where: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    separator = "\t" if name == "g.tsv" else ","
    lines = [separator.join(("a", "r", "b"))] * 20
    lines[where] = separator.join(("a", "r"))
    (tmp_path / name).write_text("\n".join(lines))
    monkeypatch.setattr(delimited, "BLOCK", 32)
    with pytest.raises(DataError) as caught:
        read_triples(tmp_path / name)
    assert caught.value.line == where + 1


def test_one_giant_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "g.tsv"
    path.write_text("a\tr\tb\n" + "x" * 400_000)
    with pytest.raises(DataError, match="found 1 column") as caught:
        read_triples(path)
    assert len(one_line(caught.value)) < 300
    monkeypatch.setattr(delimited, "BLOCK", 1000)
    with pytest.raises(DataError, match="found a line of more than") as caught:
        read_triples(path)
    assert caught.value.line == 2


def test_a_quote_never_closed_in_a_large_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "g.csv"
    path.write_text("a,r,b\n" * 9 + 'a,r,"b\n' + "a,r,b\n" * 999)
    monkeypatch.setattr(delimited, "BLOCK", 200)
    with pytest.raises(DataError, match="found a quote") as caught:
        read_triples(path)
    assert caught.value.line == 10


def test_paths_that_cannot_be_read(tmp_path: Path) -> None:
    loop = tmp_path / "loop.tsv"
    loop.symlink_to(loop)
    for path, says in (
        (tmp_path, "Is a directory"),
        (tmp_path / "no.tsv", "No such file"),
        (loop, "symbolic"),
    ):
        with pytest.raises(DataError, match=says) as caught:
            read_triples(path)
        assert one_line(caught.value).startswith(f"{path}: ")


def test_a_path_without_permission(tmp_path: Path) -> None:
    path = tmp_path / "g.tsv"
    path.write_text(GOOD)
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read every file")
    with pytest.raises(DataError, match="Permission denied"):
        read_triples(path)


def test_the_bad_one_of_several_files_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(GOOD)
    (tmp_path / "b.tsv").write_text("a\tr\n")
    with pytest.raises(DataError) as caught:
        read_triples([tmp_path / "a.tsv", tmp_path / "b.tsv"])
    assert caught.value.source == str(tmp_path / "b.tsv")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (PARQUET_NULL, "row 2: found null as relation"),
        (
            {"subject": ["a", ""], "relation": ["r", "r"], "object": ["c", "d"]},
            "row 2: found an empty text as subject",
        ),
        ({"subject": ["a"], "relation": ["r"]}, r"found 2 columns \('subject', 'relation'\), expected 3"),
        (
            {"a": ["a"], "b": ["r"], "c": ["c"], "d": ["d"]},
            "found 4 columns .* say which three with columns=",
        ),
        ({"subject": [1.5], "relation": ["r"], "object": ["c"]}, "subject column 'subject' holds Float64"),
        ({"subject": [True], "relation": ["r"], "object": ["c"]}, "subject column 'subject' holds Boolean"),
        ({"subject": [[1]], "relation": ["r"], "object": ["c"]}, "subject column 'subject' holds List"),
    ],
)
def test_frames_and_parquet_files_are_held_to_the_same_rules(
    tmp_path: Path, data: dict[str, list[Any]], says: str
) -> None:
    path = tmp_path / "g.parquet"
    pl.DataFrame(data).write_parquet(path)
    for source, name in ((path, str(path)), (pl.DataFrame(data), "<polars frame>")):
        with pytest.raises(DataError, match=says) as caught:
            read_triples(source)
        assert one_line(caught.value).startswith(f"{name}: ")


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (np.array([["a", "b"]]), r"<array>: found an array of shape \(1, 2\), expected \(n, 3\)"),
        (np.array(["a", "b", "c"]), r"found an array of shape \(3,\)"),
        (np.zeros((2, 3, 4)), r"found an array of shape \(2, 3, 4\)"),
        (np.array([[0.0, 1.0, float("nan")]]), "row 1: found float 0.0 as subject"),
        (np.array([["a", "r", "b"], ["a", "r", np.nan]], dtype=object), "row 2: found float nan as object"),
        (np.array([["a", "r", None]], dtype=object), "row 1: found null as object"),
        ((np.array(["a"]), np.array(["r"]), np.array(["b", "c"])), "found arrays of lengths 1, 1, 2"),
        (np.empty((0, 3), dtype=int), "found no triples"),
        ([("a", "r", "b"), ("a", "r")], r"<rows>: row 2: found \('a', 'r'\), expected 3 values"),
        ([("a", "r", "b", "c")], "found 4 columns .* say which three with columns="),
        ([("a", "r", "b"), "abc"], "row 2: found 'abc', expected 3 values"),
        ([("a", "r", "b"), 7], "row 2: found 7, expected 3 values"),
        ([("a", "r", "")], "row 1: found an empty text as object"),
        ([("a", "r", True)], "row 1: found bool True as object"),
        ([("a", b"r", "b")], "row 1: found bytes b'r' as relation"),
        ([("a", "r", "\ud800")], "found a label that is not Unicode text"),
        (pd.DataFrame({"s": ["a"], "r": ["r"], "o": [None]}), "<pandas frame>: row 1: found .* as object"),
        (pd.DataFrame({"s": [1.0], "r": ["r"], "o": ["b"]}), "row 1: found float 1.0 as subject"),
        (pd.DataFrame({"s": ["a"], "r": ["r"]}), "found 2 columns"),
        ([], "<rows>: found no triples"),
        (7, "cannot read triples from int: expected a path"),
        (None, "cannot read triples from NoneType"),
    ],
)
def test_bad_values_in_memory_are_named_with_their_row(source: object, says: str) -> None:
    with pytest.raises(DataError, match=says) as caught:
        read_triples(source)
    one_line(caught.value)


@pytest.mark.parametrize(
    ("options", "kind", "says"),
    [
        ({"format": "excel"}, SettingError, "format = 'excel': must be one of tsv, csv, parquet"),
        ({"columns": "srx"}, SettingError, "columns = 'srx': must be"),
        ({"columns": "ssr"}, SettingError, "columns = 'ssr': must be"),
        ({"columns": [0, 1]}, SettingError, "must be"),
        ({"columns": [0, 1, 1]}, SettingError, "must be"),
        ({"columns": [0, 1, -1]}, SettingError, "must be"),
        ({"columns": [0, 1, "c"]}, SettingError, "must be"),
        ({"columns": 3}, SettingError, "must be"),
        ({"columns": ["a", "b", "c"], "header": False}, SettingError, "names need a header"),
        (
            {"columns": [0, 1, 3]},
            DataError,
            r"g\.tsv:1: found 3 columns .* expected column 3; correct columns=",
        ),
        ({"columns": ["x", "y", "z"]}, DataError, r"g\.tsv:1: found 3 columns .* expected column 'x'"),
        ({"format": "ntriples", "columns": "sor"}, SettingError, "columns does not apply to ntriples"),
        ({"format": "turtle", "header": True}, SettingError, "header does not apply to turtle"),
        ({"format": "turtle", "delimiter": ";"}, SettingError, "delimiter does not apply to turtle"),
        ({"delimiter": ""}, SettingError, "delimiter = '': must be one ASCII character"),
        ({"delimiter": ";;"}, SettingError, "delimiter = ';;': must be"),
        ({"delimiter": "·"}, SettingError, "delimiter = '·': must be"),
        ({"delimiter": '"'}, SettingError, "no quote"),
        ({"delimiter": "\n"}, SettingError, "no line break"),
        ({"delimiter": 9}, SettingError, "delimiter = 9: must be"),
        ({"delimiter": ";"}, DataError, r"g\.tsv:1: found 1 column .* expected 3 separated by semicolons"),
        ({"format": "ntriples"}, DataError, r"g\.tsv:1: found a syntax error"),
        ({"format": "csv", "columns": "sro"}, None, ""),
    ],
)
def test_bad_options(
    tmp_path: Path, options: dict[str, Any], kind: type[ConsmrfError] | None, says: str
) -> None:
    path = tmp_path / "g.tsv"
    path.write_text(GOOD)
    if kind is None:
        assert len(read_triples(path, **options)) == 2000
        return
    with pytest.raises(kind, match=says) as caught:
        read_triples(path, **options)
    one_line(caught.value)


def test_a_header_is_no_option_of_values_in_memory() -> None:
    with pytest.raises(SettingError, match="header applies to delimited text"):
        read_triples([("a", "r", "b")], header=True)
    with pytest.raises(SettingError, match="delimiter applies to delimited text"):
        read_triples([("a", "r", "b")], delimiter=";")
