"""Mistakes at the command line: one line on stderr, the right exit code, and nothing half-written."""

from __future__ import annotations

import errno
import gzip
import os
import resource
import shutil
import subprocess
import sys

import pytest

from consmrf import Model, cli, write_triples
from consmrf.demo.social import make_social_graph

GOOD = "a\tlikes\tb\nb\tlikes\tc\nc\tlikes\ta\na\tknows\tc\n"


@pytest.fixture(scope="module")
def stock(tmp_path_factory):
    """A folder with good and bad files, and a good model."""
    folder = tmp_path_factory.mktemp("stock")
    (folder / "good.tsv").write_text(GOOD)
    (folder / "two.tsv").write_text("a\tlikes\tb\nb\tlikes\n")
    (folder / "empty.tsv").write_bytes(b"")
    (folder / "binary.tsv").write_bytes(bytes(range(256)) * 4)
    (folder / "broken.tsv.gz").write_bytes(gzip.compress(GOOD.encode() * 100)[:40])
    (folder / "latin.tsv").write_bytes("a\tlikes\tb\nÄ\tlikes\tö\n".encode("latin-1"))
    (folder / "strangers.tsv").write_text("x\tlikes\ty\n")
    (folder / "full.tsv").write_text("a\tlikes\ta\na\tlikes\tb\n")
    (folder / "alone.tsv").write_text("a\tlikes\ta\n")
    head = "s,r,o,side,rank,lower,upper,candidates\n"
    (folder / "good.ranks").write_text(head + "a,likes,b,objects,1,1,1,3\na,likes,b,subjects,2,2,2,3\n")
    (folder / "bad.ranks").write_text(head + "a,likes,b,objects,1,1,1,3\na,likes,b,subjects,9,9,9,3\n")
    (folder / "other.ranks").write_text(head + "x,likes,y,objects,1,1,1,3\n")
    (folder / "folder").mkdir()
    (folder / "folder" / "mine.txt").write_text("mine")
    assert (
        cli.main(
            [
                "fit",
                str(folder / "good.tsv"),
                "--out",
                str(folder / "model"),
                "--dim",
                "2",
                "--max-epochs",
                "2",
            ]
        )
        == 0
    )
    shutil.copytree(folder / "model", folder / "cut")
    arrays = next((folder / "cut").glob("predictor-*"))
    arrays.write_bytes(arrays.read_bytes()[:-1])
    shutil.copytree(folder / "model", folder / "headless")
    (folder / "headless" / "manifest.json").unlink()
    return folder


def contents(folder):
    """Hand on every file below a folder, with its bytes."""
    return {p.relative_to(folder): p.read_bytes() if p.is_file() else None for p in folder.rglob("*")}


FIT = "fit {s}/good.tsv --out {t}/m "
EVALUATE = "evaluate {s}/model {s}/good.tsv "
PREDICT = "predict {s}/model --relation likes --subject a "

