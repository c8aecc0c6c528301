"""What a study runs and when, as pure functions; how sure its comparisons are."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consmrf import Config, EvaluationOptions, evaluate, fit
from consmrf.errors import InputError
from consmrf.evaluation.result import save_ranks
from consmrf.report.progress import CellProgress, duration
from consmrf.study.datasets import source_of
from consmrf.study.evidence import Queries, difference, exponent, pooled_means, queries, read_ranks
from consmrf.study.findings import Timed
from consmrf.study.graphs import GRAPHS
from consmrf.study.measure import epoch_seconds, sampled_targets
from consmrf.study.plan import Planner
from consmrf.study.schedule import Load, Room, startable, time_left
from consmrf.study.spec import Method, read_study
from consmrf.study.timings import reached, timing_sections

STUDY = """
[search]
folds = "FOLDS"
[datasets.a]
graph = "grouped"
folds = 2
[datasets.b]
graph = "social"
[methods.wave]
grid = { reg = [0.01, 0.1, 1.0] }
[methods.dmf]
datasets = ["a"]
[timing]
targets = 5
[rho]
methods = ["wave"]
values = [0.5, 1.0]
[growth]
methods = ["wave"]
relations = [2, 4, 8]
triples = 100
per_relation = 10
"""


def planner(tmp_path: Path, folds: str = "first") -> Planner:
    (tmp_path / "study.toml").write_text(STUDY.replace("FOLDS", folds), "utf-8")
    study = read_study(tmp_path / "study.toml")
    return Planner(study, lambda data, fold: source_of(study, data, fold, tmp_path))


def nothing(cell):
    """Hold no cell."""
    del cell


def found(auc: float) -> dict:
    return {"found": {"evaluation": {"objects": {"auc": auc}}}}


# -- the plan


@pytest.mark.parametrize(("folds", "searches"), [("first", 6), ("each", 9)])
def test_finals_wait_for_the_search_and_have_what_was_best(tmp_path, folds, searches):
    making = planner(tmp_path, folds)
    before = making.plan(nothing)
    assert sum(p.kind == "search" for p in before) == searches
    assert {p.method for p in before if p.kind == "final"} == {"dmf"}  # it has nothing to choose from
    # three finals of wave, its timings on both datasets, and two values of ρ on each
    assert making.awaited(nothing) == 3 + 2 + 4

    def held(cell):
        return (
            found({0.01: 0.6, 0.1: 0.8, 1.0: 0.8}[cell.settings["reg"]]) if cell.judged == "valid" else None
        )

    after = [p for p in making.plan(held) if p.kind == "final" and p.method == "wave"]
    assert [(p.dataset, p.fold) for p in after] == [("a", 0), ("a", 1), ("b", 0)]
    assert {p.cell.settings["reg"] for p in after} == {0.1}  # the first of equals
    assert making.awaited(held) == 0


def test_failed_cells_of_a_search_are_passed_over_and_others_go_on(tmp_path):
    making = planner(tmp_path)

    def held(cell):
        if cell.judged != "valid":
            return None
        if cell.source.dataset == "b" or cell.settings["reg"] == 0.01:
            return {"error": "no"}
        return found(cell.settings["reg"])

    finals = [p for p in making.plan(held) if p.kind == "final" and p.method == "wave"]
    assert [(p.dataset, p.cell.settings["reg"]) for p in finals] == [("a", 1.0), ("a", 1.0)]
    assert making.awaited(held) == 0


def test_a_cell_is_planned_once_whatever_it_is_wanted_for(tmp_path):
    making = planner(tmp_path)
    planned = making.plan(lambda cell: found(cell.settings["reg"]) if cell.judged == "valid" else None)
    assert len({p.cell.key for p in planned}) == len(planned)
    # ρ = 1 is wave's default, but a setting that was not given is not the setting of the same value
    assert sum(p.kind == "rho" for p in planned) == 4
    growth = {p.x: p.cell.source.cut["with"] for p in planned if p.kind == "growth"}
    assert {(way, r): w["triples"] for (way, r), w in growth.items()} == {
        **{("fixed |D|", r): 100 for r in (2, 4, 8)},
        **{("fixed |D_r|", r): 10 * r for r in (2, 4, 8)},
    }
    stops = {(p.dataset, p.method): p.cell for p in planned if p.kind == "stop"}
    # a method may be timed where it is not compared, and one that trains target by target on some of them
    assert stops["b", "dmf"].sampled == stops["a", "dmf"].sampled == 5
    assert stops["a", "wave"].sampled is None


def test_fits_of_the_same_rounds_are_one_cell(tmp_path):
    text = STUDY.replace("FOLDS", "first") + "[curves]\nmethods = ['dmf']\nepochs = [3, 5, 10, 12]"
    (tmp_path / "study.toml").write_text(text.replace('datasets = ["a"]', "set = { inner_epochs = 10 }"))
    study = read_study(tmp_path / "study.toml")
    making = Planner(study, lambda data, fold: source_of(study, data, fold, tmp_path))
    curves = [p for p in making.plan(nothing) if p.kind == "curve" and p.dataset == "a"]
    assert [p.cell.settings["max_epochs"] for p in curves] == [10, 20]
    assert [p.x for p in making.extras(nothing) if p.kind == "curve" and p.dataset == "a"] == [3, 5, 10, 12]


def test_a_key_holds_all_that_determines_a_cell_and_no_more(tmp_path):
    making = planner(tmp_path)
    cell = next(iter(making.searches())).cell
    change = {"judged": "test", "validated": False, "timed": True, "evaluation": {}, "sampled": 3}
    keys = {cell.key}
    for name, value in change.items():
        keys.add(type(cell)(**{**_fields(cell), name: value}).key)
    for name, value in (("seed", 9), ("reg", 7.0)):
        keys.add(type(cell)(**{**_fields(cell), "settings": {**cell.settings, name: value}}).key)
    assert len(keys) == 1 + len(change) + 2
    threads = {**cell.settings, "threads": 7}
    assert type(cell)(**{**_fields(cell), "settings": threads}).key == cell.key
    timed = {**_fields(cell), "timed": True}
    assert type(cell)(**timed).key != type(cell)(**{**timed, "settings": threads}).key


def _fields(cell):
    return {name: getattr(cell, name) for name in cell.__dataclass_fields__}


# -- the budget

loads = st.builds(Load, st.integers(1, 4), st.integers(0, 10), st.booleans())


@given(st.lists(loads, max_size=8), st.lists(loads, max_size=4), st.integers(1, 6), st.integers(0, 20))
def test_what_begins_fits_into_the_budget(waiting, running, cores, memory):
    room = Room(cores, memory)
    chosen = startable(waiting, running, room)
    begun = [waiting[i] for i in chosen]
    assert len(set(chosen)) == len(chosen)
    if begun:
        assert sum(load.cores for load in [*running, *begun]) <= cores
        assert sum(load.bytes for load in [*running, *begun]) <= memory
    if any(load.alone for load in [*running, *begun]):
        assert len([*running, *begun]) == 1 or not begun
    # nothing stands still: with an idle machine, whatever can run at all is begun
    if not running and any(room.refusal(load) is None for load in waiting):
        assert chosen


def test_later_cells_pass_those_that_do_not_fit():
    room = Room(cores=2, bytes=10)
    waiting = [Load(1, 9), Load(1, 5), Load(1, 1), Load(1, 0)]
    assert startable(waiting, [], room) == [0, 2]
    assert startable(waiting, [Load(1, 6)], room) == [2]
    assert startable([Load(1, 0, alone=True), Load(1, 0)], [], room) == [1]
    assert startable([Load(1, 0, alone=True)], [Load(1, 0)], room) == []
    assert startable([Load(1, 0)], [Load(1, 0, alone=True)], room) == []


def test_what_can_never_run_is_told_why():
    room = Room(cores=2, bytes=2**30)
    assert room.refusal(Load(2, 2**30)) is None
    assert "needs 3 cores, and the budget is 2" in room.refusal(Load(3, 0))
    assert "1.5 GiB, and the budget is 1.0" in room.refusal(Load(1, 3 * 2**29))


def test_the_time_left_follows_what_alike_cells_took():
    took = {("a", "dmf", False): [10.0, 20.0], ("a", "wave", False): [3.0]}
    waiting = [("a", "dmf", False), ("b", "wave", False), ("b", "new", True)]
    assert time_left(waiting, took, cores=2) == (15 + 3) / 2 + 11
    assert time_left(waiting, {}, cores=2) is None


# -- the evidence


@given(st.floats(-2, 3), st.floats(0.1, 10))
def test_exponents_are_recovered(power, factor):
    x = [2, 4, 8, 16, 32]
    noise = [0.01, -0.01, 0.02, -0.02, 0.0]
    told = exponent(x, [factor * n**power * math.exp(e) for n, e in zip(x, noise, strict=True)])
    assert abs(told.value - power) < 0.02
    assert abs(told.value - power) < 4 * told.error
    design = np.column_stack([np.ones(5), np.log(x)])
    y = np.log([factor * n**power * math.exp(e) for n, e in zip(x, noise, strict=True)])
    assert told.value == pytest.approx(np.linalg.lstsq(design, y, rcond=None)[0][1])


def test_an_exponent_needs_two_sizes_and_an_error_three():
    assert math.isnan(exponent([1, 2], [1, 2]).error)
    with pytest.raises(InputError, match="two different sizes"):
        exponent([2, 2], [1, 2])


def test_ranks_give_back_the_metrics_that_they_came_from(tmp_path):
    parts = GRAPHS["social"](0, users=60, items=70, communities=4)
    model = fit(parts.train, config=Config(method="popularity")).model
    options = EvaluationOptions(candidates=50, bootstrap=0)
    told = evaluate(model, parts.test, known=[parts.valid], protocol="paper", options=options)
    save_ranks(told, tmp_path / "r.parquet")
    own = queries(read_ranks(tmp_path / "r.parquet"))
    auc, recall, precision = own.values.mean(axis=0)
    assert auc == pytest.approx(told.summary()["auc"], abs=1e-12)
    assert recall == pytest.approx(told.summary()["recall@5"], abs=1e-9)  # popularity has many equals
    assert precision == pytest.approx(told.summary()["precision@5"], abs=1e-9)
    assert len(own.relation) == told.pairs["scored"]


def test_a_list_is_cut_at_its_fifth_place(tmp_path):
    # three objects of one pair, behind 0, 3 and 6 sampled ones, the second equal with two: it has the fifth
    # place with a chance of one in three
    rows = {"s": ["a"] * 3, "r": ["q"] * 3, "o": ["x", "y", "z"], "side": ["objects"] * 3}
    bounds = {"rank": [7.0, 1.0, 5.0], "lower": [7, 1, 4], "upper": [7, 1, 6], "candidates": [11] * 3}
    table = pl.DataFrame({**rows, **bounds})
    table.write_parquet(tmp_path / "r.parquet")
    [[auc, recall, precision]] = queries(read_ranks(tmp_path / "r.parquet")).values
    assert (auc, recall, precision) == pytest.approx((1 - 10 / 30, 4 / 9, 4 / 15))


@pytest.mark.parametrize(("name", "told"), [("absent", "no such file"), ("text", "is not a Parquet file")])
def test_a_file_that_holds_no_ranks_is_refused(tmp_path, name, told):
    (tmp_path / "text").write_text("ranks")
    with pytest.raises(InputError, match=told):
        read_ranks(tmp_path / name)
    pl.DataFrame({"s": ["a"]}).write_parquet(tmp_path / "few")
    with pytest.raises(InputError, match="lacks the column 'r'"):
        read_ranks(tmp_path / "few")


def of(values) -> Queries:
    values = np.asarray(values, np.float64)
    names = tuple(map(str, range(len(values))))
    return Queries(names, names, np.column_stack([values] * 3))


def test_a_planted_difference_is_found_and_chance_is_not():
    rng = np.random.default_rng(0)
    base = rng.uniform(0.4, 1, 400)
    few = [of(base), of(base)]
    better = [of(base - 0.02 + rng.normal(0, 0.05, 400)) for _ in few]
    alike = [of(base + rng.normal(0, 0.05, 400)) for _ in few]
    assert difference(few, better, 0.99).verdict == "better"
    assert difference(better, few, 0.99).verdict == "worse"
    assert difference(few, alike, 0.99).verdict == "tied"
    many = [of(base)] * 6
    gaps = np.array([0.1, 0.12, 0.08, 0.11, 0.09, 0.1])
    told = difference(many, [of(base - gap) for gap in gaps], 0.99)
    assert told.mean == pytest.approx(0.1)
    assert told.high - told.mean == pytest.approx(4.0321 * gaps.std(ddof=1) / math.sqrt(6), rel=1e-3)


def test_pooled_means_are_those_of_all_pairs():
    told = pooled_means([of([0.0, 1.0]), of([1.0, 1.0])], 0.99)
    mean, low, high = told["auc"]
    assert mean == 0.75
    assert 0 <= low < 0.75 < high <= 1


# -- timings


def test_an_epoch_is_the_fastest_of_its_stage_without_validation():
    def round_of(stage, elapsed, validation):
        return SimpleNamespace(stage=stage, seconds={"elapsed": elapsed, "validation": validation})

    rounds = [round_of("one", 3.0, 1.0), round_of("one", 5.0, 1.0), round_of("two", 9.0, 0.0)]
    # stage one: 2 and 1 seconds; stage two: 4
    assert epoch_seconds(rounds, 1) == pytest.approx((1 + 1 + 4) / 3)
    assert epoch_seconds(rounds, 5) == pytest.approx((1 + 1 + 4) / 15)
    assert epoch_seconds([], 1) is None


def test_the_time_to_a_level_is_that_of_the_first_point_there():
    points = [(1.0, 0.6), (2.0, 0.8), (3.0, 0.79), (4.0, 0.9)]
    assert reached(points, 0.75) == 2.0
    assert reached(points, 0.95) is None


def test_sampled_targets_are_spread_over_the_sizes():
    graph = GRAPHS["social"](0, users=60, items=70, communities=4).train
    assert set(sampled_targets(graph, 9)) == {"follows", "friends", "reads"}
    sizes = np.bincount(graph.triples[:, 1])
    middle = graph.vocabulary.relations[int(np.argsort(sizes)[1])]
    assert sampled_targets(graph, 1) == (middle,)


def test_ratios_are_plain_and_marked_where_they_bound_or_scale():
    def timed(method, seconds, status="PATIENCE", scale=1.0):
        told = {"training": seconds, "epoch": seconds / 10}
        found = {"seconds": told, "status": status, "epochs": 10, "scale": scale, "others": 0.5}
        return Timed("a", method, None, found)

    settings = {"wave": "consensus", "mine": "consensus", "dmf": "dmf", "catsmf": "catsmf"}
    methods = {name: Method(name, {"method": method}) for name, method in settings.items()}
    stops = (timed("wave", 2.0), timed("dmf", 5.0, scale=16.0), timed("catsmf", 30.0, "MAX_SECONDS"))
    findings = SimpleNamespace(
        study=SimpleNamespace(methods=methods), methods=tuple(methods), timed={"stop": stops}
    )
    [section] = timing_sections(findings)
    seconds, epochs, words = section.blocks
    assert seconds.head == (
        "seconds to the stopping rule",
        "wave",
        "dmf",
        "catsmf",
        "dmf / wave",
        "catsmf / wave",
    )
    assert seconds.rows == (("a", "2.00", "≈ 80.0", "> 30.0", "≈ 40.0", "> 15.0"),)
    assert epochs.rows == (("a", "0.200", "8.00", "3.00", "≈ 40.0", "15.0"),)
    assert "Others kept up to 0.5 cores busy" in words


# -- progress


def test_plain_lines_tell_how_many_cells_there_are_and_the_time_left():
    said = []
    with CellProgress(said.append) as progress:
        progress.count(0, 9)
        progress.count(1, 9)
        progress.tell("a, wave, search: AUC 0.900", 200.0)
        progress.count(9, 9)
        progress.tell("a, wave, final: AUC 0.910", None)
    assert said == ["1/9 a, wave, search: AUC 0.900; 3 min left", "9/9 a, wave, final: AUC 0.910"]


def test_on_a_terminal_lines_stand_over_a_bar(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    said = []
    with CellProgress(said.append) as progress:
        progress.count(1, 4)
        progress.tell("a [b], wave: AUC 0.900", 7000.0)
    assert not said
    assert "a [b], wave: AUC 0.900" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seconds", "told"), [(3.4, "3 s"), (89, "89 s"), (100, "2 min"), (5000, "83 min"), (9000, "2.5 h")]
)
def test_seconds_are_told_in_the_unit_that_they_fill(seconds, told):
    assert duration(seconds) == told
