"""One relation alone, on one worker and on two: CCD++, DSGD and DS-ADMM to one objective, and our own waves.

    python benchmarks/single_relation.py [--data FOLDER] [--name lastfm_tags] [--dim 20] [--reg 1]

The relation is the graph's largest; its facts are ones, and each brings a sampled zero. All three minimise
the same objective. CCD++ says how far: what it reaches in `--rounds` rounds, and `--near` above that is what
each must reach. Ours minimises another objective, so of it only the gain by the second worker is told:
seconds of an epoch, one worker over two. Ratios within this run are what the figures are for.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import consmrf
from consmrf.baselines.ccd import Ccd
from consmrf.baselines.dsadmm import DsAdmm
from consmrf.baselines.dsgd import Dsgd
from consmrf.baselines.single import Entries, Single, entries_of, objective
from consmrf.config import Config
from consmrf.engine.workers import Workers
from consmrf.graph.partition import partition
from kernels import largest_relation
from machine import Clock

SHARED = Path(__file__).resolve().parents[2] / "shared"
# More rounds than this, and a method is said not to get there.
MOST = 300


def main() -> None:
    asked = _arguments()
    clock = Clock()
    graph = largest_relation(consmrf.read_triples(str(asked.data / asked.name / "train.tsv.gz")))
    own = partition(graph)[0]
    entries = entries_of(own, len(graph.vocabulary.entities))
    print(
        f"{asked.name}: {len(own):,} facts, {len(entries.values):,} entries, {entries.shape} rows and columns"
    )
    methods: dict[str, Callable[[], Single]] = {
        "CCD++": lambda: Ccd(entries, asked.dim, asked.reg),
        "DSGD": lambda: Dsgd(entries, asked.dim, asked.reg),
        "DS-ADMM": lambda: DsAdmm(entries, asked.dim, asked.reg),
    }
    goal = (1 + asked.near) * _reached(methods["CCD++"](), entries, asked)
    print(f"objective to reach: {goal:.6g}\n")
    print("| method | rounds | seconds, 1 worker | 2 workers | 1 / 2 |\n|---|---|---|---|---|")
    for name, make in methods.items():
        _timed(make(), entries, asked.reg, float("inf"), 1)  # compiles
        rounds, one = _timed(make(), entries, asked.reg, goal, 1)
        two = _timed(make(), entries, asked.reg, goal, 2)[1]
        told = str(rounds) if rounds < MOST else f"not in {MOST}"
        print(f"| {name} | {told} | {one:.2f} | {two:.2f} | {one / two:.2f} |", flush=True)
    ours = [_epoch(graph, asked.dim, workers) for workers in (1, 2)]
    print(f"| waves, an epoch | | {ours[0]:.2f} | {ours[1]:.2f} | {ours[0] / ours[1]:.2f} |")
    print(clock.describe())


def _reached(method: Single, entries: Entries, asked: argparse.Namespace) -> float:
    with Workers(None, 2) as crew:
        for _ in range(asked.rounds):
            method.step(crew)
    return objective(entries, method.p, method.q, asked.reg)


def _timed(method: Single, entries: Entries, reg: float, goal: float, workers: int) -> tuple[int, float]:
    """Hand on (rounds, seconds of the steps alone) until the objective is reached."""
    seconds, rounds, found = 0.0, 0, float("inf")
    with Workers(workers, workers) as crew:
        while rounds < MOST and (not rounds or found > goal):
            begun = time.perf_counter()
            method.step(crew)
            seconds, rounds = seconds + time.perf_counter() - begun, rounds + 1
            found = objective(entries, method.p, method.q, reg)
    return rounds, seconds


def _epoch(graph: consmrf.Graph, dim: int, workers: int) -> float:
    """Hand on the seconds of an epoch of our own solver, those of validation and setting up aside."""
    base = Config(method="shared", dim=dim, max_epochs=6, threads=workers)
    consmrf.fit(graph, config=replace(base, max_epochs=1))  # compiles
    rounds = consmrf.fit(graph, config=base).info.rounds
    return statistics.median(r.seconds["local_critical_path"] + r.seconds["consensus"] for r in rounds)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Parallel methods for one relation.")
    parser.add_argument("--data", type=Path, default=SHARED / "data", help="a folder of graphs")
    parser.add_argument("--name", default="lastfm_tags")
    parser.add_argument("--dim", type=int, default=20)
    parser.add_argument("--reg", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--near", type=float, default=0.02)
    return parser.parse_args()


if __name__ == "__main__":
    main()
