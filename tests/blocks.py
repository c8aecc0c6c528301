"""One block of the wave solver, and the objective that it has to descend.

Run as a program, it checks every form of the kernels; with NUMBA_DISABLE_JIT=1 that takes seconds, since the
kernels are then the Python that they are written in.
"""

import warnings
from dataclasses import replace
from functools import cached_property
from itertools import chain, product
from types import SimpleNamespace

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


def told(graph, seed):
    """The graph with weights, some of them 0, and values that every loss can aim at."""
    rng = np.random.default_rng(seed)
    n = len(graph)
    return replace(graph, weights=rng.choice([0, 0.5, 1, 3], size=n), values=rng.uniform(size=n))


class Trained:
    """One block, trained with steps so small that they add up to the gradient.

    `terms` gives the facts weights and values, and all entities the same share of the regulariser. `losses`
    are those of the three relations where they differ; the block has facts of two of them then. `graph` and
    `order` replace the block's facts.
    """

    eta, optimizer = ETA, "adagrad"

    def __init__(self, scorer, loss, stage, *, seed=0, terms=False, losses=(), **more):
        self.graph = random_graph(seed, n_entities=30, sizes=(40, 25, 12))
        if terms:
            self.graph = told(self.graph, seed)
        self.graph = more.pop("graph", self.graph)
        self.order = more.pop("order", None)
        touches = more.pop("touches", None)
        self.config = Config(
            dim=4,
            scorer=scorer,
            loss=loss,
            reg=0.07,
            reg_weight="uniform" if terms else "frequency",
            rho=0.4,
            learning_rate=self.eta,
            optimizer=self.optimizer,
            precision="double",
            threads=1,
            seed=seed,
            init_scale=0.6,
            method="shared" if stage == SHARED else "consensus",
            **{"regulariser": "n3", "negatives": 16, "batch": 8, **more},
        )
        n = len(self.graph.vocabulary.entities)
        views = () if stage == SHARED else None
        self.layout = lay_out(partition(self.graph), n, reciprocal=True, views=views, losses=losses)
        if touches is not None:
            self.layout = replace(self.layout, facts=self.layout.facts._replace(touches=touches))
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

    def _choose(self):
        """Choose the block's facts, if they are not given."""
        if self.order is None:
            # a twin's facts, or the last of one and the first of another, which share a pool
            first = self.layout.indptr[5] - 4 if self.layout.losses else self.layout.indptr[4]
            self.order = np.arange(first, first + 7, dtype=np.int32)

    def _run(self, state):
        with Waves(self.layout, state, self.config) as engine:
            worker, block = engine._trainer.scratch[0], engine._trainer.blocks[0]
            self._choose()
            block = block._replace(order=self.order)
            facts, n = self.layout.facts, self.layout.n_entities
            sizes = index_kernel(state.form)(facts, block, worker, n, (0, 1, 2))
            self.pool = block.z_rows[worker.pools[0]].copy()
            self.pools = [self.pool] * len(self.order)
            self.numbers = numbers_of(state, self.layout, self.config)
            self.loss, self.rejected = train_kernel(state.form)(
                facts, state.rows, block, worker, self.numbers, sizes
            )
            assert (worker.row_of == -1).all()
            assert (worker.place_of == -1).all()
        nz, no, nw, batches = sizes
        assert batches == 1 + bool(self.layout.losses)
        assert not worker.batches[:batches, 2].any()
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
        terms = [self._terms(fact, z, own, w) for fact in self.facts]
        value = sum(value for value, _ in terms)
        return value, value + sum(rest for _, rest in terms)

    @cached_property
    def facts(self):
        """What the definitions need to know of each of the block's facts, whatever the parameters."""
        facts, told = self.layout.facts, []
        for f, pool in zip(self.order.tolist(), self.pools, strict=True):
            r, s, o = int(facts.relations[f]), int(facts.subjects[f]), int(facts.objects[f])
            lo, hi = facts.view_indptr[r], facts.view_indptr[r + 1]
            entities = [s, o, *pool.tolist()]
            slots = {int(e): int(lo + i) for i, e in enumerate(facts.view_entities[lo:hi])}
            same = (facts.relations == r) & (facts.subjects == s)
            closed = np.isin(pool, facts.objects[same])
            if not self.state.form.few:
                closed[np.setdiff1d(np.arange(len(pool)), np.unique(pool, return_index=True)[1])] = True
            told.append(
                SimpleNamespace(
                    relation=r,
                    role=4 + int(2 * r >= self.layout.n_relations),
                    entities=entities,
                    slots=np.array([slots.get(e, -1) for e in entities]),
                    closed=closed,
                    weight=float(facts.weights[f]) if len(facts.weights) else 1.0,
                    y=float(facts.values[f]) if len(facts.values) else 1.0,
                    loss=self.layout.losses[r] if self.layout.losses else self.config.loss,
                    shares=[self.share_of(s), self.share_of(o)],
                )
            )
        return told

    def _terms(self, fact, z, own, w):
        """The loss of a fact, and what regularisers and priors add to it."""
        dim, stage, role = 4, self.state.form.stage, fact.role
        rows = z[fact.entities]
        there = fact.slots >= 0
        if stage == CONSENSUS:
            rows[there, role] += own[fact.slots[there], 0]
        if stage == DEPARTURES:
            rows[there, :dim] += own[fact.slots[there]]
            rows[there, role] += self.state.rows.intercepts[fact.slots[there]]
        q = np.zeros(dim)
        SCORERS[self.config.scorer].query(dim, rows[0, :dim], w[fact.relation], q)
        scores = rows[1:, :dim] @ q + rows[1:, role]
        if fact.loss == "softmax" and not self.state.form.exhaustive:
            scores[1:] += np.log(30 / len(scores[1:]))
        scores[1:][fact.closed] = -np.inf
        value = LOSSES[fact.loss].function(scores, np.empty(len(scores)), fact.y)
        curb, reg = CURBS[self.config.regulariser], self.config.reg
        rest = reg * curb(w[fact.relation])
        for at in (0, 1):
            rest += reg * fact.shares[at] * curb(rows[at, :dim])
            if stage != SHARED:
                slot = fact.slots[at]
                rho, touches = self.numbers.rho[fact.relation], self.layout.facts.touches[slot]
                rest += rho / 2 * np.sum(own[slot] ** 2) / touches
        return fact.weight * value, fact.weight * rest

    def share_of(self, e):
        """What an entity has of λ at each touch: all, or as much as makes every entity's total the same."""
        if self.config.reg_weight == "frequency":
            return 1.0
        facts = self.layout.facts
        counts = [0.0] * 30
        for s, o, weight in zip(facts.subjects, facts.objects, facts.weights, strict=True):
            counts[s] += weight
            counts[o] += weight
        met = [n for n in counts if n]
        return sum(met) / len(met) / counts[e] if counts[e] else 0.0

    def differences(self, which, h=1e-6):
        values = {k: v.copy() for k, v in zip(("z", "own", "w"), self.values, strict=True)}
        x = values[which]
        gradient = np.zeros_like(x)
        met = sorted({fact.relation for fact in self.facts})
        views = [range(*self.layout.facts.view_indptr[r : r + 2]) for r in met]
        rows = {"z": range(len(x)), "own": chain(*views), "w": met}[which]  # no others are in the objective
        for i in product(rows, range(x.shape[1])):
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
        self._choose()
        facts, n = self.layout.facts, self.layout.n_entities
        plan = plan_apart((facts.subjects, facts.objects), self.layout.indptr, n, 1, 0, 1)
        worker = scratch(state.form, state.rows.z.dtype, np.zeros(1, np.uint8))
        block = Apart(self.order, np.empty(6, np.int32), np.empty((6, state.rows.w.shape[1])))
        self.numbers = numbers_of(state, self.layout, self.config)
        self.loss, self.rejected, trained, nw = drawn_kernel(state.form)(
            facts, state.rows, block, worker, self.numbers, plan.parts, (0, 1, 2)
        )
        assert (trained, nw) == (len(self.order), 1 + bool(self.layout.losses))
        known, few = facts.objects, state.form.pool
        self.order = worker.samples[:trained, -1].copy()  # shuffled
        assert sorted(self.order) == sorted(block.order)
        self.pools = worker.samples[:trained, 2 : 2 + few].copy()
        for f, pool in zip(self.order, self.pools, strict=True):
            assert not np.isin(pool, known[facts.heads == facts.heads[f]]).any()
        root = np.sqrt(SUMS) if state.form.arrays == 2 else 1
        z, own, w = (
            (before - now[:, : before.shape[1]]) * root
            for before, now in zip(self.values, state.rows[:3], strict=True)
        )
        assert not w.any()  # that is left to the merge
        self.z, self.own_gradient = z / self.eta, own / float(self.numbers.own_rate)
        self.w = w
        if state.form.stage == DEPARTURES:
            assert not z.any()
        else:
            self.w[block.w_rows[:nw]] = -block.w_table[:nw, : w.shape[1]] / self.eta


