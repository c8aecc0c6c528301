"""Training speed beside other systems on the same work: peer, ours, the peer again, and ratios of medians.

    python benchmarks/peers.py --drivers FOLDER --venvs FOLDER --make    makes what is missing first
    python benchmarks/peers.py --drivers FOLDER --venvs FOLDER --only implicit --threads 1

A driver is a program that runs one peer and prints a line of JSON with "per_s"; each runs in the virtual
environment of its peer, VENVS/NAME. A peer without one is left out, and a sentence says so. Peers that take
batches are run with each size first, and keep the fastest.

What is counted is facts per second of whole training: drawing, training, merging, and on our side also the
copy that an interrupted fit falls back on; compiling is left out. Ours runs through `consmrf.fit`, k and the
number of negatives as the peer's. "shared" is one A for all relations with AdaGrad, or with plain steps where
it says so; "own intercepts" is the default solver's first stage, "departures" its second, with z at rest.

implicit is met on its own ground: one relation, the same pairs, negatives as often as they are objects, known
ones refused. It counts a refused negative as trained; ours draws again.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import consmrf
from child import FailedError, in_child
from consmrf.config import Config
from machine import Clock, cores
from results import SHARED
from scaling import epochs
from zipf import graph_of

# What a peer's environment holds, in the order of installation: torch first, so that no GPU packages come.
PACKAGES = {
    "pykeen": (("torch==2.13.0",), ("pykeen",)),
    "pyg": (("torch==2.13.0",), ("torch_geometric",)),
    "tbg": (("torch==2.13.0",), ("torchbiggraph", "setuptools<81")),  # it asks for pkg_resources
    "implicit": (("implicit", "scipy"),),
}
NAMES = {
    "pykeen": "PyKEEN",
    "pyg": "PyTorch Geometric",
    "tbg": "PyTorch-BigGraph",
    "implicit": "implicit",
}
BATCHES = (1024, 4096, 16384)
ZIPF = (1_000_000, 100_000, 50_000)  # pairs, subjects, objects
ONE_LEVEL = {
    "method": "shared",
    "scorer": "diagonal",
    "loss": "bpr",
    "regulariser": "l2",
    "reg": 0.001,
    "negatives": 1,
    "reciprocal": False,
}
TWO_LEVELS = {**ONE_LEVEL, "method": "consensus"}
PAIRS = {**ONE_LEVEL, "scorer": "identity", "sampling": "degree"}


@dataclass(frozen=True)
class Ours:
    """One of our ways to do a peer's work."""

    name: str
    settings: Mapping[str, Any]
    stage: str = "consensus"


@dataclass(frozen=True)
class Case:
    """Work that a peer and ours do side by side."""

    peer: str
    name: str
    driver: str
    given: tuple[str, ...]  # to the driver, beside k and threads
    data: Callable[[], consmrf.Graph]
    ours: tuple[Ours, ...]
    batches: tuple[int, ...] = ()


@dataclass
class Rates:
    """Facts per second of the peer and of ours, run by run."""

    peer: list[float] = field(default_factory=list)
    ours: dict[str, list[float]] = field(default_factory=dict)

    def ratio(self, name: str) -> float:
        """Hand on the median of ours over the peer's."""
        return statistics.median(self.ours[name]) / statistics.median(self.peer)


