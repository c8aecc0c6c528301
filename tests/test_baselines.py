"""The methods we compare with: against naive copies of themselves, and on graphs whose answer is known."""

import dataclasses
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from consmrf import cli, write_triples
from consmrf.baselines import coupled, dmf
from consmrf.baselines.alpha import Alpha
from consmrf.baselines.kernels import begin_stream, draw, spans_of
from consmrf.config import Config
from consmrf.consensus.facts import lay_out
from consmrf.consensus.losses import LOSSES
from consmrf.consensus.scorers import SCORERS
from consmrf.consensus.solve import Status
from consmrf.errors import InputError, SettingError, UnknownLabelError
from consmrf.evaluation.protocol import evaluate
from consmrf.fit import estimate_memory, fit
from consmrf.graph.partition import partition
from consmrf.graph.planted import conflicting_relations, shared_structure
from consmrf.model import Model
from naive import bpr_gradients
from problems import graph_of, paper, planted_graph, random_graph

# One compiled form for whatever does not need another; κ is the number of groups of the planted graphs.
K = 8
GRAPH = random_graph(1, n_entities=23, sizes=(40, 1, 25, 9))


def settings(method, **others):
    return Config(**{"method": method, "solver": "paper", "dim": K, "tol": 0, "threads": 1, **others})


class Drawn:
    """Records the samples of each pass as (r, s, o, o′), under its target, while a method draws them."""

    def __init__(self, monkeypatch, module, entity_of):
        self.passes, real = {}, draw()

        def recorded(facts, spans, n_entities, state, row_of, entities, size, w_of, samples):
            out = real(facts, spans, n_entities, state, row_of, entities, size, w_of, samples)
            relation = {row: r for r, row in enumerate(w_of.tolist()) if row >= 0}
            rows = [(relation[w], *entity_of(own, entities)) for w, *own in samples.tolist()]
            self.passes.setdefault(id(spans), []).extend(rows)
            return out

        monkeypatch.setattr(module, "draw", lambda: recorded)


class NaiveTargets:
    """DMF and CATSMF one number at a time, with every parameter that the equations name."""

    def __init__(self, z0, w0, config):
        self.config = config
        self.a = [np.array(x) for x in z0]
        self.a_sums = [np.ones_like(x) for x in z0]
        self.w = np.array(w0)
        self.w_sums = np.ones_like(w0)

    def learn(self, samples, alpha, row_of, w_of):
        """`row_of` and `w_of` say which parameters an entity and a relation have in this pass."""
        total = 0.0
        for r, s, o, neg in samples:
            w, rows = self.w[w_of(r)], [row_of(e) for e in (s, o, neg)]
            *g, g_w, loss = bpr_gradients("diagonal", *(self.a[rows[0]], w, self.a[rows[1]], self.a[rows[2]]))
            total += alpha[r] * loss
            steps = [alpha[r] * (x + self.config.reg * self.a[row]) for x, row in zip(g, rows, strict=True)]
            g_w = alpha[r] * (g_w + self.config.reg * w)
            for row, step in zip(rows, steps, strict=True):
                self.a_sums[row] += step**2
                self.a[row] -= self.config.learning_rate * step / np.sqrt(self.a_sums[row])
            self.w_sums[w_of(r)] += g_w**2
            w -= self.config.learning_rate * g_w / np.sqrt(self.w_sums[w_of(r)])
        return total


def begin(graph, config):
    """What the paper's solver begins with: Z⁰ and W_r⁰ of this seed."""
    from consmrf.consensus.state import initial_w, initial_z

    n_entities, n_relations = len(graph.vocabulary.entities), len(graph.vocabulary.relations)
    return initial_z(n_entities, config), np.stack(initial_w(n_relations, config))


ALPHA = ((1, 0.5, 0, 0.25), (0.1, 1, 0.2, 0.3), (0, 0, 1, 0), (0.7, 0.7, 0.7, 1))


