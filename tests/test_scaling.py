"""What benchmarks/scaling.py computes: graphs of the shape asked for, exponents, schedules of blocks."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import consmrf
import scaling
from scaling import exponents, makespan, speed_up
from zipf import zipf_graph

# -- graphs


@pytest.mark.parametrize("sizes", [(300, 7, 3000, 5), (50, 400, 2000, 5), (500, 1, 500, 1), (20, 2, 200, 20)])
def test_a_graph_has_the_sizes_asked_for(sizes: tuple[int, int, int, int]) -> None:
    n_entities, n_relations, n_triples, _ = sizes
    graph = zipf_graph(*sizes, seed=1)
    triples = graph.triples
    assert len(np.unique(triples, axis=0)) == len(graph) == n_triples
    assert len(np.unique(triples[:, [0, 2]])) == len(graph.vocabulary.entities) == n_entities
    assert len(np.unique(triples[:, 1])) == len(graph.vocabulary.relations) == n_relations
    assert triples.tolist() == sorted(triples.tolist())
    assert list(graph.vocabulary.entities) == sorted(graph.vocabulary.entities)
    assert graph == zipf_graph(*sizes, seed=1)
    assert n_triples == 500 or graph != zipf_graph(*sizes, seed=2)


def test_impossible_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="rank ≤ entities ≤ triples"):
        zipf_graph(100, 2, 50, 4, seed=0)
    with pytest.raises(ValueError, match="too many"):
        zipf_graph(10, 1, 101, 2, seed=0)


def test_degrees_are_zipf() -> None:
    graph = zipf_graph(20_000, 20, 200_000, 10, seed=0)
    relations = np.sort(np.bincount(graph.triples[:, 1]))[::-1]
    shares = 1 / np.arange(1, 21)
    assert relations / len(graph) == pytest.approx(shares / shares.sum(), abs=0.02)
    objects = np.sort(np.bincount(graph.triples[:, 2]))[::-1]
    ranks = np.arange(20, 500)  # past the head, where distinct triples run out
    slope = np.polyfit(np.log(ranks), np.log(objects[ranks]), 1)[0]
    assert slope == pytest.approx(-0.8, abs=0.15)


def test_one_relation_can_hold_most_triples() -> None:
    graph = zipf_graph(2000, 20, 40_000, 10, seed=0, largest_share=0.9)
    assert 0.85 < np.bincount(graph.triples[:, 1]).max() / len(graph) < 0.91


def test_there_is_something_to_learn_that_counts_do_not_tell() -> None:
    cut = consmrf.split(zipf_graph(300, 2, 10_000, 4, seed=0), seed=0)
    auc = {}
    for method in ("popularity", "independent"):
        config = consmrf.Config(
            method=method, solver="paper", dim=10, max_epochs=100, inner_epochs=20, reg=5e-4, threads=1
        )
        model = consmrf.fit(cut.train, config=config).model
        auc[method] = consmrf.evaluate(model, cut.test).micro["objects"]["auc"]
    assert auc["independent"] > auc["popularity"] + 0.1


# -- exponents


def grid() -> np.ndarray:
    base = np.array([1000.0, 20.0, 50_000.0])
    return np.array([base, *(base * np.where(np.arange(3) == i, f, 1) for i in range(3) for f in (2, 4))])


def test_exponents_of_a_power_law_are_found() -> None:
    sizes = grid()
    found = exponents(sizes, 3e-7 * sizes[:, 0] ** 0.25 * sizes[:, 2] ** 1.5)
    assert [each.value for each in found] == pytest.approx([0.25, 0, 1.5])
    assert [each.error for each in found] == pytest.approx([0, 0, 0], abs=1e-9)


def test_errors_of_exponents_are_those_of_repeated_measurement() -> None:
    sizes, rng = grid(), np.random.default_rng(0)
    fits = [exponents(sizes, sizes[:, 2] * np.exp(rng.normal(0, 0.1, len(sizes)))) for _ in range(400)]
    values = np.array([[each.value for each in found] for found in fits])
    errors = np.array([[each.error for each in found] for found in fits])
    assert values.mean(axis=0) == pytest.approx([0, 0, 1], abs=0.02)
    assert np.sqrt((errors**2).mean(axis=0)) == pytest.approx(values.std(axis=0), rel=0.15)


def test_exponents_that_data_do_not_tell() -> None:
    sizes = grid()[[0, 1, 3, 5]]
    assert all(math.isnan(each.error) for each in exponents(sizes, sizes[:, 2]))
    with pytest.raises(ValueError, match="vary independently"):
        exponents(sizes[:3], sizes[:3, 2])


# -- schedules


def test_equal_blocks_speed_up_perfectly_up_to_the_width_of_a_wave() -> None:
    waves = [[0.5] * 16] * 10
    assert [speed_up(waves, n) for n in (1, 2, 4, 16, 64, 256)] == [1, 2, 4, 16, 16, 16]


def test_a_giant_block_bounds_the_speed_up() -> None:
    waves = [[9.0] + [1.0] * 9]
    assert makespan(waves, 1) == 18
    assert [speed_up(waves, n) for n in (2, 10, 256)] == [2, 2, 2]
    assert makespan([[1.0] * 9 + [9.0]], 3) == 12  # in the order given: here the giant comes last


def test_a_merge_is_nobody_elses_and_every_wave_waits_for_it() -> None:
    assert makespan([[1.0, 1.0], [2.0]], 2, [0.5, 0.25]) == 1 + 0.5 + 2 + 0.25
    assert speed_up([[1.0] * 4] * 3, 10**6, [1.0] * 3) == 2.5
    with pytest.raises(ValueError, match="zip"):
        makespan([[1.0]], 1, [0.5, 0.5])


def test_a_schedule_is_never_better_than_its_bounds() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        wave = rng.exponential(size=rng.integers(1, 40)).tolist()
        for workers in (1, 3, 8, 64):
            least = max(sum(wave) / workers, max(wave))
            assert least - 1e-9 <= makespan([wave], workers) <= sum(wave) / workers + max(wave) + 1e-9
    assert makespan([[], [1.0]], 2) == 1


# -- measuring


def rounds(**extra: object) -> list[SimpleNamespace]:
    return [
        SimpleNamespace(
            seconds={"elapsed": elapsed, "validation": 0.5, "consensus": 0.2, "local_total": 1.0}, **extra
        )
        for elapsed in (2.0, 3.5, 5.25)
    ]


def test_seconds_of_epochs_leave_validation_out_and_keep_stages_apart() -> None:
    assert scaling.epochs(rounds()) == {"all": [1.5, 1.0, 1.25]}
    staged = rounds()
    for each, stage in zip(staged, ("consensus", "consensus", "departures"), strict=True):
        each.stage = stage
    assert scaling.epochs(staged) == {"consensus": [1.5, 1.0], "departures": [1.25]}


def test_blocks_are_those_of_the_last_round() -> None:
    assert scaling._blocks(rounds()) == {}
    found = scaling._blocks(rounds(block_seconds=[[0.1, 0.2], [0.3]]))
    assert found == {"waves": [[0.1, 0.2], [0.3]], "merges": [0.1, 0.1]}


def test_a_fit_is_measured(tmp_path: Path) -> None:
    drawn = scaling.Shape("tiny", 50, 3, 400, rank=3)
    sizes = scaling.prepare(drawn, tmp_path / "tiny.npy")
    r, s, o = (drawn.graph().triples[:, i].tolist() for i in (1, 0, 2))
    assert sizes["rows"] == len({*zip(r, s, strict=True), *zip(r, o, strict=True)})
    settings = {"dim": 4, "max_epochs": 2, "tol": 0.0, "threads": 1}
    cell = scaling.measure(sizes, settings, tmp_path)
    assert cell["sizes"] == sizes
    assert sum(len(seconds) for seconds in cell["epochs"].values()) >= 2
    assert cell["peak"] >= cell["held"]
    assert "| tiny | 50 | 3 | 400 |" in scaling._row(cell)
