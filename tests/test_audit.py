"""The audit: against counts by hand on small graphs, on planted structure, on what datasets are known for."""

from __future__ import annotations

import re
import tracemalloc
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consmrf import (
    AuditOptions,
    Graph,
    InputError,
    SettingError,
    Vocabulary,
    audit,
    read_triples,
    without_leaks,
)
from consmrf.evaluation.audit import pairs as pairs_module
from consmrf.evaluation.audit.pairs import Pairs
from consmrf.evaluation.audit.profile import QUANTILES, components, supernodes, unevenness

ENTITIES, RELATIONS = "abcdef", "pqr"
TRIPLES = st.sets(
    st.tuples(st.sampled_from(ENTITIES), st.sampled_from(RELATIONS), st.sampled_from(ENTITIES)), min_size=1
)
SHARES = st.sampled_from([0.3, 0.5, 2 / 3, 0.8, 1.0])


def graph(triples) -> Graph:
    return read_triples(sorted(triples))


# -- counts by hand


def by_relation(triples) -> dict[str, set[tuple[str, str]]]:
    found = defaultdict(set)
    for s, r, o in triples:
        found[r].add((s, o))
    return dict(found)


def turned(pairs) -> set[tuple[str, str]]:
    return {(o, s) for s, o in pairs}


def proper(pairs) -> set[tuple[str, str]]:
    return {(s, o) for s, o in pairs if s != o}


def confidence(body, head, reverse: bool) -> tuple[int, float]:
    """How many facts of body are facts of head, and what share that is."""
    body = proper(body) if reverse else body
    shared = len(body & turned(head) if reverse else body & head)
    return shared, shared / len(body) if body else 0.0


def rules_by_hand(facts, options: AuditOptions) -> dict[tuple[str, str, bool], str]:
    """Name every rule (body, head, reversed) that the facts bear out."""
    rules = {}
    for p, body in facts.items():
        for q, head in facts.items():
            for reverse in (False, True):
                if p == q and not reverse:
                    continue
                shared, share = confidence(body, head, reverse)
                back = confidence(head, body, reverse)[1]
                if shared < options.least or share < (options.symmetric if p == q else options.share):
                    continue
                both = "" if back >= options.share else "contained"
                way = "inverse" if reverse else "duplicate"
                if p == q:
                    rules[p, q, reverse] = "symmetric"
                elif both:
                    rules[p, q, reverse] = "inverse contained" if reverse else "contained"
                else:
                    rules[p, q, reverse] = way
    return rules


def cartesian_by_hand(facts, options: AuditOptions) -> set[str]:
    found = set()
    for r, pairs in facts.items():
        subjects, objects = ({pair[end] for pair in pairs} for end in (0, 1))
        dense = len(pairs) >= options.density * len(subjects) * len(objects)
        if dense and min(len(subjects), len(objects)) > 1 and len(pairs) >= options.least:
            found.add(r)
    return found


def answered_by_hand(triple, train, rules, cartesian) -> set[str]:
    s, r, o = triple
    found = {"repeated"} if triple in train else set()
    for (body, head, reverse), name in rules.items():
        because = (o, body, s) if reverse else (s, body, o)
        if head == r and because in train and not (reverse and s == o):
            found.add(name)
    if (
        r in cartesian
        and any((x, q) == (s, r) for x, q, _ in train)
        and any((q, y) == (r, o) for _, q, y in train)
    ):
        found.add("cartesian")
    return found


