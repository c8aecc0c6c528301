"""RESCAL against the dense tensor, which it never builds, and the objective that must never rise."""

import numpy as np
import pytest

from consmrf.baselines.rescal import Rescal
from consmrf.config import Config
from consmrf.evaluation.protocol import evaluate
from consmrf.fit import fit
from consmrf.graph.partition import partition
from problems import graph_of, random_graph

N = 17


def dense(graph, n=N):
    x = np.zeros((len(graph.vocabulary.relations), n, n))
    s, r, o = graph.triples.T
    x[r, s, o] = 1
    return x


def objective(x, a, w, reg):
    fit = sum(np.sum((x_r - a @ w_r @ a.T) ** 2) for x_r, w_r in zip(x, w, strict=True))
    return 0.5 * fit + 0.5 * reg * (np.sum(a**2) + np.sum(w**2))


def begun(seed=0, reg=0.3, dim=4, n=N):
    graph = random_graph(seed, n_entities=n)
    return dense(graph, n), Rescal(partition(graph), n, Config(method="rescal", dim=dim, reg=reg, seed=seed))


def least_squares_w(x, a, reg):
    """Vectorised and with the Kronecker product written out: what the W-step must never need."""
    design = np.kron(a, a)
    k = a.shape[1]
    left = design.T @ design + reg * np.eye(k * k)
    return np.array([np.linalg.solve(left, design.T @ x_r.ravel()).reshape(k, k) for x_r in x])


@pytest.mark.parametrize("seed", [0, 1])
def test_it_begins_with_leading_eigenvectors_and_the_best_w(seed):
    x, model = begun(seed)
    total = (x + x.transpose(0, 2, 1)).sum(axis=0)
    values, vectors = np.linalg.eigh(total)
    leading = vectors[:, np.argsort(-np.abs(values))[:4]]
    np.testing.assert_allclose(model.a @ model.a.T, leading @ leading.T, atol=1e-2)
    np.testing.assert_allclose(model.a.T @ model.a, np.eye(4), atol=1e-10)
    np.testing.assert_allclose(model.w, least_squares_w(x, model.a, 0.3), atol=1e-10)


@pytest.mark.parametrize("reg", [1e-6, 0.3, 10.0])
def test_both_steps_are_the_dense_ones(reg):
    x, model = begun(reg=reg)
    for _ in range(4):
        a, w, before = model.a, model.w, model.objective
        assert before == pytest.approx(objective(x, a, w, reg))
        gram = a.T @ a
        right = sum(x_r @ a @ w_r.T + x_r.T @ a @ w_r for x_r, w_r in zip(x, w, strict=True))
        left = sum(w_r @ gram @ w_r.T + w_r.T @ gram @ w_r for w_r in w) + reg * np.eye(4)
        step = right @ np.linalg.inv(left) - a
        model.step_a()
        damped = next(0.5**i for i in range(40) if objective(x, a + 0.5**i * step, w, reg) <= before)
        np.testing.assert_allclose(model.a, a + damped * step, rtol=1e-6, atol=1e-9)
        model.step_w()
        np.testing.assert_allclose(model.w, least_squares_w(x, model.a, reg), rtol=1e-6, atol=1e-8)


def test_the_a_step_goes_downhill():
    """Its direction is minus the gradient times the inverse of a positive matrix."""
    x, model = begun(reg=0.3)
    a, w, h = model.a, model.w, 1e-6
    model.step_a()
    step = model.a - a
    slope = (objective(x, a + h * step, w, 0.3) - objective(x, a - h * step, w, 0.3)) / (2 * h)
    assert slope < 0


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("reg", [1e-8, 0.01, 1.0])
def test_the_objective_never_rises_by_half_a_step(seed, reg):
    rng = np.random.default_rng(seed)
    triples = rng.integers(0, (12, 3, 12), size=(60, 3))
    graph = graph_of(triples.tolist(), 12, 3)
    x, model = dense(graph, 12), Rescal(partition(graph), 12, Config(method="rescal", dim=5, reg=reg))
    # far from any solution, where a whole A-step overshoots
    model.w = 30 * rng.normal(size=model.w.shape)
    model.objective = model._objective(model.a, model._inner, model.w)
    told = [model.objective]
    for _ in range(30):
        for half in (model.step_a, model.step_w):
            half()
            told.append(model.objective)
    assert (np.diff(told) <= 0).all()
    assert told[-1] < told[0]
    assert told[-1] == pytest.approx(objective(x, model.a, model.w, reg), rel=1e-9)


def test_an_a_step_that_overshoots_is_damped():
    """From the W_r that fit worst, as it were: those that fit best, turned round."""
    for seed in range(5):
        x, model = begun(seed, reg=1e-3)
        model.w = -model.w
        model.objective = before = model._objective(model.a, model._inner, model.w)
        a, w = model.a, model.w
        gram = a.T @ a
        right = sum(x_r @ a @ w_r.T + x_r.T @ a @ w_r for x_r, w_r in zip(x, w, strict=True))
        whole = right @ np.linalg.inv(sum(v @ gram @ v.T + v.T @ gram @ v for v in w) + 1e-3 * np.eye(4))
        assert objective(x, whole, w, 1e-3) > before
        model.step_a()
        assert model.objective < before
        assert not np.allclose(model.a, whole)


def test_a_tensor_of_low_rank_is_found_whole():
    """Two blocks that point at each other, and at themselves, are rank two."""
    group = np.arange(20) % 2
    pairs = [(s, o) for s in range(20) for o in range(20)]
    graph = graph_of([(s, r, o) for r in range(2) for s, o in pairs if group[s] ^ group[o] == r], 20, 2)
    result = fit(graph, config=Config(method="rescal", dim=2, reg=1e-3, max_epochs=20, precision="double"))
    predictor = result.model.predictor
    for r in range(2):
        scores = predictor.object_scores(r, np.arange(20, dtype=np.int32))
        np.testing.assert_allclose(scores, dense(graph, 20)[r], atol=1e-2)
    losses = [x.loss for x in result.info.rounds]
    assert losses == sorted(losses, reverse=True)


def test_more_features_than_entities_are_zero():
    graph = graph_of([(0, 0, 1), (1, 0, 2), (2, 1, 0)])
    result = fit(graph, config=Config(method="rescal", dim=6, reg=0.1))
    assert result.model.predictor.z.shape == (3, 6)
    assert evaluate(result.model, graph).to_dict()["objects"]["auc"] > 0.5
