"""How fast the paper solver's kernels are: million triples per second of one core, compile time aside.

    python benchmarks/kernels.py                         fb15k237, the three scorers
    python benchmarks/kernels.py --peer-python PYTHON    beside implicit's BPR on its largest relation, too
    python benchmarks/kernels.py --quick                 a graph made on the spot, a few seconds

"Draw" picks (s, o, o′). "SGD" is Algorithm 2's loop on a table that is already laid out. "Update" is all of
`update_aw`: draw, gather, SGD, scatter, and the copies handed on; in a first round it also lays out the
state. One triple is one sample (s, o, o′). The clock of these is the CPU time of the thread, so that a core
shared with others does not count as slow; the last column is the wall clock's word on the same rounds.

The peer's interpreter needs `implicit` and `scipy`. It runs before and after ours, by the wall clock, and a
timing of one against the other means something only as that ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import consmrf
from consmrf.config import Config
from consmrf.consensus.average import mean_change, update_z
from consmrf.consensus.local import LocalProblem, Workspace, compiled, local_problems, steps, update_aw
from consmrf.consensus.scorers import SCORERS
from consmrf.consensus.state import ConsensusState, initial_state
from consmrf.graph.partition import Partition, partition
from consmrf.graph.triples import Graph
from consmrf.graph.vocabulary import Vocabulary
from machine import Clock

SHARED = Path(__file__).resolve().parents[2] / "shared"
# Rounds before the later ones are timed: by then fewer rows are touched for the first time.
SETTLING = 20


@dataclass
class Seconds:
    """One round over all relations, and its parts."""

    samples: int = 0
    draw: float = 0.0
    sgd: float = 0.0
    whole: float = 0.0
    wall: float = 0.0  # of `whole`

    def rate(self, part: str) -> float:
        """Hand on million triples per second."""
        seconds: float = getattr(self, part)
        return self.samples / seconds / 1e6


def main() -> None:
    """Measure, and print a table."""
    asked = _arguments()
    clock = Clock()
    graph = synthetic() if asked.quick else consmrf.read_triples(asked.data / "train.tsv.gz")
    repeats, settling = (5, 3) if asked.quick else (asked.repeats, SETTLING)
    print(f"{_sizes(graph)}; k = {asked.dim}, single precision, AdaGrad, one thread")
    print(f"million triples per second of CPU; median (best) of {repeats} rounds; later: after {settling}\n")
    print(f"{'':<17} {'':>13} {'':>13} {'update':>15} {'update':>15} {'the same by':>13}")
    print(
        f"{'scorer':<10} {'epochs':>6} {'draw':>13} {'SGD':>13} {'first':>15} {'later':>15} {'the wall':>13}"
    )
    for config in configurations(asked.dim, asked.quick):
        first, steady = measure(partition(graph), len(graph.vocabulary.entities), config, repeats, settling)
        print(_row(config, first, steady), flush=True)
    print(f"\n{clock.describe()}")
    if asked.peer_python is not None:
        beside_peer(graph, asked)


def configurations(dim: int, quick: bool) -> Iterable[Config]:
    """Hand on what is measured: each scorer, and what more epochs per round save."""
    base = Config(solver="paper", dim=dim, threads=1)
    yield from (replace(base, scorer=name) for name in (("diagonal",) if quick else SCORERS))
    yield replace(base, inner_epochs=10)


def measure(
    partitions: Sequence[Partition], n_entities: int, config: Config, repeats: int, settling: int
) -> tuple[list[Seconds], list[Seconds]]:
    """Hand on the timings of first rounds, each on a new state, and of later rounds of one state."""
    problems = local_problems(partitions, n_entities, config.inner_epochs)
    _round(problems, initial_state(partitions, n_entities, config), config, 1)  # compiles
    first = []
    for _ in range(repeats):
        state = initial_state(partitions, n_entities, config)
        first.append(_round(problems, state, config, 1))
    workspace, later = Workspace(problems, n_entities, config), 2 + settling
    for epoch in range(2, later):
        _round(problems, state, config, epoch, workspace)
    return first, [_round(problems, state, config, later + i, workspace) for i in range(repeats)]


def _round(
    problems: Sequence[LocalProblem],
    state: ConsensusState,
    config: Config,
    epoch: int,
    workspace: Workspace | None = None,
) -> Seconds:
    """Run one round on `state`, timed."""
    workspace = workspace or Workspace(problems, len(state.z), config)
    taken, updates = Seconds(), []
    for problem in problems:
        begun, begun_wall = time.thread_time(), time.perf_counter()
        updates.append(update_aw(problem, state, config, epoch, workspace))
        taken.whole += time.thread_time() - begun
        taken.wall += time.perf_counter() - begun_wall
        taken.samples += problem.draws
        _time_parts(problem, state, config, epoch, workspace, taken)
    state.z = update_z(state.z, mean_change(state.z, updates))
    return taken


def _time_parts(
    problem: LocalProblem,
    state: ConsensusState,
    config: Config,
    epoch: int,
    workspace: Workspace,
    taken: Seconds,
) -> None:
    """Time drawing and SGD by themselves, right after `update_aw` left its samples and its table in place."""
    if not problem.draws:
        return
    draw, update = compiled(config)
    scratch, local = workspace.scratch(problem.draws), state.locals[problem.relation]
    w, w_sums = local.w.copy(), local.w_sums.copy()
    begun = time.thread_time()
    # no rows to gather or to scatter: what is left of the update is the loop over the samples
    update(state.z, state.z0, local.store, 0, w, w_sums, scratch, steps(config, state.rho))
    between = time.thread_time()
    draw(problem.sampling, local.touched, len(state.z), (config.seed, epoch, problem.relation), scratch)
    taken.sgd += between - begun
    taken.draw += time.thread_time() - between


def beside_peer(graph: Graph, asked: argparse.Namespace) -> None:
    """Time implicit, ours, implicit again, on the largest relation; print rates and ratios of the medians."""
    clock = Clock()
    largest = largest_relation(graph)
    print(f"\nthe largest relation alone: {_sizes(largest)}")
    config = Config(solver="paper", dim=asked.dim, threads=1)
    # o′ comes from the whole graph's entities, as in the solver; or from the relation's own, as in the peer
    cases = {
        "o′ from all entities": (_of_largest(graph), len(graph.vocabulary.entities), config),
        "o′ from its own": (partition(largest), len(largest.vocabulary.entities), config),
        "the same, 10 epochs": (
            partition(largest),
            len(largest.vocabulary.entities),
            replace(config, inner_epochs=10),
        ),
    }
    peer: list[float] = []
    ours: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(asked.sandwiches):
        peer.append(_peer(asked))
        for name, (partitions, n_entities, settings) in cases.items():
            _, steady = measure(partitions, n_entities, settings, 10 * asked.repeats, SETTLING)
            ours[name].append(statistics.median(t.rate("wall") for t in steady))
        peer.append(_peer(asked))
    middle = statistics.median(peer)
    print(f"  {'implicit BPR':<24} {middle:6.2f}   ({min(peer):.2f} to {max(peer):.2f}, {len(peer)} runs)")
    for name, rates in ours.items():
        mine = statistics.median(rates)
        print(f"  {name:<24} {mine:6.2f}   ratio to the peer {mine / middle:.2f}")
    print(f"{clock.describe()}")


def largest_relation(graph: Graph) -> Graph:
    """Hand on the relation with the most triples as a graph of its own entities."""
    [own] = _of_largest(graph)
    labels = [graph.vocabulary.entities[e] for e in own.entities.tolist()]
    triples = np.stack([own.local_heads[own.head_of], np.zeros_like(own.head_of), own.local_objects], axis=1)
    return Graph(
        Vocabulary(tuple(labels), (graph.vocabulary.relations[own.relation],)), triples.astype(np.int32)
    )


def _of_largest(graph: Graph) -> list[Partition]:
    """Hand on the largest relation's partition, alone, among all the graph's entities."""
    return [replace(max(partition(graph), key=len), relation=0)]


def _peer(asked: argparse.Namespace) -> float:
    """Run the peer's driver in its own interpreter; hand on million triples per second."""
    command = [asked.peer_python, asked.driver, "--data", asked.data, "--factors", asked.dim, "--threads", 1]
    done = subprocess.run(
        [str(part) for part in (*command, "--target", asked.target)],
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return float(json.loads(done.stdout.splitlines()[-1])["per_s"]) / 1e6


def synthetic(n_entities: int = 3000, n_relations: int = 20, n_triples: int = 60_000, seed: int = 0) -> Graph:
    """Make a graph whose relations and objects are as uneven as real ones."""
    rng = np.random.default_rng(seed)
    r = (n_relations * rng.random(n_triples) ** 3).astype(np.int32)
    s = rng.integers(n_entities, size=n_triples, dtype=np.int32)
    o = (n_entities * rng.random(n_triples) ** 3).astype(np.int32)
    entities = tuple(f"entity {i:06}" for i in range(n_entities))
    relations = tuple(f"relation {i:06}" for i in range(n_relations))
    return Graph(Vocabulary(entities, relations), np.unique(np.stack([s, r, o], axis=1), axis=0))


def _sizes(graph: Graph) -> str:
    entities, relations = len(graph.vocabulary.entities), len(graph.vocabulary.relations)
    return f"{len(graph):,} triples, {entities:,} entities, {relations:,} relation{'s' * (relations != 1)}"


def _row(config: Config, first: Sequence[Seconds], steady: Sequence[Seconds]) -> str:
    parts = [
        (steady, "draw", 13),
        (steady, "sgd", 13),
        (first, "whole", 15),
        (steady, "whole", 15),
        (steady, "wall", 13),
    ]
    cells = [f"{_middle(timed, part):>{width}}" for timed, part, width in parts]
    return f"{config.scorer:<10} {config.inner_epochs:>6} {' '.join(cells)}"


def _middle(timed: Sequence[Seconds], part: str) -> str:
    rates = [t.rate(part) for t in timed]
    return f"{statistics.median(rates):.2f} ({max(rates):.2f})"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Throughput of the paper solver's kernels.")
    parser.add_argument("--quick", action="store_true", help="a graph made on the spot, a few seconds")
    parser.add_argument("--data", type=Path, default=SHARED / "data" / "fb15k237", help="a dataset's folder")
    parser.add_argument("--dim", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--peer-python", type=Path, help="an interpreter that has implicit and scipy")
    parser.add_argument("--driver", type=Path, default=SHARED / "peers" / "bpr_implicit.py")
    parser.add_argument("--target", type=float, default=1.0, help="seconds of one of the peer's runs")
    parser.add_argument("--sandwiches", type=int, default=3, help="how often peer, ours, peer is run")
    return parser.parse_args()


if __name__ == "__main__":
    main()