@settings(max_examples=150)
@given(TRIPLES, TRIPLES, TRIPLES, SHARES, SHARES, SHARES, st.integers(1, 3))
def test_the_audit_is_that_of_a_count_by_hand(train, valid, test, share, symmetric, density, least) -> None:
    options = AuditOptions(share=share, symmetric=symmetric, density=density, least=least)
    plain = audit(graph(train), valid=graph(valid), test=graph(test), options=options).to_dict()
    whole = train | valid | test
    facts = by_relation(whole)
    rules, cartesian = rules_by_hand(facts, options), cartesian_by_hand(facts, options)

    told = {}
    for pair in plain["overlaps"]:
        key = pair["first"], pair["second"], pair["kind"].startswith("inverse")
        shared, of_first = confidence(facts[key[0]], facts[key[1]], key[2])
        of_second = confidence(facts[key[1]], facts[key[0]], key[2])[1]
        assert (pair["shared"], pair["share_of_first"], pair["share_of_second"]) == (
            shared,
            of_first,
            of_second,
        )
        told[key] = pair["kind"]
        if pair["kind"] in ("duplicate", "inverse"):
            told[key[1], key[0], key[2]] = pair["kind"]
    assert told == {key: kind for key, kind in rules.items() if kind != "symmetric"}
    assert {r for r, x in plain["relations"].items() if x["symmetric"]} == {
        p for (p, q, _), kind in rules.items() if kind == "symmetric"
    }
    assert {r for r, x in plain["relations"].items() if x["cartesian"]} == cartesian
    for r, pairs in facts.items():
        x = plain["relations"][r]
        assert x["triples"] == len(pairs)
        assert x["loops"] == len(pairs) - len(proper(pairs))
        assert x["mirrored"] == len(proper(pairs) & turned(pairs))

    for name, part in (("valid", valid), ("test", test)):
        found = {triple: answered_by_hand(triple, train, rules, cartesian) for triple in part}
        leaks = plain["leaks"][name]
        assert leaks["rules"] == {rule: sum(rule in x for x in found.values()) for rule in leaks["rules"]}
        assert leaks["leaking"] == sum(map(bool, found.values()))
        assert leaks["score"] == leaks["leaking"] / len(part)
        for r, own in leaks["relations"].items():
            assert own["triples"] == sum(t[1] == r for t in part)
            assert own["leaking"] == sum(bool(x) for t, x in found.items() if t[1] == r)
        assert leaks["links"] == {
            "same pair, other relation": sum(
                any((s, q, o) in train for q in RELATIONS if q != r) for s, r, o in part
            ),
            "reversed pair, same relation": sum(s != o and (o, r, s) in train for s, r, o in part),
            "reversed pair, any relation": sum(
                s != o and any((o, q, s) in train for q in RELATIONS) for s, r, o in part
            ),
        }
        for example in leaks["examples"]:
            assert example["rule"] in found[tuple(example["triple"])]
            assert example["because"] is None or tuple(example["because"]) in train
        seen = {x for s, _, o in train for x in (s, o)}
        assert plain["parts"][name]["unseen_entity"] == sum(not {s, o} <= seen for s, _, o in part)
        assert plain["parts"][name]["unseen_relation"] == sum(
            r not in {q for _, q, _ in train} for _, r, _ in part
        )
    assert plain["in_valid_and_test"] == len(valid & test)
    assert plain["parts"]["all"]["triples"] == len(whole)


@settings(max_examples=60)
@given(TRIPLES, TRIPLES, TRIPLES, SHARES, st.integers(1, 3))
def test_a_cleaned_split_has_no_leak_and_lost_nothing_else(train, valid, test, share, least) -> None:
    options = AuditOptions(share=share, least=least)
    parts = {"train": graph(train), "valid": graph(valid), "test": graph(test)}
    try:
        clean = without_leaks(**parts, options=options)
    except InputError:  # nothing is left of a part
        leaks = audit(**parts, options=options).leaks.values()
        assert any(x.leaking.any() for x in leaks) or valid <= test
        return
    kept = {name: set(part.labelled()) for name, part in clean.parts.items()}
    assert kept["train"] == train
    assert kept["valid"] <= valid - test
    assert kept["test"] <= test
    assert clean.dropped == {"valid": len(valid - kept["valid"]), "test": len(test - kept["test"])}
    again = audit(**clean.parts, options=options)
    assert not any(leaks.leaking.any() for leaks in again.leaks.values())
    if not any(x.leaking.any() for x in audit(**parts, options=options).leaks.values()):
        assert kept["test"] == test


def test_what_dropping_brings_about_is_dropped_too() -> None:
    """Without a leak of one kind, what is left of a relation may be nearly all another's."""
    shared = [(f"a{i}", f"b{i}") for i in range(8)]
    train = [(s, "p", o) for s, o in shared] + [(s, "q", o) for s, o in shared[:5]]
    twice = [(s, "q", o) for s, o in shared[5:]]  # leaks: of p's facts, all but these and two are q's
    odd = [("c1", "q", "d1"), ("d2", "q", "c2")]
    clean = without_leaks(graph(train), test=graph(twice + odd), options=AuditOptions(least=1))
    assert set(clean.parts["test"].labelled()) == set(odd)
    assert clean.dropped == {"test": 3}


