"""The whole path from a graph to a model: what is learned, why it stops, what it keeps, what it refuses."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from consmrf.config import Config
from consmrf.consensus.blocks import DEPARTURES
from consmrf.consensus.facts import lay_out
from consmrf.consensus.local import local_problems
from consmrf.consensus.memory import estimate
from consmrf.consensus.plan import plan_epoch
from consmrf.consensus.solve import Status
from consmrf.consensus.wave import initial_wave
from consmrf.engine.waves import Waves
from consmrf.errors import DivergedError, InputError, SettingError, UnknownLabelError
from consmrf.evaluation.protocol import evaluate
from consmrf.fit import estimate_memory, fit
from consmrf.graph.partition import partition
from problems import graph_of, paper, planted_graph, random_graph

PLANTED = paper(dim=16, inner_epochs=5, max_epochs=150, tol=0, threads=2)


def auc(result, test):
    return evaluate(result.model, test).to_dict()["objects"]["auc"]


@pytest.mark.parametrize(("scorer", "least"), [("diagonal", 0.85), ("full", 0.92)])
def test_planted_structure_is_recovered_far_above_popularity(scorer, least):
    """A diagonal W_r cannot tell s → o from o → s, so it ranks two groups of eight on top.

    A full one finds the one.
    """
    train, test, group, target = planted_graph()
    learned = fit(train, config=dataclasses.replace(PLANTED, scorer=scorer))
    popular = fit(train, config=Config(method="popularity"))
    assert auc(learned, test) > least
    assert 0.4 < auc(popular, test) < 0.6
    assert popular.info.status is Status.DIRECT
    right = np.flatnonzero(group == target[2, group[5]])
    best = learned.model.objects("e000005", "r0002", top=8, known="include")
    hits = sum(int(answer.label[1:]) in right for answer in best)
    assert hits >= (7 if scorer == "full" else 3)


def test_the_independent_baseline_learns_each_relation_by_itself():
    train, test, _, _ = planted_graph(n_relations=2)
    config = dataclasses.replace(PLANTED, method="independent")
    both = fit(train, config=config)
    assert auc(both, test) > 0.85
    first = graph_of([t for t in train.triples.tolist() if t[1] == 0], 200, 2)
    alone = fit(first, config=config)
    np.testing.assert_array_equal(
        both.model.score_objects("e000005", "r0000"), alone.model.score_objects("e000005", "r0000")
    )
    assert all(record.dual_residual == 0 for record in both.info.rounds)


@pytest.mark.parametrize("method", ["consensus", "independent"])
def test_the_model_is_the_same_for_any_number_of_threads(method):
    train, valid, _, _ = planted_graph(n_entities=80)
    models = []
    for threads in (1, 2, 7):
        config = paper(dim=6, max_epochs=8, seed=4, threads=threads, method=method)
        result = fit(train, valid=valid, config=config)
        models.append((result.model.predictor.arrays(), [r.validation for r in result.info.rounds]))
    for arrays, scores in models[1:]:
        assert scores == models[0][1]
        for name, array in arrays.items():
            assert array.tobytes() == models[0][0][name].tobytes()


def test_prediction_for_a_relation_uses_its_own_view():
    graph = random_graph(0)
    rounds = []
    result = fit(graph, config=paper(dim=4, max_epochs=3, tol=0, precision="double"), on_round=rounds.append)
    predictor = result.model.predictor
    a = predictor.view(2)
    assert not np.array_equal(a, predictor.z)
    expected = (a[3] * predictor.w[2]) @ a.T
    np.testing.assert_allclose(result.model.score_objects("e000003", "r0002"), expected, rtol=1e-5, atol=1e-6)
    assert tuple(rounds) == result.info.rounds


def test_the_consensus_view_is_the_mean_of_the_views():
    graph = random_graph(0)
    config = paper(dim=4, max_epochs=3, tol=0, precision="double")
    model = fit(graph, config=config).model
    mean = np.mean([model.predictor.view(r) for r in range(4)], axis=0)
    np.testing.assert_allclose(model.predictor.consensus().z, mean, atol=1e-12)
    expected = (mean[3] * model.predictor.w[2]) @ mean.T
    scores = model.score_objects("e000003", "r0002", view="consensus")
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-6)
    alone = fit(graph, config=dataclasses.replace(config, method="independent")).model
    with pytest.raises(SettingError, match="share nothing"):
        alone.score_objects("e000003", "r0002", view="consensus")


def test_independent_models_keep_every_row_they_ever_moved():
    """One relation alone, without ρ, is plain SGD from Z⁰: two rounds of one epoch are one round of two."""
    graph = random_graph(0, n_entities=300, sizes=(30,))
    config = paper(dim=4, method="independent", max_epochs=6, tol=0, precision="double")
    result = fit(graph, config=config)
    touched = [record.touched_rows for record in result.info.rounds]
    assert touched == sorted(touched)
    assert touched[-1] > 1.5 * touched[0]
    primal = np.linalg.norm(result.model.predictor.view(0) - result.model.predictor.z)
    assert result.info.rounds[-1].primal_residual == pytest.approx(primal)


def test_a_fit_that_learned_nothing_says_so():
    graph = random_graph(0)
    nothing = fit(graph, config=paper(dim=2, max_epochs=1, learning_rate=1e-6))
    assert "inner_epochs" in nothing.info.summary
    wild = fit(graph, config=paper(dim=8, max_epochs=2, learning_rate=50.0, init_scale=3.0, tol=0))
    assert wild.info.rounds[-1].loss > 0.7
    assert "Lower learning_rate" in wild.info.summary
    something = fit(graph, config=paper(dim=8, max_epochs=60, inner_epochs=20, reg=0, tol=0))
    assert something.info.summary == something.info.status.value


def test_each_reason_to_stop_is_named():
    graph = random_graph(0)
    status = {
        Status.MAX_EPOCHS: paper(dim=3, max_epochs=3, tol=0),
        Status.CONVERGED: paper(dim=3, max_epochs=50, tol=10),
        Status.MAX_SECONDS: paper(dim=3, max_epochs=10**6, tol=0, max_seconds=1e-9),
    }
    for expected, config in status.items():
        assert fit(graph, config=config).info.status is expected
    assert len(fit(graph, config=paper(dim=3, max_epochs=7, inner_epochs=3, tol=0)).info.rounds) == 3


def test_validation_stops_and_the_best_round_is_kept():
    train, valid, _, _ = planted_graph(n_entities=80)
    config = paper(dim=6, max_epochs=400, inner_epochs=4, patience=3, tol=0)
    result = fit(train, valid=valid, config=config)
    scores = [record.validation for record in result.info.rounds]
    assert result.info.status is Status.PATIENCE
    assert result.info.best_round == 1 + int(np.argmax(scores))
    assert len(scores) == result.info.best_round + 3
    again = fit(train, valid=valid, config=dataclasses.replace(config, max_epochs=4 * result.info.best_round))
    for name, array in again.model.predictor.arrays().items():
        assert array.tobytes() == result.model.predictor.arrays()[name].tobytes()


def test_the_waves_recover_planted_structure_and_each_relation_departs():
    train, test, group, target = planted_graph()
    result = fit(train, config=Config(dim=16, max_epochs=30, threads=2))
    assert auc(result, test) > 0.95
    right = np.flatnonzero(group == target[2, group[5]])
    best = result.model.objects("e000005", "r0002", top=8, known="include")
    assert sum(int(answer.label[1:]) in right for answer in best) >= 7
    assert [r.stage for r in result.info.rounds] == ["consensus"] * 22 + ["departures"] * 8
    assert (result.model.predictor.departures() > 0).all()
    assert result.info.rounds[21].primal_residual < result.info.rounds[-1].primal_residual


WAVE = Config(dim=3, max_epochs=4, threads=1)


@pytest.mark.parametrize("method", ["consensus", "shared"])
def test_the_waves_are_the_same_for_any_number_of_threads(method):
    train, valid, _, _ = planted_graph(n_entities=80)
    models = []
    for threads in (1, 2, 5):
        result = fit(train, valid=valid, config=dataclasses.replace(WAVE, threads=threads, method=method))
        models.append((result.model.predictor.arrays(), [r.validation for r in result.info.rounds]))
    for arrays, scores in models[1:]:
        assert scores == models[0][1]
        for name, array in arrays.items():
            assert array.tobytes() == models[0][0][name].tobytes()


@pytest.mark.parametrize(("epochs", "consensus"), [(1, 1), (2, 1), (3, 2), (4, 3)])
def test_both_stages_together_have_max_epochs(epochs, consensus):
    result = fit(random_graph(0), config=dataclasses.replace(WAVE, max_epochs=epochs))
    stages = ["consensus"] * consensus + ["departures"] * (epochs - consensus)
    assert [r.stage for r in result.info.rounds] == stages
    assert result.info.best_round == epochs
    assert result.info.status is Status.MAX_EPOCHS


def test_no_stage_begins_after_max_seconds():
    result = fit(random_graph(0), config=dataclasses.replace(WAVE, max_seconds=1e-9))
    assert result.info.status is Status.MAX_SECONDS
    assert len(result.info.rounds) == 1


@pytest.mark.parametrize("validated", [False, True])
def test_an_interrupt_as_the_departures_begin_keeps_the_consensus(monkeypatch, validated):
    graph, sweep = random_graph(0), Waves.sweep

    def interrupted(self, state, epoch):
        if state.form.stage == DEPARTURES:
            raise KeyboardInterrupt
        return sweep(self, state, epoch)

    monkeypatch.setattr(Waves, "sweep", interrupted)
    result = fit(graph, valid=graph if validated else None, config=WAVE)
    assert result.info.status is Status.INTERRUPTED
    assert [r.stage for r in result.info.rounds] == ["consensus"] * 3
    assert not result.model.predictor.departures().any()


@pytest.mark.parametrize("epoch", [3, 4])
def test_waves_that_diverge_keep_the_last_finite_round_without_validation(monkeypatch, epoch):
    graph, sweep = random_graph(0), Waves.sweep

    def wild(self, state, number):
        if number == epoch:
            state.rows.z[0, 0] = np.nan
        return sweep(self, state, number)

    monkeypatch.setattr(Waves, "sweep", wild)
    result = fit(graph, config=WAVE)
    assert result.info.status is Status.DIVERGED
    assert result.info.best_round == len(result.info.rounds) == epoch - 1
    assert all(np.isfinite(array).all() for array in result.model.predictor.arrays().values())


def test_facts_that_can_only_be_learned_turned_round_are_learned():
    """Subject 0 is linked to all: its objects have no rivals, but as objects' subject it has."""
    graph = graph_of([(0, 0, o) for o in range(17)])
    result = fit(graph, config=WAVE)
    assert result.info.skipped_triples == 17
    assert result.info.rounds[0].samples == 17
    with pytest.raises(InputError, match="nothing to learn: each of the 17 triples"):
        fit(graph, config=dataclasses.replace(WAVE, reciprocal=False))
    half = graph_of([*((0, 0, o) for o in range(17)), *((s, 1, 0) for s in range(17))])
    assert fit(half, config=WAVE).info.skipped_triples == 17  # and as many turned round: not all


