"""Seconds per epoch and memory as graphs grow, and what more workers would gain.

    python benchmarks/scaling.py --quick
    python benchmarks/scaling.py --out CELLS --shapes dbpedia svo yago --set reciprocal=false
    python benchmarks/scaling.py --out CELLS --shapes --speedup fb15k237 --data FOLDER

Graphs have Zipf degrees and planted structure (`zipf.py`). Every fit runs a few epochs without validation, in
a process of its own that has compiled its kernels and read its graph before it is measured. "Above the graph"
is the peak less what was held then; a row is one of E_r for some r, or one of the consensus.

1. the paper's three shapes: seconds per epoch, peak memory, bytes per triple and per row;
2. a base graph with entities, relations and triples by factors: exponents of a joint log–log least-squares
   fit over these graphs, with standard errors. Time is that of the fastest epoch, which other processes
   disturb least;
3. threads: the base graph, one like it in which one relation holds 90 % of the draws, and the datasets that
   --speedup names;
4. the measured seconds of the blocks of each wave, where the solver tells them, dealt out to more workers in
   the order given. --blocks FILE takes them from a JSON file: a list of waves, each a list of seconds, or
   {"waves": …, "merges": seconds after each wave}.

Finished fits are cells in --out: a run that was cut short goes on where it stopped, and a package that has
changed is measured anew.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import secrets
import statistics
import tempfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import consmrf
import zipf
from child import FailedError, in_child, memory, peak_memory, reset_peak
from consmrf.config import Config
from machine import Clock, cores
from results import SHARED, Cell, Cells, source
from zipf import graph_of, zipf_graph

WORKERS = (1, 2, 4, 16, 64, 256)
GIB = 2**30
GENERATOR = zlib.crc32(Path(zipf.__file__).read_bytes())  # a graph drawn otherwise is another graph
ABOVE, LEAST = "bytes above the graph", 8 << 20  # less is the allocator's


@dataclass(frozen=True)
class Shape:
    """A graph to generate."""

    name: str
    entities: int
    relations: int
    triples: int
    rank: int = 10
    largest_share: float | None = None

    def graph(self) -> consmrf.Graph:
        """Generate it."""
        sizes = (self.entities, self.relations, self.triples, self.rank)
        return zipf_graph(*sizes, seed=0, largest_share=self.largest_share)

    def grown(self, field: str, factor: int) -> Shape:
        """Hand on the same with one of its sizes multiplied."""
        return replace(self, name=f"{self.name}-{field}-x{factor}", **{field: factor * getattr(self, field)})


@dataclass(frozen=True)
class Dataset:
    """The training triples of a graph that is there."""

    name: str
    folder: Path

    def graph(self) -> consmrf.Graph:
        """Read it."""
        return consmrf.read_triples(self.folder / self.name / "train.tsv.gz")


SHAPES = {
    "dbpedia": Shape("dbpedia", 269_862, 5, 625_680),
    "svo": Shape("svo", 30_492, 4_538, 1_300_000),
    "yago": Shape("yago", 2_137_469, 37, 4_431_523),
}
BASE = Shape("base", 20_000, 40, 400_000)
TINY = Shape("tiny", 200, 6, 2_000, rank=4)
GROWN = ("entities", "relations", "triples")
FACTORS = (2, 4)


def main() -> None:
    """Print the four sections."""
    asked = _arguments()
    clock = Clock()
    with tempfile.TemporaryDirectory() as scratch:
        lab = Lab(asked.out or Path(scratch), asked)
        base = TINY if asked.quick else BASE
        _shapes(lab, [SHAPES[name] for name in asked.shapes])
        if not asked.no_sweep:
            _sweep(lab, base)
        if asked.speedup is not None:
            skewed = replace(base, name=f"{base.name}-skewed", largest_share=0.9)
            _threads(lab, [base, skewed, *(Dataset(name, asked.data) for name in asked.speedup)])
        _simulated(lab, asked.blocks)
    print(f"\n{clock.describe()}")


# -- cells


class Lab:
    """Graphs and finished fits in one folder."""

    def __init__(self, folder: Path, asked: argparse.Namespace) -> None:
        self._folder, self._cells, self._graphs = folder, Cells(folder), Cells(folder / "graphs")
        self._settings = {"max_epochs": asked.epochs, "seed": 0, "dim": asked.dim} | dict(asked.set)
        self._threads = asked.threads
        Config.from_dict(self._settings)  # a mistake in --set is told here, once
        self.told: list[Cell] = []  # every cell asked for, in that order

    def fit(self, drawn: Shape | Dataset, **settings: Any) -> Cell | None:
        """Hand on the fit of a graph, made now if it is not there; a failure is printed, None its result."""
        settings = {**self._settings, "threads": self._threads, **settings}
        try:
            graph = self._graph(drawn)
            name = f"{drawn.name}-{_checksum([graph, settings, source()])}"
            make = partial(in_child, measure, graph, settings, self._folder / "graphs")
            cell = self._cells.finished(name, make)
        except (FailedError, consmrf.ConsmrfError) as problem:
            print(f"{drawn.name} with {settings} FAILED: {problem}", flush=True)
            return None
        self.told.append(cell)
        return cell

    def _graph(self, drawn: Shape | Dataset) -> Cell:
        name = f"{drawn.name}-{_checksum([asdict(drawn), GENERATOR])}"
        path = self._folder / "graphs" / f"{name}.npy"
        return self._graphs.finished(name, partial(in_child, prepare, drawn, path))


def _checksum(values: object) -> str:
    return f"{zlib.crc32(json.dumps(values, default=str, sort_keys=True).encode()):08x}"


def prepare(drawn: Shape | Dataset, path: Path) -> Cell:
    """Make a graph and write its triples; hand on its sizes."""
    clock = Clock()
    graph = drawn.graph()
    seconds, s, r, o = clock.seconds(), *graph.triples.T.astype(np.int64)
    n = len(graph.vocabulary.entities)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    with open(draft, "xb") as file:
        np.save(file, graph.triples)
    os.replace(draft, path)
    return {
        "name": drawn.name,
        "file": path.name,
        "entities": n,
        "relations": len(graph.vocabulary.relations),
        "triples": len(graph),
        "rows": len(np.unique(np.concatenate([r * n + s, r * n + o]))),  # Σ_r |E_r|
        "largest": int(np.bincount(r).max()),
        "seconds": seconds,
        "peak_memory": peak_memory(),
    }


def measure(sizes: Cell, settings: dict[str, Any], folder: Path) -> Cell:
    """Fit once; hand on what it took. To be run in a process of its own."""
    # more entities than a fact is ranked against, and two epochs, so that both stages' kernels are compiled
    warm = zipf_graph(600, 3, 1200, 4, seed=0)
    consmrf.fit(warm, config=Config.from_dict({**settings, "max_epochs": 2}))
    config = Config.from_dict(settings)
    triples = np.load(folder / sizes["file"])
    graph = graph_of(triples, sizes["entities"], sizes["relations"])
    expected = consmrf.estimate_memory(graph, config).peak_bytes
    reset_peak()
    held = memory()
    clock = Clock()
    info = consmrf.fit(graph, config=config).info
    return {
        "sizes": sizes,
        "settings": config.to_dict(),
        "status": info.status.name,
        "epochs": epochs(info.rounds),
        "seconds": info.seconds,
        "balance": [each.balance for each in info.rounds],
        "held": held,
        "peak": peak_memory(),
        "expected": expected,
        "cores_of_others": clock.others(),
        **_blocks(info.rounds),
    }


def epochs(rounds: Sequence[Any]) -> dict[str, list[float]]:
    """Hand on the seconds of each round by its stage, validation left out."""
    found: dict[str, list[float]] = {}
    before = 0.0
    for each in rounds:
        took = each.seconds["elapsed"] - before - each.seconds.get("validation", 0.0)
        before = each.seconds["elapsed"]
        found.setdefault(getattr(each, "stage", None) or "all", []).append(took)
    return found


def _blocks(rounds: Sequence[Any]) -> Cell:
    """Hand on the last round's seconds by wave and block, and of merging after each wave."""
    waves = getattr(rounds[-1], "block_seconds", None) if rounds else None
    if not waves:
        return {}
    merge = rounds[-1].seconds["consensus"] / len(waves)
    return {"waves": [list(map(float, wave)) for wave in waves], "merges": [merge] * len(waves)}