# -- planted structure


def random_pairs(rng: np.random.Generator, name: str, n: int) -> list[tuple[str, str]]:
    """Pairs of a relation's own subjects and objects, far from dense."""
    drawn = rng.choice(60 * 60, n, replace=False)
    return [(f"{name}s{i // 60}", f"{name}o{i % 60}") for i in drawn.tolist()]


def planted(seed: int) -> tuple[dict[str, set[tuple[str, str]]], set[tuple[str, str, str]]]:
    """Relations whose overlaps are known, with the kind of each pair."""
    rng = np.random.default_rng(seed)
    facts, kinds = {}, set()
    for name in ("plain1", "plain2"):
        facts[name] = set(random_pairs(rng, name, 200))
    for kind in ("duplicate", "inverse", "contained"):
        first = random_pairs(rng, kind, 200)
        second = set(first[:180]) | set(random_pairs(rng, kind + "x", 15))  # 90 % and 92 % of the facts
        if kind == "contained":
            second |= set(random_pairs(rng, kind + "y", 600))
        facts[f"{kind}1"] = set(first)
        facts[f"{kind}2"] = turned(second) if kind == "inverse" else second
        kinds.add((kind, f"{kind}1", f"{kind}2"))
    one_way = random_pairs(rng, "symmetric", 100)
    facts["symmetric"] = set(one_way) | turned(one_way[:90])
    facts["cartesian"] = {(f"cs{i}", f"co{j}") for i in range(15) for j in range(15) if rng.random() < 0.93}
    return facts, kinds


@pytest.mark.parametrize("seed", range(5))
def test_exactly_what_was_planted_is_found(seed: int) -> None:
    facts, kinds = planted(seed)
    triples = [(s, r, o) for r, pairs in facts.items() for s, o in pairs]
    plain = audit(graph(triples)).to_dict()
    found = {(x["kind"], *sorted((x["first"], x["second"]))) for x in plain["overlaps"]}
    assert found == kinds
    assert [r for r, x in plain["relations"].items() if x["symmetric"]] == ["symmetric"]
    assert [r for r, x in plain["relations"].items() if x["cartesian"]] == ["cartesian"]
    assert {x["kind"] for x in plain["findings"]} == {
        "duplicate",
        "inverse",
        "contained",
        "symmetric",
        "cartesian",
        "sizes",
        "components",
    }


@pytest.mark.parametrize("seed", range(3))
def test_a_random_split_of_inverse_relations_leaks_as_the_published_one_did(seed: int) -> None:
    """As in WN18: hypernym and hyponym say the same, so most test triples have their inverse in training."""
    rng = np.random.default_rng(seed)
    links = {(f"e{s}", f"e{o}") for s, o in rng.integers(0, 300, (1200, 2)).tolist() if s < o}
    triples = [(s, "hypernym", o) for s, o in links] + [(o, "hyponym", s) for s, o in links]
    triples += [(f"e{i}", "part of", f"e{(7 * i) % 300}") for i in range(1, 200)]
    rng.shuffle(triples)
    triples = [tuple(map(str, triple)) for triple in triples]
    cut = len(triples) // 20
    test, train = triples[:cut], set(triples[cut:])
    names = {"hypernym": "hyponym", "hyponym": "hypernym"}
    leaking = [(s, r, o) for s, r, o in test if r in names and (o, names[r], s) in train]
    found = audit(graph(train), test=graph(test))
    plain = found.to_dict()
    [pair] = plain["overlaps"]
    assert (pair["kind"], pair["shared"], pair["share_of_first"], pair["share_of_second"]) == (
        "inverse",
        len(links),
        1.0,
        1.0,
    )
    assert plain["leaks"]["test"]["rules"]["inverse"] == plain["leaks"]["test"]["leaking"] == len(leaking)
    assert plain["leaks"]["test"]["score"] > 0.7
    clean = without_leaks(graph(train), test=graph(test))
    assert set(clean.parts["test"].labelled()) == set(test) - set(leaking)


def test_relations_with_few_facts_prove_nothing() -> None:
    triples = [(f"a{i}", r, f"b{i}") for i in range(9) for r in "pq"]
    assert audit(graph(triples)).to_dict()["overlaps"] == []
    triples += [("a9", r, "b9") for r in "pq"]
    assert [x["kind"] for x in audit(graph(triples)).to_dict()["overlaps"]] == ["duplicate"]


