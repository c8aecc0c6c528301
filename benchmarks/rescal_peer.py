"""RESCAL beside the package `rescal`: the same tensor, rank, λ and number of steps; objectives and factors.

    python benchmarks/rescal_peer.py --peer-python PYTHON [--data FOLDER] [--names nations umls kinship]

The peer's interpreter needs `rescal` with numpy 1.23.5 and scipy 1.10.1. Both begin with the leading
eigenvectors of Σ_r X_r + X_rᵀ, so their factors can be compared: A only up to a rotation, hence what is
compared are the reconstructions A W_r Aᵀ. Both objectives are computed here, from the factors, densely.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from consmrf.baselines.rescal import Rescal
from consmrf.config import Config
from consmrf.engine.workers import Workers
from consmrf.graph.partition import partition
from consmrf.graph.triples import Graph, read_triples
from machine import Clock

SHARED = Path(__file__).resolve().parents[2] / "shared"
# What the peer's interpreter runs: the triples in, its factors and the seconds of its steps out.
PEER = """
import sys
import numpy as np
from scipy.sparse import csr_matrix
from rescal import rescal_als
given = np.load(sys.argv[1])
(s, r, o), n = given["triples"].T, int(given["n"])
slices = [
    csr_matrix((np.ones(np.sum(r == i)), (s[r == i], o[r == i])), shape=(n, n)) for i in range(r.max() + 1)
]
dim, steps, reg = int(given["dim"]), int(given["steps"]), float(given["reg"])
a, w, _, _, seconds = rescal_als(
    slices, dim, init="nvecs", lambda_A=reg, lambda_R=reg, maxIter=steps, conv=0, compute_fit=False
)
np.savez(sys.argv[2], a=a, w=np.array(w), seconds=np.sum(seconds))
"""


def main() -> None:
    asked = _arguments()
    clock = Clock()
    print(
        "| data | λ | steps | objective, ours | objective, peer | ours / peer | reconstructions differ by |",
        end="",
    )
    print(" time, peer / ours |\n|---|---|---|---|---|---|---|---|")
    for name in asked.names:
        graph = read_triples(str(asked.data / name / "train.tsv.gz"))
        for reg in asked.reg:
            for steps in asked.steps:
                print(compare(name, graph, asked, reg, steps), flush=True)
    print(clock.describe())


def compare(name: str, graph: Graph, asked: argparse.Namespace, reg: float, steps: int) -> str:
    """Hand on a line of the table."""
    a, w, seconds = _ours(graph, asked.dim, reg, steps)
    other_a, other_w, other_seconds = _peer(graph, asked, reg, steps)
    x = np.zeros((len(w), len(a), len(a)))
    s, r, o = graph.triples.T
    x[r, s, o] = 1
    mine, theirs = a @ w @ a.T, other_a @ other_w @ other_a.T
    ours = _objective(x, mine, a, w, reg)
    peer = _objective(x, theirs, other_a, other_w, reg)
    apart = np.linalg.norm(mine - theirs) / np.linalg.norm(theirs)
    return (
        f"| {name} | {reg:g} | {steps} | {ours:.8g} | {peer:.8g} | {ours / peer:.9f} | {apart:.1e} "
        f"| {other_seconds / seconds:.1f} |"
    )


def _ours(graph: Graph, dim: int, reg: float, steps: int) -> tuple[NDArray[np.float64], ...]:
    config = Config(method="rescal", dim=dim, reg=reg)
    with threadpool_limits(limits=1, user_api="blas"), Workers(1, 1) as crew:
        Rescal(partition(graph), len(graph.vocabulary.entities), config).sweep(1, crew)  # compiles
        model = Rescal(partition(graph), len(graph.vocabulary.entities), config)
        begun = time.perf_counter()
        for step in range(steps):
            model.sweep(step, crew)
        return model.a, model.w, np.float64(time.perf_counter() - begun)


def _peer(graph: Graph, asked: argparse.Namespace, reg: float, steps: int) -> tuple[NDArray[np.float64], ...]:
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "given.npz", Path(folder) / "found.npz"
        sizes = {"n": len(graph.vocabulary.entities), "dim": asked.dim, "steps": steps, "reg": reg}
        np.savez(given, triples=graph.triples, **sizes)
        subprocess.run(
            [str(asked.peer_python), "-W", "ignore", "-c", PEER, str(given), str(found)],
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": ""},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        with np.load(found) as arrays:
            return arrays["a"], arrays["w"], arrays["seconds"]


def _objective(
    x: NDArray[np.float64],
    made: NDArray[np.float64],
    a: NDArray[np.float64],
    w: NDArray[np.float64],
    reg: float,
) -> float:
    return float(0.5 * np.sum((x - made) ** 2) + 0.5 * reg * (np.sum(a**2) + np.sum(w**2)))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="RESCAL beside the package of that name.")
    parser.add_argument("--peer-python", type=Path, required=True, help="an interpreter that has rescal")
    parser.add_argument("--data", type=Path, default=SHARED / "data", help="a folder of graphs")
    parser.add_argument("--names", nargs="+", default=["nations", "umls", "kinship"])
    parser.add_argument("--dim", type=int, default=10)
    parser.add_argument("--reg", type=float, nargs="+", default=[0.1, 10.0])
    parser.add_argument("--steps", type=int, nargs="+", default=[1, 5, 100])
    return parser.parse_args()


if __name__ == "__main__":
    main()
