"""One relation alone: each method against a naive copy, and all against the one objective."""

import numpy as np
import pytest

from consmrf.baselines.ccd import Ccd
from consmrf.baselines.dsadmm import DsAdmm
from consmrf.baselines.dsgd import Dsgd
from consmrf.baselines.single import Entries, begin_factors, entries_of, objective, ranges
from consmrf.engine.workers import Workers
from consmrf.errors import SettingError
from consmrf.graph.partition import partition
from problems import random_graph

METHODS = {"ccd": Ccd, "dsgd": Dsgd, "dsadmm": DsAdmm}
BY_NAME = pytest.mark.parametrize("name", METHODS)
REG = 0.3


def observed(seed=0, shape=(19, 13), share=0.4, rank=3, noise=0.1):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(shape[0], rank)) @ rng.normal(size=(rank, shape[1])) + noise * rng.normal(size=shape)
    mask = rng.random(shape) < share
    mask[3] = mask[:, 5] = False  # a row and a column without entries
    rows, columns = np.nonzero(mask)
    order = rng.permutation(len(rows))
    return y, mask, Entries.of(rows[order], columns[order], y[mask][order], shape)


def dense(y, mask, p, q, reg):
    return 0.5 * np.sum((mask * (y - p @ q.T)) ** 2) + 0.5 * reg * (np.sum(p**2) + np.sum(q**2))


def run(method, steps, threads=1):
    with Workers(threads, threads) as crew:
        for _ in range(steps):
            method.step(crew)
    return method


def test_entries_stand_in_both_orders():
    y, mask, entries = observed()
    assert entries.shape == (19, 13)
    back = np.zeros_like(y)
    back[entries.rows, entries.columns] = entries.values
    np.testing.assert_array_equal(back, y * mask)
    for i in range(19):
        own = slice(*entries.row_indptr[i : i + 2])
        np.testing.assert_array_equal(entries.columns[own], np.flatnonzero(mask[i]))
    for j in range(13):
        own = entries.by_column[slice(*entries.column_indptr[j : j + 2])]
        np.testing.assert_array_equal(entries.rows[own], np.flatnonzero(mask[:, j]))


def test_runs_of_rows_are_all_rows_once():
    indptr = np.array([0, 0, 5, 5, 90, 91, 91])
    runs = ranges(indptr)
    assert [i for lo, hi in runs for i in range(lo, hi)] == list(range(6))