def test_functions_are_found_on_either_side() -> None:
    triples = [(f"person{i}", "born in", f"town{i % 4}") for i in range(40)]
    triples += [(f"town{i % 4}", "is home of", f"dog{i}") for i in range(40)]
    triples += [
        (f"person{i}", "knows", f"person{j}") for i in range(10) for j in range(10) if (i * 7 + j) % 4
    ]
    relations = audit(graph(triples)).to_dict()["relations"]
    told = {r: (x["functional"], x["inverse_functional"], x["category"]) for r, x in relations.items()}
    assert told == {
        "born in": (True, False, "n-1"),
        "is home of": (False, True, "1-n"),
        "knows": (False, False, "n-n"),
    }


# -- the shape of a graph


@given(st.lists(st.integers(0, 50), min_size=1, max_size=40).filter(any))
def test_unevenness_is_that_of_a_count_by_hand(counts) -> None:
    x = sorted(n for n in counts if n)
    found = unevenness(np.array(counts))
    assert (found.count, found.once, found.mean) == (len(x), x.count(1), sum(x) / len(x))
    differences = sum(abs(a - b) for a in x for b in x)
    assert found.gini == pytest.approx(differences / (2 * len(x) * sum(x)), abs=1e-12)
    for share, value in zip(QUANTILES, found.quantiles, strict=True):
        assert value == min(v for v in x if sum(w <= v for w in x) >= share * len(x))
    assert dict(enumerate(found.histogram)) == {
        i: sum(2**i <= v < 2 ** (i + 1) for v in x) for i in range(max(x).bit_length())
    }


@given(st.lists(st.tuples(st.integers(0, 14), st.integers(0, 14)), max_size=25))
def test_components_are_those_of_a_search(links) -> None:
    found = components(*np.array(links, dtype=np.int32).reshape(-1, 2).T, 15)
    for start in range(15):
        reached, waiting = {start}, [start]
        while waiting:
            here = waiting.pop()
            more = {b for a, b in links if a == here} | {a for a, b in links if b == here}
            waiting += more - reached
            reached |= more
        assert found[start] == min(reached)


def test_a_supernode_is_told_with_its_role() -> None:
    chain = [(i, 0, i + 1) for i in range(1, 2000)]
    hub = [(i, 1, 0) for i in range(1, 301)]
    triples = np.array(chain + hub, dtype=np.int32)
    degree = np.bincount(triples[:, [0, 2]].ravel())
    [node] = supernodes(triples, degree)
    assert (node.entity, node.degree, node.relation, node.as_object, node.main) == (0, 300, 1, True, 300)
    assert (
        supernodes(triples[:-200], np.bincount(triples[:-200, [0, 2]].ravel())) == []
    )  # 100 times 2, but for


# -- it does not depend on how it is computed, and stays small


def test_the_size_of_blocks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    facts, _ = planted(1)
    triples = sorted((s, r, o) for r, pairs in facts.items() for s, o in pairs)
    train, test = graph(triples[::2]), graph(triples[1::2])
    before = audit(train, test=test).to_dict()
    for size in (1, 2, 7, 100):
        monkeypatch.setattr(pairs_module, "_AT_ONCE", size)
        assert audit(train, test=test).to_dict() == before


def test_ids_too_large_for_one_number_are_sorted_all_the_same() -> None:
    rng = np.random.default_rng(0)
    triples = rng.integers(0, 5, (200, 3)).astype(np.int32)
    small, large = (Pairs.of(triples, 5, 5), Pairs.of(triples, 2**31 - 1, 5))
    np.testing.assert_array_equal(small.triples, large.triples)
    np.testing.assert_array_equal(small.indptr, large.indptr)
    np.testing.assert_array_equal(
        small.triples,
        np.unique(triples, axis=0)[:, :][np.lexsort(np.unique(triples, axis=0)[:, [1, 2, 0]].T)],
    )


def test_memory_is_that_of_the_triples_not_of_pairs_of_relations() -> None:
    rng = np.random.default_rng(0)
    n, relations, entities = 60_000, 20_000, 40_000
    triples = np.stack([rng.integers(0, m, n) for m in (entities, relations, entities)], axis=1).astype(
        np.int32
    )
    vocabulary = Vocabulary(
        tuple(f"e{i:05}" for i in range(entities)), tuple(f"r{i:05}" for i in range(relations))
    )
    tracemalloc.start()
    audit(Graph(vocabulary, triples))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 500 * n < relations**2 / 8  # a bit for each pair of relations would be more