class Plain(Drawn):
    """The same with plain steps."""

    eta, optimizer = ETA / np.sqrt(SUMS), "sgd"


CURBS = {"n3": lambda x: np.sum(np.abs(x) ** 3) / 3, "l2": lambda x: np.sum(x**2) / 2}
STAGES = {"shared": SHARED, "consensus": CONSENSUS, "departures": DEPARTURES}
TOLERANCE = {"rtol": 2e-4, "atol": 2e-4}


def check(scorer, loss, stage, kind=Trained, **settings):
    """Compare what a block hands back, or has moved, with finite differences of the objective."""
    compare(kind(scorer, loss, STAGES[stage], **settings), stage)


def compare(trained, stage):
    """The same for a block that has been trained."""
    expected = trained.objective(*trained.values)[0]
    assert abs(trained.loss - expected) <= 1e-5 * abs(expected), (trained.loss, expected)
    if stage != "shared":
        np.testing.assert_allclose(trained.own_gradient, trained.differences("own"), **TOLERANCE)
    if stage != "departures":
        np.testing.assert_allclose(trained.z, trained.differences("z"), **TOLERANCE)
        np.testing.assert_allclose(trained.w, trained.differences("w"), **TOLERANCE)


def check_copies(scorer, loss, stage, regulariser):
    """Compare facts that weigh 0, 1, 2 or 3 with so many copies of each: the gradients are the same."""
    graph = random_graph(1, n_entities=30, sizes=(40, 25, 12))
    weights = np.random.default_rng(1).integers(4, size=len(graph))
    weighted = replace(graph, weights=weights.astype(float), values=None)
    pool = {"negatives": 64, "batch": 64, "regulariser": regulariser, "seed": 1}  # no draws
    once = Trained(scorer, loss, STAGES[stage], graph=weighted, **pool)
    facts = once.layout.facts
    order = np.repeat(once.order, facts.weights[once.order].astype(int))
    copies = Trained(scorer, loss, STAGES[stage], graph=graph, order=order, touches=facts.touches, **pool)
    assert len(order) != len(once.order)
    assert abs(once.loss - copies.loss) <= 1e-9 * abs(copies.loss)
    for name in ("z", "w", "own_gradient"):
        one, other = getattr(once, name), getattr(copies, name)
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
        assert np.abs(one).max() > 0 or (stage == "departures" and name != "own_gradient")