@pytest.mark.parametrize("alpha", [0.25, ALPHA])
def test_dmf_is_the_naive_one(monkeypatch, alpha):
    config = settings("dmf", alpha=alpha, max_epochs=2, precision="double", init_scale=0.5)
    drawn = Drawn(monkeypatch, dmf, lambda own, entities: entities[own].tolist())
    found = []
    monkeypatch.setattr(dmf.Dmf, "views", lambda self, views=dmf.Dmf.views: found.append(self) or views(self))
    result = fit(GRAPH, config=config)
    z0, w0 = begin(GRAPH, config)
    loss = 0.0
    for target in found[-1].targets:
        t, samples = target.relation, drawn.passes[id(target.spans)]
        row = Alpha(config.alpha, GRAPH.vocabulary.relations).row(t)
        naive = NaiveTargets(z0, w0, config)
        half = len(samples) // 2
        naive.learn(samples[:half], row, lambda e: e, lambda r: r)
        loss += naive.learn(samples[half:], row, lambda e: e, lambda r: r)
        assert half == sum(len(p) for p, x in zip(partition(GRAPH), row, strict=True) if x)
        np.testing.assert_allclose(result.model.predictor.view(t), naive.a, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(result.model.predictor.w[t], naive.w[t], rtol=1e-9, atol=1e-12)
    samples = sum(map(len, drawn.passes.values())) // 2
    assert result.info.rounds[-1].samples == samples
    assert result.info.rounds[-1].loss == pytest.approx(loss / samples)
    moved = [np.linalg.norm(result.model.predictor.view(r) - z0) for r in range(4)]
    assert result.info.rounds[-1].primal_residual == pytest.approx(np.linalg.norm(moved))


@pytest.mark.parametrize("alpha", [0.25, ALPHA])
def test_catsmf_is_the_naive_one(monkeypatch, alpha):
    config = settings("catsmf", alpha=alpha, max_epochs=2, precision="double", init_scale=0.5)
    order, find = [], coupled.Coupled._train
    n, graph = 23, GRAPH
    own = [p.entities.tolist() for p in partition(graph)]
    flat = [(t, e) for t, es in enumerate(own) for e in es]

    def entity_of(rows, _):
        return [row if row < n else flat[row - n][1] for row in rows]

    def train(self, each, *rest):
        order.append((each.target, id(each.spans)))
        return find(self, each, *rest)

    drawn = Drawn(monkeypatch, coupled, entity_of)
    monkeypatch.setattr(coupled.Coupled, "_train", train)
    result = fit(graph, config=config)
    z0, w0 = begin(graph, config)
    naive = NaiveTargets([*z0, *(z0[e] for _, e in flat)], np.concatenate([w0, w0]), config)
    place = {pair: n + i for i, pair in enumerate(flat)}
    taken = dict.fromkeys(drawn.passes, 0)
    for t, key in order:
        row = Alpha(config.alpha, graph.vocabulary.relations).row(t)
        draws = len(drawn.passes[key]) // 2
        samples = drawn.passes[key][taken[key] : taken[key] + draws]
        taken[key] += draws
        naive.learn(samples, row, lambda e, t=t: place.get((t, e), e), lambda r, t=t: 4 + r if r == t else r)
    assert sorted(t for t, _ in order) == [0, 0, 1, 1, 2, 2, 3, 3]
    predictor = result.model.predictor
    np.testing.assert_allclose(predictor.z, naive.a[:n], rtol=1e-9, atol=1e-12)
    for t in range(4):
        expected = [naive.a[place.get((t, e), e)] for e in range(n)]
        np.testing.assert_allclose(predictor.view(t), expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(predictor.w[t], naive.w[4 + t], rtol=1e-9, atol=1e-12)


def test_samples_are_facts_with_objects_that_are_not():
    layout = lay_out(partition(GRAPH), 23, reciprocal=False, views=())
    active = np.array([True, False, True, True])
    spans = spans_of(layout.indptr, active)
    assert spans.first.tolist() == [0, layout.indptr[2]]
    facts = {tuple(t) for t in GRAPH.triples.tolist()}
    row_of, entities, samples = (
        np.full(23, -1, np.int32),
        np.empty(23, np.int32),
        np.empty((60000, 4), np.int32),
    )
    state = np.uint64(begin_stream(0, 1, 2))
    arguments = (row_of, entities, 0, np.arange(4, dtype=np.int32), samples)
    _, size, _ = draw()(layout.facts, spans, 23, state, *arguments)
    assert sorted(entities[:size].tolist()) == sorted(np.flatnonzero(row_of >= 0).tolist())
    r, (s, o, neg) = samples[:, 0], entities[samples[:, 1:]].T
    seen, counts = np.unique(np.stack([s, r, o], axis=1), axis=0, return_counts=True)
    assert {tuple(t) for t in seen.tolist()} == {t for t in facts if active[t[1]]}
    expected = len(samples) / len(seen)
    assert np.sum((counts - expected) ** 2 / expected) < len(seen) + 5 * np.sqrt(2 * len(seen))
    assert not facts & set(zip(s.tolist(), r.tolist(), neg.tolist(), strict=True))
    first = neg[(s == s[0]) & (r == r[0])]
    allowed = 23 - sum(t[:2] == (s[0], r[0]) for t in facts)
    seen, counts = np.unique(first, return_counts=True)
    assert len(seen) == allowed
    expected = len(first) / allowed
    assert np.sum((counts - expected) ** 2 / expected) < allowed + 5 * np.sqrt(2 * allowed)


def test_no_relations_make_no_spans():
    spans = spans_of(np.array([0, 4, 4, 9]), np.array([False, True, False]))
    assert not len(spans.first)
    assert not len(spans.end)


def test_dmf_without_auxiliaries_is_the_independent_models():
    """Draws and steps are theirs; what differs is the order of a sum."""
    alone = fit(GRAPH, config=settings("independent", max_epochs=5, precision="double"))
    targets = fit(GRAPH, config=settings("dmf", alpha=0.0, max_epochs=5, precision="double"))
    for r in range(4):
        expected = alone.model.predictor.view(r)
        np.testing.assert_allclose(targets.model.predictor.view(r), expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(targets.model.predictor.w, alone.model.predictor.w, rtol=1e-10)
    rounds = zip(targets.info.rounds, alone.info.rounds, strict=True)
    assert all(x.loss == pytest.approx(y.loss) and x.samples == y.samples for x, y in rounds)


def test_with_one_relation_nothing_is_left_to_differ():
    graph = graph_of([(s, 0, o) for s, r, o in GRAPH.triples.tolist() if r == 0], 23, 1)
    config = settings("shared", max_epochs=4, precision="double")
    models = [
        fit(graph, config=dataclasses.replace(config, method=method, rho=0.0, alpha=0.5)).model.predictor
        for method in ("shared", "dmf", "catsmf", "independent")
    ]
    for model in models[1:]:
        np.testing.assert_allclose(model.view(0), models[0].z, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(model.w, models[0].w, rtol=1e-10)


METHODS = {
    "shared": settings("shared", max_epochs=60),
    "independent": settings("independent", max_epochs=60),
    "consensus": settings("consensus", max_epochs=60, inner_epochs=5),
    "dmf": settings("dmf", max_epochs=60),
    "catsmf": settings("catsmf", max_epochs=60),
    "rescal": Config(method="rescal", dim=K, reg=0.1, threads=1),
}


@cache
def measured(make, method):
    planted = make()
    result = fit(planted.train, config=METHODS[method])
    figures = evaluate(result.model, planted.test, known=[planted.valid]).to_dict()
    return figures["objects"]["auc"]


@pytest.mark.parametrize("method", ["shared", "consensus", "dmf", "catsmf", "rescal"])
def test_sharing_helps_where_relations_have_their_structure_in_common(method):
    assert measured(shared_structure, method) > 0.9
    assert measured(shared_structure, "independent") < 0.7


@pytest.mark.parametrize("method", ["consensus", "dmf", "catsmf", "independent"])
def test_features_of_their_own_win_where_relations_conflict(method):
    assert measured(conflicting_relations, method) > 0.88
    assert measured(conflicting_relations, "shared") < 0.7


def test_alpha_moves_dmf_from_the_independent_models_to_the_shared_one():
    planted = conflicting_relations()
    at = {}
    for alpha in (0.0, 1.0):
        result = fit(planted.train, config=dataclasses.replace(METHODS["dmf"], alpha=alpha))
        at[alpha] = evaluate(result.model, planted.test).to_dict()["objects"]["auc"]
    assert at[0.0] > 0.9
    assert at[1.0] < 0.7


@pytest.mark.parametrize("method", ["shared", "dmf", "catsmf", "rescal"])
def test_a_baseline_is_evaluated_saved_loaded_and_the_same_for_any_number_of_threads(method, tmp_path):
    planted = shared_structure(entities=48, relations=4, facts=2)
    config = dataclasses.replace(METHODS[method], max_epochs=4, seed=7)
    results = [
        fit(planted.train, valid=planted.valid, config=dataclasses.replace(config, threads=threads))
        for threads in (1, 2, 5)
    ]
    first = results[0].model
    for result in results[1:]:
        assert [r.validation for r in result.info.rounds] == [r.validation for r in results[0].info.rounds]
        for name, array in result.model.predictor.arrays().items():
            assert array.tobytes() == first.predictor.arrays()[name].tobytes()
    assert all(r.stage == method and r.seconds["elapsed"] > 0 for r in results[0].info.rounds)
    first.save(tmp_path / "m.consmrf")
    loaded = Model.load(tmp_path / "m.consmrf")
    assert loaded.config == config
    one, two = (evaluate(m, planted.test).to_dict() for m in (first, loaded))
    assert one == two
    shared = method != "dmf"
    if shared:
        np.testing.assert_array_equal(loaded.predictor.consensus().z, first.predictor.z)
    else:
        with pytest.raises(SettingError, match="share nothing"):
            loaded.predictor.consensus()


@pytest.mark.parametrize("method", ["dmf", "catsmf"])
def test_only_the_targets_get_models(method):
    config = settings(method, max_epochs=3, targets=("r0002", "r0000"))
    some = fit(GRAPH, config=config).model.predictor
    rows = np.diff(some.delta_indptr)
    assert rows[0] > 0
    assert rows[2] > 0
    assert rows[1] == rows[3] == 0
    if method == "dmf":
        every = fit(GRAPH, config=dataclasses.replace(config, targets=None)).model.predictor
        for r in (0, 2):
            np.testing.assert_array_equal(some.view(r), every.view(r))
        assert not some.object_scores(1, np.arange(3, dtype=np.int32)).any()  # no model: all are equal
    else:
        assert some.object_scores(1, np.arange(3, dtype=np.int32)).any()  # what all have in common
    with pytest.raises(UnknownLabelError):
        fit(GRAPH, config=dataclasses.replace(config, targets=("nobody",)))


def test_alpha_may_be_a_number_a_mapping_or_a_matrix():
    labels = GRAPH.vocabulary.relations
    number = Alpha(0.5, labels)
    np.testing.assert_array_equal(number.row(2), [0.5, 0.5, 1, 0.5])
    mapping = {"r0001": {"r0000": 0.5, "r0003": 2.0}}
    named = Alpha(Config(alpha=mapping).alpha, labels)
    np.testing.assert_array_equal(named.row(1), [0.5, 1, 0, 2])
    np.testing.assert_array_equal(named.row(0), [1, 0, 0, 0])
    np.testing.assert_array_equal(Alpha(ALPHA, labels).row(3), ALPHA[3])
    for alpha in (mapping, ALPHA, np.array(ALPHA)):
        config = settings("dmf", alpha=alpha)
        assert Config.from_dict(json.loads(json.dumps(config.to_dict()))) == config
        assert hash(config) == hash(dataclasses.replace(config))
    assert settings("dmf", alpha=mapping).to_dict()["alpha"] == mapping
    one, two = (
        fit(GRAPH, config=settings("dmf", max_epochs=2, alpha=a)).model.predictor
        for a in (0.5, [[0.5] * 4] * 4)
    )
    np.testing.assert_array_equal(one.delta, two.delta)


@pytest.mark.parametrize(
    ("alpha", "message"),
    [
        (-0.1, "alpha = -0.1: must be a finite number of at least 0"),
        (float("nan"), "alpha = nan"),
        ("many", "alpha = 'many': must be a number"),
        ([[1, 2], [3, -4]], "alpha = -4"),
        ({"r0000": 3}, "alpha: a mapping must give"),
        ({"r0000": {"r0001": "x"}}, "alpha = 'x'"),
        ([[1, 0], [0, 1]], "alpha: must have 4 rows of 4 numbers"),
        ({"r0000": {"friend": 1}}, "alpha: 'friend' is no relation"),
    ],
)
def test_an_alpha_that_cannot_be_meant_is_refused(alpha, message):
    with pytest.raises(InputError, match=message):
        fit(GRAPH, config=settings("dmf", alpha=alpha))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"method": "dmf", "reciprocal": True}, "reciprocal = True: method = 'dmf' knows False only"),
        ({"method": "catsmf", "regulariser": "n3"}, "regulariser = 'n3': method = 'catsmf' knows 'l2' only"),
        ({"method": "shared", "solver": "paper", "targets": ("a",)}, "targets.*use solver = 'wave'"),
        ({"method": "independent", "loss": "softmax"}, "loss = 'softmax': method = 'independent'"),
        ({"method": "rescal", "scorer": "diagonal"}, "scorer = 'diagonal': method = 'rescal' knows 'full'"),
        ({"method": "rescal", "reg": 0}, "reg = 0: method = 'rescal' needs"),
        ({"solver": "als"}, "solver = 'als': the least squares of method = 'rescal' only"),
        ({"scorer": "sme_linear"}, "scorer = 'sme_linear': its matrices belong to method = 'shared'"),
    ],
)
def test_settings_that_a_method_does_not_know_are_refused(given, message):
    with pytest.raises(SettingError, match=message):
        Config(**given)


