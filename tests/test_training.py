"""The wave solver's compiled block: its gradients, what it rejects, and what it hands back."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from blocks import Trained, check
from consmrf.consensus.blocks import CONSENSUS
from consmrf.consensus.losses import LOSSES
from consmrf.consensus.scorers import SCORERS


def test_every_form_descends_the_gradient_of_its_objective():
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("blocks.py"))],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) == len(SCORERS) * len(LOSSES) * 2


@pytest.mark.parametrize("stage", ["shared", "consensus", "departures"])
def test_the_compiled_forms_of_the_default_do_too(stage):
    check("complex", "softmax", stage)


def test_known_facts_and_repeated_draws_are_no_negatives():
    trained = Trained("diagonal", "softmax", CONSENSUS)
    facts, known = trained.layout.facts, 0
    for f in trained.order:
        r, s = facts.relations[f], facts.subjects[f]
        linked = facts.objects[(facts.relations == r) & (facts.subjects == s)]
        known += len(np.intersect1d(linked, trained.pool))
    assert trained.rejected == known > 0
    assert len(np.unique(trained.pool)) < len(trained.pool)  # so repeats were met in this test, too


def test_a_pool_that_holds_all_entities_is_all_of_them():
    trained = Trained("diagonal", "softmax", CONSENSUS, negatives=64)
    assert trained.state.form.exhaustive
    assert set(trained.pool.tolist()) == set(range(30))
    assert not trained.numbers.boost.any()


def test_negatives_come_from_where_the_setting_says():
    facts = Trained("diagonal", "softmax", CONSENSUS).layout.facts
    trained = Trained("diagonal", "softmax", CONSENSUS, sampling="range")
    r = int(facts.relations[trained.order[0]])
    assert set(trained.pool.tolist()) <= set(facts.objects[facts.relations == r].tolist())
    assert set(Trained("diagonal", "softmax", CONSENSUS, sampling="degree").pool.tolist()) <= set(
        facts.objects.tolist()
    )
