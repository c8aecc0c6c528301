"""How long reading takes and how much memory it needs at its peak, each format in a process of its own.

python benchmarks/load.py [--triples 5000000] [--entities 2000000] [--formats tsv tsv.gz csv parquet nt]
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from consmrf.graph.triples import Graph, read_triples, write_triples
from consmrf.graph.vocabulary import Vocabulary


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--triples", type=int, default=5_000_000)
    parser.add_argument("--entities", type=int, default=2_000_000)
    parser.add_argument("--formats", nargs="+", default=["tsv", "tsv.gz", "csv", "parquet", "nt"])
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        measure(options.read)
        return
    with tempfile.TemporaryDirectory() as folder:
        print(
            f"{'file':<10}{'MiB':>8}{'seconds':>10}{'CPU s':>8}{'peak MiB':>10}{'triples':>12}{'labels':>12}"
        )
        for suffix in options.formats:
            path = Path(folder) / f"graph.{suffix}"
            write_triples(generated(options.triples, options.entities), path)
            done = subprocess.run(
                [sys.executable, __file__, "--read", str(path)], capture_output=True, check=True
            )
            print(
                f"{suffix:<10}{path.stat().st_size / 2**20:>8.0f}{done.stdout.decode().rstrip()}", flush=True
            )
            path.unlink()


def generated(triples: int, entities: int, relations: int = 500) -> Graph:
    """Hand on distinct random facts in random order, with labels as long as those of DBpedia."""
    rng = np.random.default_rng(0)
    labels = tuple(f"http://example.org/resource/Entity_{i:07d}" for i in range(entities))
    names = tuple(f"http://example.org/ontology/relation_{i:03d}" for i in range(relations))
    columns = (rng.integers(0, most, triples, dtype=np.int32) for most in (entities, relations, entities))
    return Graph(Vocabulary(labels, names), np.stack(list(columns), axis=1))


def measure(path: Path) -> None:
    began = time.perf_counter()
    graph = read_triples(path)
    seconds = time.perf_counter() - began
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = used.ru_utime + used.ru_stime
    peak = peak_mib()
    print(f"{seconds:>10.1f}{cpu:>8.1f}{peak:>10.0f}{len(graph):>12,}{len(graph.vocabulary.entities):>12,}")


def peak_mib() -> float:
    """Hand on this process's peak; not ru_maxrss, which it inherits from the process that started it."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


if __name__ == "__main__":
    main()
