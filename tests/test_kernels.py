"""The compiled loops: gradients of every (scorer, loss), the draw of o′, and what the disk cache holds."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import njit

from consmrf.consensus import kernels as module
from consmrf.consensus.kernels import Scratch, Steps, Store, kernels
from consmrf.consensus.local import Workspace, compiled, local_problems
from consmrf.consensus.losses import LOSSES
from consmrf.consensus.scorers import SCORERS
from consmrf.consensus.state import initial_state
from consmrf.graph.partition import partition
from problems import graph_of, paper, random_graph

PRODUCT = pytest.mark.parametrize(("scorer", "loss"), [(s, f) for s in SCORERS for f in LOSSES])
REG, RHO = 0.03, 0.2


def one_step(scorer, loss, rows, z, z0, drift, w, sample, learning_rate, dtype=np.float64):
    """Run the compiled update for one sample on entities 0 … n−1; hand on (new rows, new w, loss)."""
    n, dim = rows.shape
    kept = np.concatenate([drift, np.ones_like(drift)], axis=1).astype(dtype)
    ids = np.arange(n, dtype=np.int32)
    delta = np.empty((n, dim), dtype)
    table, samples = np.empty((n, 3 * dim), dtype), np.array([sample], np.int32)
    scratch = Scratch(ids, ids, samples, ids.copy(), ids.copy(), table, delta, np.zeros(1, np.uint8))
    # rows far from z, so that the proximal term has something to say: that is what `carry` starts from
    new_w, sums = w.astype(dtype), np.ones(len(w), dtype)
    update = kernels(scorer, loss, dim, carry=True).update
    total, _, moved = update(
        z.astype(dtype),
        z0.astype(dtype),
        Store(ids.copy(), kept),
        n,
        new_w,
        sums,
        scratch,
        Steps(dtype(learning_rate), dtype(REG), dtype(RHO)),
    )
    new = z.astype(dtype).copy()
    new[scratch.rows[:moved]] += delta[:moved]
    return new, new_w, total


def objective(scorer, loss, rows, z, z0, drift, w, sample):
    """What one step descends: ℓ_r + λ/2 (‖a‖² + ‖W‖²) + ⟨v, a⟩ + ρ/2 ‖a − z‖², over the rows it visits."""
    s, o, neg = sample
    q = np.empty(rows.shape[1])
    SCORERS[scorer].query(len(q), rows[s], w, q)
    value = LOSSES[loss].function(np.array([q @ rows[o], q @ rows[neg]]), np.empty(2))
    dual = RHO * (drift - (z - z0))
    for e in sample:
        value += REG / 2 * rows[e] @ rows[e] + dual[e] @ rows[e] + RHO / 2 * np.sum((rows[e] - z[e]) ** 2)
    return value + REG / 2 * w @ w


def differences(f, x, h=1e-6):
    gradient = np.empty_like(x)
    for i in np.ndindex(*x.shape):
        up, down = x.copy(), x.copy()
        up[i] += h
        down[i] -= h
        gradient[i] = (f(up) - f(down)) / (2 * h)
    return gradient


@PRODUCT
@pytest.mark.parametrize("sample", [(0, 1, 2), (3, 1, 3)], ids=["distinct", "negative is the subject"])
def test_a_step_descends_the_gradient_of_the_local_objective(scorer, loss, sample):
    rng = np.random.default_rng(4)
    n, dim = 4, 3
    z, z0, drift = (rng.normal(size=(n, dim)) for _ in range(3))
    rows, w = z + drift, rng.normal(size=SCORERS[scorer].weights(dim))
    learning_rate = 1e-9
    new, new_w, total = one_step(scorer, loss, rows, z, z0, drift, w, sample, learning_rate)
    expected = differences(lambda x: objective(scorer, loss, x, z, z0, drift, w, sample), rows)
    expected_w = differences(lambda x: objective(scorer, loss, rows, z, z0, drift, x, sample), w)
    # AdaGrad's first step is −η g / √(1 + g²); a row visited twice takes two such steps, of which finite
    # differences see the sum, so only rows visited once are compared
    once = [e for e in range(n) if sample.count(e) <= 1]
    np.testing.assert_allclose(
        (rows - new)[once] / learning_rate, (expected / np.sqrt(1 + expected**2))[once], atol=1e-5
    )
    np.testing.assert_allclose(
        (w - new_w) / learning_rate, expected_w / np.sqrt(1 + expected_w**2), atol=1e-5
    )
    q = np.empty(dim)
    SCORERS[scorer].query(dim, rows[sample[0]], w, q)
    scores = np.array([q @ rows[sample[1]], q @ rows[sample[2]]])
    assert total == pytest.approx(LOSSES[loss].function(scores, np.empty(2)))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("negatives", [1, 3])
@pytest.mark.parametrize("scale", [0.1, 1, 30, 900])
def test_coefficients_of_a_loss_are_its_derivatives(loss, negatives, scale):
    rng = np.random.default_rng(negatives)
    scores = rng.normal(scale=scale, size=1 + negatives)
    coefficients = np.empty_like(scores)
    value = LOSSES[loss].function(scores, coefficients)
    assert np.isfinite(value)
    expected = differences(lambda x: LOSSES[loss].function(x, np.empty_like(x)), scores, h=1e-5)
    np.testing.assert_allclose(coefficients, expected, atol=1e-6)


@pytest.mark.parametrize("scale", [1, 30, 900])
def test_softmax_is_the_exact_one_within_its_stated_error(scale):
    scores = np.random.default_rng(scale).normal(scale=scale, size=65)
    coefficients = np.empty_like(scores)
    for positive in (scores.argmax(), scores.argmin()):  # the second is far off: its loss is the distance
        scores[[0, positive]] = scores[[positive, 0]]
        value = LOSSES["softmax"].function(scores, coefficients)
        exact = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
        assert value == pytest.approx(
            scores.max() - scores[0] + np.log(np.exp(scores - scores.max()).sum()), rel=1e-6, abs=1e-12
        )
        exact[0] -= 1
        np.testing.assert_allclose(coefficients, exact, rtol=2e-5, atol=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_loss_of_scores_that_are_no_numbers_is_none_either(loss, place):
    """Or divergence would go unseen; a candidate left out, at −∞, is no such thing."""
    function = njit(LOSSES[loss].function)
    scores, coefficients = np.array([0.5, -0.25, -np.inf], np.float32), np.empty(3, np.float32)
    assert np.isfinite(function(scores, coefficients))
    assert coefficients[2] == 0
    scores[place] = np.nan
    assert not np.isfinite(function(scores, coefficients))


def draws_of(graph, config, times=1):
    """All samples of relation 0 as entity ids, and the rejections, over several epochs."""
    partitions, n = partition(graph), len(graph.vocabulary.entities)
    problems = local_problems(partitions, n, config.inner_epochs)
    state = initial_state(partitions, n, config)
    workspace, found, rejections = Workspace(problems, n, config), [], 0
    for epoch in range(times):
        scratch = workspace.scratch(problems[0].draws)
        size, fresh, rejected = compiled(config).draw(
            problems[0].sampling, state.locals[0].touched, n, (config.seed, epoch, 0), scratch
        )
        assert size == len(partitions[0].entities) + fresh
        assert len(set(scratch.rows[:size].tolist())) == size
        found.append(scratch.rows[scratch.samples])
        rejections += rejected
        assert (scratch.row_of == -1).all()
        assert (scratch.slot_of == -1).all()
    return np.concatenate(found), rejections


def chi_square(observed, expected):
    return float(np.sum((observed - expected) ** 2 / expected))


def test_negatives_are_uniform_over_the_unobserved_objects_and_positives_over_the_data():
    graph = graph_of([(0, 0, o) for o in (0, 3, 4)] + [(1, 0, o) for o in range(1, 9)], n_entities=12)
    samples, rejections = draws_of(graph, paper(dim=2, inner_epochs=2000, seed=3))
    known = {(int(s), int(o)) for s, _, o in graph.triples}
    assert {(int(s), int(o)) for s, o, _ in samples} == known
    assert not {(int(s), int(neg)) for s, _, neg in samples} & known
    counts = np.unique(samples[:, :2], axis=0, return_counts=True)[1]
    assert chi_square(counts, len(samples) / len(known)) < 29.6  # 10 degrees of freedom, p = .001
    for s, free in ((0, 9), (1, 4)):
        negatives = samples[samples[:, 0] == s, 2]
        counts = np.unique(negatives, return_counts=True)[1]
        assert len(counts) == free
        assert chi_square(counts, len(negatives) / free) < 26.1  # at most 8 degrees of freedom, p = .001
    # a draw is rejected with the share of known objects: 3/12 and 8/12, geometrically
    expected = sum(np.sum(samples[:, 0] == s) * p / (1 - p) for s, p in ((0, 3 / 12), (1, 8 / 12)))
    assert rejections == pytest.approx(expected, rel=0.05)


def test_where_rejection_would_take_for_ever_the_gaps_are_drawn_from():
    """One object in 5,000 is unobserved for subject 0: the draw ends, and finds the two that are left."""
    graph = graph_of([(0, 0, o) for o in range(5000) if o not in (17, 4999)], n_entities=5000)
    samples, rejections = draws_of(graph, paper(dim=2, inner_epochs=1))
    assert set(samples[:, 2].tolist()) == {17, 4999}
    assert np.mean(samples[:, 2] == 17) == pytest.approx(0.5, abs=0.04)
    assert rejections <= module.PATIENCE * len(samples)


def test_samples_depend_on_seed_and_epoch():
    graph = random_graph(0)
    one, two = (draws_of(graph, paper(dim=2, seed=seed), times=2)[0] for seed in (0, 1))
    half = len(one) // 2
    assert not np.array_equal(one, two)
    assert not np.array_equal(one[:half], one[half:])


def test_single_floats_follow_double_floats():
    rng = np.random.default_rng(0)
    z, z0, drift = (rng.normal(size=(4, 16)) for _ in range(3))
    w = rng.normal(size=16)
    arguments = ("diagonal", "bpr", z + drift, z, z0, drift, w, (0, 1, 2), 0.5)
    single, double = (one_step(*arguments, dtype=dtype) for dtype in (np.float32, np.float64))
    np.testing.assert_allclose(single[0], double[0], rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(single[1], double[1], rtol=2e-5, atol=2e-6)


SECOND_PROCESS = """
import sys
sys.path.insert(0, {tests!r})
from problems import paper, random_graph
from consmrf.fit import fit
from consmrf.consensus import kernels as module

