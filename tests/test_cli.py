"""The command line: each command does what it says, prints it, and writes it down."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from consmrf import PRESETS, Config, Model, cli, evaluate, read_triples, write_triples
from consmrf.cli.options import Settings
from consmrf.demo.social import make_social_graph
from consmrf.report import progress

PROGRAM = [sys.executable, "-m", "consmrf.cli"]
QUICK = ["--dim", "4", "--max-epochs", "4", "--negatives", "64"]
CHEAP = ["--dim", "4", "--max-epochs", "4"]


def run(capsys, *arguments):
    """Hand on the exit code, the text on stdout, and the lines on stderr."""
    code = cli.main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return code, out, err.splitlines()


def done(capsys, *arguments):
    """Hand on the text on stdout of a command that must succeed."""
    code, out, err = run(capsys, *arguments)
    assert (code, err) == (0, [])
    return out


def process(*arguments, **more):
    return subprocess.run([*PROGRAM, *map(str, arguments)], capture_output=True, check=False, **more)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A small social network in three files, and a model of it."""
    folder = tmp_path_factory.mktemp("cli")
    example = make_social_graph(5, users=80, items=70, communities=4)
    for name in ("train", "valid", "test"):
        write_triples(getattr(example, name), folder / f"{name}.tsv")
    assert cli.main(["fit", str(folder / "train.tsv"), "--out", str(folder / "model"), *QUICK]) == 0
    return folder


@pytest.fixture(scope="module")
def model(files):
    return Model.load(files / "model")


# -- fit


def test_fit_tells_what_it_reads_needs_and_leaves(capsys, files, tmp_path):
    out = done(
        capsys, "fit", files / "train.tsv", "--valid", files / "valid.tsv", "--out", tmp_path / "m", *QUICK
    )
    lines = out.splitlines()
    assert "train.tsv" in lines[0]
    assert "triples (tsv; separated by tabs" in lines[0]
    assert "valid.tsv" in lines[1]
    assert lines[2].startswith("expected peak memory")
    assert lines[3].startswith("round 1/4: loss ")
    assert "validation" in lines[3]
    assert lines[-1] == f"model: {tmp_path / 'm'}"
    assert os.listdir(tmp_path) == ["m"]


def test_fit_writes_what_happened(capsys, files, tmp_path):
    done(capsys, "fit", files / "train.tsv", "--out", tmp_path / "m", "--json", tmp_path / "fit.json", *QUICK)
    told = json.loads((tmp_path / "fit.json").read_text())
    assert [r["round"] for r in told["rounds"]] == [1, 2, 3, 4]
    assert told["status"] == "MAX_EPOCHS"
    assert told["best_round"] == 4
    assert told["config"]["dim"] == 4


def test_fit_tells_how_many_triples_it_could_not_draw(capsys, tmp_path):
    (tmp_path / "full.tsv").write_text("a\tlikes\ta\na\tlikes\tb\nb\tknows\ta\n")
    out = done(capsys, "fit", tmp_path / "full.tsv", "--out", tmp_path / "m", *QUICK)
    [line] = [line for line in out.splitlines() if line.startswith("triples left out")]
    assert line.endswith(": 2")
    (tmp_path / "open.tsv").write_text("a\tlikes\tb\nb\tknows\ta\n")
    assert "triples left out" not in done(
        capsys, "fit", tmp_path / "open.tsv", "--out", tmp_path / "m", *QUICK
    )


def test_an_option_overrides_the_preset(capsys, files, tmp_path):
    done(capsys, "fit", files / "train.tsv", "--out", tmp_path / "m", "--preset", "quick", "--dim", "3")
    config = Model.load(tmp_path / "m").config
    assert (config.dim, config.max_epochs, config.negatives) == (3, 6, 64)


def test_the_presets_are_what_they_say(capsys, files, tmp_path):
    assert PRESETS.keys() == {"default", "paper", "quick"}
    for preset, expected in (("default", Config()), ("paper", Config(solver="paper"))):
        assert Settings().over(preset) == expected
    done(capsys, "fit", files / "train.tsv", "--out", tmp_path / "m", "--preset", "paper", "--max-epochs", 1)
    assert Model.load(tmp_path / "m").config == Config(solver="paper", max_epochs=1)


def test_every_setting_has_its_option(capsys):
    assert {f.name for f in fields(Settings)} == {f.name for f in fields(Config)}
    text = done(capsys, "fit", "--help")
    for field in fields(Config):
        assert f"--{field.name.replace('_', '-')} " in text