def test_only_targets_get_views_and_the_others_inform_the_consensus():
    graph = random_graph(0)
    config = dataclasses.replace(WAVE, targets=("r0002",))
    predictor = fit(graph, config=config).model.predictor
    rows = np.diff(predictor.delta_indptr)
    assert (rows > 0).tolist() == [r % 4 == 2 for r in range(8)]
    assert ((predictor.departures() > 0) == (rows > 0)).all()
    without = graph_of([t for t in graph.triples.tolist() if t[1] == 2], 17, 4)
    assert not np.array_equal(predictor.z, fit(without, config=config).model.predictor.z)


def test_an_unknown_target_is_named_before_training():
    rounds = []
    config = dataclasses.replace(WAVE, targets=("r0002", "r002"))
    with pytest.raises(UnknownLabelError, match=r"unknown relation 'r002'.*the nearest known: .*'r0002'"):
        fit(random_graph(0), config=config, on_round=rounds.append)
    assert rounds == []
    with pytest.raises(UnknownLabelError, match="unknown relation 'r002'"):
        estimate_memory(random_graph(0), config)


@pytest.mark.parametrize("targets", [(), "reads", ("reads", 3)])
def test_targets_are_labels(targets):
    with pytest.raises(SettingError, match="must be labels of relations, or None for all"):
        Config(targets=targets)


