"""One block of one batch of the wave solver, and the objective that it has to descend.

Run as a program, it checks every form of the kernels; with NUMBA_DISABLE_JIT=1 that takes seconds, since the
kernels are then the Python that they are written in.
"""

import warnings
from itertools import product

import numpy as np

from consmrf.config import Config
from consmrf.consensus import training
from consmrf.consensus.blocks import CONSENSUS, DEPARTURES, SHARED, index_kernel, padded
from consmrf.consensus.facts import lay_out
from consmrf.consensus.losses import LOSSES
from consmrf.consensus.scorers import SCORERS
from consmrf.consensus.training import train_kernel
from consmrf.consensus.wave import initial_wave, numbers_of
from consmrf.engine.waves import Waves
from consmrf.graph.partition import partition
from problems import random_graph

ETA, SUMS = 1e-4, 1e12


class Trained:
    """One block of one batch, trained with steps so small that they add up to the gradient."""

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
            learning_rate=ETA,
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
        own = state.rows.own.shape[1] // 2
        state.rows.own[:, :own] = rng.normal(size=(len(state.rows.own), own))
        for rows in (state.rows.z, state.rows.own, state.rows.w):
            rows[:, rows.shape[1] // 2 :] = SUMS
        self.state, self.d, self.own = state, d, own
        self._run(state)

    def _run(self, state):
        with Waves(self.layout, state, self.config) as engine:
            worker, block = engine._scratch[0], engine._blocks[0]
            first = self.layout.indptr[4]  # a twin's facts
            self.order = np.arange(first, first + 7, dtype=np.int32)
            block = block._replace(order=self.order)
            facts, n = self.layout.facts, self.layout.n_entities
            sizes = index_kernel(state.form)(facts, block, worker, n, (0, 1, 2))
            self.pool = block.z_rows[worker.pools[0]].copy()
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
        for f in self.order:
            s, o = int(facts.subjects[f]), int(facts.objects[f])
            q = np.zeros(dim)
            scorer.query(dim, row(s)[:dim], w[r], q)
            same = (facts.relations == r) & (facts.subjects == s)
            known = set(facts.objects[same].tolist())
            scores, seen = [q @ row(o)[:dim] + row(o)[role]], set()
            for e in self.pool.tolist():
                open_ = e not in known and e not in seen
                seen.add(e)
                plain = q @ row(e)[:dim] + row(e)[role] + float(self.numbers.boost[r])
                scores.append(plain if open_ else -np.inf)
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
        arrays = {"z": self.state.rows.z, "own": self.state.rows.own, "w": self.state.rows.w}
        values = {k: v[:, : v.shape[1] // 2].copy() for k, v in arrays.items()}
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


STAGES = {"shared": SHARED, "consensus": CONSENSUS, "departures": DEPARTURES}
TOLERANCE = {"rtol": 2e-4, "atol": 2e-4}


def check(scorer, loss, stage, **settings):
    """Compare what a block hands back with finite differences of the objective."""
    trained = Trained(scorer, loss, STAGES[stage], **settings)
    rows = trained.state.rows
    values = [x[:, : x.shape[1] // 2] for x in (rows.z, rows.own, rows.w)]
    expected = trained.objective(*values)[0]
    assert abs(trained.loss - expected) <= 1e-5 * abs(expected), (trained.loss, expected)
    if stage != "shared":
        np.testing.assert_allclose(trained.own_gradient, trained.differences("own"), **TOLERANCE)
    if stage != "departures":
        np.testing.assert_allclose(trained.z, trained.differences("z"), **TOLERANCE)
        np.testing.assert_allclose(trained.w, trained.differences("w"), **TOLERANCE)


def main():
    """Check every scorer with every loss as relations meet and as they depart, and the other regulariser."""
    # the random streams count on 64-bit numbers that overflow, and −∞ is a score that is left out
    warnings.simplefilter("ignore", RuntimeWarning)
    training.prefetch = lambda *_: None  # it has no Python form, and nothing to do there
    forms = list(product(SCORERS, LOSSES, ("consensus", "departures")))
    for scorer, loss, stage in forms:
        check(scorer, loss, stage)
    for stage in STAGES:
        check("diagonal", "bpr", stage, regulariser="l2", seed=1)
    print(len(forms))


if __name__ == "__main__":
    main()
