"""Algorithms 1 and 2 against the naive oracle, and the invariants that hold whatever the data."""

import signal
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consmrf.consensus.local import Workspace, compiled, local_problems, update_aw
from consmrf.consensus.solve import Status, Swept, solve
from consmrf.consensus.state import initial_state
from consmrf.engine.threads import Threads
from consmrf.graph.partition import partition
from naive import Naive
from problems import graph_of, paper, random_graph

EXACT = {"rtol": 1e-9, "atol": 1e-11}


def opened(graph, config):
    partitions, n = partition(graph), len(graph.vocabulary.entities)
    return local_problems(partitions, n, config.inner_epochs), initial_state(partitions, n, config), n


def drawn_by(problems, state, config, epoch, n):
    """The samples of the coming round as entity ids, from the package's own sampler; nothing is trained."""
    drawn = []
    for problem in problems:
        scratch = Workspace(problems, n, config).scratch(problem.draws)
        local = state.locals[problem.relation]
        stream = (config.seed, epoch, problem.relation)
        compiled(config).draw(problem.sampling, local.touched, n, stream, scratch)
        drawn.append(scratch.rows[scratch.samples])
    return drawn


def shaped(w, config):
    return w.reshape(config.dim, config.dim).copy() if config.scorer == "full" else w.copy()


def run_both(graph, config):
    """Run package and oracle side by side; hand on (solution, oracle, what the oracle found by round)."""
    problems, state, n = opened(graph, config)
    oracle = Naive(
        state.z,
        [shaped(local.w, config) for local in state.locals],
        scorer=config.scorer,
        learning_rate=config.learning_rate,
        reg=config.reg,
        rho=config.rho,
    )
    seen = []
    workspace = Workspace(problems, n, config)

    def sweep(state, epoch):
        samples = drawn_by(problems, state, config, epoch, n)
        oracle.round(samples)
        updates = [update_aw(problem, state, config, epoch, workspace) for problem in problems]
        seen.append((oracle.loss, oracle.primal, oracle.dual))
        return Swept(updates, 1.0, 1)

    return solve(state, sweep, config), oracle, seen


@pytest.mark.parametrize("scorer", ["identity", "diagonal", "full"])
@pytest.mark.parametrize(("seed", "sizes"), [(0, (40, 1, 25, 9)), (1, (60, 30)), (2, (50,))])
@pytest.mark.parametrize(("rho", "reg"), [(0.0005, 0.005), (0.3, 0.0), (0.0, 0.05)])
def test_sparse_state_equals_the_dense_oracle(scorer, seed, sizes, rho, reg):
    graph = random_graph(seed, sizes=sizes)
    config = paper(
        dim=5,
        scorer=scorer,
        rho=rho,
        reg=reg,
        seed=seed,
        max_epochs=6,
        inner_epochs=2,
        tol=0,
        precision="double",
    )
    solution, oracle, seen = run_both(graph, config)
    state, views = solution.state, solution.views
    np.testing.assert_allclose(state.z, oracle.z, **EXACT)
    for r in range(len(sizes)):
        np.testing.assert_allclose(views.a(r), oracle.a[r], **EXACT)
        np.testing.assert_allclose(state.v(r), oracle.v[r], **EXACT)
        np.testing.assert_allclose(shaped(views.updates[r].w, config), oracle.w[r], **EXACT)
    assert len(solution.info.rounds) == 3
    for record, (loss, primal, dual) in zip(solution.info.rounds, seen, strict=True):
        assert record.loss == pytest.approx(loss, rel=1e-9)
        assert record.primal_residual == pytest.approx(primal, rel=1e-7, abs=1e-7)
        assert record.dual_residual == pytest.approx(dual, rel=1e-9, abs=1e-15)


def test_the_oracle_is_given_the_hard_cases():
    """The comparison above means something only if it sees self-loops, o′ = s, entities of no triple."""
    loops = equal = outside = 0
    for seed, sizes in ((0, (40, 1, 25, 9)), (1, (60, 30))):
        graph = random_graph(seed, sizes=sizes)
        config = paper(dim=5, seed=seed, inner_epochs=2)
        problems, state, n = opened(graph, config)
        samples = np.concatenate(drawn_by(problems, state, config, 1, n))
        loops += np.sum(samples[:, 0] == samples[:, 1])
        equal += np.sum(samples[:, 0] == samples[:, 2])
        outside += np.sum(samples[:, 2] == n - 1)
    assert loops > 0
    assert equal > 0
    assert outside > 0


