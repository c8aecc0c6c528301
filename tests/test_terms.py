"""What a fit minimises: weights, values, a loss for each relation, shares of the regulariser."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import consmrf
from consmrf import (
    Config,
    InputError,
    Model,
    SettingError,
    UnknownLabelError,
    cli,
    read_triples,
    write_triples,
)
from consmrf.consensus.facts import lay_out
from consmrf.consensus.memory import estimate_waves
from consmrf.consensus.wave import initial_wave, numbers_of
from consmrf.graph.partition import partition
from problems import graph_of, planted_graph, random_graph

# one form for all fits of this file, so that it is compiled once: several losses, terms, one view
FORM = {"dim": 8, "negatives": 32, "method": "shared", "threads": 1, "reg_weight": "uniform"}
LOSSES = {"loss": "squared", "losses": {"r0000": "logistic"}}


def fitted(graph, valid=None, **given):
    return consmrf.fit(graph, valid=valid, config=Config(**{**FORM, **LOSSES, "max_epochs": 8, **given}))


# -- settings


def test_a_loss_for_each_relation_is_a_setting_like_others():
    config = Config(losses={"b": "bpr", "a": "squared"})
    assert config == Config(losses=(("a", "squared"), ("b", "bpr")))
    assert hash(config) == hash(Config(losses=[["b", "bpr"], ["a", "squared"]]))
    assert config != Config()
    plain = json.loads(json.dumps(config.to_dict()))
    assert plain["losses"] == {"a": "squared", "b": "bpr"}
    assert Config.from_dict(plain) == config
    assert [config.loss_of(label) for label in "abc"] == ["squared", "bpr", "softmax"]
    assert Config(losses={}) == Config()
    assert replace(config, dim=3).losses == config.losses


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"a": "hinge"}, "losses['a'] = 'hinge': must be one of softmax, bpr, logistic, squared"),
        ({1: "bpr"}, "must give labels of relations a loss each"),
        ("bpr", "must give labels of relations a loss each"),
        (3, "must give labels of relations a loss each"),
        ([("a", "bpr"), ("a", "squared")], "must give labels of relations a loss each"),
    ],
)
def test_losses_that_cannot_be_are_refused(given: object, what: str) -> None:
    with pytest.raises(SettingError) as caught:
        Config(losses=given)
    assert what in str(caught.value)


def test_the_papers_solver_knows_none_of_it():
    for given in ({"losses": {"a": "bpr"}}, {"reg_weight": "uniform"}):
        with pytest.raises(SettingError, match="use solver = 'wave'"):
            Config(solver="paper", **given)
    graph = replace(random_graph(0), weights=np.ones(len(random_graph(0))))
    for given in ({"solver": "paper"}, {"method": "independent"}):
        with pytest.raises(InputError, match="the graph has weights: solver = 'paper' and"):
            consmrf.fit(graph, config=Config(**given))
    with pytest.raises(SettingError, match="reg_weight = 'rare': must be one of frequency, uniform"):
        Config(reg_weight="rare")


def test_a_relation_that_the_graph_lacks_is_named_with_its_nearest():
    with pytest.raises(UnknownLabelError, match=r"unknown relation 'r000': .* the nearest known: 'r0000'"):
        fitted(random_graph(0), losses={"r000": "bpr"})


def test_values_must_be_such_that_the_relations_loss_can_aim_at_them():
    graph = random_graph(0, n_entities=40)
    rated = replace(graph, values=np.where(graph.triples[:, 1] == 2, 4.5, 1.0))
    with pytest.raises(
        InputError, match="'r0002' has values other than 1, and loss = 'softmax' aims at none"
    ):
        consmrf.fit(rated, config=Config())
    with pytest.raises(
        InputError, match=r"'r0002' has the value 4\.5: .*'logistic' knows values from 0 to 1"
    ):
        fitted(rated, losses={"r0002": "logistic"})
    assert fitted(rated, losses={"r0000": "bpr"}, max_epochs=1).model.relations == graph.vocabulary.relations
    assert consmrf.fit(rated, config=Config(method="popularity")).model.relations


def test_a_graph_in_which_nothing_weighs_anything_teaches_nothing():
    graph = random_graph(0)
    with pytest.raises(InputError, match="nothing to learn"):
        fitted(replace(graph, weights=np.zeros(len(graph))))


# -- what becomes of them


def test_the_kernel_asks_each_relation_only_where_they_differ():
    graph = random_graph(0)
    parts, n = partition(graph), len(graph.vocabulary.entities)

    def form(*losses):
        layout = lay_out(parts, n, reciprocal=True, views=(), losses=losses)
        config = Config(loss="bpr", negatives=4)
        state = initial_wave(layout, config)
        return state.form.loss, numbers_of(state, layout, config)

    assert form()[0] == "bpr"
    assert form(*["squared"] * 4)[0] == "squared"
    loss, numbers = form("softmax", "bpr", "softmax", "logistic")
    assert loss == "several"
    assert numbers.losses.tolist() == [1, 0, 1, 2] * 2
    assert (numbers.boost > 0).tolist() == [True, False, True, False] * 2


def test_a_uniform_regulariser_is_the_same_in_all_for_every_entity():
    graph = replace(numbered := random_graph(0), weights=np.arange(len(numbered)) % 4 * 0.5)
    layout = lay_out(partition(graph), 17, reciprocal=True, views=(), losses=())
    config = Config(reg_weight="uniform")
    shares = numbers_of(initial_wave(layout, config), layout, config).reg_shares
    total = np.zeros(17)
    for column in (0, 2):
        np.add.at(total, graph.triples[:, column], 2 * graph.weights)  # once more in the twin
    met = total > 0
    np.testing.assert_allclose((shares * total)[met], total[met].mean(), rtol=1e-6)
    assert not shares[~met].any()


def test_facts_that_weigh_nothing_teach_nothing():
    train, test, group, target = planted_graph(n_entities=120, n_groups=6)
    rng = np.random.default_rng(0)
    true = set(map(tuple, train.triples.tolist()))
    wrong = [(s, r, o) for s, r, _ in true for o in rng.choice(120, 2) if group[o] != target[r, group[s]]]
    noisy = graph_of([*true, *wrong], 120, 4)
    weights = np.array([1.0 if tuple(x) in true else 0.0 for x in noisy.triples.tolist()])
    told, untold = (
        consmrf.evaluate(fitted(graph, max_epochs=25).model, test, known=[train]).summary()["mrr"]
        for graph in (replace(noisy, weights=weights), replace(noisy, weights=np.ones(len(noisy))))
    )
    assert told > 1.3 * untold


def test_scores_learn_the_values():
    rng = np.random.default_rng(0)
    likes, worth = rng.choice([-1.0, 1.0], 60), rng.choice([-1.0, 1.0], 40)
    pairs = [(s, o) for s in range(60) for o in range(40) if rng.uniform() < 0.5]
    facts = [(s, 1, 60 + o) for s, o in pairs] + [(s, 0, (s + 1) % 60) for s in range(60)]
    graph = graph_of(facts, 100, 2)
    s, r, o = graph.triples.T
    y = np.where(r == 1, 3.0 * likes[s % 60] * worth[np.maximum(o, 60) - 60], 1.0)
    held = (np.arange(len(graph)) % 5 == 0) & (r == 1)
    train = replace(graph, triples=graph.triples[~held], values=y[~held])
    model = fitted(train, max_epochs=40, reg=0.01).model
    scores = np.stack([model.object_scores(1, np.array([e], np.int32))[0] for e in range(60)])
    assert np.corrcoef(scores[s[held], o[held]], y[held])[0, 1] > 0.8


def test_memory_is_estimated_with_them():
    graph = random_graph(0, n_entities=900, sizes=(4000, 2000))
    told = replace(graph, weights=np.ones(len(graph)), values=np.ones(len(graph)))

    def bytes_of(graph, **more):
        found = estimate_waves(partition(graph), 900, Config(**more))
        return found.data, found.consensus

    plain = bytes_of(graph)
    assert bytes_of(told)[0] - plain[0] == 2 * 2 * 4 * len(graph)  # two numbers, two directions
    assert bytes_of(graph, reg_weight="uniform")[1] - plain[1] == 4 * 900


# -- the command line


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("terms")
    train, test, _, _ = planted_graph(n_entities=60, n_groups=6)
    numbers = {"weights": np.ones(len(train)), "values": np.full(len(train), 0.5)}
    write_triples(replace(train, **numbers), folder / "train.tsv")
    write_triples(test, folder / "test.tsv")
    return folder


def run(capsys, *arguments):
    code = cli.main([str(a) for a in arguments])
    return code, *capsys.readouterr()


OPTIONS = [
    "--dim",
    "8",
    "--negatives",
    "32",
    "--method",
    "shared",
    "--reg-weight",
    "uniform",
    "--max-epochs",
    "1",
]
OPTIONS += ["--loss", "squared", "--losses", "r0000=logistic", "--losses", "r0001=squared"]


def test_the_command_line_takes_them(capsys, files, tmp_path):
    code, out, err = run(
        capsys,
        "fit",
        files / "train.tsv",
        "--out",
        tmp_path / "m",
        "--weight",
        3,
        "--value",
        "value",
        *OPTIONS,
    )
    assert (code, err) == (0, "")
    assert "columns subject, relation, object, weight, value" in out
    config = Model.load(tmp_path / "m").config
    assert config.losses == (("r0000", "logistic"), ("r0001", "squared"))
    assert config.reg_weight == "uniform"


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["--losses", "bpr"], "losses = 'bpr': must be RELATION=LOSS"),
        (["--losses", "r0000=bpr"], "losses: 'r0000' has two, logistic and bpr; give one"),
        (["--losses", "r0002=hinge"], "losses['r0002'] = 'hinge': must be one of"),
        (["--losses", "likes=bpr"], "unknown relation 'likes'"),
        (["--weight", "stars"], "expected column 'stars'; correct weight="),
        (["--losses", "r0003=bpr", "--value", "4"], "relation 'r0003' has values other than 1"),
    ],
)
def test_mistakes_are_one_line(capsys, files, tmp_path, options, what):
    code, out, err = run(capsys, "fit", files / "train.tsv", "--out", tmp_path / "m", *OPTIONS, *options)
    assert code == 1
    assert what in err
    assert len(err.splitlines()) == 1
    assert "round" not in out
    assert not (tmp_path / "m").exists()


def test_a_bad_weight_is_named_with_its_file_and_line(capsys, tmp_path):
    (tmp_path / "g.tsv").write_text("a\tr\tb\t1\na\tr\tc\t-1\n")
    code, _, err = run(capsys, "fit", tmp_path / "g.tsv", "--out", tmp_path / "m", "--weight", 3)
    assert code == 1
    assert f"{tmp_path / 'g.tsv'}:2: found the weight '-1'" in err


def test_evaluation_ranks_whatever_the_numbers(files):
    train = read_triples(files / "train.tsv", weight="weight", value="value")
    model = fitted(train, max_epochs=1).model
    test = read_triples(files / "test.tsv")
    told = replace(test, weights=np.zeros(len(test)), values=np.full(len(test), -3.0))
    assert consmrf.evaluate(model, test).to_dict() == consmrf.evaluate(model, told).to_dict()
