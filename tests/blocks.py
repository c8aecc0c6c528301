"""One block of one batch of the wave solver, and the objective that it has to descend.

Run as a program, it checks every form of the kernels; with NUMBA_DISABLE_JIT=1 that takes seconds, since the
kernels are then the Python that they are written in.
"""

import warnings
from itertools import product

import numpy as np

from consmrf.config import Config
from consmrf.consensus import drawn, training
from consmrf.consensus.blocks import CONSENSUS, DEPARTURES, SHARED, index_kernel, padded
from consmrf.consensus.drawn import Apart, drawn_kernel, scratch
from consmrf.consensus.facts import lay_out
from consmrf.consensus.losses import LOSSES
from consmrf.consensus.plan import plan_apart
from consmrf.consensus.scorers import SCORERS
from consmrf.consensus.training import train_kernel
from consmrf.consensus.wave import initial_wave, numbers_of
from consmrf.engine.waves import Waves
from consmrf.graph.partition import partition
from problems import random_graph

ETA, SUMS = 1e-4, 1e12


class Trained:
    """One block of one batch, trained with steps so small that they add up to the gradient."""

    eta, optimizer = ETA, "adagrad"

    def __init__(self, scorer, loss, stage, *, regulariser="n3", pool=16, seed=0, sampling="uniform"):
        self.graph = random_graph(seed, n_entities=30, sizes=(40, 25, 12))
        self.config = Config(
            dim=4,
            scorer=scorer,
            loss=loss,
            regulariser=regulariser,
            negatives=pool,
            sampling=sampling,
            batch=8,
            reg=0.07,
            rho=0.4,
            learning_rate=self.eta,
            optimizer=self.optimizer,
            precision="double",
            threads=1,
            seed=seed,
            init_scale=0.6,
            method="shared" if stage == SHARED else "consensus",
        )
        n = len(self.graph.vocabulary.entities)
        views = () if stage == SHARED else None
        self.layout = lay_out(partition(self.graph), n, reciprocal=True, views=views)
        state = initial_wave(self.layout, self.config)
        rng = np.random.default_rng(seed)
        d = padded(4)
        state.rows.z[:, 4:6] = rng.normal(size=(n, 2))
        if stage == DEPARTURES:
            views = state.views()
            views.delta_b[:] = rng.normal(size=len(views.delta_b))
            state = state.depart(views, self.config)
        own = state.rows.own.shape[1] // state.form.arrays
        state.rows.own[:, :own] = rng.normal(size=(len(state.rows.own), own))
        for rows in (state.rows.z, state.rows.own, state.rows.w):
            rows[:, rows.shape[1] // state.form.arrays :] = SUMS
        self.values = [x[:, : x.shape[1] // state.form.arrays].copy() for x in state.rows[:3]]
        self.state, self.d, self.own = state, d, own
        self._run(state)

    def _run(self, state):
        with Waves(self.layout, state, self.config) as engine:
            worker, block = engine._trainer.scratch[0], engine._trainer.blocks[0]
            first = self.layout.indptr[4]  # a twin's facts
            self.order = np.arange(first, first + 7, dtype=np.int32)
            block = block._replace(order=self.order)
            facts, n = self.layout.facts, self.layout.n_entities
            sizes = index_kernel(state.form)(facts, block, worker, n, (0, 1, 2))
            self.pool = block.z_rows[worker.pools[0]].copy()
            self.ranked = [dict.fromkeys(self.pool.tolist())] * len(self.order)  # a repeat counts once
            self.numbers = numbers_of(state, self.layout, self.config)
            self.loss, self.rejected = train_kernel(state.form)(
                facts, state.rows, block, worker, self.numbers, sizes
            )
            assert (worker.row_of == -1).all()
            assert (worker.place_of == -1).all()
        nz, no, nw, batches = sizes
        assert batches == 1
        rate = float(self.numbers.own_rate)
        rests = state.form.stage == DEPARTURES  # then nothing is handed back
        self.z = self._scattered(state.rows.z, block.z_rows[: 0 if rests else nz], block.z_table, ETA)
        self.own_gradient = self._scattered(state.rows.own, block.own_rows[:no], block.own_table, rate)
        self.w = self._scattered(state.rows.w, block.w_rows[: 0 if rests else nw], block.w_table, ETA)

    @staticmethod
    def _scattered(rows, at, table, rate):
        width = rows.shape[1] // 2
        gradient = np.zeros((len(rows), width))
        gradient[at] = -table[: len(at), :width] / rate
        return gradient

    def objective(self, z, own, w):
        """What the batch descends, from the definitions alone."""
        facts, dim, stage = self.layout.facts, 4, self.state.form.stage
        r = int(facts.relations[self.order[0]])
        role = dim + int(2 * r >= self.layout.n_relations)
        lo, hi = facts.view_indptr[r], facts.view_indptr[r + 1]
        slot_of = {int(e): int(lo + i) for i, e in enumerate(facts.view_entities[lo:hi])}
        reg, rho = self.config.reg, float(self.numbers.rho[r])

        def row(e):
            a = z[e].copy()
            if e in slot_of:
                if stage == CONSENSUS:
                    a[role] += own[slot_of[e], 0]
                if stage == DEPARTURES:
                    a[:dim] += own[slot_of[e]]
                    a[role] += self.state.rows.intercepts[slot_of[e]]
            return a

        def curb(x):
            return np.sum(np.abs(x) ** 3) / 3 if self.config.regulariser == "n3" else np.sum(x**2) / 2

        scorer, loss = SCORERS[self.config.scorer], LOSSES[self.config.loss]
        total = reg * len(self.order) * curb(w[r])
        value = 0.0
        for f, pool in zip(self.order, self.ranked, strict=True):
            s, o = int(facts.subjects[f]), int(facts.objects[f])
            q = np.zeros(dim)
            scorer.query(dim, row(s)[:dim], w[r], q)
            same = (facts.relations == r) & (facts.subjects == s)
            known = set(facts.objects[same].tolist())
            scores = [q @ row(o)[:dim] + row(o)[role]]
            for e in pool:
                plain = q @ row(e)[:dim] + row(e)[role] + float(self.numbers.boost)
                scores.append(-np.inf if e in known else plain)
            scores += [-np.inf] * (self.state.form.pool - len(pool))
            scores = np.array(scores)
            value += loss.function(scores, np.empty(len(scores)))
            total += reg * (curb(row(s)[:dim]) + curb(row(o)[:dim]))
            if stage == CONSENSUS:
                total += rho / 2 * own[slot_of[o], 0] ** 2 / facts.touches[slot_of[o]]
            if stage == DEPARTURES:
                for e in (s, o):
                    total += rho / 2 * np.sum(own[slot_of[e]] ** 2) / facts.touches[slot_of[e]]
        return value, value + total

    def differences(self, which, h=1e-6):
        values = {k: v.copy() for k, v in zip(("z", "own", "w"), self.values, strict=True)}
        x = values[which]
        gradient = np.empty_like(x)
        for i in np.ndindex(*x.shape):
            kept = x[i]
            x[i] = kept + h
            up = self.objective(values["z"], values["own"], values["w"])[1]
            x[i] = kept - h
            down = self.objective(values["z"], values["own"], values["w"])[1]
            x[i] = kept
            gradient[i] = (up - down) / (2 * h)
        return gradient


class Drawn(Trained):
    """The same where every fact draws objects of its own, and rows are moved where they are."""

    def _run(self, state):
        facts, n, first = self.layout.facts, self.layout.n_entities, self.layout.indptr[4]
        order = np.arange(first, first + 7, dtype=np.int32)
        plan = plan_apart((facts.subjects, facts.objects), self.layout.indptr, n, 1, 0, 1)
        worker = scratch(state.form, state.rows.z.dtype, np.zeros(1, np.uint8))
        width = state.rows.w.shape[1]
        block = Apart(order, np.empty(6, np.int32), np.empty((6, width)))
        self.numbers = numbers_of(state, self.layout, self.config)
        self.loss, self.rejected, self.moved, trained, nw = drawn_kernel(state.form)(
            facts, state.rows, block, worker, self.numbers, plan.parts, (0, 1, 2)
        )
        assert (trained, nw) == (7, 1)
        self.order = order  # shuffled
        self.ranked = worker.samples[:7, 2 : 2 + state.form.pool].tolist()
        rests, root = state.form.stage == DEPARTURES, np.sqrt(SUMS) if state.form.arrays == 2 else 1
        z, own, _ = (
            (before - now[:, : before.shape[1]]) * root
            for before, now in zip(self.values, state.rows[:3], strict=True)
        )
        self.z, self.own_gradient = z / self.eta, own / float(self.numbers.own_rate)
        self.w = np.zeros_like(self.values[2])
        if rests:
            assert not z.any()
        else:
            self.w[block.w_rows[0]] = -block.w_table[0, : self.w.shape[1]] / self.eta
        steps = ((z, own)[rests]) / root
        np.testing.assert_allclose(self.moved, np.sum(steps**2), rtol=0.5)  # rows met twice took two steps


class Plain(Drawn):
    """The same with plain steps."""

    eta, optimizer = ETA / np.sqrt(SUMS), "sgd"


STAGES = {"shared": SHARED, "consensus": CONSENSUS, "departures": DEPARTURES}
TOLERANCE = {"rtol": 2e-4, "atol": 2e-4}


def check(scorer, loss, stage, kind=Trained, **settings):
    """Compare what a block hands back, or has moved, with finite differences of the objective."""
    trained = kind(scorer, loss, STAGES[stage], **settings)
    expected = trained.objective(*trained.values)[0]
    assert abs(trained.loss - expected) <= 1e-5 * abs(expected), (trained.loss, expected)
    if stage != "shared":
        np.testing.assert_allclose(trained.own_gradient, trained.differences("own"), **TOLERANCE)
    if stage != "departures":
        np.testing.assert_allclose(trained.z, trained.differences("z"), **TOLERANCE)
        np.testing.assert_allclose(trained.w, trained.differences("w"), **TOLERANCE)


def without_compiler():
    """Put plain Python in the place of what has only a compiled form."""
    # the random streams count on 64-bit numbers that overflow, and −∞ is a score that is left out
    warnings.simplefilter("ignore", RuntimeWarning)
    training.prefetch = drawn.prefetch = lambda *_: None
    drawn.dot, drawn.uncounted = lambda a, b, d: a[:d] @ b[:d], lambda arrays: arrays


def main():
    """Check every scorer with every loss in every stage of both loops, and what else is a form."""
    without_compiler()
    checked = 0
    for scorer, loss, stage in product(SCORERS, LOSSES, STAGES):
        check(scorer, loss, stage, kind=Drawn, pool=3)
        checked += 1
        if stage != "shared":
            check(scorer, loss, stage)
            checked += 1
    for stage in STAGES:
        check("diagonal", "bpr", stage, regulariser="l2", seed=1)
        check("diagonal", "bpr", stage, kind=Drawn, pool=1, regulariser="l2", seed=1)
        check("complex", "bpr", stage, kind=Plain, pool=1)
    print(checked)


if __name__ == "__main__":
    main()