def test_every_option_reaches_the_settings(capsys, files, tmp_path):
    given = {
        "solver": "wave",
        "scorer": "diagonal",
        "loss": "bpr",
        "regulariser": "l2",
        "negatives": 8,
        "sampling": "range",
        "batch": 8,
        "wave_width": 4,
        "dim": 4,
        "max_epochs": 2,
    }
    options = [word for name, x in given.items() for word in (f"--{name.replace('_', '-')}", x)]
    options += ["--no-reciprocal", "--targets", "reads", "--targets", "friends"]
    done(capsys, "fit", files / "train.tsv", "--out", tmp_path / "m", *options)
    config = Model.load(tmp_path / "m").config
    assert config == Config(**given, reciprocal=False, targets=("reads", "friends"))
    told = json.loads(done(capsys, "info", tmp_path / "m", "--json"))["departures"]
    assert told["follows"] == {"both sides": 0.0}
    assert told["reads"]["both sides"] > 0


def test_a_model_that_is_there_is_replaced(capsys, files, tmp_path):
    for dim in (2, 3):
        done(capsys, "fit", files / "train.tsv", "--out", tmp_path / "m", "--dim", dim, "--max-epochs", 1)
    assert Model.load(tmp_path / "m").config.dim == 3


def test_fit_takes_the_delimiter(capsys, tmp_path):
    either = tmp_path / "either.csv"
    either.write_text("Doe, John;knows;Smith, Ann\nSmith, Ann;knows;Roe, Jane\n")
    out = done(capsys, "fit", either, "--delimiter", ";", "--out", tmp_path / "model", *QUICK)
    assert "separated by semicolons" in out
    assert Model.load(tmp_path / "model").entities == ("Doe, John", "Roe, Jane", "Smith, Ann")


def test_fit_takes_several_files_and_columns(capsys, files, tmp_path):
    rows = [line.split("\t") for line in (files / "train.tsv").read_text().splitlines()]
    halves = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    for i, half in enumerate(halves):
        text = "\n".join(f'"{o}","{s}","{r}"' for s, r, o in half)
        (tmp_path / f"{i}.csv").write_text("to,from,by\n" + text + "\n")
    parts = [tmp_path / "0.csv", tmp_path / "1.csv"]
    done(capsys, "fit", *parts, "--columns", "from,by,to", "--out", tmp_path / "names", *QUICK)
    done(capsys, "fit", *parts, "--columns", "1,2,0", "--header", "--out", tmp_path / "places", *QUICK)
    done(capsys, "fit", *parts, "--columns", "osr", "--header", "--out", tmp_path / "letters", *QUICK)
    told = Model.load(files / "model")
    for name in ("names", "places", "letters"):
        read = Model.load(tmp_path / name)
        assert read.vocabulary == told.vocabulary
        np.testing.assert_array_equal(read.known, told.known)


@pytest.mark.parametrize("method", ["shared", "independent", "popularity"])
def test_baselines_are_fitted_alike(capsys, files, tmp_path, method):
    done(capsys, "fit", files / "train.tsv", "--out", tmp_path / "m", "--method", method, *CHEAP)
    assert Model.load(tmp_path / "m").config.method == method


# -- evaluate


def test_evaluate_shows_the_model_beside_popularity(capsys, files):
    out = done(capsys, "evaluate", files / "model", files / "test.tsv", "--known", files / "valid.tsv")
    for row in ("both sides: model", "both sides: popularity", "mean of relations: popularity"):
        assert f"\n{row} " in out
    for relation in ("follows", "friends", "reads"):
        assert f"\n{relation}: model " in out
        assert f"\n{relation}: popularity " in out
    assert "full protocol" in out


def test_evaluate_writes_the_numbers_it_shows(capsys, files, model, tmp_path):
    path = tmp_path / "e.json"
    known = ["--known", files / "valid.tsv", "--known", files / "train.tsv"]
    out = done(capsys, "evaluate", files / "model", files / "test.tsv", *known, "--json", path)
    told = json.loads(path.read_text())
    others = [read_triples(files / f"{name}.tsv") for name in ("valid", "train")]
    expected = evaluate(model, read_triples(files / "test.tsv"), known=others).to_dict()
    assert {key: told[key] for key in expected} == expected
    assert f"{told['both']['mrr']:.3f}" in out
    assert told["popularity"]["both"]["count"] == told["both"]["count"]
    assert os.listdir(tmp_path) == ["e.json"]