def test_a_relation_becomes_ones_and_sampled_zeros():
    own = partition(random_graph(0, n_entities=60, sizes=(200,)))[0]
    entries = entries_of(own, 60, zeros=2, seed=1)
    objects = np.unique(own.objects)
    ones = {(s, o) for s, o in zip(own.subjects.tolist(), own.objects.tolist(), strict=True)}
    pairs = list(zip(own.heads[entries.rows].tolist(), objects[entries.columns].tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)
    assert {pair for pair, y in zip(pairs, entries.values, strict=True) if y} == ones
    zeros = [pair for pair, y in zip(pairs, entries.values, strict=True) if not y]
    assert not set(zeros) & ones
    assert 200 < len(zeros) <= 400


@pytest.mark.parametrize("reg", [0.0, REG])
def test_the_objective_is_the_dense_one(reg):
    y, mask, entries = observed()
    p, q = begin_factors(entries, 4, 0)
    assert objective(entries, p, q, reg) == pytest.approx(dense(y, mask, p, q, reg))


def test_ccd_is_the_naive_one():
    y, mask, entries = observed()
    found = run(Ccd(entries, 4, REG), 3)
    p, q = begin_factors(entries, 4, 0)
    q[:] = 0
    for _ in range(3):
        for f in range(4):
            rest = y - p @ q.T + np.outer(p[:, f], q[:, f])
            for _ in range(2):
                for j in range(13):
                    seen = mask[:, j]
                    q[j, f] = rest[seen, j] @ p[seen, f] / (REG + p[seen, f] @ p[seen, f])
                for i in range(19):
                    seen = mask[i]
                    p[i, f] = rest[i, seen] @ q[seen, f] / (REG + q[seen, f] @ q[seen, f])
    np.testing.assert_allclose(found.p, p, atol=1e-10)
    np.testing.assert_allclose(found.q, q, atol=1e-10)


def test_dsadmm_is_the_naive_one():
    y, mask, entries = observed()
    method = DsAdmm(entries, 4, REG, rho=0.7, parts=3)
    parts = [part.rows for part in method._parts]
    assert sorted(np.concatenate(parts).tolist()) == list(range(19))
    p, q = begin_factors(entries, 4, 0)
    views, duals = [q.copy() for _ in parts], [np.zeros_like(q) for _ in parts]
    has = np.array([mask[rows].any(axis=0) for rows in parts])
    for _ in range(4):
        for rows, view, dual, here in zip(parts, views, duals, has, strict=True):
            for i in rows:
                x = view[mask[i]]
                p[i] = np.linalg.solve(x.T @ x + REG * np.eye(4), x.T @ y[i, mask[i]])
            for j in np.flatnonzero(here):
                own = rows[mask[rows, j]]
                x = p[own]
                right = x.T @ y[own, j] + 0.7 * q[j] - dual[j]
                view[j] = np.linalg.solve(x.T @ x + 0.7 * np.eye(4), right)
        total = sum(here[:, None] * (0.7 * v + d) for v, d, here in zip(views, duals, has, strict=True))
        q = total / (REG + 0.7 * has.sum(axis=0))[:, None]
        for view, dual, here in zip(views, duals, has, strict=True):
            dual += here[:, None] * 0.7 * (view - q)
    run(method, 4)
    np.testing.assert_allclose(method.p, p, atol=1e-10)
    np.testing.assert_allclose(method.q, q, atol=1e-10)
    apart = sum(np.sum(here[:, None] * (v - q) ** 2) for v, here in zip(views, has, strict=True))
    assert method.residual() == pytest.approx(np.sqrt(apart))


def test_dsgd_is_the_naive_one():
    """The naive one takes the entries in the order in which the blocks have left them."""
    _, mask, entries = observed()
    method = Dsgd(entries, 4, REG, eta=0.01, blocks=3)
    p, q = begin_factors(entries, 4, 0)
    strata = [[b * 3 + (b + shift) % 3 for b in range(3)] for shift in range(3)]
    order = np.random.default_rng([0, 8, 1]).permutation(3)
    run(method, 1)
    for place in order:
        for block in strata[place]:
            for t in method._blocks[block]:
                i, j = entries.rows[t], entries.columns[t]
                error = entries.values[t] - p[i] @ q[j]
                step_p = error * q[j] - REG * p[i] / mask[i].sum()
                step_q = error * p[i] - REG * q[j] / mask[:, j].sum()
                p[i] += 0.01 * step_p
                q[j] += 0.01 * step_q
    np.testing.assert_allclose(method.p, p, atol=1e-12)
    np.testing.assert_allclose(method.q, q, atol=1e-12)


def test_the_blocks_of_a_stratum_share_nothing_and_all_strata_are_all_entries():
    _, _, entries = observed()
    method = Dsgd(entries, 4, REG, blocks=3)
    assert sorted(np.concatenate(method._blocks).tolist()) == list(range(len(entries.values)))
    for stratum in method._strata:
        for side in (entries.rows, entries.columns):
            met = [set(side[method._blocks[a * 3 + b]].tolist()) for a, b in stratum]
            assert len(set().union(*met)) == sum(map(len, met))


@pytest.mark.parametrize("name", ["ccd", "dsgd"])
@pytest.mark.parametrize("reg", [0.0, REG, 10.0])
def test_the_objective_never_rises_where_that_is_promised(name, reg):
    for seed in range(3):
        y, mask, entries = observed(seed)
        method = METHODS[name](entries, 4, reg, seed)
        told = [dense(y, mask, method.p, method.q, reg)]
        for _ in range(15):
            run(method, 1)
            told.append(dense(y, mask, method.p, method.q, reg))
        assert (np.diff(told) <= 1e-9 * told[0]).all()
        assert told[-1] < 0.9 * told[0]


def test_a_step_that_is_too_long_is_taken_back():
    y, mask, entries = observed()
    method = Dsgd(entries, 4, REG, eta=1e3)
    before = dense(y, mask, method.p, method.q, REG)
    with np.errstate(all="ignore"):
        run(method, 1)
    assert method.eta == 500
    assert dense(y, mask, method.p, method.q, REG) == before


def test_all_come_to_about_the_same_objective():
    y, mask, entries = observed(2, noise=0.3)
    found = {name: run(make(entries, 3, REG), 400) for name, make in METHODS.items()}
    told = {name: dense(y, mask, m.p, m.q, REG) for name, m in found.items()}
    assert max(told.values()) < 1.05 * min(told.values())
    assert found["dsadmm"].residual() < 1e-2 * np.linalg.norm(found["dsadmm"].q)


@pytest.mark.parametrize(("reg", "rho"), [(0.0, 1.0), (1.0, 0.0)])
def test_dsadmm_asks_for_what_its_least_squares_need(reg, rho):
    with pytest.raises(SettingError, match="must be above 0"):
        DsAdmm(observed()[2], 4, reg, rho=rho)


@BY_NAME
def test_any_number_of_workers_gives_the_same_bits(name):
    _, _, entries = observed(shape=(90, 70))
    factors = [run(METHODS[name](entries, 5, REG), 4, threads) for threads in (1, 2, 5)]
    for other in factors[1:]:
        assert other.p.tobytes() == factors[0].p.tobytes()
        assert other.q.tobytes() == factors[0].q.tobytes()
