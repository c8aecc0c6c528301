"""The wave solver from a graph to a model: what is learned, what is kept, and that workers cannot be seen."""

import random
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import consmrf
from consmrf import split
from consmrf.baselines.counted import Counted
from consmrf.config import Config
from consmrf.consensus.facts import lay_out
from consmrf.consensus.merge import merge_rows
from consmrf.consensus.plan import MOST_RELATIONS, plan_epoch
from consmrf.consensus.solve import Status
from consmrf.consensus.wave import initial_wave
from consmrf.engine.waves import Waves
from consmrf.evaluation.ranking import ValidationScore
from consmrf.evaluation.selection import GRIDS, Mix, choose
from consmrf.graph.partition import partition
from problems import graph_of, planted_graph, random_graph

# one form for all fits of this file, so that it is compiled once
FORM = {"dim": 8, "negatives": 32}


def fitted(graph, valid=None, **given):
    return consmrf.fit(graph, valid=valid, config=Config(**{**FORM, "max_epochs": 8, "threads": 1, **given}))


def arrays_of(model):
    return {name: array.tobytes() for name, array in model.predictor.arrays().items()}


@pytest.fixture(scope="module")
def planted():
    train, test, _, _ = planted_graph(n_entities=120, n_groups=6)
    return train, test


def test_any_number_of_threads_gives_the_same_bits(planted):
    runs = [arrays_of(fitted(*planted, seed=3, threads=threads).model) for threads in (1, 2, 5)]
    assert runs[0] == runs[1] == runs[2]


def test_whoever_takes_a_block_and_whenever_gives_the_same_bits(planted, monkeypatch):
    expected = arrays_of(fitted(*planted, max_epochs=3).model)
    plain, rng = Waves._train_block, random.Random(5)

    def late(*arguments):
        time.sleep(rng.random() * 0.004)
        return plain(*arguments)

    monkeypatch.setattr(Waves, "_train_block", late)
    assert arrays_of(fitted(*planted, max_epochs=3, threads=5).model) == expected


def test_seed_and_wave_width_are_seen_in_the_result(planted):
    first = arrays_of(fitted(*planted, max_epochs=3).model)
    assert arrays_of(fitted(*planted, max_epochs=3, seed=1).model) != first
    assert arrays_of(fitted(*planted, max_epochs=3, wave_width=3).model) != first


def test_planted_structure_is_found_far_above_popularity(planted):
    train, test = planted
    found = consmrf.evaluate(fitted(train, test, max_epochs=30).model, test, known=[train])
    counting = consmrf.fit(train, config=Config(method="popularity")).model
    popular = consmrf.evaluate(counting, test, known=[train])
    assert found.summary()["mrr"] > 2.5 * popular.summary()["mrr"]
    assert found.summary("subjects")["mrr"] > 2.5 * popular.summary("subjects")["mrr"]


def test_the_consensus_comes_first_and_departures_have_to_beat_it(planted):
    result = fitted(*planted, max_epochs=12)
    stages = [r.stage for r in result.info.rounds]
    assert stages == sorted(stages)
    assert set(stages) == {"consensus", "departures"}
    best = max(r.validation for r in result.info.rounds)
    assert result.info.rounds[result.info.best_round - 1].validation == best
    # the choice of τ and β can only add to the best round, on the triples it was made on
    train, test = planted
    score = ValidationScore(test.triples, train.triples, 120)
    assert score(result.model) >= best - 1e-3


def test_departures_leave_the_consensus_at_rest(planted):
    config = Config(**FORM, threads=2)
    layout = lay_out(partition(planted[0]), 120, reciprocal=True, views=None)
    state = initial_wave(layout, config)
    with Waves(layout, state, config) as engine:
        engine.sweep(state, 1)
    consensus = state.views().kept()
    departed = state.depart(consensus, config)
    with Waves(layout, departed, config) as engine:
        engine.sweep(departed, 2)
    views = departed.views()
    for name in ("z", "b", "w", "delta_b"):
        np.testing.assert_array_equal(getattr(views, name), getattr(consensus, name))
    assert np.abs(views.delta).max() > 0


