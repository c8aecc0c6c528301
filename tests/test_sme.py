"""SME: its gradients, its steps, and that a full W_r on one more feature scores as its definition does."""

import numpy as np
import pytest

from consmrf.baselines.kernels import Steps
from consmrf.baselines.sme import Sme, backprop_side, side, sides, sme_kernel
from consmrf.config import Config
from consmrf.consensus.facts import lay_out
from consmrf.evaluation.protocol import evaluate
from consmrf.fit import estimate_memory, fit
from consmrf.graph.partition import partition
from consmrf.graph.planted import shared_structure
from consmrf.model import Model
from problems import random_graph

FORMS = pytest.mark.parametrize("scorer", ["sme_linear", "sme_bilinear"])
# One compiled form of each; a loss whose coefficients do not add up to 0, so that every term is met.
K, LOSS = 4, "logistic"


def score(scorer, a_s, a_o, w, left, right):
    """The definition: the two sides, matched by a scalar product."""

    def matched(a, x):
        if scorer == "sme_linear":
            return x[:16].reshape(4, 4) @ a + x[16:32].reshape(4, 4) @ w + x[32:]
        return np.einsum("ijc,c,j->i", x[:64].reshape(4, 4, 4), w, a) + x[64:]

    return float(matched(a_s, left) @ matched(a_o, right))


def drawn(scorer, seed=0):
    rng = np.random.default_rng(seed)
    length = 36 if scorer == "sme_linear" else 68
    return rng.normal(size=(6, K)), rng.normal(size=(3, K)), 0.7 * rng.normal(size=(2, length))


def loss(scorer, sample, a, w, shared):
    r, s, *objects = sample
    x = np.array([score(scorer, a[s], a[o], w[r], *shared) for o in objects])
    return np.log1p(np.exp(-x[0])) + np.mean(np.log1p(np.exp(x[1:])))


def central_differences(f, x, h=1e-6):
    found = np.empty(x.size)
    for i in range(x.size):
        step = np.zeros(x.size)
        step[i] = h
        found[i] = (f(x + step.reshape(x.shape)) - f(x - step.reshape(x.shape))) / (2 * h)
    return found.reshape(x.shape)


def beside(x, sums):
    return np.concatenate([x, np.full_like(x, sums)], axis=1)


@FORMS
@pytest.mark.parametrize("sample", [(2, 0, 3, 5), (1, 4, 2, 2), (0, 1, 3, 3)])
def test_a_step_is_the_gradient_of_the_definition(scorer, sample):
    a, w, shared = drawn(scorer)
    eta, sums, reg = 1e-4, 1e12, 0.03
    tables = [beside(x, sums) for x in (a, w, shared)]
    told = sme_kernel(scorer, LOSS, K, 1)(
        np.array([sample], np.int32), *tables, Steps(np.float64(eta), np.float64(reg))
    )
    assert told == pytest.approx(loss(scorer, sample, a, w, shared))
    moved = [
        (x - table[:, : x.shape[1]]) * np.sqrt(sums) / eta
        for x, table in zip((a, w, shared), tables, strict=True)
    ]
    met = np.bincount(sample[1:], minlength=6)[:, None]
    expected = central_differences(lambda x: loss(scorer, sample, x, w, shared), a) + reg * met * a
    np.testing.assert_allclose(moved[0], expected, atol=2e-4)
    expected = central_differences(lambda x: loss(scorer, sample, a, x, shared), w)
    expected[sample[0]] += reg * w[sample[0]]
    np.testing.assert_allclose(moved[1], expected, atol=2e-4)
    expected = central_differences(lambda x: loss(scorer, sample, a, w, x), shared)
    np.testing.assert_allclose(moved[2], expected, atol=2e-4)