def test_the_ids_of_a_graph_have_no_say() -> None:
    triples = [(f"a{i}", r, f"b{i}") for i in range(12) for r in "pq"] + [("a0", "r", "a0")]
    entities = sorted({x for s, _, o in triples for x in (s, o)}, reverse=True)
    vocabulary = Vocabulary((*entities, "unused"), ("unused", "r", "q", "p"))
    ids = [[vocabulary.entity(s), vocabulary.relation(r), vocabulary.entity(o)] for s, r, o in triples]
    found = audit(Graph(vocabulary, np.array(ids, dtype=np.int32)), test=graph([("a1", "p", "b1")])).to_dict()
    plain = audit(graph(triples), test=graph([("a1", "p", "b1")])).to_dict()
    assert found["relations"].pop("unused")["triples"] == 0
    for same in ("leaks", "degrees", "components", "supernodes", "relation_sizes"):
        assert found[same] == plain[same]
    assert found["relations"] == plain["relations"]
    assert found["parts"]["all"] == plain["parts"]["all"]


def test_a_label_only_the_vocabulary_has_is_not_known() -> None:
    train = Graph(Vocabulary(("a", "b", "z"), ("p", "q")), np.array([[0, 0, 1]], dtype=np.int32))
    part = audit(train, test=graph([("a", "q", "z")])).parts["test"]
    assert (part.unseen_entity, part.unseen_relation) == (1, 1)
    assert (part.new_entities, part.new_relations) == (1, 1)


# -- mistakes


@pytest.mark.parametrize("name", ["share", "symmetric", "density", "functional", "least"])
@pytest.mark.parametrize("value", [0, -1, 1.5, float("nan"), "1", None, True])
def test_a_limit_out_of_range_is_refused(name: str, value: object) -> None:
    with pytest.raises(SettingError, match=f"{name} = "):
        AuditOptions(**{name: value})


def test_what_is_no_graph_is_refused() -> None:
    with pytest.raises(InputError, match="audit takes a Graph, not str"):
        audit("train.tsv")  # type: ignore[arg-type]
    empty = Graph(Vocabulary((), ()), np.empty((0, 3), dtype=np.int32))
    with pytest.raises(InputError, match="the test graph holds no triples"):
        audit(graph([("a", "p", "b")]), test=empty)


def test_a_part_of_nothing_but_leaks_is_refused() -> None:
    train = graph([("a", "p", "b"), ("c", "p", "d")])
    with pytest.raises(InputError, match="nothing would be left of test: training gives away all 1 triples"):
        without_leaks(train, test=graph([("a", "p", "b")]))


# -- what datasets are known for

DATA = Path(__file__).parents[2] / "shared" / "data"
NAMES = [
    "ciao",
    "dbpedia_music",
    "fb15k237",
    "kinship",
    "lastfm",
    "lastfm_tags",
    "nations",
    "nell995",
    "svo300k",
    "umls",
    "wn18rr",
    "yago_mkgy",
]
DONE: dict[str, dict] = {}


def audited(name: str) -> dict:
    if not (DATA / name).exists():
        pytest.skip("the shared datasets are not here")
    if name not in DONE:
        train, valid, test = (
            read_triples(DATA / name / f"{part}.tsv.gz") for part in ("train", "valid", "test")
        )
        DONE[name] = audit(train, valid=valid, test=test).to_dict()
    return DONE[name]