def test_the_shared_model_has_one_view(planted):
    predictor = fitted(planted[0], method="shared").model.predictor
    assert not len(predictor.delta_rows)
    assert not len(predictor.beta)
    assert len(predictor.w) == 8


def test_only_targets_have_views_and_are_validated():
    train, test, _, _ = planted_graph(n_entities=120, n_groups=6)
    result = fitted(train, test, targets=("r0001",))
    predictor = result.model.predictor
    rows = np.diff(predictor.delta_indptr)
    assert (np.flatnonzero(rows) == [1, 5]).all()
    assert predictor.departures()[[0, 2, 3, 4, 6, 7]].max() == 0
    assert all(r.validation is not None for r in result.info.rounds)


def test_without_reciprocal_relations_subjects_are_ranked_by_the_same_parameters(planted):
    model = fitted(planted[0], reciprocal=False).model
    assert len(model.predictor.w) == 4
    s, r, o = model.entities[3], model.relations[2], model.entities[50]
    forward, backward = model.score_objects(s, r)[50], model.score_subjects(r, o)[3]
    own = model.predictor.delta_rows[model.predictor.own(2)]
    b = model.predictor.b[50, 0] + sum(model.predictor.delta_b[model.predictor.own(2)][own == 50])
    s, r, _ = planted[0].triples.T
    share = (np.sum(s == 3) + 0.5) / (len(s) + 60)
    prior = np.log(np.sum((s == 3) & (r == 2)) + 20 * share)
    np.testing.assert_allclose(forward - b, backward - prior, rtol=1e-4, atol=1e-4)


def test_frequent_subjects_are_ranked_first_where_nothing_else_tells():
    rng = np.random.default_rng(0)
    often = rng.zipf(1.6, 60).clip(max=30)
    facts = [(s, 0, 60 + o) for s, n in enumerate(often) for o in rng.choice(60, n, replace=False)]
    graph = graph_of(facts, 120, 1)
    cut = split(graph, test=0.3, valid=0, seed=1)
    model = fitted(cut.train, reciprocal=False, max_epochs=2).model
    plain = replace(model.predictor, beta=model.predictor.beta[:0], log_share=model.predictor.log_share[:0])
    plain = consmrf.Model(model.vocabulary, model.known, replace(plain, subject_b=plain.subject_b[:0]))
    found, without = (
        consmrf.evaluate(m, cut.test, known=[cut.train]).summary("subjects")["mrr"] for m in (model, plain)
    )
    assert found > 1.2 * without
    squared = fitted(cut.train, reciprocal=False, max_epochs=1, loss="squared", method="shared").model
    assert not len(squared.predictor.beta)


def test_a_saved_model_scores_the_same(planted, tmp_path):
    train, test = planted
    model = fitted(train, test, max_epochs=12).model
    model.save(tmp_path / "m")
    again = consmrf.Model.load(tmp_path / "m")
    assert again.relations == train.vocabulary.relations
    for r in range(4):
        some = np.arange(0, 120, 7, dtype=np.int32)
        np.testing.assert_array_equal(again.object_scores(r, some), model.object_scores(r, some))
        np.testing.assert_array_equal(again.subject_scores(r, some), model.subject_scores(r, some))


def test_scores_are_those_of_the_definition(planted):
    train, test = planted
    predictor = fitted(train, test, max_epochs=12).model.predictor
    for turned, r in ((False, 1), (True, 2)):
        at = r + 4 * turned
        view, own = predictor.view(at).astype(np.float64), predictor.own(at)
        half = 4
        a = view[:, :half] + 1j * view[:, half:]
        w = predictor.w[at][:half] + 1j * predictor.w[at][half:]
        scores = np.real((a[[5]] * w) @ np.conj(a).T)[0] + predictor.b[:, int(turned)]
        scores[predictor.delta_rows[own]] += predictor.delta_b[own]
        if len(predictor.beta):
            scores += predictor.beta[at] * predictor.log_share[:, int(turned)]
        given = np.array([5], np.int32)
        found = predictor.subject_scores(r, given) if turned else predictor.object_scores(r, given)
        np.testing.assert_allclose(found[0], scores, rtol=1e-4, atol=1e-4)


