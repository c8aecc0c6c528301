"""Popularity against counting with counters."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consmrf.baselines.popularity import popularity
from consmrf.config import Config
from consmrf.evaluation.protocol import evaluate
from consmrf.graph.triples import Graph
from consmrf.model import Model
from table_model import ids, vocabulary

N_ENTITIES, N_RELATIONS = 5, 3
TRIPLES = st.sets(st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(0, 4)), min_size=1, max_size=30)
CONFIG = Config(method="popularity")


def fitted(triples: set[tuple[int, int, int]]) -> Model:
    return popularity(Graph(vocabulary(N_ENTITIES, N_RELATIONS), ids(triples)), CONFIG)


@given(triples=TRIPLES)
def test_orders_by_count_in_the_relation_then_overall(triples: set[tuple[int, int, int]]) -> None:
    model = fitted(triples)
    anyone = np.arange(N_ENTITIES, dtype=np.int32)
    for r in range(N_RELATIONS):
        for end, scores in ((2, model.object_scores(r, anyone)), (0, model.subject_scores(r, anyone))):
            here = Counter(t[end] for t in triples if t[1] == r)
            everywhere = Counter(t[end] for t in triples)
            assert scores.shape == (N_ENTITIES, N_ENTITIES)
            assert (scores == scores[0]).all()  # whoever asks
            keys = [(here[e], everywhere[e]) for e in range(N_ENTITIES)]
            for a in range(N_ENTITIES):
                for b in range(N_ENTITIES):
                    assert (scores[0, a] > scores[0, b]) == (keys[a] > keys[b])
                    assert (scores[0, a] == scores[0, b]) == (keys[a] == keys[b])


def test_hands_on_a_model_like_any_other() -> None:
    model = fitted({(0, 0, 1), (2, 0, 1), (3, 0, 4), (0, 1, 2)})
    assert model.config == CONFIG
    assert model.predictor.kind == "counts"
    assert model.known.tolist() == [[0, 0, 1], [0, 1, 2], [2, 0, 1], [3, 0, 4]]
    assert [answer.label for answer in model.objects("e000003", "r0000", top=2)] == ["e000001", "e000002"]


def test_goes_through_evaluation() -> None:
    model = fitted({(0, 0, 1), (2, 0, 1), (3, 0, 4), (0, 1, 2)})
    test = Graph(model.vocabulary, ids([(3, 0, 1)]))
    found = evaluate(model, test)
    # e1 is the most popular object; its subjects e0 and e2 are known, e3 is the only other
    assert found.micro["objects"]["mrr"] == 1
    assert found.micro["subjects"]["mrr"] == 1
    assert found.ranks.candidates.tolist() == [4, 3]
    assert evaluate(model, test, protocol="paper").micro["objects"]["auc"] == pytest.approx(1)