def test_the_saved_ranks_give_the_numbers(capsys, files, tmp_path):
    places = ["--json", tmp_path / "e.json", "--ranks", tmp_path / "r.parquet"]
    done(capsys, "evaluate", files / "model", files / "test.tsv", *places)
    ranks = pl.read_parquet(tmp_path / "r.parquet")
    told = json.loads((tmp_path / "e.json").read_text())
    assert (1 / ranks["rank"]).mean() == pytest.approx(told["both"]["mrr"])
    assert sorted(os.listdir(tmp_path)) == ["e.json", "r.parquet"]


def test_the_papers_protocol_and_its_options(capsys, files, tmp_path):
    places = ["--json", tmp_path / "e.json"]
    out = done(
        capsys,
        *("evaluate", files / "model", files / "test.tsv", "--protocol", "paper", "--candidates", "7"),
        *("--seed", "3", "--memory", "1", *places),
    )
    told = json.loads((tmp_path / "e.json").read_text())
    assert (told["protocol"], told["candidates"], told["options"]["seed"]) == ("paper", 7, 3)
    assert "both" not in told
    assert "against 7 sampled objects" in out


def test_a_sample_says_what_it_was_drawn_from(capsys, files, tmp_path):
    asked = ["evaluate", files / "model", files / "test.tsv", "--json", tmp_path / "e.json"]
    out = done(capsys, *asked, "--sample", "20", "--html", tmp_path / "e.html")
    told = json.loads((tmp_path / "e.json").read_text())
    whole = len(read_triples(files / "test.tsv"))
    assert (told["triples"]["scored"], told["triples"]["drawn_from"]) == (20, whole)
    assert f"20 triples scored, drawn from {whole:,}, each relation its share" in out
    assert "ap" not in told["both"]


def test_drawn_candidates_print_the_auc_alone(capsys, files, tmp_path):
    asked = ["evaluate", files / "model", files / "test.tsv", "--json", tmp_path / "e.json"]
    out = done(capsys, *asked, "--auc-candidates", "9", "--threads", "2", "--html", tmp_path / "e.html")
    told = json.loads((tmp_path / "e.json").read_text())
    assert set(told["both"]) == {"auc", "count"}
    assert "9 of them drawn for each query, for AUC alone" in out
    assert "AUC" in out
    assert "MRR" not in out


def test_one_side_and_every_relation(capsys, files):
    out = done(capsys, "evaluate", files / "model", files / "test.tsv", "--sides", "subjects", "--relations")
    assert "\nsubjects: model" in out
    assert "\nobjects" not in out
    assert "\nreads: model" in out


def test_sides_can_be_named_one_by_one(capsys, files, tmp_path):
    asked = ["evaluate", files / "model", files / "test.tsv", "--json", tmp_path / "e.json"]
    views = {"objects", "subjects", "both", "relation_prediction"}
    for words, expected in (
        (["--sides", "objects", "subjects", "relations"], views),
        (["--sides", "both", "--sides", "relations"], views),
        (["--sides", "relations"], {"relation_prediction"}),
        (["--sides", "subjects"], {"subjects"}),
    ):
        out = done(capsys, *asked, *words)
        told = json.loads((tmp_path / "e.json").read_text())
        assert views & told.keys() == expected
        assert ("\nrelations: model" in out) == ("relations" in words)
        assert ("Hits@5%" in out) == ("relations" in words)


def test_unseen_labels_and_kinds_of_intervals_are_chosen(capsys, files, tmp_path):
    (tmp_path / "t.tsv").write_text((files / "test.tsv").read_text() + "nobody\treads\tnothing\n")
    asked = ["evaluate", files / "model", tmp_path / "t.tsv", "--json", tmp_path / "e.json"]
    told = {}
    for policy, said in (("leave-out", "left out: 1 with"), ("worst", "ranked last: 1 with")):
        assert said in done(capsys, *asked, "--unseen", policy, "--intervals", "analytic")
        told[policy] = json.loads((tmp_path / "e.json").read_text())
        assert told[policy]["options"]["intervals"] == "analytic"
    assert told["worst"]["both"]["count"] == told["leave-out"]["both"]["count"] + 2
    assert told["worst"]["both"]["mrr"] < told["leave-out"]["both"]["mrr"]