# command line, exit code, what the line says
MISTAKES = [
    # files that cannot be read
    ("fit {s}/two.tsv --out {t}/m", 1, "two.tsv:2: "),
    ("fit {s}/empty.tsv --out {t}/m", 1, "empty.tsv: "),
    ("fit {s}/binary.tsv --out {t}/m", 1, "binary.tsv"),
    ("fit {s}/broken.tsv.gz --out {t}/m", 1, "broken.tsv.gz"),
    ("fit {s}/latin.tsv --out {t}/m", 1, "latin.tsv:2: "),
    ("fit {s}/absent.tsv --out {t}/m", 1, "absent.tsv: cannot be read: No such file"),
    ("fit {s}/folder --out {t}/m", 1, "folder: "),
    ("fit {s}/good.tsv {s}/absent.tsv --out {t}/m", 1, "absent.tsv"),
    (FIT + "--valid {s}/absent.tsv", 1, "absent.tsv"),
    (FIT + "--valid {s}/strangers.tsv", 1, "nothing to validate on"),
    ("fit {s}/full.tsv --out {t}/m --no-reciprocal", 1, "nothing to learn: each of the 2 triples"),
    ("fit {s}/alone.tsv --out {t}/m", 1, "nothing to learn: each of the 1 triples"),
    (FIT + "--format docx", 1, "format = 'docx'"),
    (FIT + "--columns xyz", 1, "columns = 'xyz'"),
    (FIT + "--columns 0,1,7", 1, "column"),
    (FIT + "--columns from,by,to", 1, "column"),
    # settings out of their range
    (FIT + "--rho nan", 1, "rho = nan"),
    (FIT + "--reg inf", 1, "reg = inf"),
    (FIT + "--learning-rate -1", 1, "learning_rate = -1.0"),
    (FIT + "--init-scale 0", 1, "init_scale = 0.0"),
    (FIT + "--dim 0", 1, "dim = 0"),
    (FIT + "--dim -3", 1, "dim = -3"),
    (FIT + "--max-epochs 0", 1, "max_epochs = 0"),
    (FIT + "--inner-epochs 0", 1, "inner_epochs = 0"),
    (FIT + "--max-seconds 0", 1, "max_seconds = 0.0"),
    (FIT + "--patience 0", 1, "patience = 0"),
    (FIT + "--seed -1", 1, "seed = -1"),
    (FIT + "--threads 0", 1, "threads = 0"),
    (FIT + "--tol nan", 1, "tol = nan"),
    (FIT + "--scorer cubic", 1, "scorer = 'cubic': must be one of identity"),
    (FIT + "--solver wavy", 1, "solver = 'wavy'"),
    (FIT + "--method magic", 1, "method = 'magic'"),
    (FIT + "--preset huge", 1, "preset = 'huge': must be one of default, paper, quick"),
    (FIT + "--precision half", 1, "precision = 'half'"),
    (FIT + "--loss hinge", 1, "loss = 'hinge': must be one of softmax"),
    (FIT + "--regulariser l1", 1, "regulariser = 'l1'"),
    (FIT + "--negatives 0", 1, "negatives = 0"),
    (FIT + "--sampling none", 1, "sampling = 'none'"),
    (FIT + "--batch 0", 1, "batch = 0"),
    (FIT + "--wave-width 0", 1, "wave_width = 0"),
    (FIT + "--targets lieks", 1, "unknown relation 'lieks'"),
    (FIT + "--targets likes --targets lieks", 1, "the nearest known: 'likes'"),
    (FIT + "--targets likes --solver paper", 1, "targets = ("),
    (FIT + "--loss softmax --solver paper", 1, "loss = 'softmax': solver = 'paper' knows 'bpr' only"),
    (FIT + "--method shared --solver paper --reciprocal", 1, "method = 'shared' knows False only"),
    (FIT + "--method dmf --alpha -1", 1, "alpha = -1.0: must be a finite number of at least 0"),
    (FIT + "--method rescal --reg 0", 1, "method = 'rescal' needs a reg above 0"),
    (FIT + "--scorer sme_linear --method dmf", 1, "its matrices belong to method = 'shared'"),
    # places that cannot be written, found before the work begins
    ("fit {s}/absent.tsv --out {t}/no/m", 1, "does not exist; make it first"),
    ("fit {s}/absent.tsv --out {s}/good.tsv", 1, "is a file, and a model is a folder"),
    ("fit {s}/absent.tsv --out {s}/folder", 1, "is not a consmrf model (it holds 'mine.txt')"),
    ("fit {s}/absent.tsv --out {s}/good.tsv/m", 1, "does not exist"),
    ("fit {s}/absent.tsv --out {t}/m --json {t}/no/f.json", 1, "f.json: the folder"),
    ("fit {s}/absent.tsv --out {t}/m --json {t}", 1, "is a folder; give the name of a file"),
    ("fit {s}/absent.tsv --out /proc/m", 1, "/proc"),
    ("evaluate {s}/model {s}/absent.tsv --ranks {t}/no/r.parquet", 1, "r.parquet: the folder"),
    ("evaluate {s}/model {s}/absent.tsv --json {t}/no/e.json", 1, "e.json: the folder"),
    ("demo --out {s}/good.tsv", 1, "is a file"),
    ("demo --out {t}/no/demo", 1, "does not exist"),
    ("demo --out {t}/demo --threads 0", 1, "threads = 0"),
    ("demo --out {t}/demo --seed -1", 1, "seed = -1"),
    # models
    ("evaluate {s}/absent {s}/good.tsv", 1, "absent"),
    ("evaluate {s}/good.tsv {s}/good.tsv", 1, "good.tsv"),
    ("evaluate {s}/cut {s}/good.tsv", 1, "cut or altered"),
    ("predict {s}/headless --relation likes --subject a", 1, "headless"),
    ("info {s}/folder", 1, "folder"),
    # evaluations
    ("evaluate {s}/model {s}/strangers.tsv", 1, "nothing to evaluate"),
    (EVALUATE + "--known {s}/absent.tsv", 1, "absent.tsv"),
    (EVALUATE + "--protocol half", 1, "protocol = 'half'"),
    (EVALUATE + "--sides none", 1, "sides = "),
    (EVALUATE + "--protocol paper --sides subjects", 1, "paper protocol"),
    (EVALUATE + "--candidates 0", 1, "candidates = 0"),
    (EVALUATE + "--memory 0", 1, "memory_mib = 0"),
    (EVALUATE + "--threads 0", 1, "threads = 0"),
    (EVALUATE + "--sample 0", 1, "sample = 0"),
    (EVALUATE + "--sample 1 --protocol paper", 1, "sample = 1: is of the full protocol"),
    (EVALUATE + "--auc-candidates 0", 1, "auc_candidates = 0"),
    (EVALUATE + "--auc-candidates 5 --sides relations", 1, "leave relations out of sides"),
    (EVALUATE + "--seed -1", 1, "seed = -1"),
    (EVALUATE + "--unseen best", 1, "unseen = 'best': must be one of leave-out, worst"),
    (EVALUATE + "--unseen worst --protocol paper", 1, "unseen = 'worst': the paper protocol"),
    (EVALUATE + "--intervals none", 1, "intervals = 'none'"),
    (EVALUATE + "--html {t}/no/p.html", 1, "p.html: the folder"),
    # comparisons
    ("compare {s}/absent.ranks {s}/good.ranks", 1, "absent.ranks: cannot be read: No such file"),
    ("compare {s}/good.ranks {s}/good.tsv", 1, "good.tsv: no column s, r, o, side"),
    ("compare {s}/good.ranks {s}/binary.tsv", 1, "binary.tsv: "),
    ("compare {s}/good.ranks {s}/bad.ranks", 1, "bad.ranks: row 2 ("),
    ("compare {s}/good.ranks {s}/other.ranks", 1, "no rank of one has the same s, r, o and side"),
    ("compare {s}/good.ranks {s}/good.ranks --metric best", 1, "metric = 'best': must be one of mrr"),
    ("compare {s}/good.ranks {s}/good.ranks --flips 5", 1, "flips = 5"),
    ("compare {s}/good.ranks {s}/good.ranks --confidence 2", 1, "confidence = 2.0"),
    ("compare {s}/good.ranks {s}/good.ranks --json {t}/no/c.json", 1, "c.json: the folder"),
    ("compare {s}/good.ranks {s}/good.ranks --html {t}", 1, "is a folder"),
    ("compare {s}/good.ranks", 2, "SECOND"),
    # audits
    ("audit {s}/absent.tsv", 1, "absent.tsv"),
    ("audit {s}/two.tsv", 1, "two.tsv:2: "),
    ("audit {s}/good.tsv --valid {s}/absent.tsv", 1, "absent.tsv"),
    ("audit {s}/good.tsv --test {s}/empty.tsv", 1, "empty.tsv: "),
    ("audit {s}/good.tsv --share 0", 1, "share = 0.0: must be a share above 0"),
    ("audit {s}/good.tsv --symmetric nan", 1, "symmetric = nan"),
    ("audit {s}/good.tsv --density 1.1", 1, "density = 1.1"),
    ("audit {s}/good.tsv --functional -1", 1, "functional = -1.0"),
    ("audit {s}/good.tsv --least 0", 1, "least = 0"),
    ("audit {s}/absent.tsv --json {t}/no/a.json", 1, "a.json: the folder"),
    ("audit {s}/absent.tsv --html {t}", 1, "is a folder; give the name of a file"),
    ("audit {s}/good.tsv --write-clean {t}/c", 1, "nothing is held out that could leak"),
    ("audit {s}/absent.tsv --test {s}/good.tsv --write-clean {s}/folder", 1, "folder: is not empty"),
    ("audit {s}/absent.tsv --test {s}/good.tsv --write-clean {s}/good.tsv", 1, "is not a folder"),
    ("audit {s}/absent.tsv --test {s}/good.tsv --write-clean {t}/no/c", 1, "does not exist"),
    ("audit {s}/good.tsv --test {s}/good.tsv --write-clean {t}/c", 1, "nothing would be left of test"),
    # predictions
    ("predict {s}/model --relation lieks --subject a", 1, "unknown relation 'lieks'"),
    ("predict {s}/model --relation lieks --subject a", 1, "the nearest known: 'likes'"),
    ("predict {s}/model --relation likes --subject z", 1, "unknown entity 'z'"),
    ("predict {s}/model --relation likes --object z", 1, "unknown entity 'z'"),
    ("predict {s}/model --relation likes --subject a --object z", 1, "unknown entity 'z'"),
    ("predict {s}/model --relation likes", 1, "give two of --subject, --relation and --object"),
    ("predict {s}/model --subject a", 1, "give two of --subject, --relation and --object"),
    ("predict {s}/model --subject a --object z", 1, "unknown entity 'z'"),
    (PREDICT + "--top 0", 1, "top = 0"),
    (PREDICT + "--known maybe", 1, "known = 'maybe'"),
    (PREDICT + "--view side", 1, "view = 'side'"),
    # command lines that cannot be parsed
    ("fly", 2, 'Unknown command "fly"'),
    ("audit", 2, "TRAIN"),
    ("audit {s}/good.tsv --least many", 2, "--least"),
    ("fit --out {t}/m", 2, "TRAIN"),
    ("fit {s}/good.tsv", 2, "--out"),
    (FIT + "--dim many", 2, "--dim"),
    (FIT + "--dim 1.5", 2, "--dim"),
    (FIT + "--rho", 2, "--rho"),
    (FIT + "--dimension 4", 2, "--dimension"),
    ("evaluate {s}/model", 2, "TEST"),
    ("evaluate {s}/model {s}/good.tsv {s}/good.tsv", 2, "good.tsv"),
]