@pytest.mark.parametrize("method", ["dmf", "catsmf", "shared", "rescal"])
def test_validation_stops_a_baseline_and_an_interrupt_keeps_its_best_round(method):
    planted = shared_structure(entities=48, relations=4, facts=2)
    config = dataclasses.replace(METHODS[method], max_epochs=200, patience=2, tol=0)
    stopped = fit(planted.train, valid=planted.valid, config=config)
    scores = [r.validation for r in stopped.info.rounds]
    assert stopped.info.best_round == 1 + int(np.argmax(scores))
    assert stopped.info.status is Status.PATIENCE

    def interrupt(done):
        if done.round == stopped.info.best_round + 1:
            raise KeyboardInterrupt

    again = fit(planted.train, valid=planted.valid, config=config, on_round=interrupt)
    assert again.info.status is Status.INTERRUPTED
    assert again.info.best_round == stopped.info.best_round
    for name, array in again.model.predictor.arrays().items():
        assert array.tobytes() == stopped.model.predictor.arrays()[name].tobytes()


def test_a_baseline_that_diverges_says_what_to_lower():
    from consmrf.errors import DivergedError

    wild = settings("dmf", learning_rate=1e30, reg=0, init_scale=1e20)
    with pytest.raises(
        DivergedError, match=r"in its first round: values that are not finite.*lower learning"
    ):
        fit(GRAPH, config=wild)