@FORMS
def test_a_side_and_what_goes_back_to_it(scorer):
    _, w, shared = drawn(scorer)
    bilinear, rng = int(scorer == "sme_bilinear"), np.random.default_rng(1)
    back_matrix, back_shift = rng.normal(size=(K, K)), rng.normal(size=K)

    def value(w, shared):
        matrix, shift = np.empty((K, K)), np.empty(K)
        side(bilinear, K, w, shared, matrix, shift)
        return np.sum(matrix * back_matrix) + shift @ back_shift

    dw, d_shared = np.zeros(K), np.empty_like(shared[0])
    backprop_side(bilinear, K, w[0], shared[0], back_matrix, back_shift, dw, d_shared)
    np.testing.assert_allclose(dw, central_differences(lambda x: value(x, shared[0]), w[0]), atol=1e-8)
    np.testing.assert_allclose(d_shared, central_differences(lambda x: value(w[0], x), shared[0]), atol=1e-8)
    matrix, shift = np.empty((K, K)), np.empty(K)
    for r, both in enumerate(sides(bilinear, w, shared[0])):
        side(bilinear, K, w[r], shared[0], matrix, shift)
        np.testing.assert_allclose(both[:, :K], matrix)
        np.testing.assert_allclose(both[:, K], shift)


@FORMS
def test_the_model_scores_both_sides_as_the_definition(scorer):
    graph = random_graph(0)
    config = Config(method="shared", scorer=scorer, dim=K, precision="double", seed=3)
    method = Sme(*placed(graph, config))
    rng = np.random.default_rng(2)
    for table in (method._table, method._w, method._shared):
        table[:] = rng.normal(size=table.shape)  # the terms that begin at 0 too
    predictor = method.factors(method.views())
    a, w, shared = (x[:, : x.shape[1] // 2] for x in (method._table, method._w, method._shared))
    for r in range(4):
        expected = [[score(scorer, a[s], a[o], w[r], *shared) for o in range(17)] for s in range(17)]
        ids = np.arange(17, dtype=np.int32)
        np.testing.assert_allclose(predictor.object_scores(r, ids), expected, rtol=1e-4, atol=1e-3)
        np.testing.assert_allclose(predictor.subject_scores(r, ids).T, expected, rtol=1e-4, atol=1e-3)


def placed(graph, config):
    from consmrf.baselines.kernels import spans_of

    n = len(graph.vocabulary.entities)
    layout = lay_out(partition(graph), n, reciprocal=False, views=())
    return layout, config, spans_of(layout.indptr, np.ones(layout.n_relations, bool))


@pytest.mark.parametrize(("scorer", "relations"), [("sme_linear", 1), ("sme_bilinear", 3)])
def test_sme_learns_is_saved_and_loaded(scorer, relations, tmp_path):
    """Linear SME adds up what a subject and a relation prefer, so one relation is what it can learn here."""
    planted = shared_structure(entities=96, relations=relations, groups=4, facts=6)
    config = Config(method="shared", scorer=scorer, loss=LOSS, dim=K, max_epochs=60, tol=0, threads=2)
    assert config.solver == "paper"
    result = fit(planted.train, valid=planted.valid, config=config)
    figures = evaluate(result.model, planted.test, known=[planted.valid]).to_dict()
    assert figures["objects"]["auc"] > 0.85
    result.model.save(tmp_path / "m")
    loaded = Model.load(tmp_path / "m")
    assert evaluate(loaded, planted.test, known=[planted.valid]).to_dict() == figures
    assert loaded.config == config
    again = fit(planted.train, valid=planted.valid, config=config)
    assert again.model.predictor.w.tobytes() == result.model.predictor.w.tobytes()


@FORMS
def test_the_memory_estimate_knows_the_shared_matrices(scorer):
    graph = random_graph(0, n_entities=900)
    config = Config(method="shared", scorer=scorer, dim=K)
    method = Sme(*placed(graph, config))
    parts, views = estimate_memory(graph, config), method.views()
    assert parts.state == method._w.nbytes + method._shared.nbytes
    assert parts.consensus == method._table.nbytes + 3 * views.z.nbytes
    assert parts.views == 3 * views.w.nbytes
