"""Calibration on scores whose probabilities are known, examples by hand, and pages that are whole."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

from consmrf.baselines.popularity import popularity
from consmrf.config import Config
from consmrf.evaluation.calibration import calibrate
from consmrf.evaluation.comparison import ComparisonOptions, compare
from consmrf.evaluation.examples import worst_queries, worst_relations
from consmrf.evaluation.protocol import EvaluationOptions, evaluate
from consmrf.graph.triples import Graph
from consmrf.graph.vocabulary import Vocabulary
from consmrf.model import Model
from consmrf.predictors import Factors
from consmrf.report.compared import comparison_page, moves
from consmrf.report.evaluated import evaluation_page, judge, sentence
from consmrf.report.evaluation_figures import Dot, Row, dots, rank_histogram
from consmrf.report.tables import compared, further, grouped
from table_model import TableModel, graph_of, ids

E, R = 40, 45  # more relations than a picture shows
NASTY = '<b>&"r$x_1$\x1b'


def random_model(seed: int) -> Model:
    rng = np.random.default_rng(seed)
    names = Vocabulary(tuple(f"e{i} & <i>" for i in range(E)), (NASTY, *(f"r{i:02}" for i in range(1, R))))
    z, w = rng.normal(size=(E, 4)).astype(np.float32), rng.normal(size=(R, 4)).astype(np.float32)
    none = np.empty(0, np.int32)
    predictor = Factors("diagonal", z, w, np.zeros(R + 1, np.int64), none, np.empty((0, 4), np.float32))
    known = rng.integers(0, [E, R, E], (600, 3)).astype(np.int32)
    return Model(names, np.unique(known, axis=0), predictor)


MODEL = random_model(0)
TEST = Graph(MODEL.vocabulary, np.random.default_rng(7).integers(0, [E, R, E], (300, 3)).astype(np.int32))


def pages(sides: tuple[str, ...] = ("objects", "subjects"), protocol: str = "full") -> str:
    counting = popularity(Graph(MODEL.vocabulary, MODEL.known), Config(method="popularity"))
    models = {"model": MODEL, "popularity": counting}
    options = EvaluationOptions(sides=sides, bootstrap=20, candidates=10)
    found = {
        name: evaluate(model, TEST, protocol=protocol, options=options) for name, model in models.items()
    }
    known = [MODEL.known, TEST.triples]
    return evaluation_page(judge(models, found, known), NASTY)


class Tags(HTMLParser):
    """Notes whether tags are closed in order, and every id."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [str(value) for name, value in attrs if name == "id"]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, _: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [str(value) for name, value in attrs if name == "id"]

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def check_whole(text: str) -> None:
    read = Tags(text)
    assert (read.open, read.wrong) == ([], [])
    assert len(read.ids) == len(set(read.ids))
    assert not re.search(r"url\((?!#)|@import|https?:|<script|\x1b", text)
    assert "<b>&" not in text


# -- calibration


class Noisy:
    """Facts score N(1, 1) and everything else N(−1, 1), so that P(fact) = 1 / (1 + e^(−2·score)).

    Each relation tells its scores on a scale of its own.
    """

    def __init__(self, facts: np.ndarray, n: int) -> None:
        rng = np.random.default_rng(0)
        self.table = rng.normal(-1, 1, (3, n, n))
        self.table[facts[:, 1], facts[:, 0], facts[:, 2]] += 2
        self.scale = np.array([1.0, 10.0, -0.2])

    def pair_scores(self, relation: int, subjects: np.ndarray, objects: np.ndarray) -> np.ndarray:
        own = self.table[relation, subjects, objects] * self.scale[relation] + 5 * relation
        return own.astype(np.float32)


def test_probabilities_that_are_known_are_found_on_every_scale() -> None:
    facts = np.unique(np.random.default_rng(1).integers(0, [200, 3, 200], (6000, 3)), axis=0).astype(np.int32)
    found = calibrate(Noisy(facts, 200), facts, [], 200, most=5000)
    assert found is not None
    assert found.facts == 5000
    assert found.error < 0.02
    assert ((found.low <= found.predicted) & (found.predicted <= found.high)).sum() >= 8
    assert (np.diff(found.predicted) > 0).all()
    # the tenths of a forced choice between N(1, 1) and N(−1, 1) reach from near 0 to near 1
    assert found.predicted[0] < 0.02 < 0.98 < found.predicted[-1]


def test_scores_that_say_nothing_are_worth_one_half() -> None:
    facts = np.unique(np.random.default_rng(1).integers(0, [50, 3, 50], (500, 3)), axis=0).astype(np.int32)

    class Blind:
        def pair_scores(self, _: int, subjects: np.ndarray, __: np.ndarray) -> np.ndarray:
            return np.zeros(len(subjects), np.float32)

    found = calibrate(Blind(), facts, [], 50)
    assert found is not None
    np.testing.assert_allclose(found.predicted, 0.5, atol=1e-6)


