"""Both protocols end to end: what counts as known, what is left out, and numbers that can be recomputed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from consmrf.errors import InputError, OutputError, SettingError
from consmrf.evaluation import metrics
from consmrf.evaluation.protocol import EvaluationOptions, evaluate
from consmrf.evaluation.ranking import SIDES
from consmrf.evaluation.result import Evaluation, save_ranks
from consmrf.evaluation.sampled import draw_unobserved
from consmrf.graph.triples import Graph
from consmrf.graph.vocabulary import Vocabulary
from table_model import TableModel, graph_of, ids

N_ENTITIES, N_RELATIONS = 30, 3
QUICK = EvaluationOptions(bootstrap=200, candidates=10)


def some_triples(seed: int, n: int = 80) -> set[tuple[int, int, int]]:
    rng = np.random.default_rng(seed)
    return {
        (int(s), int(r), int(o))
        for s, r, o in zip(
            rng.integers(0, N_ENTITIES, n),
            rng.integers(0, N_RELATIONS, n),
            rng.integers(0, N_ENTITIES, n),
            strict=True,
        )
    }


TRAIN, VALID, TEST = some_triples(0, 200), some_triples(1), some_triples(2)


def table_model(levels: int = 50, known: object = TRAIN) -> TableModel:
    scores = np.random.default_rng(9).integers(0, levels, (N_RELATIONS, N_ENTITIES, N_ENTITIES))
    return TableModel(scores, known)


def both_protocols(model: TableModel, test: object, known: object = VALID) -> list[Evaluation]:
    graphs = [graph_of(model, known)]
    return [
        evaluate(model, graph_of(model, test), known=graphs, protocol=p, options=QUICK)
        for p in ("full", "paper")
    ]


def same_numbers(one: Evaluation, other: Evaluation, *, but: tuple[str, ...] = ()) -> None:
    a, b = one.to_dict(), other.to_dict()
    for key in a:
        if key not in but:
            assert a[key] == b[key], key
    for f in fields(one.ranks):
        np.testing.assert_array_equal(getattr(one.ranks, f.name), getattr(other.ranks, f.name))


# -- a scorer that knows nothing


def test_a_constant_scorer_in_the_full_protocol() -> None:
    found, _ = both_protocols(table_model(levels=1), TEST)
    n = found.ranks.candidates
    assert found.micro["both"]["auc"] == 0.5
    assert found.micro["both"]["mrr"] == pytest.approx(np.mean(2 / (n + 1)))
    assert found.micro["both"]["hits@1"] == 0
    assert found.bounds["both"]["mrr"] == [pytest.approx(np.mean(1 / n)), 1.0]
    assert found.bounds["both"]["mr"] == [pytest.approx(np.mean(n)), 1.0]
    assert found.bounds["objects"]["auc"] == [0.0, 1.0]


def test_a_constant_scorer_in_the_paper_protocol() -> None:
    _, found = both_protocols(table_model(levels=1), TEST)
    positives = np.unique([(s, r) for s, r, _ in TEST], axis=0, return_counts=True)[1]
    assert found.micro["objects"] == {
        "auc": 0.5,
        "precision@5": pytest.approx(np.mean(positives / (positives + 10))),
        "recall@5": pytest.approx(np.mean(5 / (positives + 10))),
        "count": len(positives),
    }
    assert found.bounds["objects"]["auc"] == [0.0, 1.0]
    assert found.bounds["objects"]["precision@5"] == [
        0.0,
        pytest.approx(np.mean(np.minimum(positives, 5) / 5)),
    ]


def test_the_right_scorer_is_perfect() -> None:
    model = table_model(levels=1)
    for s, r, o in TEST:
        model.table[r, s, o] = 1
    full, paper = both_protocols(model, TEST)
    told = full.summary()
    assert told.pop("count") == 2 * len(TEST)
    assert told.pop("lists") == sum(len({(t[1], t[end]) for t in TEST}) for end in (0, 2))
    shares = {name: told.pop(name) for name in list(told) if name.startswith(("precision", "recall"))}
    assert shares["recall@10"] == 1
    assert set(told) == {*metrics.RANK_METRICS, *metrics.ADJUSTED_METRICS, "ap", "ndcg"}
    assert list(told.values()) == pytest.approx([1] * len(told))
    assert paper.micro["objects"]["auc"] == 1
    assert paper.micro["objects"]["recall@5"] == 1


# -- single queries


def test_single_queries_are_those_the_means_are_made_of() -> None:
    for found in both_protocols(table_model(), TEST):
        single = found.measured
        for side, values in single.expected.items():
            for i, metric in enumerate(single.metrics):
                weights = single.weights[side][:, i] * ~np.isnan(values[:, i])
                mean = np.nansum(values[:, i] * weights) / weights.sum()
                assert mean == pytest.approx(found.micro[side][metric])
        ranks, first = found.ranks, found.ranks.side == 0
        asked = list(zip(ranks.r[first].tolist(), ranks.s[first].tolist(), strict=True))
        rows = asked if found.protocol == "full" else sorted(set(asked))
        assert single.relation.tolist() == [r for r, _ in rows]
        if found.protocol == "paper":  # the AUC of a pair is that of its objects' ranks
            share = (ranks.candidates - ranks.rank) / (ranks.candidates - 1)
            by_pair = [np.mean(share[[at == pair for at in asked]]) for pair in rows]
            assert single.expected["objects"][:, 0] == pytest.approx(by_pair)


def test_what_is_ranked_among_what_does_not_depend_on_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[np.ndarray] = []

    def recorded(*given: object) -> np.ndarray:
        drawn.append(draw_unobserved(*given))  # type: ignore[arg-type]
        return drawn[-1]

    monkeypatch.setattr("consmrf.evaluation.sampled.draw_unobserved", recorded)
    table = np.random.default_rng(1).normal(size=(N_RELATIONS, N_ENTITIES, N_ENTITIES))
    one = both_protocols(table_model(), TEST)
    first, drawn[:] = drawn[:], []
    other = both_protocols(TableModel(table, TRAIN), TEST)
    assert len(first) == len(drawn) > 10
    assert all(np.array_equal(a, b) for a, b in zip(first, drawn, strict=True))
    for a, b in zip(one, other, strict=True):
        for name in ("s", "r", "o", "side", "candidates"):
            assert np.array_equal(getattr(a.ranks, name), getattr(b.ranks, name))
        assert np.array_equal(a.measured.relation, b.measured.relation)
        assert a.micro["objects"]["auc"] != b.micro["objects"]["auc"]


# -- the paper's protocol against its definition


def test_all_unobserved_objects_where_there_are_fewer_than_asked() -> None:
    model, facts = table_model(levels=6), TRAIN | VALID | TEST
    found = evaluate(model, graph_of(model, TEST), known=[graph_of(model, VALID)], protocol="paper")
    values = {}
    for s, r in {(s, r) for s, r, _ in TEST}:
        row = model.table[r, s]
        right = [row[o] for o in range(N_ENTITIES) if (s, r, o) in TEST]
        wrong = [row[o] for o in range(N_ENTITIES) if (s, r, o) not in facts]
        pairs = [(p > n) + (p == n) / 2 for p in right for n in wrong]
        values[s, r] = float(np.mean(pairs))
    assert found.micro["objects"]["auc"] == pytest.approx(np.mean(list(values.values())))
    per_relation = [np.mean([v for (_, r), v in values.items() if r == x]) for x in range(N_RELATIONS)]
    assert found.macro["objects"]["auc"] == pytest.approx(np.mean(per_relation))
    assert found.relations["r0001"]["objects"]["auc"] == pytest.approx(per_relation[1])


def test_drawn_objects_are_distinct_unknown_and_uniform() -> None:
    known, n, draws = np.array([0, 1, 7, 13, 29], np.int32), 30, 4000
    seen = np.zeros(n)
    for i in range(draws):
        drawn = draw_unobserved(known, n, 4, np.random.default_rng([i]))
        assert len(set(drawn.tolist())) == 4
        seen[drawn] += 1
    assert not seen[known].any()
    unobserved = np.delete(seen, known)
    expected = draws * 4 / len(unobserved)
    chi_square = ((unobserved - expected) ** 2 / expected).sum()
    # 24 degrees of freedom: the 0.1 % tails lie near 8.1 and 51.2
    assert 8.1 < chi_square < 51.2


@pytest.mark.parametrize("known", [[], [0], [29], list(range(15)), list(range(30))])
def test_drawing_more_than_there_is_gives_all(known: list[int]) -> None:
    drawn = draw_unobserved(np.array(known, np.int32), 30, 1000, np.random.default_rng(0))
    assert drawn.tolist() == [e for e in range(30) if e not in known]


def test_a_pairs_sample_does_not_depend_on_other_pairs() -> None:
    model = table_model()
    s, r, _ = pair = max(TEST, key=lambda t: (t[1], t[0]))  # the last pair in the order of queries
    alone = evaluate(
        model, graph_of(model, {t for t in TEST if t[:2] == pair[:2]}), protocol="paper", options=QUICK
    )
    among = evaluate(model, graph_of(model, TEST), protocol="paper", options=QUICK)
    own = (among.ranks.s == s) & (among.ranks.r == r)
    assert alone.ranks.lower.tolist() == among.ranks.lower[own].tolist()


def test_the_seed_changes_the_sample() -> None:
    model = table_model()
    test = graph_of(model, TEST)
    one, other = (
        evaluate(model, test, protocol="paper", options=EvaluationOptions(candidates=10, seed=seed))
        for seed in (0, 1)
    )
    assert one.summary() != other.summary()


def test_pairs_without_an_unobserved_object_are_left_out_and_counted() -> None:
    everything = {(4, 0, o) for o in range(N_ENTITIES)}
    model = table_model(known=everything)
    test = {(4, 0, 2), (4, 0, 3), (5, 0, 1)}
    found = evaluate(model, graph_of(model, test), protocol="paper", options=QUICK)
    assert found.pairs == {"scored": 1, "left_out": 1}
    assert found.triples["scored"] == 1
    assert (found.ranks.s.tolist(), found.ranks.o.tolist()) == ([5], [1])
    with pytest.raises(InputError, match=r"all 1 \(relation, subject\) pairs .* linked to every entity"):
        evaluate(model, graph_of(model, everything), protocol="paper")


def test_what_is_undefined_is_none() -> None:
    everything = {(4, 0, o) for o in range(N_ENTITIES)}
    model = table_model(known=everything)
    options = EvaluationOptions(sides=("objects",))
    found = evaluate(model, graph_of(model, {(4, 0, 2), (4, 0, 3)}), options=options)
    told = found.summary()
    assert {name: told[name] for name in metrics.RANK_METRICS} == {
        "mrr": 1,
        "hits@1": 1,
        "hits@3": 1,
        "hits@10": 1,
        "mr": 1,
        "auc": None,
    }
    assert [told[name] for name in metrics.ADJUSTED_METRICS] == [None] * 5
    assert (told["ap"], told["recall@5"], told["count"], told["lists"]) == (1, 1, 2, 1)
    assert found.intervals["objects"]["auc"] == [None, None]
    assert found.macro["objects"]["auc"] is None
    json.dumps(found.to_dict(), allow_nan=False)


# -- what does and does not change the numbers


@pytest.mark.parametrize("protocol", ["full", "paper"])
def test_neither_memory_nor_the_order_of_lines_matters(protocol: str) -> None:
    model = table_model()
    model.table = np.random.default_rng(1).random((1, 3000, 3000), np.float32)
    model.vocabulary = TableModel(model.table).vocabulary
    rows = np.random.default_rng(2).integers(0, 3000, (300, 3)).astype(np.int32)
    rows[:, 1] = 0
    runs = [
        evaluate(
            model,
            graph_of(model, order),
            protocol=protocol,
            options=EvaluationOptions(memory_mib=memory, bootstrap=100),
        )
        for memory, order in ((512, rows), (1, rows), (512, rows[::-1]))
    ]
    same_numbers(runs[0], runs[1], but=("options",))
    same_numbers(runs[0], runs[2])


def test_known_graphs_may_repeat_the_test_and_each_other() -> None:
    for once, twice in zip(
        both_protocols(table_model(), TEST),
        both_protocols(table_model(known=TRAIN | TEST), TEST, VALID | TEST | TRAIN),
        strict=True,
    ):
        same_numbers(once, twice, but=("filter", "categories", "relation_frequency", "answer_frequency"))


def test_known_facts_are_never_wrong_answers() -> None:
    model = table_model(levels=1, known={(0, 0, 1)})
    model.table[0, 0, [1, 2, 3, 4]] = 9
    test, valid = graph_of(model, {(0, 0, 5), (0, 0, 3)}), graph_of(model, {(0, 0, 2)})
    options = EvaluationOptions(sides=("objects",))
    found = evaluate(model, test, known=[valid], options=options)
    assert found.ranks.lower.tolist() == [1, 2]
    assert found.filter == ("training triples of the model (1)", "test (2)", "known 1 (1)")


def test_triples_with_unseen_labels_are_left_out_and_counted() -> None:
    model = table_model()
    e, r = model.vocabulary.entities, model.vocabulary.relations
    names = Vocabulary((*e[:3], "nobody", "nothing"), (r[0], "unheard"))
    test = Graph(names, ids([(0, 0, 1), (0, 0, 2), (0, 0, 3), (4, 0, 3), (0, 1, 1), (3, 1, 1)]))
    found = evaluate(model, test, options=QUICK)
    assert found.triples == {"scored": 2, "unseen_entity": 2, "unseen_relation": 2}
    assert found.summary()["count"] == 4
    same_numbers(
        found, evaluate(model, graph_of(model, {(0, 0, 1), (0, 0, 2)}), options=QUICK), but=("triples",)
    )


def test_nothing_to_evaluate_is_an_error_with_counts() -> None:
    model = table_model()
    strangers = Graph(
        Vocabulary(("a", "b"), (model.vocabulary.relations[0], "x")), ids([(0, 0, 1), (0, 1, 1), (1, 1, 0)])
    )
    with pytest.raises(InputError, match=r"of 3 test triples 1 have an entity and 2 a relation"):
        evaluate(model, strangers)
    with pytest.raises(InputError, match="the test graph holds no triples"):
        evaluate(model, graph_of(model, []))


# -- the result


def test_every_number_can_be_recomputed_from_the_ranks() -> None:
    found, _ = both_protocols(table_model(levels=5), TEST)
    ranks = found.ranks
    np.testing.assert_array_equal(ranks.rank, (ranks.lower + ranks.upper) / 2)
    for side, rows in {
        "both": ranks.side >= 0,
        "objects": ranks.side == 0,
        "subjects": ranks.side == 1,
    }.items():
        assert found.micro[side]["mrr"] == pytest.approx(metrics.mrr(ranks.rank[rows]))
        assert found.micro[side]["mr"] == pytest.approx(ranks.rank[rows].mean())
        assert found.micro[side]["hits@3"] == pytest.approx((ranks.rank[rows] <= 3).mean())
        assert found.micro[side]["count"] == rows.sum()
        assert found.bounds[side]["mrr"] == pytest.approx(
            [metrics.mrr(x[rows]) for x in (ranks.upper, ranks.lower)]
        )
        per_relation = [metrics.mrr(ranks.rank[rows & (ranks.r == r)]) for r in range(N_RELATIONS)]
        assert found.macro[side]["mrr"] == pytest.approx(np.mean(per_relation))
        assert found.macro[side]["count"] == N_RELATIONS
        for r, value in enumerate(per_relation):
            own = found.relations[f"r{r:04}"][side]
            assert own["mrr"] == pytest.approx(value)
            assert own["count"] == (rows & (ranks.r == r)).sum()


def test_numbers_lie_within_their_bounds_and_intervals() -> None:
    for found in both_protocols(table_model(levels=5), TEST):
        for view, values in found.micro.items():
            for name in values.keys() - {"count", "lists"}:
                bounds, interval = found.bounds[view][name], found.intervals[view][name]
                assert min(bounds) <= values[name] <= max(bounds)
                assert interval[0] <= values[name] <= interval[1]
                assert interval[0] < interval[1] or values[name] == 0


def test_no_intervals_without_a_bootstrap_or_from_one_triple() -> None:
    model = table_model()
    assert evaluate(model, graph_of(model, TEST), options=EvaluationOptions(bootstrap=0)).intervals == {}
    assert evaluate(model, graph_of(model, {(0, 0, 1)})).intervals == {}


def test_one_side_alone() -> None:
    model = table_model()
    whole = evaluate(model, graph_of(model, TEST))
    for side in SIDES:
        found = evaluate(model, graph_of(model, TEST), options=EvaluationOptions(sides=(side,)))
        assert (found.view, list(found.micro), whole.view) == (side, [side], "both")
        assert found.micro[side] == whole.micro[side]
        assert found.intervals[side] == whole.intervals[side]
        assert found.triples["scored"] == len(TEST)


def test_the_json_layout() -> None:
    full, paper = both_protocols(table_model(), TEST)
    for found in (full, paper):
        plain = found.to_dict()
        assert json.loads(json.dumps(plain, allow_nan=False)) == plain
        plain["macro"].clear()
        assert found.macro
    shared = {
        "protocol",
        "filter",
        "candidates",
        "triples",
        "macro",
        "bounds",
        "intervals",
        "relations",
        "relation_intervals",
        "categories",
        "relation_frequency",
        "options",
    }
    assert set(full.to_dict()) == shared | {"both", "objects", "subjects", "answer_frequency"}
    assert set(paper.to_dict()) == shared | {"objects", "pairs"}
    assert (full.candidates, paper.candidates) == (N_ENTITIES, 10)
    assert set(full.to_dict()["both"]) == {*metrics.METRICS, "count", "lists"}
    assert set(paper.to_dict()["objects"]) == {"auc", "precision@5", "recall@5", "count"}
    assert set(full.relations) == {f"r{r:04}" for r in range(N_RELATIONS)}


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"candidates": 0}, "candidates = 0"),
        ({"candidates": 2.5}, "candidates = 2.5"),
        ({"memory_mib": 0}, "memory_mib = 0"),
        ({"memory_mib": True}, "memory_mib = True"),
        ({"seed": -1}, "seed = -1"),
        ({"bootstrap": -1}, "bootstrap = -1"),
        ({"confidence": 99}, "confidence = 99"),
        ({"confidence": float("nan")}, "confidence = nan"),
        ({"confidence": "high"}, "confidence = 'high'"),
        ({"sides": ()}, "one or more of objects, subjects, relations"),
        ({"sides": ("objects", "objects")}, "one or more of"),
        ({"sides": "objects"}, "one or more of"),
        ({"sides": ([],)}, "one or more of"),
        ({"unseen": "best"}, "unseen = 'best': must be one of leave-out, worst"),
        ({"unseen": []}, "must be one of leave-out, worst"),
        ({"intervals": "none"}, "intervals = 'none': must be one of bootstrap, analytic"),
    ],
)
def test_settings_out_of_range(settings: dict[str, object], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        EvaluationOptions(**settings)


def test_protocols_that_do_not_exist_or_do_not_fit() -> None:
    model = table_model()
    with pytest.raises(SettingError, match="protocol = 'raw': must be one of full, paper"):
        evaluate(model, graph_of(model, TEST), protocol="raw")
    for sides in (("subjects",), ("objects", "relations")):
        with pytest.raises(SettingError, match="must name objects and not relations"):
            evaluate(model, graph_of(model, TEST), protocol="paper", options=EvaluationOptions(sides=sides))


# -- saved ranks


@pytest.mark.parametrize("which", [0, 1])
def test_saved_ranks_give_the_same_numbers(which: int, tmp_path: Path) -> None:
    found = both_protocols(table_model(levels=8), TEST)[which]
    save_ranks(found, tmp_path / "ranks.parquet")
    saved = pl.read_parquet(tmp_path / "ranks.parquet")
    assert saved.columns == ["s", "r", "o", "side", "rank", "lower", "upper", "candidates"]
    assert os.listdir(tmp_path) == ["ranks.parquet"]
    e, r = found.vocabulary.entities, found.vocabulary.relations
    objects = saved.filter(pl.col("side") == "objects")
    assert set(objects.select("s", "r", "o").rows()) == {(e[s], r[p], e[o]) for s, p, o in TEST}
    share = (pl.col("candidates") - pl.col("rank")) / (pl.col("candidates") - 1)
    if which == 0:
        assert saved.select((1 / pl.col("rank")).mean()).item() == pytest.approx(found.micro["both"]["mrr"])
    else:
        pairs = saved.group_by("r", "s").agg(auc=share.mean())
        assert pairs["auc"].mean() == pytest.approx(found.micro["objects"]["auc"])


def test_ranks_that_cannot_be_written_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = both_protocols(table_model(), TEST)
    with pytest.raises(OutputError, match="cannot be written"):
        save_ranks(found, tmp_path / "nowhere" / "ranks.parquet")
    (tmp_path / "ranks.parquet").write_text("the old ones")

    def full_disk(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OutputError, match="No space left"):
        save_ranks(found, tmp_path / "ranks.parquet")
    assert os.listdir(tmp_path) == ["ranks.parquet"]
    assert (tmp_path / "ranks.parquet").read_text() == "the old ones"


def test_evaluation_loads_no_compiler_and_no_tables() -> None:
    code = "import sys, consmrf.evaluation.protocol; print({'numba', 'polars', 'scipy'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"
