"""Predictors: the sparse corrections equal the dense view, and popularity orders as tuples of counts do."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consmrf.consensus.scorers import SCORERS
from consmrf.errors import ModelFileError, SettingError
from consmrf.predictors import PREDICTORS, Counts, Factors

E, R, K = 9, 3, 4


def make_factors(scorer="diagonal", dtype=np.float64, seed=0):
    """Relation 0 deviates in some rows, relation 1 in none, relation 2 in all."""
    rng = np.random.default_rng(seed)
    rows = np.array([0, 3, 4, 8, *range(E)], dtype=np.int32)
    return Factors(
        scorer=scorer,
        z=rng.normal(size=(E, K)).astype(dtype),
        w=rng.normal(size=(R, SCORERS[scorer].weights(K))).astype(dtype),
        delta_indptr=np.array([0, 4, 4, 4 + E]),
        delta_rows=rows,
        delta=rng.normal(size=(len(rows), K)).astype(dtype),
    )


def dense_scores(factors, relation):
    """ŷ(s, o) for all pairs, one at a time, from the dense view."""
    a, w, scorer = factors.view(relation), factors.w[relation], SCORERS[factors.scorer]
    scores = np.empty((E, E))
    for s in range(E):
        q = np.empty_like(a[s])
        scorer.query(K, a[s], w, q)
        scores[s] = a @ q
    return scores


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float32, 1e-4), (np.float64, 3e-7)])
@pytest.mark.parametrize("scorer", SCORERS)
def test_factors_score_as_their_dense_views_do(scorer, dtype, rtol):
    factors = make_factors(scorer, dtype)
    some = np.array([3, 0, 7, 3], dtype=np.int32)
    for relation in range(R):
        expected = dense_scores(factors, relation)
        by_subject, by_object = factors.object_scores(relation, some), factors.subject_scores(relation, some)
        assert by_subject.dtype == by_object.dtype == np.float32
        np.testing.assert_allclose(by_subject, expected[some], rtol=rtol, atol=1e-5)
        np.testing.assert_allclose(by_object, expected[:, some].T, rtol=rtol, atol=1e-5)


def test_view_is_the_consensus_plus_the_deviations():
    factors = make_factors()
    view = factors.view(0)
    untouched = [1, 2, 5, 6, 7]
    np.testing.assert_array_equal(view[untouched], factors.z[untouched])
    np.testing.assert_array_equal(view[[0, 3, 4, 8]], factors.z[[0, 3, 4, 8]] + factors.delta[:4])
    np.testing.assert_array_equal(factors.view(1), factors.z)


def test_consensus_is_the_same_for_every_relation_and_leaves_the_model_alone():
    factors = make_factors("identity")
    shared = factors.consensus()
    mean = np.mean([factors.view(relation) for relation in range(R)], axis=0)
    for relation in range(R):
        np.testing.assert_allclose(shared.view(relation), mean, rtol=1e-5, atol=1e-6)
    assert len(factors.delta_rows) == 4 + E


def test_no_subjects_no_rows_and_read_only_arrays():
    factors = make_factors()
    for array in factors.arrays().values():
        array.flags.writeable = False
    assert factors.object_scores(0, np.array([], np.int32)).shape == (0, E)
    scores = factors.object_scores(0, np.array([1], np.int32))
    scores[:] = 0  # the caller may mask what it was given


def with_intercepts(reciprocal):
    """Factors with every kind of intercept, for relations of their own and turned round."""
    rng, factors = np.random.default_rng(5), make_factors("complex")
    times = 2 if reciprocal else 1
    rows = np.tile(factors.delta_rows, times)
    indptr = factors.delta_indptr
    return replace(
        factors,
        shared="z",
        reciprocal=reciprocal,
        w=np.tile(factors.w, (times, 1)),
        delta_indptr=np.concatenate([indptr, indptr[-1] + indptr[1:]]) if reciprocal else indptr,
        delta_rows=rows,
        delta=rng.normal(size=(len(rows), K)),
        b=rng.normal(size=(E, 2)),
        delta_b=rng.normal(size=len(rows)),
        log_share=rng.normal(size=(E, 2)),
        beta=rng.normal(size=R * times),
    )


@pytest.mark.parametrize(
    "predictor",
    [
        *(make_factors(scorer) for scorer in SCORERS),
        with_intercepts(False),
        with_intercepts(True),
        with_intercepts(True).consensus(),
        Counts.from_triples(np.random.default_rng(0).integers(0, R, (20, 3)).astype(np.int32), E, R),
    ],
)
def test_pairs_are_scored_as_objects_are(predictor):
    subjects, objects = (x.ravel().astype(np.int32) for x in np.indices((E, E)))
    for relation in range(R):
        expected = predictor.object_scores(relation, np.arange(E, dtype=np.int32))
        found = predictor.pair_scores(relation, subjects, objects)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found.reshape(E, E), expected, rtol=1e-5, atol=1e-5)
        if isinstance(predictor, Factors):
            scores = predictor.relation_scores(subjects, objects)
            assert scores.shape == (E * E, R)
            np.testing.assert_array_equal(scores[:, relation], found)


def test_counts_rank_relations_by_their_triples():
    counts = Counts.from_triples(np.array([[0, 2, 1], [1, 2, 1], [2, 0, 0], [3, 1, 0]], np.int32), 4, 4)
    scores = counts.relation_scores(np.array([0, 3], np.int32), np.array([2, 2], np.int32))
    assert scores.tolist() == [[1, 1, 2, 0]] * 2
    earlier = {name: array for name, array in counts.arrays().items() if name != "relations"}
    with pytest.raises(SettingError, match="fit again"):
        Counts.from_arrays(earlier, {}).relation_scores(np.array([0], np.int32), np.array([0], np.int32))


def brute_force_ranks(triples, relation, side):
    """The rank of each entity's (count in the relation, overall count) among the sorted distinct ones."""
    column = 2 if side == "objects" else 0
    own = Counter(t[column] for t in triples if t[1] == relation)
    overall = Counter(t[column] for t in triples)
    keys = [(own[e], overall[e]) for e in range(E)]
    return [sorted(set(keys)).index(key) for key in keys]