def test_candidates_are_never_known_and_few_facts_make_no_curve() -> None:
    n, asked = 30, []
    square = np.array([(s, 0, o) for s in range(n) for o in range(n)], np.int32)
    facts, known = square[square[:, 2] < 4], square[square[:, 2] < n - 1]  # only the last object is free

    class Seen:
        def pair_scores(self, _: int, __: np.ndarray, objects: np.ndarray) -> np.ndarray:
            asked.append(objects)
            return objects.astype(np.float32)

    assert calibrate(Seen(), facts, [known], n) is not None
    objects = np.concatenate(asked)
    assert set(objects[len(objects) // 2 :].tolist()) == {n - 1}
    assert calibrate(Seen(), facts[:99], [known], n) is None
    assert calibrate(Seen(), facts, [square], n) is None  # linked to everything


# -- examples


def test_the_worst_are_the_worst_and_what_is_before_them_is_before_them() -> None:
    table = np.random.default_rng(3).normal(size=(2, 30, 30))
    model = TableModel(table, {(s, r, (s + r) % 30) for s in range(30) for r in range(2)})
    test = {(s, r, (3 * s + r + 2) % 30) for s in range(0, 30, 3) for r in range(2)} - set(
        map(tuple, model.known.tolist())
    )
    found = evaluate(model, graph_of(model, test), options=EvaluationOptions(bootstrap=0))
    facts = set(map(tuple, model.known.tolist())) | test
    by_mrr = sorted(found.relations, key=lambda r: found.relations[r]["both"]["mrr"])
    assert worst_relations(found) == by_mrr
    ranks = found.ranks
    for label in by_mrr:
        r = model.vocabulary.relation(label)
        examples = worst_queries(model, found, [model.known, ids(test)], label, most=3)
        assert [x.rank for x in examples] == sorted((x.rank for x in examples), reverse=True)
        assert examples[0].rank == ranks.rank[ranks.r == r].max()
        for x in examples:
            s, o = model.vocabulary.entity(x.subject), model.vocabulary.entity(x.object)
            rivals = [
                (table[r, s, e], e) if x.side == "objects" else (table[r, e, o], e)
                for e in range(30)
                if ((s, r, e) if x.side == "objects" else (e, r, o)) not in facts
            ]
            higher = sorted((score, e) for score, e in rivals if score > table[r, s, o])
            assert x.rank == 1 + len(higher)
            assert x.before == tuple(model.vocabulary.entities[e] for _, e in higher[::-1][:3])
        assert f"was ranked {examples[0].rank:.0f} of {examples[0].candidates}." in sentence(examples[0])


# -- pictures and pages


def test_dots_say_their_values_and_leave_out_what_is_unknown() -> None:
    rows = [
        Row("kinds", {}),
        Row(NASTY, {"ours": Dot(0.25, 0.2, 0.3), "theirs": Dot(0.5)}, "1,234"),
        Row("/a/long/path/to/something/far/down", {"ours": Dot(-0.5, -0.7, -0.3)}),
    ]
    text = dots(rows, "here", "MRR", zero=0.0)
    words = ElementTree.fromstring(text).attrib["aria-label"]
    assert words.count("ours") == 2
    assert words.count("theirs: 0.500") == 1
    assert "1,234" in text
    assert 'id="here-' in text
    assert "/a/long/…omething/far/down<" in text


def test_the_histogram_counts_every_rank_once() -> None:
    ranks = {"ours": np.array([1, 1.5, 2, 3.5, 10.5, 11, 250_000.0]), "theirs": np.full(4, 5.0)}
    words = ElementTree.fromstring(rank_histogram(ranks, "ranks")).attrib["aria-label"]
    shares = dict(re.findall(r"rank ([\d,–]+), ours: ([\d.]+)%", words))
    assert shares["1"] == "28.6"
    assert shares["4–10"] == "14.3"
    assert shares["11–30"] == "14.3"
    assert shares["100,001–1,000,000"] == "14.3"
    assert sum(map(float, shares.values())) == pytest.approx(100, abs=0.5)


@pytest.mark.parametrize(
    ("sides", "protocol"),
    [
        (("objects", "subjects", "relations"), "full"),
        (("relations",), "full"),
        (("subjects",), "full"),
        (("objects",), "paper"),
    ],
)
def test_the_page_is_whole_whatever_was_ranked(sides: tuple[str, ...], protocol: str) -> None:
    text = pages(sides, protocol)
    check_whole(text)
    assert text == pages(sides, protocol)
    assert ("The worst, in words" in text) == (protocol == "full" and sides != ("relations",))
    assert f"{R - 36:,} more are in the table below" in text
    assert "kind of relation" in text


def test_the_page_of_a_comparison_is_whole() -> None:
    options = EvaluationOptions(bootstrap=0, sides=("objects", "subjects", "relations"))
    one, other = (evaluate(random_model(seed), TEST, options=options) for seed in (0, 1))
    found = compare(one, other, names=(NASTY, "other"), options=ComparisonOptions(flips=200))
    check_whole(comparison_page(found))
    for line, (better, worse) in (
        (moves(found, "first", "second")[0], ("first", "second")),
        (moves(found, "second", "first")[0], ("second", "first")),
    ):
        rise = (1 / found.moved[better] - 1 / found.moved[worse]).to_numpy()
        best = found.moved.row(int(rise.argmax()), named=True)
        assert f"ranked {best[better]:,.10g}, not {best[worse]:,.10g}, of {best['candidates']}" in line


def test_tables_have_a_row_for_each_method_and_group() -> None:
    plain = evaluate(MODEL, TEST, options=EvaluationOptions(bootstrap=0)).to_dict()
    methods = {"ours": plain, "theirs": plain}
    assert len(further(methods).rows) == 6
    assert "MAP" in further(methods).head
    groups = sum(len(plain[name]) for name in ("categories", "relation_frequency", "answer_frequency"))
    assert len(grouped(methods).rows) == 2 * groups
    told = compare(
        evaluate(MODEL, TEST), evaluate(MODEL, TEST), options=ComparisonOptions(flips=100)
    ).to_dict()
    rows = {row[0]: row[1:] for row in compared(told, "both").rows}
    assert rows["MRR"][2:] == ("0.000", "0.000 to 0.000", "1.000")