def test_facts_without_an_unobserved_object_are_skipped_but_by_rescal():
    saturated = [(0, 0, o) for o in range(5)]
    graph = graph_of([*saturated, (1, 0, 2), (1, 1, 3)])
    for method in ("dmf", "catsmf", "shared"):
        result = fit(graph, config=settings(method, max_epochs=2))
        assert result.info.skipped_triples == 5
    assert fit(graph, config=METHODS["rescal"]).info.skipped_triples == 0
    with pytest.raises(InputError, match="nothing to learn"):
        fit(graph_of(saturated), config=settings("dmf"))


@cache
def told_apart(scorer):
    train, test, *_ = planted_graph(n_entities=120, n_relations=3)
    config = settings("shared", scorer=scorer, max_epochs=150)
    return evaluate(fit(train, config=config).model, test).to_dict()["objects"]["auc"]


def test_one_a_is_as_good_as_its_scorer():
    """CMF scores all relations alike, CD cannot tell s → o from o → s, the bilinear form can do both."""
    assert told_apart("identity") < 0.65
    assert 0.8 < told_apart("diagonal") < 0.9
    assert told_apart("full") > 0.95
    assert told_apart("complex") > 0.95


def test_the_command_line_trains_a_baseline(tmp_path, capsys):
    planted = shared_structure(entities=48, relations=4, facts=2)
    write_triples(planted.train, tmp_path / "train.tsv")
    asked = ["--method", "catsmf", "--alpha", "0.5", "--dim", "8", "--max-epochs", "2", "--threads", "1"]
    out = tmp_path / "m.consmrf"
    assert cli.main(["fit", str(tmp_path / "train.tsv"), "--out", str(out), *asked]) == 0
    assert "expected peak memory" in capsys.readouterr().out
    config = Model.load(out).config
    assert (config.method, config.alpha, config.loss) == ("catsmf", 0.5, "bpr")