def told(function):
    print(sum(function.stats.cache_misses.values()), sum(function.stats.cache_hits.values()))

for scorer in ("identity", "diagonal", "full"):
    for method in ("consensus", "independent"):
        fit(random_graph(0), config=paper(dim=3, scorer=scorer, method=method, max_epochs=1, threads=1))
        told(module.kernels(scorer, "bpr", 3, carry=method == "independent").update)
told(module.kernels("identity", "bpr", 3, carry=False).draw)
told(module.add_rows)
"""

SECOND_WAVES = """
import sys
sys.path.insert(0, {tests!r})
from problems import random_graph
from consmrf.config import Config
from consmrf.consensus import blocks, drawn, merge, plan, training
from consmrf.fit import fit

made = []
for module, name in ((blocks, "_make_index"), (training, "_make_train"), (drawn, "_make_train")):
    def noted(*arguments, make=getattr(module, name)):
        made.append(make(*arguments))
        return made[-1]
    setattr(module, name, noted)
fit(random_graph(0), config=Config(dim=3, max_epochs=4, threads=1))
fit(random_graph(0), config=Config(dim=3, max_epochs=1, threads=1, negatives=1, method="shared"))
for function in (*made, merge.merge_rows, plan._shuffled, plan._parts, plan._sizes, plan._dealt):
    print(sum(function.stats.cache_misses.values()), sum(function.stats.cache_hits.values()) > 0)
"""


def twice(script, folder):
    """Run a script in two processes, one after the other, that share a disk cache; hand on their lines."""
    environment = dict(os.environ, NUMBA_CACHE_DIR=str(folder))
    command = [sys.executable, "-c", script.format(tests=str(Path(__file__).parent))]
    return [
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split(
            "\n"
        )[:-1]
        for _ in range(2)
    ]


def test_a_second_process_compiles_nothing(tmp_path):
    first, second = twice(SECOND_PROCESS, tmp_path)
    assert first == ["1 0"] * 8
    assert second == ["0 1"] * 8


def test_a_second_process_compiles_no_waves(tmp_path):
    """Both stages: the laying out, the training, the merge of rows of each width, and the plans."""
    first, second = twice(SECOND_WAVES, tmp_path)
    assert len(first) == 10
    assert sum(line.startswith("0 ") for line in first) == 1  # the stages' blocks are laid out alike
    assert second == ["0 True"] * 10