def test_a_solver_gives_its_defaults_and_the_papers_knows_its_own_only():
    wave, papers = Config(), Config(solver="paper")
    assert (wave.loss, wave.scorer, wave.regulariser, wave.reciprocal) == ("softmax", "complex", "n3", True)
    assert (papers.loss, papers.scorer, papers.regulariser, papers.reciprocal) == (
        *("bpr", "diagonal", "l2"),
        False,
    )
    assert Config(method="independent") == Config(method="independent", solver="paper")
    with pytest.raises(SettingError, match="negatives = 5: solver = 'paper' knows 1 only"):
        Config(solver="paper", negatives=5)
    with pytest.raises(SettingError, match="regulariser = 'n3': method = 'shared' knows 'l2' only"):
        Config(solver="paper", method="shared", regulariser="n3")
    with pytest.raises(SettingError, match="reciprocal = 1: must be True or False"):
        Config(reciprocal=1)
    assert Config(max_epochs=9, inner_epochs=2).max_rounds == 9
    assert paper(max_epochs=9, inner_epochs=2).max_rounds == 5


def test_an_interrupt_keeps_the_best_round_and_before_the_first_it_is_passed_on():
    graph = random_graph(0)
    config = paper(dim=3, max_epochs=50, tol=0)

    def stop(record):
        if record.round == 4:
            raise KeyboardInterrupt

    result = fit(graph, config=config, on_round=stop)
    assert result.info.status is Status.INTERRUPTED
    assert result.info.best_round == len(result.info.rounds) == 4
    four = fit(graph, config=dataclasses.replace(config, max_epochs=4))
    for name, array in four.model.predictor.arrays().items():
        assert array.tobytes() == result.model.predictor.arrays()[name].tobytes()


