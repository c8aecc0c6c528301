"""Labels and ids, both ways, and what is said about a label nobody knows."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consmrf.errors import UnknownLabelError
from consmrf.graph.triples import read_triples
from consmrf.graph.vocabulary import Vocabulary

text = st.text(st.characters(exclude_categories=("Cs",)), min_size=1)


@given(st.lists(text), st.lists(text))
def test_labels_and_ids_are_inverse_and_sorted_by_code_point(
    entities: list[str], relations: list[str]
) -> None:
    v = Vocabulary.of(entities, relations)
    assert list(v.entities) == sorted(set(entities))
    assert list(v.relations) == sorted(set(relations))
    assert [v.entity(x) for x in v.entities] == list(range(len(v.entities)))
    assert [v.relation(x) for x in v.relations] == list(range(len(v.relations)))


@given(st.lists(text, min_size=1))
def test_a_read_graph_sorts_in_the_same_way(labels: list[str]) -> None:
    assert read_triples([(x, "r", x) for x in labels]).vocabulary == Vocabulary.of(labels, ["r"])


def test_labels_that_differ_are_never_made_equal() -> None:
    labels = ["a", "A", "a ", " a", "å", "a\u030a", "\u212b", "a\u200b"]
    assert len(Vocabulary.of(labels, []).entities) == len(labels)


@pytest.mark.parametrize(
    ("label", "near"),
    [("abba", "'ABBA'"), ("ABAB", "'ABBA'"), ("Disco", "'Disco_music'"), ("disco_musik", "'Disco_music'")],
)
def test_an_unknown_label_names_the_nearest(label: str, near: str) -> None:
    v = Vocabulary.of(["ABBA", "Disco_music", "Zebra"], ["genre"])
    with pytest.raises(UnknownLabelError) as caught:
        v.entity(label)
    assert str(caught.value).startswith(f"unknown entity {label!r}: it does not occur")
    assert near in str(caught.value)
    assert "Zebra" not in str(caught.value)
    assert isinstance(caught.value, KeyError)


COMPOSED, DECOMPOSED = "caf\u00e9", "cafe\u0301"


@pytest.mark.parametrize(("known", "asked"), [(COMPOSED, DECOMPOSED), (DECOMPOSED, COMPOSED)])
def test_labels_that_only_look_alike_are_spelt_out(known: str, asked: str) -> None:
    with pytest.raises(UnknownLabelError) as caught:
        Vocabulary.of([known, "Zoë"], []).entity(asked)
    assert f"unknown entity {asked!a}: " in str(caught.value)
    assert str(caught.value).endswith(f"the nearest known: {known!a}")


def test_hints_that_look_alike_are_spelt_out_and_others_are_not() -> None:
    with pytest.raises(UnknownLabelError) as caught:
        Vocabulary.of([COMPOSED, DECOMPOSED, "cafés"], []).entity("caf")
    assert "unknown entity 'caf': " in str(caught.value)
    for shown in (ascii(COMPOSED), ascii(DECOMPOSED), "'cafés'"):
        assert shown in str(caught.value)


@pytest.mark.parametrize(("known", "asked"), [("é" * 4, "e\u0301" * 4), ("\uac01", "\u1100\u1161\u11a8")])
def test_a_twin_is_named_however_few_characters_it_shares(known: str, asked: str) -> None:
    with pytest.raises(UnknownLabelError, match="nearest known") as caught:
        Vocabulary.of([known, "Zoë"], []).entity(asked)
    assert ascii(known) in str(caught.value)


@pytest.mark.parametrize("label", ["qqqqqq", "", None, 3, ["ABBA"]])
def test_what_resembles_nothing_gets_no_hint(label: object) -> None:
    v = Vocabulary.of(["ABBA"], ["genre"])
    with pytest.raises(UnknownLabelError, match="unknown relation") as caught:
        v.relation(label)  # type: ignore[arg-type]
    assert "nearest" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_vocabulary_is_frozen_and_compares_by_its_labels() -> None:
    v = Vocabulary.of(["a"], ["r"])
    assert v == Vocabulary(("a",), ("r",))
    assert hash(v) == hash(Vocabulary(("a",), ("r",)))
    with pytest.raises(FrozenInstanceError):
        v.entities = ()  # type: ignore[misc]
