"""Exact filtered ranking: beside PyKEEN on the same embeddings, and against the machine on a large graph.

    python benchmarks/ranking.py --peer-python PYTHON     fb15k237, k = 200, diagonal; float32 and float64
    python benchmarks/ranking.py --large                  two million entities, k = 50, 10,000 queries
    python benchmarks/ranking.py --quick                  the second on 20,000 entities, a few seconds

The peer's interpreter needs `pykeen`. It runs before and after ours, on a share of the test triples, since it
is slow; ours ranks all of them. A timing of one against the other means something only as that ratio. The
ranks of that share are compared one by one. Each runs in a process of its own, all of whose memory counts.

The large graph's time is put beside the larger of two: the bytes of Z that the tiles read over the memory's
bandwidth, and the multiplications and additions of the scores over the rate of square matrix products, both
measured right before and after on the same number of threads.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import consmrf
from child import in_child, memory, peak_memory
from consmrf.evaluation.options import EvaluationOptions
from consmrf.evaluation.ranking import SIDES, one_blas_thread, queries, rank
from consmrf.evaluation.tiles import HEIGHT
from consmrf.graph.triples import Graph
from consmrf.graph.vocabulary import Vocabulary
from consmrf.model import Model
from consmrf.predictors import Factors
from machine import Clock

SHARED = Path(__file__).resolve().parents[2] / "shared"
PEER = Path(__file__).with_name("pykeen_ranking.py")
MIB, GIB = 1 << 20, 1 << 30
# Matrix products that one measurement of their rate takes.
_PRODUCTS = 20


def main() -> None:
    """Measure what is asked for, and print it."""
    asked = _arguments()
    clock = Clock()
    if asked.peer_python is not None:
        with tempfile.TemporaryDirectory() as folder:
            for precision in ("float32", "float64"):
                beside_pykeen(asked, precision, Path(folder))
    if asked.large or asked.quick:
        large(asked, 20_000 if asked.quick else asked.entities, 1000 if asked.quick else asked.queries)
    print(clock.describe())


# -- beside the peer


def beside_pykeen(asked: argparse.Namespace, precision: str, folder: Path) -> None:
    """Run peer, ours, peer; print rates, ratios and peaks, and compare the ranks."""
    given, found = folder / "given.npz", folder / "found.npz"
    sizes = in_child(make_embeddings, asked.data, given, asked.dim, precision, asked.share)
    command = [asked.peer_python, PEER, given, found, asked.threads, asked.batch, asked.repeats]
    peer, ours = [], []
    for _ in range(asked.sandwiches):
        peer.append(_peer(command))
        ours.append(in_child(rank_embeddings, given, asked.threads, asked.repeats))
        peer.append(_peer(command))
    theirs = np.load(found)
    runs = {"PyKEEN": (peer, 2 * sizes["asked"]), "consmrf": (ours, 2 * sizes["test"])}
    peaks = {name: max(run["peak"] for run in own) for name, (own, _) in runs.items()}
    rates, by_cpu = (
        {name: [n / s for run in own for s in run[clock]] for name, (own, n) in runs.items()}
        for clock in ("seconds", "cpu")
    )
    middle = {name: statistics.median(values) for name, values in rates.items()}
    of_cpu = {name: statistics.median(values) for name, values in by_cpu.items()}
    print(
        f"\n{asked.data.name}, k = {asked.dim}, {precision}, {asked.threads} threads: "
        f"{sizes['entities']:,} entities, {sizes['test']:,} test triples, both sides; "
        f"PyKEEN on {sizes['asked']:,} of them, {asked.batch} at a time"
    )
    for name in rates:
        spread = f"{min(rates[name]):,.0f} to {max(rates[name]):,.0f}"
        print(
            f"  {name:<8} {middle[name]:>9,.0f} queries/s ({spread}), {of_cpu[name]:,.0f} per second of CPU, "
            f"peak {peaks[name] / MIB:,.0f} MiB"
        )
    print(
        f"  ratio    {middle['consmrf'] / middle['PyKEEN']:>9,.0f} times the rate, "
        f"{of_cpu['consmrf'] / of_cpu['PyKEEN']:,.0f} by CPU, "
        f"1/{peaks['PyKEEN'] / peaks['consmrf']:.1f} of the memory"
    )
    for side in SIDES:
        print(
            f"  {_compared(ours[-1]['ranks'][side], theirs[f'{side}_lower'], theirs[f'{side}_upper'], side)}"
        )


def make_embeddings(data: Path, given: Path, dim: int, precision: str, share: int) -> dict[str, int]:
    """Draw the embeddings, encode the dataset, and lay both in a file for either side."""
    graph = consmrf.read_triples(data / "train.tsv.gz")
    entities, relations = len(graph.vocabulary.entities), len(graph.vocabulary.relations)
    parts = {"train": graph.triples.astype(np.int64)}
    for name in ("valid", "test"):
        encoded = consmrf.read_triples(data / f"{name}.tsv.gz").encode(graph.vocabulary)
        parts[name] = encoded.triples.astype(np.int64)
    rng = np.random.default_rng(0)
    chosen = np.sort(rng.permutation(len(parts["test"]))[:share])
    z, w = rng.normal(size=(entities, dim)), rng.normal(size=(relations, dim))
    np.savez(
        given,
        z=z.astype(precision),
        w=w.astype(precision),
        asked=parts["test"][chosen],
        chosen=chosen,
        **parts,
    )
    return {"entities": entities, "asked": len(chosen), "test": len(parts["test"])}


def rank_embeddings(given: Path, threads: int, repeats: int) -> dict[str, Any]:
    """Evaluate our model of the same embeddings; hand on seconds, peak, and bounds of the peer's share."""
    arrays = dict(np.load(given))
    triples = {name: arrays[name].astype(np.int32) for name in ("train", "valid", "test", "asked")}
    vocabulary = _numbered(len(arrays["z"]), len(arrays["w"]))
    model = Model(vocabulary, triples["train"], _diagonal(arrays["z"], arrays["w"]))
    test, valid = Graph(vocabulary, triples["test"]), Graph(vocabulary, triples["valid"])
    options = EvaluationOptions(bootstrap=0, threads=threads)
    consmrf.evaluate(model, Graph(vocabulary, triples["test"][:10]), options=options)  # compiles
    seconds, cpu = [], []
    for _ in range(repeats):
        begun, begun_cpu = time.perf_counter(), time.process_time()
        consmrf.evaluate(model, test, known=[valid], options=options)
        seconds.append(time.perf_counter() - begun)
        cpu.append(time.process_time() - begun_cpu)
    peak = peak_memory()
    known = [triples[name] for name in ("train", "valid", "test")]
    ranks = {}
    for side in SIDES:
        asked = queries(triples["asked"], known, side, len(arrays["z"]))
        ranks[side] = rank(model, asked, threads=threads)[:2]
    return {"seconds": seconds, "cpu": cpu, "peak": peak, "ranks": ranks}