def rows(readme: str, head: str) -> dict[str, list[str]]:
    """Hand on the rows of the table below a head, by their first cell."""
    table = readme[readme.index(head) :].split("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    return {first: rest for first, *rest in cells}


@pytest.mark.parametrize("name", NAMES)
def test_the_counts_are_those_of_the_datasets_readme(name: str) -> None:
    plain = audited(name)
    readme = (DATA / name / "README.md").read_text("utf-8")
    for part, cells in rows(readme, "| split |").items():
        x = plain["parts"][part]
        counts = [x[key] for key in ("triples", "repetitions", "loops", "entities", "relations")]
        assert [str(n) for n in counts] == cells
    entities, relations, triples = map(
        int, re.search(r"Entities (\d+), relations (\d+), triples (\d+)", readme).groups()
    )
    whole = plain["parts"]["all"]
    assert (whole["entities"], whole["relations"], whole["triples"]) == (entities, relations, triples)
    most, once, alone = map(
        int,
        re.search(
            r"entity (\d+); entities met once only (\d+); relations met once only (\d+)", readme
        ).groups(),
    )
    assert (plain["degrees"]["quantiles"]["1"], plain["degrees"]["once"]) == (most, once)
    assert plain["relation_sizes"]["once"] == alone
    largest = re.search(r"Most frequent relations: (.*)\.\n", readme)[1]
    for label, n in re.findall(r"`([^`]*)` (\d+)", largest):
        assert plain["relations"][label]["triples"] == int(n)
    assert plain["in_valid_and_test"] == int(re.search(r"both valid and test: (\d+)", readme)[1])


@pytest.mark.parametrize("name", NAMES)
def test_the_leaks_are_those_of_the_datasets_readme(name: str) -> None:
    plain = audited(name)
    checks = rows((DATA / name / "README.md").read_text("utf-8"), "| check against train |")
    for i, part in enumerate(("valid", "test")):
        leaks, sizes = plain["leaks"][part], plain["parts"][part]
        told = {
            "exact triple also in train": leaks["rules"]["repeated"],
            "has an entity that train lacks": sizes["unseen_entity"],
            "has a relation that train lacks": sizes["unseen_relation"],
            "same subject and object under another relation in train": leaks["links"][
                "same pair, other relation"
            ],
            "reversed pair under the same relation in train": leaks["links"]["reversed pair, same relation"],
            "reversed pair under any relation in train": leaks["links"]["reversed pair, any relation"],
        }
        assert {check: int(cells[i].split()[0]) for check, cells in checks.items()} == told


def test_dbpedia_music_holds_two_relations_twice() -> None:
    plain = audited("dbpedia_music")
    assert [
        (x["kind"], {x["first"], x["second"]}, x["share_of_first"], x["share_of_second"])
        for x in plain["overlaps"]
    ] == [
        ("duplicate", {"associatedBand", "associatedMusicalArtist"}, 1.0, 1.0),
        ("duplicate", {"musicalArtist", "musicalBand"}, 1.0, 1.0),
    ]
    leaks = plain["leaks"]["test"]
    assert leaks["leaking"] == leaks["rules"]["duplicate"]
    assert {r for r, x in leaks["relations"].items() if x["leaking"]} == {
        x[end] for x in plain["overlaps"] for end in ("first", "second")
    }


def test_wn18rr_is_mirrored_in_four_relations() -> None:
    plain = audited("wn18rr")
    symmetric = {r for r, x in plain["relations"].items() if x["symmetric"]}
    assert symmetric == {"_derivationally_related_form", "_verb_group", "_similar_to", "_also_see"}
    leaks = plain["leaks"]["test"]
    assert leaks["leaking"] == leaks["rules"]["symmetric"]
    assert 0.33 < leaks["score"] < 0.36  # a third of test triples


@pytest.mark.parametrize("name", ["lastfm", "lastfm_tags"])
def test_friendships_of_lastfm_are_mutual_and_do_not_leak(name: str) -> None:
    plain = audited(name)
    assert plain["relations"]["friend"]["symmetry"] == 1.0
    assert plain["leaks"]["test"]["rules"]["symmetric"] == 0


def test_nations_has_symmetric_relations_that_leak() -> None:
    plain = audited("nations")
    assert sum(x["symmetric"] for x in plain["relations"].values()) > 10
    assert plain["leaks"]["test"]["rules"]["symmetric"] > 0


def test_fb15k237_has_no_near_inverse_leak_left() -> None:
    rules = Counter(audited("fb15k237")["leaks"]["test"]["rules"])
    assert rules.total() == rules["cartesian"]


def test_limits_can_be_moved() -> None:
    triples = [(f"a{i}", "p", f"b{i}") for i in range(20)] + [(f"a{i}", "q", f"b{i}") for i in range(10)]
    assert [x["kind"] for x in audit(graph(triples)).to_dict()["overlaps"]] == ["contained"]
    strict = replace(AuditOptions(), least=11)
    assert audit(graph(triples), options=strict).to_dict()["overlaps"] == []
    loose = AuditOptions(share=0.5)
    assert [x["kind"] for x in audit(graph(triples), options=loose).to_dict()["overlaps"]] == ["duplicate"]