def test_other_losses_and_more_negatives_train():
    planted = shared_structure(entities=48, relations=4, facts=2)
    config = settings("shared", loss="softmax", negatives=6, max_epochs=40)
    result = fit(planted.train, config=config)
    assert evaluate(result.model, planted.test).to_dict()["objects"]["auc"] > 0.85


def size_of(*arrays):
    return sum(array.nbytes for array in arrays)


def test_the_memory_estimate_knows_what_the_targets_keep(monkeypatch):
    graph, found = random_graph(0, n_entities=900, sizes=(900, 1, 600, 300)), []
    monkeypatch.setattr(dmf.Dmf, "views", lambda self, views=dmf.Dmf.views: found.append(self) or views(self))
    for alpha in (0.0, 0.25):
        config = settings("dmf", alpha=alpha, max_epochs=3)
        parts, result = estimate_memory(graph, config), fit(graph, config=config)
        used = sum(t.size for t in found[-1].targets)
        kept = used * (2 * K * 4 + 4) + size_of(*(t.w for t in found[-1].targets))
        assert parts.state == pytest.approx(kept, rel=0.3)
        model = result.model.predictor
        assert parts.views == pytest.approx(2 * size_of(model.delta, model.delta_rows), rel=0.3)
    fewer = estimate_memory(graph, dataclasses.replace(config, targets=("r0000",)))
    assert fewer.state < 0.4 * parts.state