def test_divergence_in_the_first_round_is_an_error_that_says_what_to_lower():
    with pytest.raises(DivergedError, match=r"rho = 1e\+30.*lower rho or learning_rate"):
        fit(random_graph(0), config=paper(dim=3, rho=1e30, learning_rate=1e30, reg=0))


def test_triples_without_an_unobserved_object_are_skipped_and_counted():
    saturated = [(0, 0, o) for o in range(5)]
    result = fit(graph_of([*saturated, (1, 0, 2), (1, 1, 3)]), config=paper(dim=2, max_epochs=2))
    assert result.info.skipped_triples == 5
    assert result.info.rounds[0].samples == 2
    with pytest.raises(InputError, match=r"nothing to learn: each of the 5 triples.*no unobserved object"):
        fit(graph_of(saturated), config=paper(dim=2))


def test_a_relation_without_triples_left_takes_part_without_harm():
    """Its A_r is Z itself, and it counts in R, as the paper divides."""
    graph = graph_of([(0, 0, o) for o in range(4)] + [(1, 1, 2), (2, 1, 3)])
    result = fit(graph, config=paper(dim=2, max_epochs=3, tol=0))
    predictor = result.model.predictor
    np.testing.assert_array_equal(predictor.view(0), predictor.z)


def test_validation_that_shares_no_label_is_refused():
    other = graph_of([(20, 0, 21)], n_entities=30)
    labels = tuple(f"x{i}" for i in range(30))
    other = dataclasses.replace(other, vocabulary=dataclasses.replace(other.vocabulary, entities=labels))
    with pytest.raises(InputError, match="nothing to validate on: none of the 1 validation triples"):
        fit(random_graph(0), valid=other, config=paper(dim=2))