def test_a_relation_with_all_triples_is_split_into_blocks():
    train, _, _, _ = planted_graph(n_relations=1, n_entities=150, n_groups=6)
    layout = lay_out(partition(train), 150, reciprocal=False, views=None)
    plan = plan_epoch(layout.indptr, 40, 0, 1)
    assert len(plan) >= len(train) / 40
    assert np.diff(plan.indptr).max() <= 40


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 90), min_size=1, max_size=150),
    block=st.integers(1, 50),
    epoch=st.integers(1, 5),
)
def test_an_epoch_has_every_fact_once(sizes, block, epoch):
    indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    plan = plan_epoch(indptr, block, 7, epoch)
    assert sorted(plan.order.tolist()) == list(range(indptr[-1]))
    relation = np.repeat(np.arange(len(sizes)), sizes)
    for lo, hi in zip(plan.indptr[:-1], plan.indptr[1:], strict=True):
        own = relation[plan.order[lo:hi]]
        assert hi - lo <= block
        assert np.count_nonzero(np.diff(own)) + 1 <= MOST_RELATIONS
    only = np.arange(len(sizes)) % 2 == 0
    some = plan_epoch(indptr, block, 7, epoch, only)
    assert sorted(some.order.tolist()) == np.flatnonzero(only[relation]).tolist()


def test_merging_adds_growth_first_and_then_steps_in_the_new_metric():
    rng = np.random.default_rng(0)
    target = rng.normal(size=(9, 6))
    target[:, 3:] = rng.uniform(1, 2, size=(9, 3))
    before = target.copy()
    rows, table = np.array([7, 2, 4], np.int32), rng.uniform(0.1, 1, size=(3, 6))
    moved = sum(merge_rows(target, rows, table, 3, share, 2) for share in (0, 1))
    sums = before[rows, 3:] + table[:, 3:]
    np.testing.assert_allclose(target[rows, 3:], sums)
    np.testing.assert_allclose(target[rows, :3], before[rows, :3] + table[:, :3] / np.sqrt(sums))
    assert moved == pytest.approx(np.sum((target - before)[:, :3] ** 2))
    rest = np.setdiff1d(np.arange(9), rows)
    np.testing.assert_array_equal(target[rest], before[rest])


def last(mixes):
    *_, mix = mixes
    return mix


def test_a_relation_departs_only_where_its_own_queries_show_that_it_helps():
    rng = np.random.default_rng(0)
    relations = np.repeat([0, 1, 2], [400, 400, 8])
    base = rng.integers(5, 50, size=len(relations)).astype(float)

    def ranks(mix):  # a departure helps all but relation 1, which it harms; counts harm
        tau, beta = mix.tau[relations], mix.beta[relations]
        return np.maximum(np.where(relations == 1, base * (1 + tau), base * (1 - 0.6 * tau)), 1) + 3 * beta

    mix = last(choose(ranks, relations, np.zeros(3, np.intp), 1000))
    assert mix.tau[0] == max(GRIDS["tau"])
    assert mix.tau[1] == 0.0
    assert mix.tau[2] > 0.5  # few queries, all of them for it
    assert not mix.beta.any()
    assert all(0.0 in values for values in GRIDS.values())


def test_what_a_few_queries_say_is_held_against_what_all_relations_say():
    rng = np.random.default_rng(1)
    relations = np.repeat(np.arange(60), 6)
    base = rng.integers(2, 60, size=len(relations)).astype(float)
    luck = rng.integers(-1, 2, size=len(relations))

    def ranks(mix):  # relations do not differ: departing helps a little, up to chance
        tau = mix.tau[relations]
        return np.maximum(base + tau * (luck - 0.5), 1) + mix.beta[relations]

    mix = last(choose(ranks, relations, np.zeros(60, np.intp), 1000))
    assert np.count_nonzero(mix.tau == mix.tau[0]) >= 55
    assert mix.tau.min() > 0