def _compared(ours: Any, low: NDArray[np.int64], high: NDArray[np.int64], side: str) -> str:
    """Say how the ranks of one side differ; ranks between the bounds of ours differ within the tolerance."""
    lower, upper = ours
    same = (lower + upper) == (low + high)
    within = (lower <= low) & (high <= upper)
    return (
        f"{side}: {int(same.sum()):,} of {len(same):,} ranks are the same; of the others "
        f"{int((~same & within).sum())} lie between our bounds, {int((~same & ~within).sum())} do not"
    )


def _peer(command: list[Any]) -> dict[str, Any]:
    done = subprocess.run([*map(str, command)], stdout=subprocess.PIPE, text=True, check=True)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


# -- against the machine


def large(asked: argparse.Namespace, n_entities: int, n_queries: int) -> None:
    """Rank on a large graph in a process of its own; print the time beside what the machine allows."""
    r = in_child(rank_large, n_entities, n_queries, asked.dim_large, asked.threads)
    least = max(r["bytes"] / r["bandwidth"], r["operations"] / r["sgemm"])
    print(
        f"\n{n_entities:,} entities, k = {asked.dim_large}, float32, {asked.threads} threads: "
        f"{n_queries:,} queries in {r['seconds']:.1f} s, {n_queries / r['seconds']:,.0f} a second\n"
        f"  {r['operations'] / 1e9:,.0f} G operations at {r['sgemm'] / 1e9:,.0f} G/s: "
        f"{r['operations'] / r['sgemm']:.1f} s; "
        f"{r['bytes'] / 1e9:,.0f} GB at {r['bandwidth'] / 1e9:,.1f} GB/s: "
        f"{r['bytes'] / r['bandwidth']:.1f} s\n"
        f"  the time is {r['seconds'] / least:.2f} times the larger of the two\n"
        f"  peak {r['peak'] / GIB:.2f} GiB, of which the model {r['model'] / GIB:.2f} GiB, "
        f"with Python and triples {r['held'] / GIB:.2f} GiB before ranking"
    )