def test_the_graph_is_left_as_it_was():
    graph = random_graph(0)
    before = graph.triples.tobytes()
    graph.triples.setflags(write=False)
    fit(graph, config=paper(dim=3, max_epochs=2))
    assert graph.triples.tobytes() == before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("dim", 0),
        ("dim", 2.5),
        ("dim", True),
        ("dim", 10**6),
        ("rho", -1.0),
        ("rho", float("nan")),
        ("reg", float("inf")),
        ("learning_rate", 0.0),
        ("learning_rate", "fast"),
        ("init_scale", 0),
        ("inner_epochs", 0),
        ("max_epochs", -3),
        ("max_seconds", 0.0),
        ("max_seconds", float("nan")),
        ("patience", 0),
        ("seed", -1),
        ("threads", 0),
        ("tol", -1e-9),
        ("solver", "wavy"),
        ("scorer", "Diagonal"),
        ("loss", ""),
        ("method", None),
        ("precision", "half"),
    ],
)
def test_a_setting_out_of_range_is_one_line_with_value_and_rule(name, value):
    with pytest.raises(SettingError) as caught:
        Config(**{name: value})
    message = str(caught.value)
    assert message.startswith(f"{name} = {value!r}: must be ")
    assert "\n" not in message


def test_settings_survive_a_manifest():
    config = Config(dim=7, rho=0.25, threads=3, max_seconds=2.5)
    assert Config.from_dict(config.to_dict()) == config
    with pytest.raises(SettingError, match="unknown setting 'colour'"):
        Config.from_dict({"colour": 1})


def test_a_file_name_in_the_place_of_a_graph_is_refused():
    graph = random_graph(0)
    for arguments in (("n.tsv",), (graph, "v.tsv")):
        with pytest.raises(InputError, match="takes a Graph, not str"):
            fit(arguments[0], valid=arguments[1] if len(arguments) > 1 else None)
    model = fit(graph, config=Config(method="popularity")).model
    for test, known in (("t.tsv", ()), (graph, ("t.tsv",))):
        with pytest.raises(InputError, match="evaluate takes a Graph, not str"):
            evaluate(model, test, known=known)
    one, two = (evaluate(model, graph, known=known).to_dict() for known in (graph, [graph]))
    assert one == two


