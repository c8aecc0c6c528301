"""The loop in which every fact draws a few objects of its own: its blocks, its draws, and that it learns."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import consmrf
from consmrf.config import Config
from consmrf.consensus.drawn import Apart, drawn_kernel, scratch
from consmrf.consensus.facts import lay_out
from consmrf.consensus.plan import parts_of, plan_apart
from consmrf.consensus.wave import initial_wave, numbers_of
from consmrf.graph.partition import partition
from problems import graph_of, planted_graph

# one form for all fits of this file, so that it is compiled once
FORM = {"dim": 8, "negatives": 1, "loss": "bpr", "reg": 0.01}
PLAIN = {"method": "shared", "optimizer": "sgd", "learning_rate": 0.2}


@pytest.fixture(scope="module")
def planted():
    train, test, _, _ = planted_graph(n_entities=300, n_groups=10)
    return train, test


def fitted(planted, **given):
    given = {**FORM, "max_epochs": 4, "threads": 1, **given}
    return consmrf.fit(planted[0], valid=planted[1], config=Config(**given))


def arrays_of(model):
    return {name: array.tobytes() for name, array in model.predictor.arrays().items()}


# -- the plan


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 400),
    sizes=st.lists(st.integers(0, 60), min_size=1, max_size=6),
    pairs=st.integers(0, 6),
    epoch=st.integers(1, 9),
)
def test_every_fact_is_in_one_block_and_the_blocks_of_a_wave_share_no_entity(n, sizes, pairs, epoch):
    rng = np.random.default_rng(n)
    indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    subjects, objects = (rng.integers(n, size=indptr[-1], dtype=np.int32) for _ in range(2))
    relation = np.repeat(np.arange(len(sizes)), sizes)
    plan = plan_apart((subjects, objects), indptr, n, max(2 * pairs, 1), 5, epoch)
    assert sorted(plan.order.tolist()) == list(range(indptr[-1]))
    assert plan.waves[0] == 0
    assert plan.waves[-1] == len(plan)
    for first, last in zip(plan.waves[:-1], plan.waves[1:], strict=True):
        seen = set()
        blocks = [plan.order[plan.indptr[b] : plan.indptr[b + 1]] for b in range(first, last)]
        assert [len(b) for b in blocks] == sorted((len(b) for b in blocks), reverse=True)
        for facts in blocks:
            entities = {*subjects[facts].tolist(), *objects[facts].tolist()}
            assert not entities & seen
            seen |= entities
            assert (np.diff(relation[facts]) >= 0).all()
            # an object drawn from the part of a fact's own is the block's own entity, too
            parts = set(plan.parts.part_of[[*entities]].tolist())
            assert len(parts) <= 2
    only = np.arange(len(sizes)) % 2 == 0
    some = plan_apart((subjects, objects), indptr, n, max(2 * pairs, 1), 5, epoch, only)
    assert sorted(some.order.tolist()) == np.flatnonzero(only[relation]).tolist()


def test_parts_partition_the_entities_anew_every_epoch():
    ends, indptr = (np.zeros(0, np.int32),) * 2, np.zeros(2, np.int64)
    one, two = (plan_apart(ends, indptr, 1000, 8, 0, epoch).parts for epoch in (1, 2))
    for parts in (one, two):
        assert sorted(parts.members.tolist()) == list(range(1000))
        np.testing.assert_array_equal(
            parts.part_of[parts.members], np.repeat(np.arange(8), np.diff(parts.indptr))
        )
        assert np.diff(parts.indptr).min() > 80
    assert np.mean(one.part_of == two.part_of) == pytest.approx(1 / 8, abs=0.04)


def test_the_number_of_parts_goes_by_the_data_and_the_width_of_a_wave():
    assert parts_of(10**7, 10**6, 16) == 32
    assert parts_of(10**7, 10**6, 1) == 1
    assert parts_of(10**7, 60, 16) == 1
    assert parts_of(20_000, 10**5, 16) == 6
    assert parts_of(10, 10**5, 16) == 4


# -- what is drawn


def drawn_from(graph, parts=1, epochs=200, **given):
    """Draw the samples of all facts of many epochs; hand on (s, o, o′) and how many facts were left out."""
    n = len(graph.vocabulary.entities)
    config = Config(**{**FORM, "reciprocal": False, **given})
    layout = lay_out(partition(graph), n, reciprocal=False, views=None)
    state = initial_wave(layout, config)
    facts, numbers = layout.facts, numbers_of(state, layout, config)
    worker = scratch(state.form, state.rows.z.dtype, np.zeros(1, np.uint8))
    found, missing = [], 0
    for epoch in range(epochs):
        plan = plan_apart((facts.subjects, facts.objects), layout.indptr, n, parts, 0, epoch)
        for b in range(len(plan)):
            order = plan.order[plan.indptr[b] : plan.indptr[b + 1]]
            block = Apart(order, np.empty(layout.n_relations, np.int32), np.empty_like(state.rows.w))
            trained = drawn_kernel(state.form)(
                facts, state.rows, block, worker, numbers, plan.parts, (0, epoch, b)
            )[2]
            missing += len(order) - trained
            found.append(worker.samples[:trained, :3].copy())
            assert (plan.parts.part_of[found[-1][:, 1]] == plan.parts.part_of[found[-1][:, 2]]).all()
    return np.concatenate(found), missing


def chi_square(observed, expected):
    return float(np.sum((observed - expected) ** 2 / expected))


@pytest.mark.parametrize("parts", [1, 2])
def test_negatives_are_uniform_over_the_open_objects(parts):
    graph = graph_of([(0, 0, o) for o in (0, 3, 4)] + [(1, 0, o) for o in range(1, 9)], n_entities=40)
    samples, missing = drawn_from(graph, parts, epochs=800)
    assert missing == 0
    known = {(int(s), int(o)) for s, _, o in graph.triples}
    assert {(int(s), int(o)) for s, o, _ in samples} == known
    assert not {(int(s), int(neg)) for s, _, neg in samples} & known
    for s, free in ((0, 37), (1, 32)):
        counts = np.unique(samples[samples[:, 0] == s, 2], return_counts=True)[1]
        assert len(counts) == free
        # facts of an epoch share its parts, so with two parts counts vary up to twice as much
        assert chi_square(counts, counts.sum() / free) < parts * 73.4  # 37 degrees of freedom, p < .001


def test_where_nearly_all_is_known_the_open_object_is_found_and_else_the_fact_left_out():
    graph = graph_of([(0, 0, o) for o in range(300) if o != 17], n_entities=300)
    samples, missing = drawn_from(graph, epochs=2)
    assert missing == 0
    assert set(samples[:, 2].tolist()) == {17}
    samples, missing = drawn_from(graph, parts=2, epochs=20)
    assert len(samples) + missing == 20 * 299
    assert missing == pytest.approx(10 * 299, rel=0.5)  # those in the part without entity 17


# -- the fit


@pytest.mark.parametrize("settings", [{}, PLAIN])
def test_any_number_of_threads_gives_the_same_bits(planted, settings):
    runs = [fitted(planted, seed=3, threads=threads, **settings).model for threads in (1, 2, 5)]
    assert arrays_of(runs[0]) == arrays_of(runs[1]) == arrays_of(runs[2])


def test_it_learns_what_is_planted(planted):
    result = fitted(planted, max_epochs=60, patience=60)
    assert {r.stage for r in result.info.rounds} == {"consensus", "departures"}
    assert max(r.validation for r in result.info.rounds) > 3 * result.info.rounds[0].validation
    assert result.info.rounds[0].samples == 2 * len(planted[0])
    assert all(r.dual_residual > 0 for r in result.info.rounds)


def test_plain_steps_have_no_sums_and_learn_too(planted):
    losses = [r.loss for r in fitted(planted, max_epochs=60, patience=60, **PLAIN).info.rounds]
    assert losses[-1] < 0.9 * losses[0]
    layout = lay_out(partition(planted[0]), 300, reciprocal=True, views=None)
    state = initial_wave(layout, Config(**FORM, optimizer="sgd"))
    assert [x.shape[1] for x in state.rows[:3]] == [16, 1, 8]


def test_plain_steps_are_for_few_negatives():
    with pytest.raises(consmrf.SettingError, match="takes at most 7"):
        Config(optimizer="sgd", negatives=8)
    with pytest.raises(consmrf.SettingError, match="must be one of adagrad, sgd"):
        Config(optimizer="adam")