# -- arithmetic


class Exponent(NamedTuple):
    """b of y ∝ x^b, and its standard error: NaN where as many numbers are fitted as there are values."""

    value: float
    error: float


def exponents(sizes: NDArray[np.float64], values: NDArray[np.float64]) -> list[Exponent]:
    """Fit log values to log sizes [n, p] by least squares; hand on the p exponents."""
    design = np.column_stack([np.ones(len(values)), np.log(sizes)])
    n, p = design.shape
    if np.linalg.matrix_rank(design) < p:
        raise ValueError("the sizes do not vary independently of each other: no exponents")
    inverse = np.linalg.inv(design.T @ design)
    found = inverse @ design.T @ np.log(values)
    residual = np.log(values) - design @ found
    variance = residual @ residual / (n - p) if n > p else np.nan
    errors = np.sqrt(variance * np.diag(inverse))
    return [Exponent(*pair) for pair in zip(found[1:].tolist(), errors[1:].tolist(), strict=True)]


def makespan(waves: Sequence[Sequence[float]], workers: int, merges: Sequence[float] = ()) -> float:
    """Hand on the seconds that waves of blocks take: in each, whoever is free first takes the next block.

    A wave ends with its last block; then one worker merges, for the seconds given, or none where none are.
    """
    total = 0.0
    for wave, merge in zip(waves, merges or [0.0] * len(waves), strict=True):
        free = [0.0] * min(workers, max(len(wave), 1))
        for seconds in wave:
            heapq.heapreplace(free, free[0] + seconds)
        total += max(free) + merge
    return total