TRIPLES = st.lists(
    st.tuples(st.integers(0, E - 1), st.integers(0, R - 1), st.integers(0, E - 1)), max_size=40
)


@given(TRIPLES)
@settings(deadline=None, derandomize=True)
def test_counts_order_as_a_sort_of_tuples(triples):
    array = np.array(triples, dtype=np.int32).reshape(-1, 3)
    counts = Counts.from_triples(array, E, R)
    some = np.array([2, 5], dtype=np.int32)
    for relation in range(R):
        for side, scores in (
            ("objects", counts.object_scores(relation, some)),
            ("subjects", counts.subject_scores(relation, some)),
        ):
            assert scores.shape == (2, E)
            assert scores.dtype == np.float32
            np.testing.assert_array_equal(scores[0], scores[1])
            assert (scores >= 0).all()
            assert (scores == np.round(scores)).all()
            dense = np.unique(scores[0], return_inverse=True)[1]
            assert dense.tolist() == brute_force_ranks(triples, relation, side)


def test_counts_have_no_consensus_and_hand_out_their_own_copies():
    counts = Counts.from_triples(np.array([[0, 0, 1], [2, 0, 1]], np.int32), 3, 1)
    with pytest.raises(SettingError, match="popularity has no consensus"):
        counts.consensus()
    counts.object_scores(0, np.array([0, 1], np.int32))[:] = -1
    assert counts.object_scores(0, np.array([0], np.int32)).tolist() == [[0, 2, 0]]


def make_counts():
    return Counts.from_triples(np.random.default_rng(0).integers(0, R, (20, 3)).astype(np.int32), E, R)


@pytest.mark.parametrize("predictor", [make_factors(), make_counts()], ids=lambda p: p.kind)
def test_arrays_and_settings_make_an_equal_predictor(predictor):
    cls = PREDICTORS[predictor.kind]
    copy = cls.from_arrays(predictor.arrays(), predictor.settings())
    assert isinstance(copy, type(predictor))
    assert copy.shape == (E, R)
    everyone = np.arange(E, dtype=np.int32)
    for relation in range(R):
        for side in ("object_scores", "subject_scores"):
            np.testing.assert_array_equal(
                getattr(copy, side)(relation, everyone), getattr(predictor, side)(relation, everyone)
            )


def swapped(array, i, value):
    copy = array.copy()
    copy[i] = value
    return copy


def spoilt_factors():
    a = make_factors().arrays()
    yield "missing array", {k: v for k, v in a.items() if k != "w"}, {}
    yield "additional array", {**a, "b": a["z"]}, {}
    yield "vector for matrix", {**a, "z": a["z"].ravel()}, {}
    yield "ints for floats", {**a, "z": a["z"].astype(int)}, {}
    yield "other scorer", a, {"scorer": "cubic"}
    yield "unhashable scorer", a, {"scorer": ["full"]}
    yield "other dim", a, {"dim": 5}
    yield "too few weights", {**a, "w": a["w"][:, :2]}, {}
    yield "too few relations", {**a, "w": a["w"][:2]}, {}
    yield "narrow delta", {**a, "delta": a["delta"][:, :2]}, {}
    yield "short delta", {**a, "delta": a["delta"][:-1]}, {}
    yield "indptr falls", {**a, "delta_indptr": swapped(a["delta_indptr"], 1, 9)}, {}
    yield "indptr begins late", {**a, "delta_indptr": swapped(a["delta_indptr"], 0, 1)}, {}
    yield "indptr ends early", {**a, "delta_indptr": swapped(a["delta_indptr"], 3, 12)}, {}
    yield "indptr empty", {**a, "delta_indptr": a["delta_indptr"][:0]}, {}
    yield "row too large", {**a, "delta_rows": swapped(a["delta_rows"], 3, E)}, {}
    yield "row negative", {**a, "delta_rows": swapped(a["delta_rows"], 0, -1)}, {}
    yield "row twice", {**a, "delta_rows": swapped(a["delta_rows"], 1, 0)}, {}


def spoilt_counts():
    a = make_counts().arrays()
    yield "settings", a, {"dim": 1}
    yield "fewer entities on one side", {**a, "subjects_overall": a["subjects_overall"][:-1]}, {}
    yield (
        "no bounds",
        {**a, "objects_indptr": a["objects_indptr"][:0], "subjects_indptr": a["subjects_indptr"][:0]},
        {},
    )
    yield "fewer relations counted", {**a, "relations": a["relations"][:-1]}, {}
    yield "fewer ranks", {**a, "objects_ranks": a["objects_ranks"][:-1]}, {}
    yield "row too large", {**a, "subjects_rows": a["subjects_rows"] + E}, {}


@pytest.mark.parametrize(
    ("predictor", "arrays", "changed"),
    [pytest.param(make_factors(), a, s, id=f"factors: {n}") for n, a, s in spoilt_factors()]
    + [pytest.param(make_counts(), a, s, id=f"counts: {n}") for n, a, s in spoilt_counts()],
)
def test_arrays_that_do_not_fit_together_are_refused(predictor, arrays, changed):
    with pytest.raises(ModelFileError):
        PREDICTORS[predictor.kind].from_arrays(arrays, predictor.settings() | changed)
