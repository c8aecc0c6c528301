"""The running example has the structure that it was planted with, and the demo tells the truth about it."""

from __future__ import annotations

import functools
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from consmrf import Config, EvaluationOptions, Model, SettingError, cli, evaluate, read_triples, write_triples
from consmrf.demo import run
from consmrf.demo.social import RELATIONS, make_social_graph
from consmrf.demo.story import FEW, METHODS, PLANTED

SMALL = {"users": 150, "items": 100, "communities": 5}


@pytest.fixture(scope="module")
def example():
    return make_social_graph(0)


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The folder that the demo, as the user calls it, leaves."""
    folder = tmp_path_factory.mktemp("demo") / "out"
    assert cli.main(["demo", "--out", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def told(demo):
    return json.loads((demo / "figures.json").read_text("utf-8"))


def pairs(example, graph, relation):
    """Hand on the facts of a relation as positions among users and items."""
    places = {label: i for labels in (example.users, example.items) for i, label in enumerate(labels)}
    return np.array([(places[s], places[o]) for s, r, o in graph.labelled() if r == relation])


def everything(example):
    return {part: getattr(example, part) for part in ("train", "valid", "test")}


# -- the generator


def test_the_same_seed_gives_the_same_bytes(tmp_path):
    for name, seed in (("a", 7), ("b", 7), ("c", 8)):
        write_triples(make_social_graph(seed, **SMALL).train, tmp_path / f"{name}.tsv")
    a, b, c = ((tmp_path / f"{name}.tsv").read_bytes() for name in "abc")
    assert a == b
    assert a != c


def test_the_sizes_are_those_of_a_small_network(example):
    triples = sum(len(graph) for graph in everything(example).values())
    assert 55_000 < triples < 100_000
    assert len(set(example.users)) == 1500
    assert len(set(example.items)) == 1000
    assert not set(example.users) & set(example.items)
    assert example.train.vocabulary.relations == RELATIONS
    assert len(example.test) / triples == pytest.approx(0.1, abs=0.005)
    assert len(example.valid) / triples == pytest.approx(0.09, abs=0.005)


@pytest.mark.parametrize("seed", range(4))
def test_the_parts_share_no_fact_and_no_mirror_image(seed):
    example = make_social_graph(seed, **SMALL)
    parts = {name: set(graph.labelled()) for name, graph in everything(example).items()}
    assert len(set.union(*parts.values())) == sum(map(len, parts.values()))
    for facts in parts.values():
        friends = {(s, o) for s, r, o in facts if r == "friends"}
        assert friends == {(o, s) for s, o in friends}
        assert not any(s == o for s, _, o in facts)


@pytest.mark.parametrize("seed", range(4))
def test_everything_tested_occurs_in_training(seed):
    example = make_social_graph(seed, **SMALL)
    seen = set(example.train.triples[:, [0, 2]].ravel().tolist())
    assert seen == set(range(len(example.train.vocabulary.entities)))
    for graph in (example.valid, example.test):
        assert graph.vocabulary == example.train.vocabulary


def test_facts_are_as_frequent_as_their_chances_say(example):
    """Over cells of like chance, the share that was drawn is the mean chance, within four standard errors."""
    for relation in RELATIONS:
        chance = example.chance[relation]
        drawn = np.zeros(chance.shape, bool)
        for graph in everything(example).values():
            found = pairs(example, graph, relation)
            drawn[found[:, 0], found[:, 1]] = True
        order = np.argsort(chance, axis=None)
        for cells in np.array_split(order, 20):
            p = chance.ravel()[cells]
            # a friendship's two cells are one draw, hence the 2
            error = np.sqrt(2 * (p * (1 - p)).sum())
            assert abs(drawn.ravel()[cells].sum() - p.sum()) <= 4 * error + 1e-9


def test_users_read_what_they_are_interested_in(example):
    read = pairs(example, example.train, "reads")
    of_read = example.interest[read[:, 0], example.topic[read[:, 1]]].mean()
    assert of_read > 2.3 * example.interest.mean()


def test_friends_live_in_communities(example):
    found = pairs(example, example.train, "friends")
    same = example.community[found[:, 0]] == example.community[found[:, 1]]
    assert same.mean() > 0.8


@pytest.mark.parametrize(("relation", "least"), [("follows", 1.4), ("friends", 2.0)])
def test_whom_one_follows_or_befriends_tells_what_one_reads(example, relation, least):
    found = pairs(example, example.train, relation)
    unit = example.interest / np.linalg.norm(example.interest, axis=1, keepdims=True)
    alike = (unit[found[:, 0]] * unit[found[:, 1]]).sum(axis=1).mean()
    assert alike > least * (unit @ unit.T).mean()


def test_many_users_read_little_and_a_few_are_followed_by_many(example):
    read = np.bincount(pairs(example, example.train, "reads")[:, 0], minlength=1500)
    assert (read <= FEW).mean() > 0.3
    followers = np.sort(np.bincount(pairs(example, example.train, "follows")[:, 1], minlength=1500))
    assert followers[-45:].sum() > 0.3 * followers.sum()


@pytest.mark.parametrize("wrong", [{"users": 10}, {"users": 10_000}, {"items": 5000}, {"communities": 0}])
def test_sizes_out_of_range_are_refused(wrong):
    with pytest.raises(SettingError, match=next(iter(wrong))):
        make_social_graph(0, **wrong)


# -- the demo


def test_the_demo_leaves_what_it_says(demo):
    assert {p.name for p in demo.iterdir()} == {
        *("train.tsv", "valid.tsv", "test.tsv"),
        *("model.consmrf", "figures.json", "report.html"),
    }
    assert read_triples(demo / "test.tsv").labelled() == make_social_graph(0).test.labelled()


def test_the_figures_are_those_of_the_model(demo, told):
    model = Model.load(demo / "model.consmrf")
    test, valid = read_triples(demo / "test.tsv"), read_triples(demo / "valid.tsv")
    for protocol in ("full", "paper"):
        plain = evaluate(
            model, test, known=[valid], protocol=protocol, options=EvaluationOptions(bootstrap=0)
        )
        found = plain.to_dict()
        assert found["relations"] == told[protocol]["ConsMRF"]["relations"]
        assert found["macro"] == told[protocol]["ConsMRF"]["macro"]


def test_sharing_beats_learning_apart_and_counting(told):
    """On this graph, with these settings: the demo itself says whoever is ahead."""
    mrr = {name: plain["both"]["mrr"] for name, plain in told["full"].items()}
    auc = {name: plain["objects"]["auc"] for name, plain in told["paper"].items()}
    few = {name: plain["objects"]["mrr"] for name, plain in told["few_reads"].items()}
    for values in (mrr, auc, few):
        assert values[PLANTED] > values["ConsMRF"] > max(values["independent"], values["popularity"])
    assert mrr["ConsMRF"] > mrr["the paper's solver"]  # but not in AUC


def test_popularity_is_real_and_beatable(told):
    auc = told["paper"]["popularity"]["objects"]["auc"]
    assert 0.75 < auc < told["paper"][PLANTED]["objects"]["auc"] - 0.05


def test_planted_answers_are_recovered(told):
    shares = told["recovered"]
    assert shares[PLANTED] == pytest.approx(dict.fromkeys(RELATIONS, 1.0))
    for relation in RELATIONS:
        assert shares["ConsMRF"][relation] > max(0.5, shares["popularity"][relation])


def test_the_commands_name_what_is_not_the_default():
    fit_line, _ = run.commands(Path("d"), replace(Config(), seed=4, threads=3))
    assert fit_line == "consmrf fit d/train.tsv --valid d/valid.tsv --out again.consmrf --seed 4"


def test_intervals_of_relations_hold_their_values(told):
    for method in METHODS:
        plain = told["full"][method]
        for relation in RELATIONS:
            low, high = plain["relation_intervals"][relation]["both"]["mrr"]
            assert low < plain["relations"][relation]["both"]["mrr"] < high


def test_the_page_stands_alone_and_says_what_was_found(demo, told):
    text = (demo / "report.html").read_text("utf-8")
    assert text.count("<svg") == 5
    assert not re.search(r"https?:|<script|<link|<img|@import", text)
    assert f"{told['full']['ConsMRF']['both']['mrr']:.3f}" in text
    reader = HTMLParser()
    reader.feed(text)
    reader.close()


# -- a small one, for what needs two runs


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(run, "make_social_graph", functools.partial(make_social_graph, **SMALL))
    quick = {
        n: c if c.method == "popularity" else replace(c, dim=8, max_epochs=4 if c.solver == "wave" else 80)
        for n, c in METHODS.items()
    }
    monkeypatch.setattr(run, "METHODS", quick)


@pytest.mark.usefixtures("small")
def test_the_same_seed_tells_the_same_story(capsys, tmp_path):
    for name, threads in (("a", "1"), ("b", "2")):
        assert cli.main(["demo", "--out", str(tmp_path / name), "--threads", threads, "--seed", "3"]) == 0
    for file in ("train.tsv", "valid.tsv", "test.tsv", "report.html"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    out, err = capsys.readouterr()
    assert err == ""
    assert "All relations, MRR: " in out
    assert len(re.findall(r"number [\d,]+ of [\d,]+ by the planted chances|wrong kind", out)) % 3 == 0


@pytest.mark.usefixtures("small")
def test_the_commands_that_the_demo_names_give_the_same_model(capsys, tmp_path):
    assert cli.main(["demo", "--out", str(tmp_path / "demo")]) == 0
    fit, measure = [
        line.split()[1:] for line in capsys.readouterr().out.splitlines() if line.startswith("consmrf ")
    ]
    again = str(tmp_path / "again")
    assert cli.main([again if word == "again.consmrf" else word for word in fit]) == 0
    assert cli.main([again if word == "again.consmrf" else word for word in measure]) == 0
    ours, theirs = Model.load(again), Model.load(tmp_path / "demo" / "model.consmrf")
    np.testing.assert_array_equal(ours.predictor.z, theirs.predictor.z)
    assert replace(ours.config, threads=None) == theirs.config


@pytest.mark.usefixtures("small")
def test_a_second_demo_replaces_the_first(tmp_path):
    for seed in ("1", "2"):
        assert cli.main(["demo", "--out", str(tmp_path / "d"), "--seed", seed]) == 0
    assert Model.load(tmp_path / "d" / "model.consmrf").config.seed == 2


@pytest.mark.usefixtures("small")
def test_an_interrupt_ends_the_demo(capsys, monkeypatch, tmp_path):
    def interrupted(*_args, **_more):
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "measure", interrupted)
    assert cli.main(["demo", "--out", str(tmp_path / "d")]) == 130
    assert capsys.readouterr().err == "consmrf: error: interrupted\n"


def test_the_methods_share_what_is_not_theirs_to_choose():
    """Only the settings that were tried on validation differ from the defaults, and ConsMRF has these."""
    assert METHODS["ConsMRF"] == Config()
    tried = {"method", "dim", "reg", "inner_epochs", "max_epochs"}
    for config in METHODS.values():
        plain, default = config.to_dict(), Config(solver=config.solver).to_dict()
        assert {name for name in plain if plain[name] != default[name]} <= tried