def test_single_precision_stays_close_to_the_oracle():
    config = paper(dim=5, max_epochs=3, tol=0, seed=3)
    solution, oracle, _ = run_both(random_graph(3), config)
    np.testing.assert_allclose(solution.state.z, oracle.z, rtol=2e-4, atol=2e-5)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n_relations=st.integers(1, 7),
    n_entities=st.integers(2, 12),
    rho=st.sampled_from([0.0, 5e-4, 0.5]),
)
def test_invariants_of_admm(seed, n_relations, n_entities, rho):
    rng = np.random.default_rng(seed)
    triples = [
        (rng.integers(n_entities), r, rng.integers(n_entities)) for r in range(n_relations) for _ in range(3)
    ]
    graph = graph_of(triples, n_entities, n_relations)
    config = paper(dim=3, rho=rho, seed=seed, max_epochs=4, tol=0, precision="double", threads=1)
    problems, state, n = opened(graph, config)
    if not sum(p.draws for p in problems):
        return
    with Threads(problems, n, config) as engine:
        solution = solve(state, engine.sweep, config)
    views, last = solution.views, solution.info.rounds[-1]
    a = np.stack([views.a(r) for r in range(n_relations)])
    v = np.stack([solution.state.v(r) for r in range(n_relations)])
    np.testing.assert_allclose(solution.state.z, a.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(v.sum(axis=0), 0, atol=1e-12)
    if n_relations == 1:
        np.testing.assert_allclose(v, 0, atol=1e-12)
    primal = np.sqrt(np.sum((a - solution.state.z) ** 2))
    assert last.primal_residual == pytest.approx(primal, rel=1e-6, abs=1e-7)
    dual = rho * np.sqrt(n_relations) * np.linalg.norm(solution.state.z - views.z)
    assert last.dual_residual == pytest.approx(dual, rel=1e-9, abs=1e-15)
    assert last.touched_rows == sum(np.any(a[r] != views.z, axis=1).sum() for r in range(n_relations))


def arrays_of(solution):
    return [solution.state.z, *(x for u in solution.views.updates for x in (u.rows, u.delta, u.w))]


@pytest.mark.parametrize("method", ["consensus", "independent"])
def test_any_number_of_threads_gives_the_same_bits(method):
    graph = random_graph(5, n_entities=60, sizes=(300, 40, 200, 1, 90, 60, 30, 80))
    runs = []
    for threads in (1, 2, 7):
        config = paper(dim=8, max_epochs=5, tol=0, seed=9, threads=threads, method=method)
        problems, state, n = opened(graph, config)
        with Threads(problems, n, config) as engine:
            assert engine.workers == threads
            runs.append(arrays_of(solve(state, engine.sweep, config)))
    for other in runs[1:]:
        for x, y in zip(runs[0], other, strict=True):
            assert x.tobytes() == y.tobytes()


def test_counts_and_balance_of_the_record_are_true():
    graph = random_graph(4, sizes=(60, 20, 30))
    config = paper(dim=3, max_epochs=2, tol=0, threads=1)
    problems, state, n = opened(graph, config)
    workspace, expected = Workspace(problems, n, config), []

    def sweep(state, epoch):
        rejected = 0
        for problem in problems:
            stream = (config.seed, epoch, problem.relation)
            touched = state.locals[problem.relation].touched
            scratch = workspace.scratch(problem.draws)
            rejected += compiled(config).draw(problem.sampling, touched, n, stream, scratch)[2]
        updates = [update_aw(problem, state, config, epoch, workspace) for problem in problems]
        expected.append((rejected, sum(len(u.rows) for u in updates), sum(u.seconds for u in updates)))
        return Swept(updates, 2.5, 4)

    solution = solve(state, sweep, config)
    for record, (rejected, rows, seconds) in zip(solution.info.rounds, expected, strict=True):
        assert record.samples == len(graph)
        assert record.rejected_negatives == rejected > 0
        assert record.touched_rows == rows
        assert record.balance == pytest.approx(seconds / (4 * 2.5))
        assert record.seconds["local_total"] == pytest.approx(seconds)


def test_the_longest_problems_are_begun_first(monkeypatch):
    graph = random_graph(5, n_entities=60, sizes=(40, 300, 1, 90))
    config = paper(dim=2, threads=1)
    problems, state, n = opened(graph, config)
    begun = []

    def noted(problem, *rest):
        begun.append(problem.draws)
        return update_aw(problem, *rest)

    monkeypatch.setattr("consmrf.engine.threads.update_aw", noted)
    with Threads(problems, n, config) as engine:
        engine.sweep(state, 1)
    assert begun == sorted(begun, reverse=True)
    assert len(begun) == 4


def test_an_interrupted_sweep_ends_soon(request):
    """Tens of millions of samples are drawn before anything trains; the request reaches the kernels."""
    # a shell's background job is begun with the signal ignored
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    graph = random_graph(5, sizes=(40, 30))
    config = paper(dim=2, threads=2, inner_epochs=900_000)
    problems, state, n = opened(graph, config)
    with Threads(problems, n, config) as engine:
        main = threading.main_thread().ident
        timer = threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            engine.sweep(state, 1)


def test_another_seed_gives_other_bits():
    graph = random_graph(5)
    one, two = (
        run_both(graph, paper(dim=4, max_epochs=1, seed=seed, precision="double"))[0] for seed in (0, 1)
    )
    assert not np.array_equal(one.state.z, two.state.z)


def test_relations_train_on_their_own_data_only():
    """Changing relation 1's triples leaves relation 0's first local update as it was, to the bit."""
    left = random_graph(1, sizes=(30, 30))
    other = np.array([t for t in left.triples.tolist() if t[1] == 0] + [(3, 1, 4), (5, 1, 6)], np.int32)
    right = graph_of(other.tolist(), len(left.vocabulary.entities), 2)
    config = paper(dim=4, max_epochs=1)
    updates = []
    for graph in (left, right):
        problems, state, n = opened(graph, config)
        updates.append(update_aw(problems[0], state, config, 1, Workspace(problems, n, config)))
    assert updates[0].delta.tobytes() == updates[1].delta.tobytes()


def test_a_diverging_run_is_named_and_keeps_the_last_finite_state():
    graph = random_graph(2, sizes=(60, 40))
    config = paper(dim=4, rho=1e30, learning_rate=1e8, max_epochs=50, tol=0)
    problems, state, n = opened(graph, config)
    rounds = []

    def sweep(state, epoch):
        if epoch == 3:
            state.locals[0].w[:] = np.nan
        gentle = paper(dim=4)
        workspace = Workspace(problems, n, gentle)
        return Swept([update_aw(p, state, gentle, epoch, workspace) for p in problems], 1.0, 1)

    state.rho = 0.0005
    solution = solve(state, sweep, config, on_round=rounds.append)
    assert solution.info.status is Status.DIVERGED
    assert solution.info.best_round == 2 == len(rounds)
    assert all(np.isfinite(x).all() for x in arrays_of(solution))
    assert "rho" in solution.info.status.value