def test_every_relation_comes_with_the_groups(capsys, files):
    out = done(capsys, "evaluate", files / "model", files / "test.tsv", "--relations")
    assert "\nkind of relation n-n: model" in out
    assert "\ntraining triples of the answer 10–99: popularity" in out
    assert "adj. MRR" in out


@pytest.mark.parametrize("protocol", ["full", "paper"])
def test_evaluate_writes_a_page(capsys, files, tmp_path, protocol):
    asked = ["evaluate", files / "model", files / "test.tsv", "--protocol", protocol, "--html"]
    pages = []
    for name in ("a.html", "b.html"):
        done(capsys, *asked, tmp_path / name)
        pages.append((tmp_path / name).read_text())
    assert pages[0] == pages[1]
    assert "<title>model on test.tsv</title>" in pages[0]
    assert not re.search(r"url\((?!#)|@import|https?:|<script", pages[0])
    assert sorted(os.listdir(tmp_path)) == ["a.html", "b.html"]


# -- compare


@pytest.fixture(scope="module")
def ranks(files):
    """Saved ranks of the model and of popularity."""
    train = str(files / "train.tsv")
    assert cli.main(["fit", train, "--method", "popularity", "--out", str(files / "popularity")]) == 0
    for name in ("model", "popularity"):
        saved = ["--ranks", str(files / f"{name}.ranks")]
        assert cli.main(["evaluate", str(files / name), str(files / "test.tsv"), *saved]) == 0
    return files / "model.ranks", files / "popularity.ranks"


def test_compare_says_what_differs(capsys, ranks, tmp_path):
    out = done(capsys, "compare", *ranks, "--flips", 500, "--json", tmp_path / "c.json")
    told = json.loads((tmp_path / "c.json").read_text())
    one, other = (pl.read_parquet(path) for path in ranks)
    mrr = told["views"]["both"]["mrr"]
    assert mrr["first"] == pytest.approx((1 / one["rank"]).mean())
    assert mrr["difference"] == pytest.approx((1 / one["rank"]).mean() - (1 / other["rank"]).mean())
    assert told["pairs"] == {"paired": len(one), "only_first": 0, "only_second": 0, "other_candidates": 0}
    assert f"{len(one):,} ranks are in both; 0 only in model, 0 only in popularity." in out
    [line] = [line for line in out.splitlines() if line.startswith("MRR ") and "by relation" not in line]
    assert line.split()[1:3] == [f"{mrr['first']:.3f}", f"{mrr['second']:.3f}"]
    for relation, own in told["relations"].items():
        assert f"\n{relation} " in out
        assert own["p"] <= own["p_holm"]
    assert out == done(capsys, "compare", *ranks, "--flips", 500)


def test_compare_takes_text_and_writes_a_page(capsys, ranks, tmp_path):
    few = pl.read_parquet(ranks[1]).head(100)
    few.write_csv(tmp_path / "few.csv")
    out = done(
        capsys,
        *("compare", ranks[0], tmp_path / "few.csv", "--flips", 200, "--html", tmp_path / "c.html"),
        *("--metric", "hits@10", "--relations", "--seed", 3, "--confidence", 0.9),
    )
    total = len(pl.read_parquet(ranks[0]))
    assert f"100 ranks are in both; {total - 100:,} only in model, 0 only in few." in out
    assert "Hits@10 by relation" in out
    assert "intervals (90%)" in out
    text = (tmp_path / "c.html").read_text()
    assert "<title>model and few, compared</title>" in text
    assert "Where model is better than few:" in text


def test_two_files_of_one_name_are_told_apart(capsys, ranks, tmp_path):
    (tmp_path / "model.ranks").write_bytes(ranks[0].read_bytes())
    out = done(
        capsys, "compare", ranks[0], tmp_path / "model.ranks", "--flips", 100, "--html", tmp_path / "h"
    )
    assert f"only in {ranks[0]}" in out
    assert f"only in {tmp_path / 'model.ranks'}" in out
    assert "Every answer has the same rank in both." in (tmp_path / "h").read_text()
    assert f"only in {ranks[0]} (first)" in done(capsys, "compare", ranks[0], ranks[0], "--flips", 100)


# -- predict