@pytest.mark.parametrize(("line", "code", "says"), MISTAKES, ids=[line for line, _, _ in MISTAKES])
def test_a_mistake_is_one_line_and_leaves_nothing(capsys, stock, tmp_path, line, code, says):
    before = contents(stock)
    found = cli.main([word.format(s=stock, t=tmp_path) for word in line.split()])
    err = capsys.readouterr().err
    assert (found, len(err.splitlines())) == (code, 1)
    assert err.startswith("consmrf: error: ")
    assert says in err
    assert contents(tmp_path) == {}
    assert contents(stock) == before


def test_a_label_cannot_write_to_the_terminal(capsys, stock):
    assert cli.main(["predict", str(stock / "model"), "--relation", "li\x1b[2Jkes\n", "--subject", "a"]) == 1
    err = capsys.readouterr().err
    assert "\x1b" not in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("replaced", [False, True])
def test_a_full_disk_leaves_what_was_there(stock, tmp_path, replaced):
    """A limit on the size of files stands in for the disk. Popularity needs no compiler and its cache."""
    write_triples(make_social_graph(1, users=80, items=60, communities=4).train, tmp_path / "train.tsv")
    if replaced:
        shutil.copytree(stock / "model", tmp_path / "m")
    before = contents(tmp_path)
    command = [
        "-m",
        "consmrf.cli",
        "fit",
        tmp_path / "train.tsv",
        "--method",
        "popularity",
        "--out",
        tmp_path / "m",
    ]
    ran = subprocess.run(
        [sys.executable, *map(str, command)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024)),
    )
    assert (ran.returncode, len(ran.stderr.splitlines())) == (1, 1)
    assert ran.stderr.startswith(
        f"consmrf: error: {tmp_path / 'm'}: the model was not written: File too large"
    )
    assert contents(tmp_path) == before