def speed_up(waves: Sequence[Sequence[float]], workers: int, merges: Sequence[float] = ()) -> float:
    """Hand on how much sooner so many workers are done than one."""
    return makespan(waves, 1, merges) / makespan(waves, workers, merges)


# -- tables

_HEADS = (
    *("graph", "entities", "relations", "triples", "Σ|E_r|", "k", "threads", "seconds per epoch"),
    *("M triples/s", "balance", "peak GiB", "expected", "above the graph GiB"),
    *("bytes per triple", "bytes per row", "dense state GiB"),
)


def _shapes(lab: Lab, shapes: Sequence[Shape]) -> None:
    if shapes:
        print("\nThe paper's shapes\n", flush=True)
        _table(lab.fit(shape) for shape in shapes)


def _sweep(lab: Lab, base: Shape) -> None:
    print("\nGrowing\n", flush=True)
    grown = [base, *(base.grown(field, factor) for field in GROWN for factor in FACTORS)]
    cells = _table(lab.fit(shape) for shape in grown)
    if not cells:
        return
    measured: dict[str, Callable[[Cell], float]] = {
        f"seconds per epoch, {stage}": partial(_fastest, stage) for stage in cells[0]["epochs"]
    }
    measured[ABOVE] = lambda cell: cell["peak"] - cell["held"]
    print(f"\n{_line('exponent of', *GROWN)}\n{_rule(1 + len(GROWN))}")
    sizes = np.array([[cell["sizes"][field] for field in GROWN] for cell in cells], np.float64)
    for name, value in measured.items():
        try:
            values = np.array([value(cell) for cell in cells], np.float64)
            if name == ABOVE and values.min() < LEAST:
                raise ValueError(f"not fitted, for some are less than {LEAST >> 20} MiB")
            found = exponents(sizes, values)
        except (ValueError, KeyError) as problem:
            print(f"{name}: {problem}")
            continue
        print(_line(name, *(f"{each.value:+.2f} ± {each.error:.2f}" for each in found)))


def _fastest(stage: str, cell: Cell) -> float:
    return min(cell["epochs"][stage])