@pytest.mark.parametrize("method", ["shared", "catsmf"])
def test_the_memory_estimate_knows_the_one_table(method, monkeypatch):
    graph, found = random_graph(0, n_entities=900, sizes=(900, 1, 600, 300)), []
    views = coupled.Coupled.views
    monkeypatch.setattr(coupled.Coupled, "views", lambda self: found.append(self) or views(self))
    config = settings(method, max_epochs=2)
    parts, result = estimate_memory(graph, config), fit(graph, config=config)
    own = 0 if method == "shared" else sum(len(p.entities) for p in partition(graph))
    assert parts.state == found[-1]._w.nbytes + own * 2 * K * 4
    assert parts.consensus + parts.state == pytest.approx(
        size_of(found[-1]._table, found[-1]._w) + 3 * result.model.predictor.z.nbytes
    )


def test_the_memory_estimate_of_rescal_is_that_of_its_matrices():
    graph = random_graph(0, n_entities=900, sizes=(900, 1, 600, 300))
    parts = estimate_memory(graph, METHODS["rescal"])
    assert parts.consensus == 7 * 900 * K * 8
    assert parts.state == 8 * 4 * K * K * 8


def test_the_paper_settings_are_those_of_the_baselines():
    for method in ("dmf", "catsmf", "independent"):
        plain, expected = Config(method=method).to_dict(), paper().to_dict()
        assert {**plain, "method": "consensus"} == expected


def test_every_form_descends_the_gradient_of_its_objective():
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("descents.py"))],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) == len(SCORERS) * len(LOSSES) * 3


SECOND_PROCESS = """
import sys
sys.path.insert(0, {tests!r})
from problems import random_graph
from consmrf.baselines import kernels, rescal, sme
from consmrf.config import Config
from consmrf.fit import fit

for settings in ({{"method": "dmf", "scorer": "identity"}}, {{"method": "shared", "scorer": "sme_linear"}}):
    fit(random_graph(0), config=Config(dim=2, max_epochs=1, threads=1, **settings))
fit(random_graph(0), config=Config(method="rescal", dim=2, max_epochs=1))
made = kernels.descend_kernel("identity", "bpr", 2, 1), sme.sme_kernel("sme_linear", "bpr", 2, 1)
for function in (*made, kernels.draw(), kernels.begin_stream, rescal._inner, rescal._outer):
    print(sum(function.stats.cache_misses.values()), sum(function.stats.cache_hits.values()))
"""


def test_a_second_process_compiles_no_baseline(tmp_path):
    script = SECOND_PROCESS.format(tests=str(Path(__file__).parent))
    told = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        told.append(done.stdout.splitlines())
    assert told == [["1 0"] * 6, ["0 1"] * 6]