def main() -> None:
    """Measure every case with every number of threads, and print a table."""
    asked = _arguments()
    clock = Clock()
    missing = [name for name in asked.only if (why := absent(name, asked)) and not print(why)]
    there = [case for case in cases(asked) if case.peer not in missing]
    print(
        f"\nk = {asked.dim}; facts per second, medians of {2 * asked.sandwiches} runs of the peer around ours"
    )
    print("\n| work | threads | peer | M/s | ours | M/s | ratio |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        for case in there:
            for threads in asked.threads:
                try:
                    rates = side_by_side(case, threads, asked, Path(scratch))
                except (FailedError, subprocess.CalledProcessError, ValueError) as problem:
                    print(f"{case.name} beside {NAMES[case.peer]} with {threads} threads FAILED: {problem}")
                    continue
                print("\n".join(lines(case, threads, rates)), flush=True)
    print(f"\n{clock.describe()}")


def cases(asked: argparse.Namespace) -> list[Case]:
    """Hand on the work: a whole graph with one negative and with many, and one relation."""
    folder = str(asked.data)
    graph = partial(consmrf.read_triples, asked.data / "train.tsv.gz")
    levels = (
        Ours("shared", ONE_LEVEL),
        Ours("own intercepts", TWO_LEVELS),
        Ours("departures", TWO_LEVELS, "departures"),
    )
    one = ("--data", folder, "--neg", "1")
    found = [
        Case("pykeen", "one negative", "train_pykeen.py", (*one, "--lean"), graph, levels, BATCHES),
        Case("pyg", "one negative", "train_pyg.py", one, graph, levels, BATCHES),
        Case("tbg", "one negative", "train_tbg.py", one, graph, levels, BATCHES),
    ]
    many = tuple(Ours(loss, {**ONE_LEVEL, "loss": loss, "negatives": 32}) for loss in ("softmax", "logistic"))
    found.append(
        Case("tbg", "32 negatives", "train_tbg.py", ("--data", folder, "--neg", "32"), graph, many, BATCHES)
    )
    pairs = (
        Ours("shared, plain steps", {**PAIRS, "optimizer": "sgd", "learning_rate": 0.05}),
        Ours("shared", PAIRS),
        Ours("departures", {**PAIRS, "method": "consensus"}, "departures"),
    )
    zipf = tuple(map(str, asked.zipf))
    for name, given, data in (
        ("largest relation", ("--data", folder), partial(largest_relation, asked.drivers, asked.data)),
        ("Zipf pairs", ("--zipf", *zipf), partial(zipf_pairs, asked.drivers, *asked.zipf)),
    ):
        found.append(Case("implicit", name, "bpr_implicit.py", given, data, pairs))
    return [case for case in found if case.peer in asked.only]


# -- the peers


def python_of(venvs: Path, peer: str) -> Path:
    """Hand on the interpreter of a peer's environment."""
    return venvs / peer / "bin" / "python"


def absent(peer: str, asked: argparse.Namespace) -> str | None:
    """Make the peer's environment if that is asked for; hand on a sentence where it cannot be used."""
    python = python_of(asked.venvs, peer)
    if asked.make and not python.exists():
        made = [[sys.executable, "-m", "venv", str(python.parents[1])]]
        made += [[str(python), "-m", "pip", "install", "-q", *words] for words in PACKAGES[peer]]
        for command in made:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                return (
                    f"{NAMES[peer]} is left out: `{' '.join(command)}` failed: {done.stderr.strip()[-300:]}"
                )
    if not python.exists():
        return f"{NAMES[peer]} is left out: there is no {python}; --make makes it."
    return None


def run_peer(case: Case, threads: int, batch: int | None, asked: argparse.Namespace, work: Path) -> float:
    """Run a driver once; hand on facts per second."""
    command = [python_of(asked.venvs, case.peer), asked.drivers / case.driver, *case.given]
    command += ["--threads", threads, "--factors" if case.peer == "implicit" else "-k", asked.dim]
    command += ["--batch", batch] if batch is not None else []
    command += ["--work", work] if case.peer == "tbg" else []
    one = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    done = subprocess.run(
        [str(part) for part in command],
        env=os.environ | (one if case.peer != "implicit" else {"OPENBLAS_NUM_THREADS": "1"}),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise FailedError(f"{case.driver}: {done.stderr.strip()[-300:]}")
    return rate_of(done.stdout)


def rate_of(output: str) -> float:
    """Hand on "per_s" of the last line of JSON that a driver printed."""
    for line in reversed(output.splitlines()):
        if line.startswith("{"):
            return float(json.loads(line)["per_s"])
    raise FailedError(f"a driver printed no line of JSON but {output[-200:]!r}")


def fastest(sizes: Sequence[int], rate: Callable[[int], float]) -> int | None:
    """Hand on the batch size with the highest rate; None where there is none to choose."""
    return max(sizes, key=rate) if sizes else None


# -- ours


def run_ours(graph: consmrf.Graph, way: Ours, dim: int, threads: int, target: float) -> float:
    """Fit for about `target` seconds; hand on facts per second of the stage. In a process of its own."""
    config = Config(**{**way.settings, "dim": dim, "threads": threads, "max_epochs": 8})
    first = consmrf.fit(graph, config=config).info.rounds  # compiles
    count = max(8, int(target / min(epochs(first)[way.stage])))
    count = (
        4 * count if way.stage == "departures" else 2 * count
    )  # the first stage has three quarters of them
    again = Config(**{**way.settings, "dim": dim, "threads": threads, "max_epochs": count})
    rounds = [each for each in consmrf.fit(graph, config=again).info.rounds if each.stage == way.stage]
    seconds = epochs(rounds)[way.stage][1:]  # the first of them counts from the fit's beginning
    return float(statistics.median(each.samples for each in rounds)) * len(seconds) / sum(seconds)


def side_by_side(case: Case, threads: int, asked: argparse.Namespace, work: Path) -> Rates:
    """Run peer, ours, peer, as often as asked."""
    batch = fastest(case.batches, lambda size: run_peer(case, threads, size, asked, work))
    graph, rates = case.data(), Rates()
    for _ in range(asked.sandwiches):
        rates.peer.append(run_peer(case, threads, batch, asked, work))
        for way in case.ours:
            mine = in_child(run_ours, graph, way, asked.dim, threads, asked.target)
            rates.ours.setdefault(way.name, []).append(mine)
        rates.peer.append(run_peer(case, threads, batch, asked, work))
    return rates


def lines(case: Case, threads: int, rates: Rates) -> list[str]:
    """Hand on the rows of the table."""
    peer = statistics.median(rates.peer) / 1e6
    return [
        f"| {case.name} | {threads} | {NAMES[case.peer]} | {peer:.2f} | {name} "
        f"| {statistics.median(mine) / 1e6:.2f} | {rates.ratio(name):.1f} |"
        for name, mine in rates.ours.items()
    ]


# -- data that the drivers make


def _drivers_data(drivers: Path) -> ModuleType:
    """Hand on the drivers' own module of data, so that both sides have the same pairs."""
    spec = importlib.util.spec_from_file_location("kgdata", drivers / "kgdata.py")
    if spec is None or spec.loader is None:
        raise ValueError(f"{drivers} has no kgdata.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def largest_relation(drivers: Path, data: Path) -> consmrf.Graph:
    """Hand on the pairs that implicit's driver takes of a dataset."""
    kgdata = _drivers_data(drivers)
    return _bipartite(*kgdata.largest_relation(kgdata.load(data)[0]["train"]))


def zipf_pairs(drivers: Path, pairs: int, subjects: int, objects: int) -> consmrf.Graph:
    """Hand on the pairs that implicit's driver draws."""
    return _bipartite(*_drivers_data(drivers).zipf_pairs(pairs, subjects, objects), subjects, objects)


def _bipartite(s: Any, o: Any, subjects: int, objects: int) -> consmrf.Graph:
    triples = np.stack([s, np.zeros_like(s), subjects + o], axis=1).astype(np.int32)
    return graph_of(triples[np.lexsort((triples[:, 2], triples[:, 0]))], subjects + objects, 1)


def _arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Training speed beside other systems.")
    parser.add_argument(
        "--drivers", type=Path, default=SHARED / "peers", help="a folder of programs, one a peer"
    )
    parser.add_argument("--venvs", type=Path, required=True, help="a folder of environments, NAME/bin/python")
    parser.add_argument("--make", action="store_true", help="make the environments that are missing")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=[*NAMES])
    parser.add_argument("--data", type=Path, default=SHARED / "data" / "fb15k237", help="a dataset's folder")
    parser.add_argument("--zipf", type=int, nargs=3, default=ZIPF, metavar=("PAIRS", "SUBJECTS", "OBJECTS"))
    parser.add_argument("--dim", type=int, default=50)
    parser.add_argument("--threads", type=int, nargs="+", default=sorted({1, cores()}))
    parser.add_argument("--sandwiches", type=int, default=1, help="how often peer, ours, peer is run")
    parser.add_argument("--target", type=float, default=2.0, help="seconds of one of our runs")
    return parser.parse_args(given)


if __name__ == "__main__":
    main()