def rank_large(n_entities: int, n_queries: int, dim: int, threads: int) -> dict[str, float]:
    """Rank the objects of random queries of ten relations; hand on the time and the machine's two rates."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((n_entities, dim), dtype=np.float32)
    factors = _diagonal(z, rng.standard_normal((10, dim), dtype=np.float32))
    columns = [rng.integers(0, n, n_queries) for n in (n_entities, 10, n_entities)]
    asked = queries(np.unique(np.stack(columns, axis=1).astype(np.int32), axis=0), [], "objects", n_entities)
    few = queries(np.array([[0, 0, 1]], np.int32), [], "objects", n_entities)
    rank(factors, few, threads=1)  # compiles
    held, rates = memory(), [_machine(z, threads)]
    begun = time.perf_counter()
    rank(factors, asked, threads=threads)
    seconds = time.perf_counter() - begun
    peak = peak_memory()
    rates.append(_machine(z, threads))
    sgemm, bandwidth = (statistics.mean(pair) for pair in zip(*rates, strict=True))
    return {
        "seconds": seconds,
        "operations": 2.0 * len(asked) * n_entities * dim,
        "bytes": float(-(-len(asked) // HEIGHT) * z.nbytes),
        "sgemm": sgemm,
        "bandwidth": bandwidth,
        "model": z.nbytes,
        "held": held,
        "peak": peak,
    }


def _machine(z: NDArray[np.float32], threads: int) -> tuple[float, float]:
    """Hand on the operations per second of square matrix products, and the bytes per second of reading Z."""
    square, other = np.ones((2, 1024, 1024), np.float32)  # two, for a product with itself is half the work
    products = [np.empty_like(square) for _ in range(threads)]

    def multiply(thread: int) -> float:
        for _ in range(_PRODUCTS):
            np.matmul(square, other, out=products[thread])
        return 2.0 * _PRODUCTS * len(square) ** 3

    def read(thread: int) -> float:
        part = np.array_split(z, threads)[thread]
        part.max()
        return float(part.nbytes)

    with one_blas_thread():
        return _rate(multiply, threads), _rate(read, threads)


def _rate(work: Callable[[int], float], threads: int, repeats: int = 3) -> float:
    """Hand on the best of a few rates of `work` on so many threads at once."""
    best = 0.0
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(repeats):
            begun = time.perf_counter()
            done = sum(pool.map(work, range(threads)))
            best = max(best, done / (time.perf_counter() - begun))
    return best


def _diagonal(z: NDArray[Any], w: NDArray[Any]) -> Factors:
    none = np.empty(0, np.int32)
    return Factors(
        scorer="diagonal",
        z=z,
        w=w,
        delta_indptr=np.zeros(len(w) + 1, np.int64),
        delta_rows=none,
        delta=np.empty((0, z.shape[1]), z.dtype),
    )


def _numbered(n_entities: int, n_relations: int) -> Vocabulary:
    return Vocabulary(
        tuple(f"e{i:08}" for i in range(n_entities)), tuple(f"r{i:08}" for i in range(n_relations))
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Exact filtered ranking.")
    parser.add_argument("--peer-python", type=Path, help="an interpreter that has pykeen")
    parser.add_argument("--data", type=Path, default=SHARED / "data" / "fb15k237", help="a dataset's folder")
    parser.add_argument("--dim", type=int, default=200)
    parser.add_argument("--share", type=int, default=1000, help="test triples that the peer ranks")
    parser.add_argument("--batch", type=int, default=256, help="triples that the peer scores at a time")
    parser.add_argument("--repeats", type=int, default=2, help="evaluations of one process")
    parser.add_argument("--sandwiches", type=int, default=1, help="how often peer, ours, peer is run")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--large", action="store_true", help="rank on a large graph")
    parser.add_argument("--quick", action="store_true", help="a smaller one, a few seconds")
    parser.add_argument("--entities", type=int, default=2_000_000)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--dim-large", type=int, default=50)
    return parser.parse_args()


if __name__ == "__main__":
    main()