def test_predict_ranks_objects_and_subjects(capsys, files, model):
    user = model.entities[model.known[0, 0]]
    out = done(capsys, "predict", files / "model", "--subject", user, "--relation", "reads", "--top", 3)
    best = model.objects(user, "reads", top=3)
    head, *rows = out.splitlines()
    assert head.split() == ["object", "score"]
    assert [row.rsplit(None, 1)[0] for row in rows] == [answer.label for answer in best]
    out = done(capsys, "predict", files / "model", "--object", user, "--relation", "follows", "--json")
    told = json.loads(out)
    assert [a["label"] for a in told["answers"]] == [a.label for a in model.subjects("follows", user)]
    assert (told["subject"], told["relation"], told["object"]) == (None, "follows", user)


def test_predict_ranks_relations(capsys, files, model):
    s, r, o = (int(x) for x in model.known[0])
    pair = model.entities[s], model.entities[o]
    asked = ["predict", files / "model", "--subject", pair[0], "--object", pair[1]]
    head, *rows = done(capsys, *asked, "--known", "include").splitlines()
    assert head.split() == ["relation", "score"]
    expected = model.relations_between(*pair, known="include")
    assert [row.split()[0] for row in rows] == [answer.label for answer in expected]
    assert [row.split()[0] for row in rows if row.endswith("known")] == [a.label for a in expected if a.known]
    told = json.loads(done(capsys, *asked, "--json"))
    assert model.relations[r] not in [answer["label"] for answer in told["answers"]]
    assert told["relation"] is None


def test_known_facts_are_shown_when_asked_for(capsys, files, model):
    s, r, _ = (int(x) for x in model.known[0])
    asked = ["--subject", model.entities[s], "--relation", model.relations[r], "--top", 1000]
    assert " known" in done(capsys, "predict", files / "model", *asked, "--known", "include")
    assert " known" not in done(capsys, "predict", files / "model", *asked)


@pytest.mark.parametrize("view", ["target", "consensus"])
def test_predict_scores_one_triple(capsys, files, model, view):
    s, r, o = model.entities[0], model.relations[1], model.entities[2]
    asked = ["predict", files / "model", "--subject", s, "--relation", r, "--object", o, "--view", view]
    score = model.score(s, r, o, view=view)
    assert float(done(capsys, *asked)) == pytest.approx(score, rel=1e-5)
    assert json.loads(done(capsys, *asked, "--json"))["score"] == score


# -- info, help, version


def test_info_tells_what_a_model_holds(capsys, files, model):
    told = json.loads(done(capsys, "info", files / "model", "--json"))
    assert told["entities"] == len(model.entities)
    assert sum(told["relations"].values()) == told["triples"] == len(model.known)
    assert told["config"] == model.config.to_dict()
    text = done(capsys, "info", files / "model")
    assert f"{len(model.entities):,} entities, 3 relations" in text
    departed = model.predictor.departures()
    assert told["departures"] == {
        label: {"objects": departed[r], "subjects": departed[3 + r]}
        for r, label in enumerate(model.relations)
    }
    [head] = [line for line in text.splitlines() if line.startswith("most target-specific")]
    assert head.split()[-2:] == ["objects", "subjects"]
    assert departed.min() > 0
    assert "dim " in text


def test_info_has_no_departures_where_there_is_no_consensus(capsys, files, tmp_path):
    for method in ("popularity", "independent"):
        done(capsys, "fit", files / "train.tsv", "--out", tmp_path / "m", "--method", method, *CHEAP)
        assert json.loads(done(capsys, "info", tmp_path / "m", "--json"))["departures"] is None
        assert "target-specific" not in done(capsys, "info", tmp_path / "m")


