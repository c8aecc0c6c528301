"""The arena's statistics on planted differences; its cells: resumed, made anew, lost one at a time."""

from __future__ import annotations

import argparse
import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest

import arena
import consmrf
from child import FailedError, in_child, memory, peak_memory
from pairing import Estimate, Verdict, at_least_as_good, better_than_all, by_relation, estimate, paired
from problems import planted_graph

BETTER, TIED, WORSE = Verdict.BETTER, Verdict.TIED, Verdict.WORSE


# -- paired differences


def noisy(seed: int, n: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    """Two methods' values: hard and easy queries shared, a little noise of each method's own."""
    rng = np.random.default_rng(seed)
    difficulty = rng.uniform(size=n)
    return difficulty + rng.normal(0, 0.05, n), difficulty + rng.normal(0, 0.05, n)


def test_planted_differences_are_found_and_their_sign_is_told() -> None:
    ours, theirs = noisy(0)
    assert paired(ours + 0.01, theirs).verdict is BETTER
    assert paired(ours - 0.01, theirs).verdict is WORSE
    # 0.01 is far inside the interval of either mean: pairing is what finds it
    alone = estimate(ours)
    assert alone.high - alone.low > 0.02


def test_no_difference_is_tied_and_seldom_anything_else() -> None:
    verdicts = [paired(*noisy(seed, 400), repeats=400).verdict for seed in range(200)]
    # 5 % of 200 with the wrong verdict, and three standard deviations
    assert sum(verdict is not TIED for verdict in verdicts) <= 19
    same = np.random.default_rng(0).uniform(size=50)
    assert paired(same, same) == (0, 0, 0)
    assert paired(same, same).verdict is TIED


def test_the_interval_is_that_of_the_mean() -> None:
    values = np.random.default_rng(3).normal(2.0, 1.5, 5000)
    found = estimate(values)
    reach = 1.96 * values.std() / np.sqrt(len(values))
    assert found.mean == pytest.approx(values.mean())
    assert found.low == pytest.approx(found.mean - reach, abs=0.1 * reach)
    assert found.high == pytest.approx(found.mean + reach, abs=0.1 * reach)


def test_one_query_decides_nothing_and_different_queries_are_refused() -> None:
    assert paired(np.ones(1), np.zeros(1)).verdict is TIED
    with pytest.raises(ValueError, match="not the same queries"):
        paired(np.ones(3), np.ones(4))
    with pytest.raises(ValueError, match="no queries"):
        estimate(np.empty(0))


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(0.1, 0.2, BETTER), (-0.2, -0.1, WORSE), (-0.1, 0.1, TIED), (0, 0, TIED), (0, 0.1, TIED)],
)
def test_verdicts(low: float, high: float, verdict: Verdict) -> None:
    assert Estimate((low + high) / 2, low, high).verdict is verdict


def test_what_verdicts_add_up_to() -> None:
    assert at_least_as_good({"a": [BETTER, TIED], "b": [TIED, TIED]})
    assert not at_least_as_good({"a": [BETTER, BETTER], "b": [WORSE, BETTER]})
    assert better_than_all({"a": [BETTER, BETTER], "b": [BETTER, BETTER]})
    assert not better_than_all({"a": [BETTER, BETTER], "b": [BETTER, TIED]})


def test_relations_that_differ_are_found_one_by_one_and_chance_is_not() -> None:
    relations = np.repeat(np.arange(40), [30] * 20 + [400] * 20)
    ours, theirs = noisy(5, len(relations))
    found = by_relation(ours, theirs, relations)
    assert found == {BETTER: 0, TIED: 40, WORSE: 0}
    planted = ours + 0.1 * np.isin(relations, (3, 25, 26)) - 0.1 * (relations == 30)
    assert by_relation(planted, theirs, relations) == {BETTER: 3, TIED: 36, WORSE: 1}
    few = relations == 3
    few[np.flatnonzero(few)[5:]] = False  # five rows of one relation prove nothing
    assert sum(by_relation(planted[few], theirs[few], relations[few]).values()) == 0


def test_false_findings_stay_rare_however_many_relations() -> None:
    relations = np.repeat(np.arange(200), 12)
    runs = [by_relation(*noisy(seed, 2400), relations) for seed in range(10)]
    assert sum(run[BETTER] + run[WORSE] > 0 for run in runs) <= 3


def test_the_summary_counts_whole_datasets_only() -> None:
    won = dict.fromkeys(arena.RIVALS, (BETTER, BETTER))
    text = arena.summary(
        {
            "won": won,
            "tied": {**won, "cd": (TIED, BETTER)},
            "lost": {**won, "paper": (BETTER, WORSE)},
            "half": {"popularity": (BETTER, BETTER)},
        }
    )
    assert "At least as good everywhere: 2 of 4. Significantly better than all three in both: 1 of 4." in text
    assert text.count("missing") == 4