def _threads(lab: Lab, sources: Sequence[Shape | Dataset]) -> None:
    print("\nThreads\n", flush=True)
    counts = sorted({1, 2, cores()})
    print(_line("graph", "largest relation", "stage", *(f"{n} thread{'s' * (n > 1)}" for n in counts)))
    print(_rule(3 + len(counts)))
    for drawn in sources:
        cells = [lab.fit(drawn, threads=n) for n in counts]
        if None in cells:
            continue
        first = cells[0]
        share = first["sizes"]["largest"] / first["sizes"]["triples"]
        for stage in first["epochs"]:
            times = [_fastest(stage, cell) for cell in cells]
            told = [f"{seconds:.3g} s ({times[0] / seconds:.2f}×)" for seconds in times]
            print(_line(drawn.name, f"{share:.0%}", stage, *told), flush=True)


def _simulated(lab: Lab, blocks: Path | None) -> None:
    given = [
        (f"{c['sizes']['name']}, {c['settings']['threads']} threads", c) for c in lab.told if "waves" in c
    ]
    if blocks is not None:
        found = json.loads(blocks.read_text())
        given.append((blocks.name, found if isinstance(found, dict) else {"waves": found}))
    print("\nSimulated: speed-up by workers\n")
    if not given:
        print("This solver tells no seconds of blocks.")
        return
    print(_line("blocks of", "waves", "blocks", *WORKERS, "any number"))
    print(_rule(4 + len(WORKERS)))
    for name, cell in given:
        waves, merges = cell["waves"], cell.get("merges", ())
        widest = max(map(len, waves), default=1)
        gains = [f"{speed_up(waves, n, merges):.2f}" for n in (*WORKERS, widest)]
        print(_line(name, len(waves), sum(map(len, waves)), *gains))


def _table(cells: Iterable[Cell | None]) -> list[Cell]:
    """Print a line for each cell as it comes; hand on those that are there."""
    print(_line(*_HEADS))
    print(_rule(len(_HEADS)))
    there = []
    for cell in cells:
        if cell is not None:
            there.append(cell)
            print(_row(cell), flush=True)
    return there


def _row(cell: Cell) -> str:
    sizes, settings = cell["sizes"], cell["settings"]
    n, m, k = sizes["triples"], sizes["relations"] * sizes["entities"], settings["dim"]
    above = cell["peak"] - cell["held"]
    median = {stage: statistics.median(seconds) for stage, seconds in cell["epochs"].items()}
    return _line(
        sizes["name"],
        *(f"{sizes[field]:,}" for field in (*GROWN, "rows")),
        k,
        settings["threads"],
        ", ".join(_staged(stage, f"{x:.3g}") for stage, x in median.items()),
        ", ".join(_staged(stage, f"{n / x / 1e6:.2f}") for stage, x in median.items()),
        f"{statistics.median(cell['balance']):.2f}",
        *(f"{size / GIB:.2f}" for size in (cell["peak"], cell["expected"], above)),
        f"{above / n:,.0f}",
        f"{above / (sizes['rows'] + sizes['entities']):,.0f}",
        f"{2 * 4 * m * k / GIB:.1f}",
    )


def _staged(stage: str, value: str) -> str:
    return value if stage == "all" else f"{value} ({stage})"


def _line(*cells: object) -> str:
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def _rule(columns: int) -> str:
    return f"|{'---|' * columns}"


def _setting(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


def _arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Seconds and memory as graphs grow.")
    parser.add_argument("--quick", action="store_true", help="a tiny graph, to see that everything runs")
    parser.add_argument(
        "--out", type=Path, help="a folder for graphs and finished cells; else they are not kept"
    )
    parser.add_argument("--shapes", nargs="*", choices=SHAPES, help="by default all, and none with --quick")
    parser.add_argument("--no-sweep", action="store_true", help="leave out section 2")
    parser.add_argument("--speedup", nargs="*", metavar="DATASET", help="section 3, these datasets too")
    parser.add_argument("--data", type=Path, default=SHARED / "data", help="the folder of all datasets")
    parser.add_argument("--blocks", type=Path, help="seconds of blocks by wave, as JSON")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--dim", type=int, default=50)
    parser.add_argument("--threads", type=int, default=cores())
    parser.add_argument("--set", type=_setting, action="append", default=[], metavar="NAME=VALUE")
    asked = parser.parse_args(given)
    if asked.shapes is None:
        asked.shapes = [] if asked.quick else list(SHAPES)
    if asked.quick:
        asked.dim, asked.speedup = 8, asked.speedup or []
    return asked


if __name__ == "__main__":
    main()
