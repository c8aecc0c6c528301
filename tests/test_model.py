"""The model: rankings against brute force, and what it says of wrong questions."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consmrf.config import Config
from consmrf.errors import SettingError, UnknownLabelError
from consmrf.graph.vocabulary import Vocabulary
from consmrf.model import Answer, Model
from consmrf.predictors import Counts, Factors

E, R, K = 7, 2, 3
ENTITIES = ("ABBA", "Air", "Disco", "Ünïted ☂", "a b", "日本", "東京")
RELATIONS = ("genre", "plays with")


def make_model(kind="factors", seed=0, n=12):
    rng = np.random.default_rng(seed)
    triples = rng.integers(0, [E, R, E], (n, 3)).astype(np.int32)
    if kind == "counts":
        predictor = Counts.from_triples(triples, E, R)
    else:
        rows = np.array([0, 2, 5, 1, 6], np.int32)
        z, w, delta = (rng.normal(size=shape).astype(np.float32) for shape in ((E, K), (R, K), (5, K)))
        predictor = Factors("diagonal", z, w, np.array([0, 3, 5]), rows, delta)
    return Model(Vocabulary(ENTITIES, RELATIONS), triples, predictor, Config(dim=K), {"command": "fit x.tsv"})


BOTH = pytest.mark.parametrize("kind", ["factors", "counts"])


def brute_force(model, side, relation, label, known):
    """Every answer, sorted by falling score and then by id."""
    r, g = RELATIONS.index(relation), ENTITIES.index(label)
    facts = {tuple(t) for t in model.known.tolist()}
    if side == "objects":
        scores = model.score_objects(label, relation).tolist()
        is_known = [(g, r, i) in facts for i in range(E)]
    else:
        scores = model.score_subjects(relation, label).tolist()
        is_known = [(i, r, g) in facts for i in range(E)]
    order = sorted(range(E), key=lambda i: (-scores[i], i))
    return [
        Answer(ENTITIES[i], scores[i], is_known[i]) for i in order if known == "include" or not is_known[i]
    ]


@pytest.mark.parametrize("known", ["exclude", "include"])
@BOTH
def test_relations_between_two_entities_are_ranked(kind, known):
    model = make_model(kind, n=30)
    facts = {tuple(t) for t in model.known.tolist()}
    for s, subject in enumerate(ENTITIES):
        for o, obj in enumerate(ENTITIES):
            scores = model.score_relations(subject, obj)
            if kind == "factors":
                each = [model.score(subject, r, obj) for r in RELATIONS]
                np.testing.assert_allclose(scores, each, rtol=1e-5, atol=1e-6)
            order = sorted(range(R), key=lambda r: (-scores[r], r))
            told = [Answer(RELATIONS[r], float(scores[r]), (s, r, o) in facts) for r in order]
            expected = [answer for answer in told if known == "include" or not answer.known]
            assert model.relations_between(subject, obj, known=known) == expected


@pytest.mark.parametrize("known", ["exclude", "include"])
@BOTH
def test_rankings_equal_brute_force(kind, known):
    model = make_model(kind)
    for relation in RELATIONS:
        for label in ENTITIES:
            objects = brute_force(model, "objects", relation, label, known)
            subjects = brute_force(model, "subjects", relation, label, known)
            for top in (1, 3, E, 100):
                assert model.objects(label, relation, top=top, known=known) == objects[:top]
                assert model.subjects(relation, label, top=top, known=known) == subjects[:top]


class Given:
    """A predictor that scores as it is told."""

    kind = "given"

    def __init__(self, scores):
        self.scores = np.array([scores], np.float32)

    def object_scores(self, relation, subjects):
        return self.scores[:, :] if relation >= 0 and len(subjects) else self.scores[:0]


@given(st.lists(st.integers(-2, 2), min_size=1, max_size=12), st.integers(1, 14))
@settings(deadline=None, derandomize=True)
def test_equal_scores_are_ranked_by_id(scores, top):
    labels = tuple(f"e{i:02}" for i in range(len(scores)))
    model = Model(Vocabulary(labels, ("r",)), np.empty((0, 3), np.int32), Given(scores))
    expected = sorted(range(len(scores)), key=lambda i: (-scores[i], i))[:top]
    assert [a.label for a in model.objects("e00", "r", top=top)] == [labels[i] for i in expected]


def test_the_score_of_a_fact_is_that_of_its_object_among_all_and_of_its_subject():
    model = make_model()
    for s in ENTITIES:
        for i, o in enumerate(ENTITIES):
            assert model.score(s, "genre", o) == model.score_objects(s, "genre")[i]
            backwards = model.score_subjects("genre", o)[ENTITIES.index(s)]
            assert model.score(s, "genre", o) == pytest.approx(backwards, rel=1e-5, abs=1e-6)


def test_answers_hold_plain_values():
    answer = make_model().objects("ABBA", "genre", top=1, known="include")[0]
    assert [type(x) for x in answer] == [str, float, bool]


def test_where_everything_is_known_nothing_is_left():
    everything = np.array([(s, r, o) for s in range(E) for r in range(R) for o in range(E)], np.int32)
    model = Model(Vocabulary(ENTITIES, RELATIONS), everything, make_model().predictor)
    assert model.objects("ABBA", "genre") == model.subjects("genre", "ABBA") == []
    assert len(model.objects("ABBA", "genre", known="include")) == E


def test_known_facts_of_one_side_are_not_those_of_the_other():
    model = Model(Vocabulary(ENTITIES, RELATIONS), np.array([[0, 1, 2]], np.int32), make_model().predictor)
    left_out = {
        label: set(ENTITIES) - {a.label for a in model.objects(label, "plays with")} for label in ENTITIES
    }
    assert left_out == {label: {"Disco"} if label == "ABBA" else set() for label in ENTITIES}
    assert "ABBA" not in {a.label for a in model.subjects("plays with", "Disco")}
    assert len(model.objects("ABBA", "genre")) == len(model.subjects("plays with", "ABBA")) == E


def test_views():
    model = make_model()
    z, w = model.predictor.consensus().z, model.predictor.w
    np.testing.assert_allclose(
        model.score_objects("ABBA", "genre", view="consensus"), z @ (z[0] * w[0]), rtol=1e-5
    )
    np.testing.assert_allclose(
        model.score_subjects("genre", "Air", view="consensus"), z @ (z[1] * w[0]), rtol=1e-5
    )
    target = model.score_objects("ABBA", "genre")
    assert not np.allclose(target, model.score_objects("ABBA", "genre", view="consensus"))
    np.testing.assert_array_equal(target, model.score_objects("ABBA", "genre", view="target"))
    assert model.score("ABBA", "genre", "Air", view="consensus") == pytest.approx(
        z[1] @ (z[0] * w[0]), rel=1e-5
    )
    best = max(zip(model.score_objects("ABBA", "genre", view="consensus"), ENTITIES, strict=True))
    answers = model.objects("ABBA", "genre", top=1, known="include", view="consensus")
    assert answers[0][:2] == (best[1], float(best[0]))


def test_blocks_are_the_rows_of_single_questions():
    model = make_model()
    ids = np.arange(E, dtype=np.int32)
    for r, relation in enumerate(RELATIONS):
        rows = np.stack([model.score_objects(s, relation) for s in ENTITIES])
        np.testing.assert_allclose(model.object_scores(r, ids), rows, rtol=1e-5, atol=1e-6)
        rows = np.stack([model.score_subjects(relation, o) for o in ENTITIES])
        np.testing.assert_allclose(model.subject_scores(r, ids), rows, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(
            model.subject_scores(r, ids), model.object_scores(r, ids).T, rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize("top", [0, -1, 1.5, "3", None, True, float("nan")])
def test_top_must_be_a_whole_number(top):
    with pytest.raises(SettingError, match="top = "):
        make_model().objects("ABBA", "genre", top=top)


def test_wrong_choices_are_named():
    model = make_model()
    with pytest.raises(SettingError, match="known = 'no': must be one of exclude, include"):
        model.subjects("genre", "ABBA", known="no")
    with pytest.raises(SettingError, match="view = 'mine': must be one of target, consensus"):
        model.score_objects("ABBA", "genre", view="mine")
    with pytest.raises(SettingError, match="popularity has no consensus"):
        make_model("counts").objects("ABBA", "genre", view="consensus")


def test_unknown_labels_name_the_nearest():
    model = make_model()
    for ask in (
        lambda: model.objects("Abba", "genre"),
        lambda: model.subjects("genre", "abba"),
        lambda: model.score("ABBA", "genre", "AbbA"),
    ):
        with pytest.raises(UnknownLabelError, match="nearest known: 'ABBA'"):
            ask()
    with pytest.raises(UnknownLabelError, match=r"unknown relation 'genres'.*'genre'"):
        model.score_objects("ABBA", "genres")


def test_repr_tells_what_it_is():
    assert repr(make_model()) == "Model(7 entities, 2 relations, kind='factors', scorer='diagonal', dim=3)"
    assert repr(make_model("counts")) == "Model(7 entities, 2 relations, kind='counts')"


def test_a_model_needs_no_compiler_no_frames_and_no_pictures():
    code = (
        "import sys, consmrf.model;"
        "sys.exit(str({'numba', 'polars', 'matplotlib', 'pyoxigraph', 'rich'} & set(sys.modules) or ''))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.stderr.strip() == ""
