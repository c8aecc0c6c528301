"""Samples of triples: what they stand for, by counting; unbiased means and covering intervals, by drawing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consmrf.errors import InputError, SettingError
from consmrf.evaluation.metrics import QUERY_METRICS
from consmrf.evaluation.protocol import EvaluationOptions, evaluate
from consmrf.evaluation.ranking import ValidationScore, distinct
from consmrf.evaluation.strata import allocate, spaced, spaced_error, stratified
from consmrf.predictors import Factors
from table_model import TableModel, graph_of, ids, vocabulary
from test_tiles import make_factors

N, R = 60, 4


@given(st.lists(st.integers(1, 400), min_size=1, max_size=30), st.data())
def test_draws_are_shared_out_in_proportion(sizes: list[int], data: st.DataObject) -> None:
    whole = np.array(sizes)
    least = np.minimum(whole, 2)
    count = data.draw(st.integers(int(least.sum()), int(whole.sum())))
    drawn = allocate(whole, count)
    assert drawn.sum() == count
    assert (least <= drawn).all()
    assert (drawn <= whole).all()
    exact = least + (whole - least) * (count - least.sum()) / max((whole - least).sum(), 1)
    assert (np.abs(drawn - exact) < 1).all()


def test_too_few_draws_are_refused_with_the_number_it_takes() -> None:
    with pytest.raises(InputError, match=r"sample = 4: must be at least 5, 2 test triples of each of 3"):
        allocate(np.array([7, 1, 9]), 4)


def test_what_is_drawn_stands_for_all() -> None:
    relation = np.repeat([0, 3, 4, 9], [50, 1, 2, 300]).astype(np.int32)
    rows, stands_for = stratified(relation, 60, seed=1)
    assert len(set(rows.tolist())) == 60
    assert (np.diff(rows) > 0).all()
    for r in (0, 3, 4, 9):
        assert stands_for[relation[rows] == r].sum() == pytest.approx((relation == r).sum())
    again, other = stratified(relation, 60, seed=1)[0], stratified(relation, 60, seed=2)[0]
    assert (again == rows).all()
    assert (other != rows).any()


def test_every_row_is_as_likely_as_any_other() -> None:
    relation = np.repeat([0, 1, 2], [3, 40, 57]).astype(np.int32)
    seen, draws = np.zeros(100), 2000
    for seed in range(draws):
        rows = spaced(relation, 13, seed)
        assert len(set(rows.tolist())) == 13
        per_relation = np.bincount(relation[rows], minlength=3)
        assert (np.abs(per_relation - np.array([3, 40, 57]) * 0.13) < 1).all()
        seen[rows] += 1
    spread = draws * 0.13 * 0.87
    assert (np.abs(seen - draws * 0.13) < 4.5 * np.sqrt(spread)).all()


def test_the_error_of_a_spaced_sample_is_that_of_its_means() -> None:
    rng = np.random.default_rng(0)
    relation = np.sort(rng.integers(0, 20, 3000)).astype(np.int32)
    values = rng.random(3000) + relation / 10
    rows = [spaced(relation, 150, seed) for seed in range(600)]
    means = np.array([values[own].mean() for own in rows])
    errors = np.array([spaced_error(values[own], 3000) for own in rows])
    assert means.mean() == pytest.approx(values.mean(), abs=4 * means.std() / np.sqrt(600))
    assert np.sqrt((errors**2).mean()) == pytest.approx(means.std(), rel=0.12)
    assert means.std() < 0.7 * values.std() / np.sqrt(150)  # what following the relations gains


# -- whole evaluations


def uneven() -> tuple[TableModel, np.ndarray]:
    """Relations of very different sizes, the larger the better ranked."""
    rng = np.random.default_rng(5)
    table = rng.random((R, N, N))
    triples = [(s, r, o) for r, size in enumerate((3, 12, 80, 300)) for s, o in rng.integers(0, N, (size, 2))]
    test = distinct(ids(triples))
    for s, r, o in test.tolist():
        table[r, s, o] = 1 - (1 - table[r, s, o]) / (1 + 4 * r * rng.random())
    return TableModel(table), test


def test_means_over_samples_are_those_over_all_and_intervals_cover() -> None:
    model, test = uneven()
    whole = evaluate(model, graph_of(model, test), options=EvaluationOptions(bootstrap=0))
    metrics = ("mrr", "hits@3", "mr", "auc", "amri")
    found = [
        evaluate(
            model, graph_of(model, test), options=EvaluationOptions(sample=90, seed=seed, confidence=0.95)
        )
        for seed in range(250)
    ]
    for view in ("both", "subjects"):
        for metric in metrics:
            exact = whole.micro[view][metric]
            drawn = np.array([one.micro[view][metric] for one in found])
            assert drawn.mean() == pytest.approx(exact, abs=4 * drawn.std() / np.sqrt(len(drawn)))
            spans = np.array([one.intervals[view][metric] for one in found])
            covered = (spans[:, 0] <= exact) & (exact <= spans[:, 1])
            assert 0.9 <= covered.mean() <= 0.99
            macro = np.array([one.macro[view][metric] for one in found])
            if metric != "amri":  # a quotient, whose mean is not that of its parts
                error = 4 * macro.std() / np.sqrt(len(macro))
                assert macro.mean() == pytest.approx(whole.macro[view][metric], abs=error)


def test_a_sample_keeps_the_ranks_that_all_would_have() -> None:
    model, test = uneven()
    whole = evaluate(model, graph_of(model, test)).ranks
    drawn = evaluate(model, graph_of(model, test), options=EvaluationOptions(sample=90))
    exact = {
        key: bounds
        for *key_parts, low, high in zip(
            whole.s.tolist(),
            whole.r.tolist(),
            whole.o.tolist(),
            whole.side.tolist(),
            whole.lower.tolist(),
            whole.upper.tolist(),
            strict=True,
        )
        for key, bounds in [(tuple(key_parts), (low, high))]
    }
    own = drawn.ranks
    for s, r, o, side, low, high in zip(
        own.s.tolist(),
        own.r.tolist(),
        own.o.tolist(),
        own.side.tolist(),
        own.lower.tolist(),
        own.upper.tolist(),
        strict=True,
    ):
        assert exact[s, r, o, side] == (low, high)
    assert drawn.triples["scored"] == 90
    assert drawn.triples["drawn_from"] == len(test)
    assert set(drawn.relations) == {"r0000", "r0001", "r0002", "r0003"}
    assert not set(QUERY_METRICS) & set(drawn.summary())


def test_a_sample_without_spread_is_not_sure_of_it() -> None:
    """Nobody is first among the drawn: that does not make Hits@1 of all the others 0."""
    model, test = uneven()
    model.table[:] = 0
    found = evaluate(model, graph_of(model, test), options=EvaluationOptions(sample=90, confidence=0.95))
    assert found.micro["both"]["hits@1"] == 0
    low, high = found.intervals["both"]["hits@1"]
    assert low == 0
    assert 0.02 < high < 0.06  # Wilson's for none of 90


def test_a_sample_as_large_as_the_test_is_the_test() -> None:
    model, test = uneven()
    options = EvaluationOptions(sample=len(test), bootstrap=0)
    drawn = evaluate(model, graph_of(model, test), options=options).to_dict()
    whole = evaluate(model, graph_of(model, test), options=EvaluationOptions(bootstrap=0)).to_dict()
    assert {**drawn, "options": 0} == {**whole, "options": 0}


# -- drawn candidates


def with_vocabulary(factors: Factors) -> TableModel:
    """The factors as a model without training triples."""
    from consmrf.model import Model

    n, relations = factors.shape
    return Model(vocabulary(n, relations), ids([]), factors)  # type: ignore[return-value]


@pytest.mark.parametrize("kind", ["table", "factors"])
def test_drawn_candidates_tell_the_auc_and_nothing_else(kind: str) -> None:
    model, test = uneven()
    if kind == "factors":
        model, test = with_vocabulary(make_factors(3, "complex", n=N, reciprocal=True)), test
    whole = evaluate(model, graph_of(model, test), options=EvaluationOptions(bootstrap=0))
    found = [
        evaluate(
            model, graph_of(model, test), options=EvaluationOptions(auc_candidates=5, seed=seed, bootstrap=0)
        )
        for seed in range(60)
    ]
    assert set(found[0].summary()) == {"auc", "count"}
    assert set(found[0].ranks.candidates.tolist()) == {6}
    for view in whole.micro:
        drawn = np.array([one.micro[view]["auc"] for one in found])
        error = 4 * drawn.std() / np.sqrt(len(drawn))
        assert 0 < error < 0.02
        assert drawn.mean() == pytest.approx(whole.micro[view]["auc"], abs=error)
    everything = EvaluationOptions(auc_candidates=N, bootstrap=0)
    all_drawn = evaluate(model, graph_of(model, test), options=everything)
    np.testing.assert_array_equal(all_drawn.ranks.lower, whole.ranks.lower)
    np.testing.assert_array_equal(all_drawn.ranks.upper, whole.ranks.upper)


@pytest.mark.parametrize(
    ("settings", "protocol", "says"),
    [
        ({"sample": 5}, "paper", "sample = 5: is of the full protocol"),
        ({"auc_candidates": 5}, "paper", "auc_candidates = 5: is of the full protocol"),
        ({"sample": 5, "unseen": "worst"}, "full", "sample = 5: with unseen = 'worst'"),
        ({"auc_candidates": 5, "sides": ("objects", "relations")}, "full", "leave relations out"),
    ],
)
def test_samples_that_have_no_meaning_are_refused(settings: dict, protocol: str, says: str) -> None:
    model, test = uneven()
    with pytest.raises(SettingError, match=says):
        evaluate(model, graph_of(model, test), protocol=protocol, options=EvaluationOptions(**settings))


@pytest.mark.parametrize("name", ["sample", "auc_candidates", "threads"])
def test_numbers_out_of_range(name: str) -> None:
    for value in (0, 1.5, True):
        with pytest.raises(SettingError, match=f"{name} = {value}: must be a whole number from 1"):
            EvaluationOptions(**{name: value})


def test_the_validation_score_tells_its_error() -> None:
    model, test = uneven()
    exact = ValidationScore(test, ids([]), N)
    assert exact.measure(model) == (exact(model), 0.0)
    drawn = [ValidationScore(test, ids([]), N, limit=120, seed=seed).measure(model) for seed in range(200)]
    means, errors = np.array(drawn).T
    assert means.mean() == pytest.approx(exact(model), abs=4 * means.std() / np.sqrt(200))
    assert np.sqrt((errors**2).mean()) == pytest.approx(means.std(), rel=0.2)
