"""The planted graphs are what they say, so that what a method makes of them can be trusted."""

import numpy as np
import pytest

from consmrf.config import Config
from consmrf.evaluation.protocol import evaluate
from consmrf.fit import fit
from consmrf.graph.planted import conflicting_relations, shared_structure


@pytest.mark.parametrize("make", [shared_structure, conflicting_relations])
def test_facts_follow_the_groups_and_each_part_has_its_own(make):
    planted = make(3, entities=64, relations=4, groups=8, facts=2)
    parts = [planted.train, planted.valid, planted.test]
    assert [len(part) for part in parts] == [2 * 64 * 4, 64 * 4, 64 * 4]
    s, r, o = np.concatenate([part.triples for part in parts]).T
    np.testing.assert_array_equal(planted.groups[r, o], planted.groups[r, s] ^ planted.masks[r])
    assert len({part.vocabulary for part in parts}) == 1
    assert len(np.unique(np.stack([s, r, o]), axis=1).T) == len(s)
    again = make(3, entities=64, relations=4, groups=8, facts=2)
    assert again.train.triples.tobytes() == planted.train.triples.tobytes()
    assert make(4, entities=64, relations=4, groups=8, facts=2).train.triples.tobytes() != (
        planted.train.triples.tobytes()
    )


def test_relations_see_one_grouping_or_each_its_own():
    assert (shared_structure().groups == shared_structure().groups[0]).all()
    groups = conflicting_relations().groups
    assert all((groups[r] != groups[0]).mean() > 0.8 for r in range(1, len(groups)))


@pytest.mark.parametrize("make", [shared_structure, conflicting_relations])
def test_counting_says_nothing(make):
    planted = make()
    popular = fit(planted.train, config=Config(method="popularity"))
    figures = evaluate(popular.model, planted.test, known=[planted.valid]).to_dict()
    assert 0.4 < figures["objects"]["auc"] < 0.6