def test_no_relation_is_significantly_worse_than_its_consensus_on_new_queries():
    """Relations differ: departing helps some and harms others. Chosen on 30 queries each, judged on 300."""
    rng = np.random.default_rng(4)
    effect = rng.normal(0.1, 0.4, 80)

    def queries(each):
        relations = np.repeat(np.arange(80), each)
        base = rng.lognormal(2, 1, len(relations)) + 1
        noise = rng.normal(0, 0.3, len(relations))

        def ranks(mix):
            tau, beta = mix.tau[relations], mix.beta[relations]
            return np.maximum(base * np.exp(-tau * (effect[relations] + noise) + beta), 1)

        return relations, ranks

    mix = last(choose(queries(30)[1], queries(30)[0], np.zeros(80, np.intp), 1000))
    relations, ranks = queries(300)
    gain = 1 / ranks(mix) - 1 / ranks(replace(mix, tau=np.zeros(80)))
    means = np.bincount(relations, gain) / 300
    errors = np.array([gain[relations == r].std() for r in range(80)]) / np.sqrt(300)
    assert (means >= -3.5 * errors).all()  # 80 relations: one in 50 such runs is below by chance
    assert gain.mean() > 5 * gain.std() / np.sqrt(len(gain))
    everybody = 1 / ranks(replace(mix, tau=np.ones(80))) - 1 / ranks(replace(mix, tau=np.zeros(80)))
    assert gain.mean() > everybody.mean()


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_one_relation_has_the_shares_that_are_best_for_its_queries(seed):
    rng = np.random.default_rng(seed)
    table = {name: rng.uniform(1, 30, (len(values), 80)) for name, values in GRIDS.items()}

    def ranks(mix):
        return 1 + sum(table[name][values.index(getattr(mix, name)[0])] for name, values in GRIDS.items())

    def gain(mix):
        found = ranks(mix)
        return (1 / found / scale[0] - found / 1000 / scale[1]).mean()

    mix = Mix.even(1, 1.0, 1.0, 0.0)
    scale = (1 / ranks(mix)).std(), (ranks(mix) / 1000).std()
    relations, sides = np.zeros(80, np.intp), np.zeros(1, np.intp)
    for (name, values), chosen in zip(GRIDS.items(), choose(ranks, relations, sides, 1000), strict=True):
        tried = [replace(mix, **{name: np.array([value])}) for value in values]
        assert gain(chosen) == pytest.approx(max(map(gain, tried)))
        mix = chosen


