"""Categories of relations: against a count by hand, and on relations whose kind is plain to see."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consmrf.graph.categories import CATEGORIES, MANY, cardinality

TRIPLES = st.sets(st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(0, 5)), max_size=40)


def ids(triples) -> np.ndarray:
    return np.array(sorted(triples), dtype=np.int32).reshape(-1, 3)


@given(TRIPLES)
def test_the_counts_are_those_of_a_count_by_hand(triples) -> None:
    found = cardinality(ids(triples), 4)
    for r in range(4):
        objects, subjects = defaultdict(set), defaultdict(set)
        for s, q, o in triples:
            if q == r:
                objects[s].add(o)
                subjects[o].add(s)
        assert found.triples[r] == sum(map(len, objects.values()))
        assert (found.subjects[r], found.objects[r]) == (len(objects), len(subjects))
        if not objects:
            assert math.isnan(found.objects_per_subject[r])
            assert math.isnan(found.subjects_per_object[r])
            assert found.category[r] == -1
            continue
        per_subject = sum(map(len, objects.values())) / len(objects)
        per_object = sum(map(len, subjects.values())) / len(subjects)
        assert found.objects_per_subject[r] == per_subject
        assert found.subjects_per_object[r] == per_object
        name = f"{'n' if per_object >= MANY else '1'}-{'n' if per_subject >= MANY else '1'}"
        assert CATEGORIES[found.category[r]] == name


@pytest.mark.parametrize(
    ("triples", "category"),
    [
        ([(i, 0, i + 10) for i in range(10)], "1-1"),
        ([(i // 5, 0, i + 10) for i in range(10)], "1-n"),  # mother of
        ([(i, 0, 20 + i // 5) for i in range(10)], "n-1"),  # born in
        ([(i, 0, 10 + j) for i in range(3) for j in range(3)], "n-n"),
        ([(0, 0, 1), (0, 0, 2), (3, 0, 4)], "1-n"),  # a mean of exactly MANY is many
        ([(0, 0, 1), (0, 0, 2), (3, 0, 4), (5, 0, 6)], "1-1"),
    ],
)
def test_a_plain_relation_has_its_category(triples, category: str) -> None:
    assert CATEGORIES[cardinality(ids(triples), 1).category[0]] == category
