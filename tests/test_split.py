"""Cutting: the shares are exact, the parts are the graph, and only seed and settings decide."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consmrf.errors import SettingError
from consmrf.graph.split import Split, folds, split
from consmrf.graph.triples import Graph, read_triples
from consmrf.graph.vocabulary import Vocabulary

names = st.integers(0, 12).map(str)
relations = st.sampled_from(["knows", "likes", "reads", "once"])
facts = st.lists(st.tuples(names, relations, names), min_size=6, max_size=80, unique=True)
shares = st.sampled_from([0.0, 0.1, 0.25, 0.5])
policies = st.sampled_from(["keep", "train"])

Row = tuple[str, str, str]


def parts(cut: Split) -> tuple[set[Row], set[Row], set[Row]]:
    a, b, c = (set(part.labelled()) for part in (cut.train, cut.valid, cut.test))
    return a, b, c


def lacking(train: Graph, part: Graph) -> int:
    """How many triples of `part` have a label that `train` lacks, the slow way."""
    entities = {x for s, _, o in train.labelled() for x in (s, o)}
    known = {r for _, r, _ in train.labelled()}
    return sum(s not in entities or o not in entities or r not in known for s, r, o in part.labelled())


@given(facts, shares, shares, st.integers(0, 5), st.booleans(), policies)
def test_parts_are_disjoint_and_together_the_graph(
    rows: list[Row], test: float, valid: float, seed: int, stratify: bool, unseen: str
) -> None:
    graph = read_triples(rows)
    cut = split(graph, test=test, valid=valid, seed=seed, stratify=stratify, unseen=unseen)
    a, b, c = parts(cut)
    assert a | b | c == set(rows)
    assert len(a) + len(b) + len(c) == len(rows)
    assert (cut.unseen_valid, cut.unseen_test) == (
        lacking(cut.train, cut.valid),
        lacking(cut.train, cut.test),
    )
    if unseen == "keep":
        tested = int(np.floor(len(rows) * test + 0.5))
        assert (len(c), cut.moved) == (tested, 0)
        assert len(b) == int(np.floor((len(rows) - tested) * valid + 0.5))
    else:
        assert cut.unseen_valid == cut.unseen_test == 0
        kept = split(graph, test=test, valid=valid, seed=seed, stratify=stratify)
        assert len(cut.train) == len(kept.train) + cut.moved
        assert set(kept.train.labelled()) <= a
        assert cut.moved <= kept.unseen_valid + kept.unseen_test


@given(facts, st.integers(0, 3), st.booleans(), policies, st.randoms(use_true_random=False))
def test_the_order_of_lines_and_ids_changes_nothing(
    rows: list[Row], seed: int, stratify: bool, unseen: str, random: object
) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    plain = read_triples(rows)
    entities = tuple(reversed(plain.vocabulary.entities))  # a vocabulary that grew is not sorted
    vocabulary = Vocabulary(entities, plain.vocabulary.relations)
    grown = Graph(vocabulary, read_triples(shuffled).encode(vocabulary).triples[::-1])
    one, two = (
        split(g, test=0.2, valid=0.2, seed=seed, stratify=stratify, unseen=unseen) for g in (plain, grown)
    )
    assert (one.train, one.valid, one.test) == (two.train, two.valid, two.test)


@given(facts, st.integers(2, 6), st.booleans(), st.integers(0, 3))
def test_folds_test_every_triple_once(rows: list[Row], k: int, stratify: bool, seed: int) -> None:
    graph = read_triples(rows)
    cuts = list(folds(graph, k, seed=seed, stratify=stratify))
    assert len(cuts) == k
    tested = Counter(row for cut in cuts for row in cut.test.labelled())
    assert tested == Counter(rows)
    assert {len(cut.test) for cut in cuts} <= {len(rows) // k, -(-len(rows) // k)}
    for cut in cuts:
        assert set().union(*parts(cut)) == set(rows)
    if stratify:
        for relation, n in Counter(r for _, r, _ in rows).items():
            each = [sum(r == relation for _, r, _ in cut.test.labelled()) for cut in cuts]
            assert set(each) <= {n // k, -(-n // k)}


@given(facts, st.sampled_from([0.1, 0.3, 0.5]), st.integers(0, 3))
def test_stratified_shares_hold_in_each_relation_to_within_one(
    rows: list[Row], share: float, seed: int
) -> None:
    cut = split(read_triples(rows), test=share, valid=0, seed=seed, stratify=True)
    drawn = Counter(r for _, r, _ in cut.test.labelled())
    for relation, n in Counter(r for _, r, _ in rows).items():
        assert abs(drawn[relation] - n * share) <= 1


@pytest.mark.parametrize("stratify", [False, True])
def test_the_papers_split(stratify: bool) -> None:
    rows = [(str(s), str(r), str(o)) for s, r, o in product(range(20), range(5), range(10))]
    cut = split(read_triples(rows), stratify=stratify)
    assert (len(cut.test), len(cut.valid), len(cut.train)) == (100, 90, 810)
    again = split(read_triples(rows), stratify=stratify)
    assert parts(cut) == parts(again)
    assert parts(cut) != parts(split(read_triples(rows), stratify=stratify, seed=1))
    assert "810 training, 90 validation, 100 test triples" in cut.describe()


def test_every_triple_is_as_likely_to_be_drawn() -> None:
    graph = read_triples([(str(s), "r" if s % 3 else "q", str(o)) for s, o in product(range(6), range(5))])
    for stratify in (False, True):
        drawn = Counter(
            row
            for seed in range(600)
            for row in split(graph, test=0.3, seed=seed, stratify=stratify).test.labelled()
        )
        assert len(drawn) == 30
        assert max(abs(n - 180) for n in drawn.values()) < 5 * np.sqrt(600 * 0.3 * 0.7)


def test_training_knows_only_its_own_labels() -> None:
    rows = [("a", "r", "b"), ("b", "r", "c"), ("c", "r", "a"), ("lonely", "rare", "single")]
    seen = set()
    for seed in range(20):
        cut = split(read_triples(rows), test=0.25, valid=0, seed=seed)
        if cut.unseen_test:
            assert "lonely" not in cut.train.vocabulary.entities
            assert cut.train.vocabulary == read_triples(cut.train.labelled()).vocabulary
            moved = split(read_triples(rows), test=0.25, valid=0, seed=seed, unseen="train")
            assert (moved.moved, len(moved.test)) == (1, 0)
            seen.add(seed)
    assert seen


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"test": 1.0}, "test = 1.0: must be a share"),
        ({"test": -0.1}, "test = -0.1"),
        ({"valid": float("nan")}, "valid = nan"),
        ({"valid": "a"}, "valid = 'a'"),
        ({"test": True}, "test = True"),
        ({"unseen": "drop"}, "unseen = 'drop': must be 'keep' or 'train'"),
        ({"seed": -1}, "seed = -1"),
        ({"test": 0.9, "valid": 0.9}, "no triple of 2 is left for training"),
    ],
)
def test_settings_out_of_range(options: dict[str, object], says: str) -> None:
    graph = read_triples([("a", "r", "b"), ("b", "r", "c")])
    with pytest.raises(SettingError, match=says):
        split(graph, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("k", [0, 1, 3, 2.0, True])
def test_folds_out_of_range_at_once(k: int) -> None:
    with pytest.raises(SettingError, match="must be a whole number from 2"):
        folds(read_triples([("a", "r", "b"), ("b", "r", "c")]), k)


def test_a_graph_without_triples() -> None:
    with pytest.raises(SettingError, match="no triples to split"):
        split(Graph(Vocabulary((), ()), np.empty((0, 3), np.int32)))