def check_drawn():
    """Check the loop in which every fact draws objects of its own: every scorer, loss and stage."""
    for scorer, loss, stage in product(SCORERS, LOSSES, STAGES):
        check(scorer, loss, stage, kind=Drawn, negatives=3)
        check(scorer, loss, stage, kind=Drawn, negatives=1, terms=True)
    for stage in STAGES:
        check("diagonal", "bpr", stage, kind=Drawn, negatives=1, regulariser="l2", seed=1)
        check("complex", "bpr", stage, kind=Plain, negatives=1)
        check("complex", "softmax", stage, kind=Drawn, negatives=2, losses=("bpr", "squared", "softmax"))
    for sampling in ("degree", "range"):
        trained = Drawn("diagonal", "bpr", STAGES["consensus"], negatives=3, sampling=sampling)
        compare(trained, "consensus")
        facts = trained.layout.facts
        own = facts.objects[facts.relations == facts.relations[trained.order[0]]]
        assert np.isin(trained.pools, own if sampling == "range" else facts.objects).all()


def found(entries, first, last, value):
    """What `among` does."""
    at = np.flatnonzero(entries[first:last] == value)
    return first + int(at[0]) if len(at) else -1


def without_compiler():
    """Put plain Python in the place of what has only a compiled form."""
    # the random streams count on 64-bit numbers that overflow, and −∞ is a score that is left out
    warnings.simplefilter("ignore", RuntimeWarning)
    training.prefetch = drawn.prefetch = lambda *_: None
    drawn.dot, drawn.uncounted, drawn.among = lambda a, b, d: a[:d] @ b[:d], lambda arrays: arrays, found


def main():
    """Check every scorer with every loss as relations meet and as they depart, with and without terms."""
    without_compiler()
    forms = list(product(SCORERS, LOSSES, ("consensus", "departures")))
    for scorer, loss, stage in forms:
        check(scorer, loss, stage)
        check(scorer, loss, stage, terms=True)
    for stage in STAGES:
        check("diagonal", "bpr", stage, regulariser="l2", seed=1)
        check("diagonal", "squared", stage, regulariser="l2", seed=1, terms=True)
        check("complex", "softmax", stage, losses=("bpr", "squared", "softmax"))
        check("complex", "softmax", stage, losses=("bpr", "logistic", "squared"), terms=True)
    for sampling in ("degree", "range"):
        check("diagonal", "bpr", "consensus", sampling=sampling, terms=True)
    for loss in LOSSES:
        check_copies("diagonal", loss, "consensus", "n3")
        check_copies("full", loss, "departures", "l2")
    check_drawn()
    print(len(forms))


if __name__ == "__main__":
    main()
