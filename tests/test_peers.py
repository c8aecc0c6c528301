"""The benchmark beside other systems: what it reads from drivers, which batch it keeps, what it prints."""

import sys
from pathlib import Path

import numpy as np
import pytest

import peers
from child import FailedError
from peers import Case, Ours, Rates

DRIVER = """
import argparse, json
p = argparse.ArgumentParser()
for name in ("--threads", "-k", "--batch"):
    p.add_argument(name, type=int)
a = p.parse_args()
print("epoch 1 {not json}")
print(json.dumps({"per_s": 1000.0 * a.threads + min(a.batch, 5000 - a.batch), "k": a.k}))
"""


@pytest.fixture
def asked(tmp_path: Path):
    (tmp_path / "drivers").mkdir()
    (tmp_path / "drivers" / "fake.py").write_text(DRIVER)
    (tmp_path / "drivers" / "broken.py").write_text("raise SystemExit('no such thing')")
    python = peers.python_of(tmp_path / "venvs", "pykeen")
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    return peers._arguments(
        [
            "--drivers",
            str(tmp_path / "drivers"),
            "--venvs",
            str(tmp_path / "venvs"),
            "--target",
            "0.01",
            "--dim",
            "4",
        ]
    )


def graph():
    return peers._bipartite(*np.divmod(np.arange(0, 200, 3), 10), 20, 10)


def case(driver="fake.py", batches=(100, 2000, 4900)):
    ways = (Ours("shared, plain steps", peers.PAIRS | {"optimizer": "sgd"}),)
    return Case("pykeen", "pairs", driver, (), graph, ways, batches)


def test_the_rate_is_that_of_the_last_line_of_json():
    assert peers.rate_of('{"per_s": 1}\nwords\n{"per_s": 2.5, "k": 3}\nmore words\n') == 2.5
    with pytest.raises(FailedError, match="no line of JSON but 'words'"):
        peers.rate_of("words")


def test_a_driver_is_run_with_what_was_asked_and_the_fastest_batch_is_kept(asked, tmp_path):
    assert peers.run_peer(case(), 2, 100, asked, tmp_path) == 2100
    assert peers.fastest((100, 2000, 4900), lambda b: peers.run_peer(case(), 1, b, asked, tmp_path)) == 2000
    assert peers.fastest((), lambda _: 0.0) is None
    with pytest.raises(FailedError, match=r"broken.py: no such thing"):
        peers.run_peer(case("broken.py"), 1, 100, asked, tmp_path)


def test_ours_runs_between_two_runs_of_the_peer(asked, tmp_path, monkeypatch):
    order = []
    monkeypatch.setattr(peers, "run_peer", lambda *given: order.append(given[2]) or float(given[2]))
    monkeypatch.setattr(peers, "in_child", lambda *given: order.append(given[2].name) or 8e6)
    rates = peers.side_by_side(case(), 1, asked, tmp_path)
    assert order == [100, 2000, 4900, 4900, "shared, plain steps", 4900]
    assert rates.ratio("shared, plain steps") == 8e6 / 4900


def test_a_row_has_medians_and_their_ratio():
    rates = Rates([1e6, 3e6, 2e6, 2e6], {"shared": [8e6, 9e6, 1e6]})
    assert peers.lines(case(), 2, rates) == ["| pairs | 2 | PyKEEN | 2.00 | shared | 8.00 | 4.0 |"]


def test_a_peer_that_is_not_there_is_left_out_with_a_sentence(asked):
    assert peers.absent("pykeen", asked) is None
    told = peers.absent("tbg", asked)
    assert told.startswith("PyTorch-BigGraph is left out: there is no ")
    assert told.endswith("--make makes it.")


def test_every_case_names_settings_that_there_are(asked):
    cases = peers.cases(asked)
    assert {c.peer for c in cases} == set(peers.NAMES)
    for each in cases:
        for way in each.ours:
            assert peers.Config(**way.settings).method in ("shared", "consensus")


def test_pairs_become_one_relation_from_subjects_to_objects():
    found = graph()
    assert len(found.vocabulary.entities) == 30
    assert found.triples[:, 0].max() < 20
    assert found.triples[:, 2].min() >= 20
    keys = found.triples[:, 0].astype(int) * 30 + found.triples[:, 2]
    assert (np.diff(keys) > 0).all()
