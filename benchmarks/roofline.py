"""What one core could do with one negative, and what it does: arithmetic, memory, and the measured loop.

    python benchmarks/roofline.py [--data FOLDER] [--dim 50]

The machine: fused multiply-adds on numbers in registers; square roots with a division each, in cache; rows
of the solver's width read, changed and written back in random order, asked for ahead of time as the loop
does, in a table as large as the two parts of a block, and in one of a gibibyte.

The work: multiply-adds, roots and rows of one fact, counted from the loop (`consensus/drawn.py`): a query, a
dot product and a gradient for each object, and a step of AdaGrad for each row and for w. The estimate adds
the time of multiply-adds and roots and takes the larger of that and the time of the rows; "reached" is the
share of the estimate in the time measured, by the CPU's clock, for whole epochs, plan and merges included.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

import consmrf
from consmrf.config import Config
from consmrf.consensus.blocks import padded
from consmrf.consensus.facts import lay_out
from consmrf.consensus.plan import parts_of
from consmrf.consensus.primitives import AHEAD, FAST, LINE, prefetch
from consmrf.consensus.scorers import SCORERS
from consmrf.consensus.wave import initial_wave
from consmrf.engine.waves import Waves
from consmrf.graph.partition import partition
from machine import Clock
from peers import ONE_LEVEL
from results import SHARED

GIB = 2**30


@njit(fastmath=FAST, error_model="numpy")
def _multiply_add(x: Any, times: int) -> None:
    for _ in range(times):
        for i in range(len(x)):
            a = x[i]
            for _ in range(64):
                a = a * a + a
            x[i] = a


@njit(fastmath=FAST, error_model="numpy")
def _roots(x: Any, y: Any, times: int) -> None:
    for _ in range(times):
        for i in range(len(x)):
            x[i] -= y[i] / np.sqrt(x[i])


@njit(fastmath=FAST, error_model="numpy")
def _touch_rows(table: Any, order: Any) -> None:
    for i in range(len(order)):
        if i + AHEAD < len(order):
            for j in range(0, table.shape[1], LINE):
                prefetch(table, order[i + AHEAD], j)
        for j in range(table.shape[1]):
            table[order[i], j] += 1


def rate(work: Callable[[], object], amount: float, seconds: float = 0.5) -> float:
    """Hand on the amount per second of CPU, the best of five runs after one that compiles."""
    work()
    best = 0.0
    for _ in range(5):
        begun, times = time.process_time(), 0
        while time.process_time() - begun < seconds / 5:
            work()
            times += 1
        best = max(best, times * amount / (time.process_time() - begun))
    return best


def machine(rows: int, width: int) -> dict[str, float]:
    """Hand on multiply-adds and roots per second, and rows per second in a table of each size."""
    rng = np.random.default_rng(0)
    x, y = (rng.random(1024, np.float32) + 1 for _ in range(2))
    told = {
        "multiply-adds": rate(lambda: _multiply_add(x * 1e-9, 16), 16 * 64 * len(x)),
        "roots": rate(lambda: _roots(1e9 * x, y, 64), 64 * len(x)),
    }
    for name, size in (("rows of a block", rows), ("rows of a GiB", GIB // (4 * width))):
        table = np.zeros((size, width), np.float32)
        order = rng.integers(size, size=200_000)
        told[name] = rate(lambda t=table, o=order: _touch_rows(t, o), len(order))  # type: ignore[misc]
    return told


def work(dim: int, scorer: str, negatives: int, stage: int) -> dict[str, float]:
    """Hand on multiply-adds, roots and rows of one fact; `stage` 0: shared rows, 2: departures."""
    d, m, rows = padded(dim), SCORERS[scorer].weights(dim), 2 + negatives
    moved = dim if stage == 2 else d
    return {
        # query and its gradient; dot products and their gradient; squares, steps and the regulariser
        "multiply-adds": 3 * dim + 2 * (1 + negatives) * d + 4 * rows * moved + (0 if stage == 2 else 4 * m),
        "roots": rows * moved + (0 if stage == 2 else m),
        "rows": rows,
    }


def measured(graph: consmrf.Graph, config: Config, departs: bool, epochs: int = 6) -> float:
    """Hand on facts per second of CPU of whole epochs, on one thread."""
    n = len(graph.vocabulary.entities)
    views = None if departs else ()
    layout = lay_out(partition(graph), n, reciprocal=config.reciprocal, views=views)
    state = initial_wave(layout, config)
    if departs:
        state = state.depart(state.views(), config)
    with Waves(layout, state, config) as engine:
        engine.sweep(state, 1)  # compiles
        seconds = []
        for epoch in range(2, 2 + epochs):
            begun = time.process_time()
            engine.sweep(state, epoch)
            seconds.append(time.process_time() - begun)
    return len(layout.facts.relations) / float(np.median(seconds))


def main() -> None:
    """Print the machine, the work, and how near the loop comes."""
    parser = argparse.ArgumentParser(description="What a core could do, and what it does.")
    parser.add_argument("--data", type=Path, default=SHARED / "data" / "fb15k237", help="a dataset's folder")
    parser.add_argument("--dim", type=int, default=50)
    asked = parser.parse_args()
    clock = Clock()
    graph = consmrf.read_triples(asked.data / "train.tsv.gz")
    width = 2 * padded(asked.dim)
    base = Config(**ONE_LEVEL, dim=asked.dim, threads=1)
    n = len(graph.vocabulary.entities)
    can = machine(2 * n // parts_of(len(graph), n, base.wave_width), width)
    print("| a core, per second | |\n|---|---|")
    for name, each in can.items():
        more = f", {each * 8 * width / 1e9:.0f} GB/s read and written" if name.startswith("rows") else ""
        print(f"| {name} | {each / 1e6:,.0f} M{more} |")
    heads = ("a fact", "multiply-adds", "roots", "rows", "arithmetic, ns", "rows, ns", "estimate, ns")
    print(f"\n| {' | '.join(heads)} | measured, ns | reached |\n|{'---|' * 9}")
    for name, stage, config in (
        ("shared rows", 0, base),
        ("departures", 2, replace(base, method="consensus")),
    ):
        has = work(asked.dim, base.scorer, base.negatives, stage)
        arithmetic = has["multiply-adds"] / can["multiply-adds"] + has["roots"] / can["roots"]
        memory = has["rows"] / can["rows of a block"]
        took = 1 / measured(graph, config, departs=stage == 2)
        estimate = max(arithmetic, memory)
        times = " | ".join(f"{1e9 * each:.0f}" for each in (arithmetic, memory, estimate, took))
        counts = " | ".join(f"{each:,.0f}" for each in has.values())
        print(f"| {name} | {counts} | {times} | {estimate / took:.0%} |", flush=True)
    print(f"\n{clock.describe()}")


if __name__ == "__main__":
    main()