def test_sides_that_differ_have_shares_of_their_own():
    relations = np.repeat(np.arange(8), 100)
    base = np.random.default_rng(2).integers(5, 50, size=800).astype(float)

    def ranks(mix):  # counts help objects and harm subjects
        return base * np.where(
            relations < 4, 1 - 0.4 * np.minimum(mix.beta[relations], 1), 1 + mix.beta[relations]
        )

    mix = last(choose(ranks, relations, np.arange(8) // 4, 1000))
    assert (mix.beta[:4] >= 1).all()
    assert not mix.beta[4:].any()


def test_mixed_counts_are_the_logarithms_they_are_said_to_be():
    graph = random_graph(3, n_entities=20, sizes=(60, 30))
    layout = lay_out(partition(graph), 20, reciprocal=True, views=None)
    factors = fitted(graph, max_epochs=2).model.predictor
    beta = np.array([0.5, 0.0, 2.0, 1.0])
    mixed = Counted.of(layout).mixed(factors, np.ones(4), np.ones(4), beta)
    s, r, o = graph.triples.T
    for relation, side, ends in ((0, "object", o), (0, "subject", s), (1, "subject", s)):
        shares = (np.bincount(ends, minlength=20) + 0.5) / (len(ends) + 10)
        counts = np.bincount(ends[r == relation], minlength=20)
        given = np.array([4], np.int32)
        at = relation + 2 * (side == "subject")
        plain, with_counts = (getattr(f, f"{side}_scores")(relation, given)[0] for f in (factors, mixed))
        np.testing.assert_allclose(
            with_counts - plain, beta[at] * np.log(counts + 20 * shares), rtol=1e-3, atol=1e-4
        )


def test_training_stops_for_the_reasons_that_were_set(planted):
    train, test = planted
    assert fitted(train, max_epochs=4).info.status is Status.MAX_EPOCHS
    patient = fitted(train, test, max_epochs=200, patience=1)
    assert patient.info.status is Status.PATIENCE
    assert len(patient.info.rounds) < 200
    assert fitted(train, max_seconds=1e-6).info.status is Status.MAX_SECONDS


def test_an_interrupt_keeps_the_best_round(planted):
    def interrupt(record):
        if record.round == 3:
            raise KeyboardInterrupt

    config = Config(**FORM, max_epochs=8, threads=2)
    result = consmrf.fit(planted[0], valid=planted[1], config=config, on_round=interrupt)
    assert result.info.status is Status.INTERRUPTED
    assert len(result.info.rounds) == 3
    assert result.info.best_round > 0


def test_deciding_what_is_kept_ends_with_the_time_and_with_an_interrupt(planted, monkeypatch):
    plain, asked = ValidationScore.ranks, []

    def interrupted(*arguments):
        asked.append(1)
        if len(asked) == 6:  # five rounds of training are validated
            raise KeyboardInterrupt
        return plain(*arguments)

    monkeypatch.setattr(ValidationScore, "ranks", interrupted)
    result = fitted(*planted, max_epochs=5)
    assert result.info.status is Status.INTERRUPTED
    assert len(result.info.rounds) == 5
    assert len(asked) == 6
    asked.clear()
    late = fitted(*planted, max_seconds=1e-6)
    assert late.info.status is Status.MAX_SECONDS
    assert len(asked) == 1
    assert not late.model.predictor.beta.any()


def test_values_that_are_not_finite_are_named(planted):
    with pytest.raises(consmrf.DivergedError, match="lower rho or learning_rate"):
        fitted(planted[0], learning_rate=1e30)


def test_facts_without_an_open_object_are_left_out_and_counted():
    triples = [(0, 0, o) for o in range(40)] + [(s, 0, 1) for s in range(1, 20)]
    result = fitted(graph_of(triples, 40, 1), max_epochs=2)
    assert result.info.skipped_triples == 40


def test_kept_views_are_a_copy_and_an_interrupt_leaves_it_whole(planted, monkeypatch):
    layout = lay_out(partition(planted[0]), 120, reciprocal=True, views=None)
    state = initial_wave(layout, Config(**FORM))
    kept = state.views().kept()
    before = kept.z.copy()
    state.rows.z[:] += 1
    np.testing.assert_array_equal(kept.z, before)
    plain, calls = np.copyto, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        plain(*arguments)

    monkeypatch.setattr(np, "copyto", interrupted)
    with pytest.raises(KeyboardInterrupt):
        state.views().kept(kept)
    for name in ("z", "b", "w", "delta_b"):
        np.testing.assert_array_equal(getattr(kept, name), getattr(state.views(), name))


def test_the_record_holds_the_seconds_of_the_merges(planted, monkeypatch):
    plain = Waves._merge

    def slow(*arguments):
        time.sleep(0.02)
        return plain(*arguments)

    monkeypatch.setattr(Waves, "_merge", slow)
    for record in fitted(planted[0], max_epochs=2).info.rounds:
        assert record.seconds["consensus"] >= 0.02
        assert all(0 < len(wave) <= 16 for wave in record.block_seconds)
        assert sum(map(sum, record.block_seconds)) == pytest.approx(record.seconds["local_total"])
