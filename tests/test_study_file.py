"""A study file: what it may say, and the line that tells of each mistake."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from consmrf import write_triples
from consmrf.errors import InputError
from consmrf.study.datasets import load, source_of
from consmrf.study.graphs import GRAPHS, grouped_graph
from consmrf.study.spec import METHODS, read_study, shipped

SMALL = """
title = "Small"
[datasets.one]
graph = "grouped"
[methods.wave]
set = { dim = 4 }
grid = { reg = [0.01, 0.1], rho = [1.0, 2.0, 3.0] }
[methods.popularity]
"""

# what is put in the place of what, and what the error must say
MISTAKES = [
    ('title = "Small"', "title = 3", "title = 3: must be a text in quotes"),
    ('title = "Small"', "titel = 3", "titel: unknown key; the nearest known: title"),
    ('title = "Small"', "seeds = [1, 1]", "seeds = [1, 1]: must be a list of distinct values"),
    ('title = "Small"', "seeds = [-1]", "seeds = [-1]: must hold whole numbers of at least 0"),
    (
        'title = "Small"',
        'ours = "wve"',
        "ours = 'wve': must be one of wave, popularity; the nearest known: wave",
    ),
    ('title = "Small"', "title = ", "is not TOML"),
    ('graph = "grouped"', 'graph = "groped"', "datasets.one.graph = 'groped': must be one of"),
    ('graph = "grouped"', "", "datasets.one: must have one of folder, train"),
    ('graph = "grouped"', 'graph = "grouped"\nfile = "x"', "it has file, graph"),
    (
        'graph = "grouped"',
        'graph = "grouped"\nwith = { entites = 5 }',
        "with.entites: unknown key; the nearest",
    ),
    ('graph = "grouped"', 'graph = "grouped"\nwith = { entities = 0 }', "with.entities = 0: must be a whole"),
    ('graph = "grouped"', 'folder = "x"\nfolds = 3', "datasets.one.folds = 3: needs pooled = true"),
    (
        "[methods.popularity]",
        "[methods.populrity]",
        "methods.populrity: unknown method; the nearest known: pop",
    ),
    ("dim = 4", "dimm = 4", "methods.wave.set.dimm: unknown setting; the nearest known: dim"),
    ("dim = 4", "dim = 0", "methods.wave on one: dim = 0: must be a whole number from 1"),
    ("dim = 4", "seed = 4", "methods.wave.set.seed: is varied by the study itself"),
    ("reg = [0.01, 0.1]", "reg = 0.1", "methods.wave.grid.reg = 0.1: must be a list"),
    ("reg = [0.01, 0.1]", "reg = [0.01, -1]", "methods.wave on one: reg = -1: must be a finite number"),
    ("reg = [0.01, 0.1]", "regg = [0.01]", "methods.wave.grid.regg: unknown setting; the nearest known: reg"),
    (
        "[methods.popularity]",
        '[methods.popularity]\ndatasets = ["on"]',
        "'on' is none of one; the nearest known",
    ),
    ("[methods.popularity]", "[budget]\ncores = 0", "budget.cores = 0: must be a whole number of at least 1"),
    ("[methods.popularity]", "[budget]\nhours = 3", "budget.hours: unknown key"),
    ("[methods.popularity]", "[protocol]\nconfidence = 2", "protocol: confidence = 2.0: must lie between"),
    ("[methods.popularity]", '[search]\nfolds = "all"', "search.folds = 'all': must be one of first, each"),
    (
        "[methods.popularity]",
        "[curves]\nepochs = [0]",
        "curves.epochs = [0]: must hold whole numbers of at least 1",
    ),
    (
        "[methods.popularity]",
        '[timing]\nmethods = ["wav"]',
        "timing.methods = ['wav']: 'wav' is none of wave",
    ),
    (
        "[methods.popularity]",
        "[growth]\nrelations = [1, 2]\ntriples = 9\nper_relation = 9",
        "growth.relations = [1, 2]: must hold at least three numbers",
    ),
]


def study_of(tmp_path: Path, text: str):
    (tmp_path / "study.toml").write_text(text, "utf-8")
    return read_study(tmp_path / "study.toml")


def test_a_method_meets_each_point_of_its_grid_in_order(tmp_path):
    study = study_of(tmp_path, SMALL)
    points = study.methods["wave"].points(study.datasets["one"])
    assert [(p["reg"], p["rho"]) for p in points] == [(a, b) for a in (0.01, 0.1) for b in (1.0, 2.0, 3.0)]
    assert all(p["dim"] == 4 and p["solver"] == "wave" for p in points)
    assert study.methods["popularity"].points(study.datasets["one"]) == [{"method": "popularity"}]


def test_what_a_dataset_sets_outdoes_the_grid(tmp_path):
    study = study_of(tmp_path, SMALL.replace('"grouped"', '"grouped"\nset = { reg = 0.5, dim = 3 }'))
    points = study.methods["wave"].points(study.datasets["one"])
    assert [(p["reg"], p["dim"]) for p in points] == [(0.5, 3)] * 3


@pytest.mark.parametrize(("place", "mistake", "told"), MISTAKES)
def test_a_mistake_is_one_line_that_names_file_and_key(tmp_path, place, mistake, told):
    assert place in SMALL
    with pytest.raises(InputError) as caught:
        study_of(tmp_path, SMALL.replace(place, mistake, 1))
    said = str(caught.value)
    assert told in said
    assert said.startswith(str(tmp_path / "study.toml"))
    assert "\n" not in said


def test_a_study_needs_a_file_datasets_and_methods(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_study(tmp_path / "absent.toml")
    with pytest.raises(InputError, match="datasets: none is given"):
        study_of(tmp_path, "[methods.wave]")


@pytest.mark.parametrize("name", ["quick", "paper"])
def test_the_shipped_studies_are_read(name):
    study = read_study(shipped(name))
    assert {"wave", "paper", "dmf", "catsmf", "rescal", "popularity"} <= set(study.methods)
    assert all((study.timing, study.curves, study.cores, study.rho, study.growth))


def test_the_papers_study_has_the_papers_grids():
    study = read_study(shipped("paper"))
    for name in ("paper", "dmf", "catsmf", "cd"):
        grid = study.methods[name].grid
        assert grid["dim"] == (10, 25, 50)
        assert grid["reg"] == (5e-4, 5e-3, 5e-2)
        assert study.methods[name].points(study.datasets["dbpedia"])[0]["learning_rate"] == 0.5
    assert study.methods["paper"].grid["rho"] == (5e-5, 5e-4, 5e-3)
    assert study.methods["dmf"].grid["alpha"] == study.methods["catsmf"].grid["alpha"] == (0, 0.25, 0.75, 1)
    assert {p["dim"] for p in study.methods["paper"].points(study.datasets["svo"])} == {10}
    assert {data.folds for data in study.datasets.values()} == {10}
    assert study.options.confidence == 0.99


def test_the_methods_have_the_names_of_the_command_line():
    assert {"wave", "paper", "shared", "independent", "dmf", "catsmf", "rescal", "popularity"} <= set(METHODS)


# -- data


def test_one_file_is_cut_as_the_paper_does_and_folds_test_every_triple_once(tmp_path):
    graph = grouped_graph(1, entities=60, relations=3, triples=500, groups=4)
    write_triples(graph, tmp_path / "g.tsv")
    once = study_of(tmp_path, SMALL.replace('graph = "grouped"', 'file = "g.tsv"'))
    parts = load(source_of(once, once.datasets["one"], 0, tmp_path))
    assert [len(p) for p in (parts.train, parts.valid, parts.test)] == [405, 45, 50]
    folded = study_of(tmp_path, SMALL.replace('graph = "grouped"', 'file = "g.tsv"\nfolds = 4'))
    tested = [load(source_of(folded, folded.datasets["one"], i, tmp_path)).test for i in range(4)]
    assert sorted(t for part in tested for t in part.labelled()) == sorted(graph.labelled())


def test_a_folder_is_taken_as_it_is_or_pooled(tmp_path):
    parts = GRAPHS["grouped"](0, entities=60, relations=3, triples=500, groups=4)
    for name in ("train", "valid", "test"):
        write_triples(getattr(parts, name), tmp_path / f"{name}.tsv.gz")
    study = study_of(tmp_path, SMALL.replace('graph = "grouped"', 'folder = "."'))
    source = source_of(study, study.datasets["one"], 0, tmp_path)
    assert load(source).test.labelled() == parts.test.labelled()
    text = SMALL.replace('graph = "grouped"', 'folder = "."\npooled = true\nfolds = 5')
    pooled = study_of(tmp_path, text)
    first = source_of(pooled, pooled.datasets["one"], 0, tmp_path)
    together = load(first)
    assert sum(map(len, (together.train, together.valid, together.test))) == 500
    (tmp_path / "test.tsv.gz").unlink()
    with pytest.raises(InputError, match=r"must hold one file test\.\*, and holds none"):
        source_of(study, study.datasets["one"], 0, tmp_path)


def test_a_changed_file_is_another_dataset(tmp_path):
    (tmp_path / "g.tsv").write_text("a\tr\tb\n")
    study = study_of(tmp_path, SMALL.replace('graph = "grouped"', 'file = "g.tsv"'))
    before = source_of(study, study.datasets["one"], 0, tmp_path).to_dict()
    (tmp_path / "g.tsv").write_text("a\tr\tc\n")
    assert source_of(study, study.datasets["one"], 0, tmp_path).to_dict() != before


@pytest.mark.parametrize(("relations", "triples"), [(3, 400), (40, 400), (3, 6000)])
def test_grouped_graphs_have_the_size_asked_for_and_link_groups(relations, triples):
    sizes = {"entities": 120, "relations": relations, "triples": triples, "groups": 4}
    graph = grouped_graph(5, **sizes)
    assert len(graph) == triples
    assert len(np.unique(graph.triples[:, 1])) == relations
    assert grouped_graph(5, **sizes) == graph
    if triples == 6000:
        # the groups are hidden, but show as so many strong directions
        r0 = graph.triples[graph.triples[:, 1] == 0]
        linked = np.zeros((120, 120))
        linked[r0[:, 0], r0[:, 2]] = 1
        values = np.linalg.svd(linked, compute_uv=False)
        assert values[3] > 1.5 * values[4]  # four groups: four strong directions


def test_the_example_of_the_documentation_is_a_study(tmp_path):
    document = Path(__file__).resolve().parents[1] / "docs" / "study.md"
    [example] = re.findall(r"^```toml\n(.*?)^```", document.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    study = study_of(tmp_path, example)
    assert list(study.datasets) == ["music", "films", "toy"]
    assert study.growth is not None


def test_the_scaled_study_compares_what_the_paper_compares():
    study = read_study(Path(__file__).resolve().parents[1] / "docs" / "study" / "study.toml")
    assert set(study.datasets) == {"dbpedia_music", "svo300k", "yago_mkgy", "fb15k237"}
    assert {"wave", "paper", "dmf", "catsmf", "cd", "rescal"} <= set(study.methods)
    assert study.timing.targets
    assert "svo300k" in study.timing.datasets