MEASURED = """
import pathlib, re, sys
sys.path.insert(0, {tests!r})
from problems import paper, random_graph
from consmrf.config import Config
from consmrf.fit import estimate_memory, fit
graph = random_graph(0, n_entities=6000, sizes=(3000,) * 40)
config = {config}
estimate = estimate_memory(graph, config)
fit(graph, config=config)
# not ru_maxrss: a process inherits it from the one that started it
peak = re.search(r"VmHWM:\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())
print(estimate.state, estimate.peak_bytes, int(peak[1]) * 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
@pytest.mark.parametrize(
    "config",
    [
        "paper(dim=40, max_epochs=6, tol=0, threads=1)",
        "Config(dim=128, max_epochs=2, negatives=64, batch=256, threads=1)",
    ],
)
def test_the_memory_estimate_is_near_the_measured_peak(config):
    script = MEASURED.format(tests=str(Path(__file__).parent), config=config)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    state, expected, measured = map(int, done.stdout.split())
    assert 0.6 * expected < measured < 1.3 * expected  # compiling, the first time, takes some more
    assert state > 0.15 * expected  # or the sparse state could be left out unnoticed


def test_the_memory_estimate_covers_what_the_state_takes():
    graph = random_graph(0, n_entities=400, sizes=(600, 1, 300, 90))
    config = paper(dim=8, max_epochs=6, tol=0, threads=1)
    partitions = partition(graph)
    problems = local_problems(partitions, 400, 1)
    parts = estimate(partitions, problems, 400, config)
    assert dataclasses.replace(estimate_memory(graph, config), process=parts.process) == parts
    result = fit(graph, config=config)
    last = result.info.rounds[-1].touched_rows
    row = 8 * 4 + 4
    # three rounds' views are alive at once, and the model's copy; the expected rows are near those touched
    assert parts.views == pytest.approx(4 * last * row, rel=0.1)
    assert "expected peak memory" in parts.describe()


def taken_by_a_wave(layout, state, config):
    """Lay out the first wave's blocks; hand on the bytes of the rows they use, and of the workers' memory."""
    with Waves(layout, state, config) as engine:
        trainer = engine._trainer
        plan, worker, taken = plan_epoch(layout.indptr, trainer._most, 0, 1), trainer.scratch[0], 0
        for number, block in enumerate(trainer.blocks[: len(plan)]):
            block = block._replace(order=plan.order[plan.indptr[number] : plan.indptr[number + 1]])
            nz, no, *_ = trainer._index(layout.facts, block, worker, layout.n_entities, (0, 1, number))
            worker.row_of[:] = -1
            taken += nz * (block.z_table[0].nbytes + 4) + no * (block.own_table[:1].nbytes + 4)
        return taken + sum(x.nbytes for worker in trainer.scratch for x in worker)


@pytest.mark.parametrize("method", ["consensus", "shared"])
@pytest.mark.parametrize(("reciprocal", "targets"), [(True, None), (False, ("r0000", "r0003"))])
def test_the_memory_estimate_covers_what_the_waves_take(method, reciprocal, targets):
    graph = random_graph(0, n_entities=4000, sizes=(6000, 1, 3000, 900))
    config = Config(dim=13, method=method, reciprocal=reciprocal, targets=targets, batch=64, negatives=64)
    views = () if method == "shared" else None if targets is None else (0, 3)
    layout = lay_out(partition(graph), 4000, reciprocal=reciprocal, views=views)
    state = initial_wave(layout, config)
    if method == "consensus":
        state = state.depart(state.views(), config)
    taken = taken_by_a_wave(layout, state, config)
    parts = estimate_memory(graph, config)
    kept = sum(x.nbytes for x in layout.facts if isinstance(x, np.ndarray))
    order = plan_epoch(layout.indptr, 64, 0, 1).order.nbytes
    assert parts.data == pytest.approx(kept + 5 * order, rel=0.25)  # the order is made from double words
    copy = state.views().kept()
    assert parts.consensus == state.rows.z.nbytes + 2 * (copy.z.nbytes + copy.b.nbytes)
    # without inverse relations, the counts that subjects' intercepts are made of
    counts = 0 if reciprocal else 4 * (4 * len(layout.facts.view_entities) + 2 * 4000)
    assert parts.views == copy.delta.nbytes + 2 * (copy.delta_b.nbytes + copy.w.nbytes) + counts
    intercepts = state.rows.intercepts.nbytes  # and, from the first stage, the same beside their sums
    assert parts.state == state.rows.own.nbytes + 3 * intercepts + state.rows.w.nbytes
    assert parts.workers == pytest.approx(taken, rel=0.3)
    validated = estimate_memory(graph, config, validated=True)
    assert validated.peak_bytes - parts.peak_bytes >= 4 * 16 * 2**20 - 2**24