def test_help_and_version(capsys):
    out = done(capsys, "--help")
    for command in ("fit", "evaluate", "compare", "predict", "info", "demo"):
        assert command in out
        assert "Usage: consmrf" in done(capsys, command, "--help")
    assert done(capsys) == out
    assert done(capsys, "--version").strip() == __import__("consmrf").__version__


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["fit", "--help"]])
def test_asking_costs_no_heavy_import(arguments):
    code = (
        "import sys; from consmrf.cli import main; main(sys.argv[1:]); "
        "heavy = 'numba llvmlite polars matplotlib pyoxigraph pandas numpy'.split(); "
        "print([m for m in heavy if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"


def test_only_evaluating_and_fitting_load_the_compiler(files, model):
    code = "import sys; from consmrf.cli import main; print(main(sys.argv[1:]), 'numba' in sys.modules)"
    predicting = ["predict", files / "model", "--subject", model.entities[0], "--relation", "reads"]
    auditing = ["audit", files / "train.tsv", "--test", files / "test.tsv"]
    for arguments in (predicting, auditing, ["info", files / "model"]):
        command = [sys.executable, "-c", code, *map(str, arguments)]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
        assert ran.stdout.splitlines()[-1] == "0 False"


# -- progress


def _round(number, validation=None):
    return SimpleNamespace(
        round=number,
        loss=1 / number,
        validation=validation,
        validation_error=None,
        primal_residual=1.0,
        dual_residual=0.1,
        seconds={"elapsed": 0.5},
    )


def test_plain_lines_are_few_and_the_last_is_told():
    lines = []
    with progress.Progress(9, lines.append, every=1000) as show:
        for number in range(1, 10):
            show(_round(number))
    assert [line.split(":")[0] for line in lines] == ["round 1/9", "round 9/9"]


def test_without_a_throttle_every_round_has_its_line_once():
    lines = []
    with progress.Progress(3, lines.append, every=0) as show:
        for number in range(1, 4):
            show(_round(number, validation=0.25))
    assert [line.split(",")[1] for line in lines] == [" validation 0.2500"] * 3


def test_a_terminal_gets_a_bar(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    lines = []
    with progress.Progress(3, lines.append) as show:
        for number in range(1, 4):
            show(_round(number))
    assert len(lines) == 1
    assert "loss" in capsys.readouterr().err


# -- as a process


def test_standard_input_is_read(files, tmp_path):
    ran = process("fit", "-", "--out", tmp_path / "m", *QUICK, input=(files / "train.tsv").read_bytes())
    assert (ran.returncode, ran.stderr) == (0, b"")
    np.testing.assert_array_equal(Model.load(tmp_path / "m").known, Model.load(files / "model").known)


def test_an_interrupt_ends_training_and_keeps_the_best_round(files, tmp_path):
    forever = ["--max-epochs", "1000000", "--tol", "0", "--dim", "4"]
    command = [*PROGRAM, "fit", str(files / "train.tsv"), "--out", str(tmp_path / "m"), *forever]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as ran:
        while "round 1/" not in ran.stdout.readline():
            assert ran.poll() is None
        ran.send_signal(signal.SIGINT)
        out, err = ran.communicate()
    assert (ran.returncode, err) == (0, "")
    assert "Interrupted: the best round so far is kept." in out
    assert Model.load(tmp_path / "m").provenance["status"] == "INTERRUPTED"


def test_an_interrupt_while_the_commands_load_is_no_traceback():
    code = (
        "import sys\n"
        "class Pressed:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'cyclopts': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Pressed())\n"
        "from consmrf.cli import main\n"
        "sys.exit(main(['--version']))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (130, "consmrf: error: interrupted\n")


def test_when_nobody_reads_the_work_is_done_all_the_same(files, tmp_path):
    command = [
        *PROGRAM,
        "fit",
        str(files / "train.tsv"),
        "--out",
        str(tmp_path / "m"),
    ]
    with subprocess.Popen([*command, *QUICK], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as ran:
        ran.stdout.close()
        assert ran.stderr.read() == b""
    assert ran.returncode == 0
    assert Model.load(tmp_path / "m").config.dim == 4


@pytest.mark.parametrize("arguments", [["--help"], ["info"]])
def test_a_closed_pipe_ends_quietly(files, arguments):
    arguments = [*arguments, *([str(files / "model")] if arguments == ["info"] else [])]
    command = [*PROGRAM, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as ran:
        ran.stdout.close()
        assert ran.stderr.read() == b""
    assert ran.returncode == 0


def test_labels_of_any_script_are_shown_on_any_terminal(tmp_path):
    rows = [f"Łódź {i}\tzna\tΑθήνα {j}" for i in range(6) for j in range(6) if (i + j) % 3]
    (tmp_path / "t.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    made = process("fit", tmp_path / "t.tsv", "--method", "popularity", "--out", tmp_path / "m")
    assert made.returncode == 0
    asked = ["predict", tmp_path / "m", "--subject", "Łódź 1", "--relation", "zna"]
    for encoding, shown in (("utf-8", "Αθήνα".encode()), ("ascii", b"\\u0391")):
        ran = process(*asked, env={**os.environ, "PYTHONIOENCODING": encoding})
        assert (ran.returncode, ran.stderr) == (0, b"")
        assert shown in ran.stdout


def test_the_console_script_is_the_same_program():
    script = Path(sys.executable).parent / "consmrf"
    ran = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert ran.stdout == process("--version", text=True).stdout
