"""Every scorer: its gradients are derivatives, and all the ways of running its one definition agree."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from numba import njit

from consmrf.consensus.scorers import SCORERS, Scorer, queries, transposed_queries

BY_NAME = pytest.mark.parametrize("scorer", SCORERS.values(), ids=list(SCORERS))
DIMS = pytest.mark.parametrize("dim", [1, 2, 5])


def draw(scorer: Scorer, dim: int, seed: int = 0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=n).astype(dtype) for n in (dim, scorer.weights(dim), dim)]


def run_query(scorer: Scorer, a, w, query=None):
    q = np.full_like(a, np.nan)
    (query or scorer.query)(len(a), a, w, q)
    return q


def run_backprop(scorer: Scorer, a, w, dq, backprop=None):
    da, dw = np.full_like(a, np.nan), np.full_like(w, np.nan)
    (backprop or scorer.backprop)(len(a), a, w, dq, da, dw)
    return da, dw


def central_differences(f, x, h=1e-6):
    steps = np.eye(len(x)) * h
    return np.array([(f(x + step) - f(x - step)) / (2 * h) for step in steps])


def test_codes_names_and_sizes_are_fixed():
    assert {(name, s.name, s.code, s.weights(3)) for name, s in SCORERS.items()} == {
        ("identity", "identity", 0, 0),
        ("diagonal", "diagonal", 1, 3),
        ("full", "full", 2, 9),
        ("complex", "complex", 3, 3),
    }


@DIMS
@BY_NAME
def test_gradients_are_those_of_the_score(scorer, dim):
    a, w, o = draw(scorer, dim)
    da, dw = run_backprop(scorer, a, w, o)  # L = q(a, w) · o, so dL/dq = o
    np.testing.assert_allclose(da, central_differences(lambda x: run_query(scorer, x, w) @ o, a), atol=1e-8)
    np.testing.assert_allclose(
        dw, central_differences(lambda x: run_query(scorer, a, x) @ o, w).reshape(dw.shape), atol=1e-8
    )


def test_full_is_the_bilinear_form_of_the_paper():
    a, w, o = draw(SCORERS["full"], 4)
    assert run_query(SCORERS["full"], a, w) @ o == pytest.approx(a @ w.reshape(4, 4) @ o)


def as_complex(x):
    """The numbers that a row stands for: real parts, imaginary parts, and an odd one out is real."""
    half = len(x) // 2
    return np.concatenate([x[:half] + 1j * x[half : 2 * half], x[2 * half :]])


@pytest.mark.parametrize("dim", [1, 2, 5, 8, 9])
def test_complex_is_the_hermitian_product_with_the_relation_between(dim):
    a, w, o = draw(SCORERS["complex"], dim)
    expected = np.sum(as_complex(a) * as_complex(w) * np.conj(as_complex(o))).real
    assert run_query(SCORERS["complex"], a, w) @ o == pytest.approx(expected)
    turned = np.sum(as_complex(o) * np.conj(as_complex(w)) * np.conj(as_complex(a))).real
    assert expected == pytest.approx(turned)  # the inverse relation is the conjugate


@pytest.mark.parametrize("dim", [1, 4, 8, 9, 13])
def test_complex_begins_at_the_quarter_turns_in_equal_shares(dim):
    """A row is its own best object under none of them but 1, and on the whole neither near nor far."""
    w = SCORERS["complex"].initial(dim)
    assert w.shape == (dim,)
    np.testing.assert_array_equal(as_complex(w)[: dim // 2], np.resize([1, 1j, -1, -1j], dim // 2))
    np.testing.assert_array_equal(w[2 * (dim // 2) :], 1)
    if dim == 8:
        a = np.tile(np.random.default_rng(0).normal(size=2), (4, 1)).T.ravel()  # one number, four times
        assert run_query(SCORERS["complex"], a, w) @ a == pytest.approx(0)


@DIMS
@pytest.mark.parametrize("scorer", [SCORERS[name] for name in ("identity", "diagonal", "full")])
def test_initial_weights_of_the_real_scorers_make_them_the_inner_product(scorer, dim):
    a, _, _ = draw(scorer, dim)
    w = scorer.initial(dim)
    assert w.shape == (scorer.weights(dim),)
    np.testing.assert_array_equal(run_query(scorer, a, w), a)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@BY_NAME
def test_compiled_equals_plain(scorer, dtype):
    a, w, o = draw(scorer, 7, dtype=dtype)
    np.testing.assert_array_equal(run_query(scorer, a, w, njit(scorer.query)), run_query(scorer, a, w))
    compiled = run_backprop(scorer, a, w, o, njit(scorer.backprop))
    for got, expected in zip(compiled, run_backprop(scorer, a, w, o), strict=True):
        np.testing.assert_array_equal(got, expected)


@BY_NAME
def test_compiled_for_single_floats_computes_in_single_floats(scorer):
    a, w, o = draw(scorer, 3, dtype=np.float32)
    for function, arguments in ((scorer.query, (a, w, o)), (scorer.backprop, (a, w, o, a.copy(), w.copy()))):
        compiled = njit(function)
        compiled(3, *arguments)
        assert "double" not in next(iter(compiled.inspect_llvm().values()))


@pytest.mark.parametrize("own_weights", [False, True])
@DIMS
@BY_NAME
def test_a_batch_equals_its_rows(scorer, dim, own_weights):
    rows = [draw(scorer, dim, seed) for seed in range(6)]
    a, o = (np.stack([row[i] for row in rows], axis=1) for i in (0, 2))
    w = np.stack([row[1] for row in rows], axis=1) if own_weights else rows[0][1]
    q, da = np.empty_like(a), np.empty_like(a)
    dw = np.empty((scorer.weights(dim), len(rows)))
    scorer.query(dim, a, w, q)
    scorer.backprop(dim, a, w, o, da, dw)
    for i, (a_i, w_i, o_i) in enumerate(rows):
        w_i = w_i if own_weights else w
        np.testing.assert_array_equal(q[:, i], run_query(scorer, a_i, w_i))
        da_i, dw_i = run_backprop(scorer, a_i, w_i, o_i)
        np.testing.assert_array_equal(da[:, i], da_i)
        np.testing.assert_array_equal(dw[:, i], dw_i)


@BY_NAME
def test_inputs_are_left_as_they_were(scorer):
    a, w, o = draw(scorer, 3)
    before = [x.copy() for x in (a, w, o)]
    run_query(scorer, a, w)
    run_backprop(scorer, a, w, o)
    for x, y in zip((a, w, o), before, strict=True):
        np.testing.assert_array_equal(x, y)


@DIMS
@BY_NAME
def test_queries_of_both_sides_are_bound_to_the_definition(scorer, dim):
    a = np.random.default_rng(0).normal(size=(5, dim))
    w = draw(scorer, dim)[1]
    by_definition = np.array([run_query(scorer, row, w) for row in a])
    np.testing.assert_allclose(queries(scorer, a, w), by_definition, rtol=1e-13)
    scores = by_definition @ a.T  # [s, o]
    np.testing.assert_allclose(a @ transposed_queries(scorer, a, w).T, scores, rtol=1e-12, atol=1e-13)
    for f in (queries, transposed_queries):
        assert f(scorer, a.astype(np.float32), w.astype(np.float32)).dtype == np.float32


def test_scorers_load_no_compiler():
    code = "import sys, consmrf.consensus.scorers; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