# -- cells


@pytest.fixture
def asked(tmp_path: Path) -> argparse.Namespace:
    train, test, _, _ = planted_graph(n_entities=40, n_groups=4, n_relations=2)
    data = tmp_path / "data" / "planted"
    data.mkdir(parents=True)
    for name, graph in (("train", train), ("valid", test), ("test", test)):
        consmrf.write_triples(graph, data / f"{name}.tsv.gz")
    given = ["planted", "--data", str(data.parent), "--out", str(tmp_path / "cells"), "--threads", "1"]
    return arena._arguments([*given, "--dim", "4", "--most", "50"])


def test_a_cell_is_made_once_and_again_when_asked_otherwise(
    asked: argparse.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []

    def here(make, folder, config, most, path):  # in this process: a fresh one takes a second to load
        made.append(most)
        return make(folder, config, most, path)

    monkeypatch.setattr(arena, "in_child", here)
    cells = arena.Cells(asked.out / "planted")
    for most in (50, 50, 60):
        asked.most = most
        assert "AUC" in arena.finish("planted", "popularity", 0, cells, asked)
    assert made == [50, 60]
    there = arena.entrants_of("planted", asked)
    assert list(there) == ["popularity"]
    assert arena.relation_by_relation(there) == {}
    cell = there["popularity"].cells[0]
    for metric, name in (("MRR", "mrr"), ("Hits@10", "hits@10")):
        assert there["popularity"].by_seed[metric][0] == pytest.approx(cell["full"]["both"][name])
    for metric, name in (("AUC", "auc"), ("P@5", "precision@5"), ("R@5", "recall@5")):
        assert there["popularity"].by_seed[metric][0] == pytest.approx(cell["paper"]["objects"][name])
    assert len(there["popularity"].queries["triples"]) == 60
    asked.most = 50
    assert arena.entrants_of("planted", asked) == {}


def test_a_cell_of_wave_holds_what_its_consensus_ranks(
    asked: argparse.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = consmrf.Config(dim=8, negatives=32, max_epochs=6, threads=1)  # a form that other tests compile
    monkeypatch.setattr(arena, "configuration", lambda *_: small)
    monkeypatch.setattr(arena, "in_child", lambda make, *given: make(*given))
    arena.finish("planted", "wave", 0, arena.Cells(asked.out / "planted"), asked)
    there = arena.entrants_of("planted", asked)
    wave = there["wave"]
    assert wave.consensus is not None
    assert wave.consensus.shape == wave.values["MRR"].shape
    assert 0 < wave.consensus.mean() < wave.values["MRR"].mean()
    assert sum(arena.relation_by_relation(there)["its own consensus"].values()) == 2
    assert "Relation by relation beside its own consensus" in arena.tables(asked)


def test_a_failing_cell_is_told_and_loses_no_other(
    asked: argparse.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def here(make, folder, config, most, path):
        if config.method != "popularity":
            raise FailedError("MemoryError: planted")
        return make(folder, config, most, path)

    monkeypatch.setattr(arena, "in_child", here)
    cells = arena.Cells(asked.out / "planted")
    for method in ("wave", "popularity"):
        arena.finish("planted", method, 0, cells, asked)
    text = arena.tables(asked)
    assert "wave-seed0 failed: MemoryError: planted" in text
    assert "| popularity |" in text
    assert "missing" in text
    stored = json.loads((asked.out / "planted" / "wave-seed0.failed.json").read_text())
    assert stored == {"error": "MemoryError: planted"}


def test_wave_is_compared_on_the_same_queries_only() -> None:
    def planted(shift: float, subject: int = 0) -> arena.Entrant:
        ours, _ = noisy(1, 300)
        queries = {"triples": np.full((300, 3), subject), "pairs": np.zeros((300, 2))}
        return arena.Entrant([], queries, dict.fromkeys(arena.METRICS, ours + shift), {})

    judged = arena.judge({"wave": planted(0.1), "cd": planted(0.0), "paper": planted(0.2)})
    assert {rival: found["MRR"].verdict for rival, found in judged.items()} == {"cd": BETTER, "paper": WORSE}
    with pytest.raises(ValueError, match="make the cells anew"):
        arena.judge({"wave": planted(0.0), "cd": planted(0.0, subject=1)})


# -- processes of their own


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_call_in_a_process_of_its_own() -> None:
    assert in_child(divmod, 17, 5) == (3, 2)
    with pytest.raises(FailedError, match="ZeroDivisionError"):
        in_child(divmod, 1, 0)
    with pytest.raises(FailedError, match="exit code -9"):
        in_child(killed)
    assert peak_memory() >= memory() > 0 or peak_memory() == memory() == 0