@pytest.mark.parametrize("option", ["--json", "--ranks", "--html"])
@pytest.mark.parametrize("old", [None, b"old"])
def test_figures_are_written_whole_or_not_at_all(capsys, monkeypatch, stock, tmp_path, option, old):
    if old is not None:
        (tmp_path / "f").write_bytes(old)
    before = contents(tmp_path)

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    asked = ["evaluate", stock / "model", stock / "good.tsv", option, tmp_path / "f"]
    assert cli.main([str(word) for word in asked]) == 1
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    assert "No space left on device" in err
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (MemoryError(), 1, "not enough memory"),
        (MemoryError("Unable to allocate 8 GiB"), 1, "Unable to allocate 8 GiB"),
        (OSError(errno.EIO, "Input/output error", "/some/file"), 1, "/some/file: Input/output error"),
        (OSError("nothing more is known"), 1, "nothing more is known"),
        (PermissionError(errno.EACCES, "Permission denied", "/secret"), 1, "/secret: Permission denied"),
    ],
)
def test_what_the_system_refuses_becomes_a_sentence(capsys, monkeypatch, stock, error, code, says):
    def fail(*_args, **_more):
        raise error

    monkeypatch.setattr(Model, "load", fail)
    assert cli.main(["info", str(stock / "model")]) == code
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    assert says in err


def test_a_mistake_of_ours_is_not_hidden(monkeypatch, stock):
    """What nobody foresaw keeps its traceback: it is a defect, and the traceback is the report."""

    def fail(*_args, **_more):
        raise ZeroDivisionError

    monkeypatch.setattr(Model, "load", fail)
    with pytest.raises(ZeroDivisionError):
        cli.main(["info", str(stock / "model")])
