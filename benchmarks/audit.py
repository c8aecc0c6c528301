"""Time and memory of an audit, step by step, beside the size of the triples.

    python benchmarks/audit.py --shape 2137469 37 4431523      entities, relations, triples: a YAGO's
    python benchmarks/audit.py --shape 30605 4547 1000000      thousands of relations

A Zipf graph is drawn and cut at random; --quick draws a small one.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc

import consmrf
from consmrf.graph.split import split
from machine import Clock
from zipf import zipf_graph

QUICK = (20_000, 300, 100_000)
RANK = 50


def main() -> None:
    asked = _arguments()
    shape = tuple(asked.shape or QUICK)
    cut = split(zipf_graph(*shape, RANK, asked.seed))
    print("{:,} entities, {:,} relations, {:,} triples".format(*shape))
    clock, begun = Clock(), time.process_time()
    found = consmrf.audit(cut.train, valid=cut.valid, test=cut.test)
    audited = time.process_time()
    plain = found.to_dict()
    told = time.process_time()
    print(
        f"audit {audited - begun:.1f} s of CPU, as plain values {told - audited:.1f}; wall {clock.describe()}"
    )
    print(f"overlaps {len(plain['overlaps'])}; leaking test triples {plain['leaks']['test']['leaking']:,}")
    tracemalloc.start()  # it slows everything down, so not while the time is taken
    consmrf.audit(cut.train, valid=cut.valid, test=cut.test)
    peak = tracemalloc.get_traced_memory()[1]
    print(
        f"memory {peak / 2**20:,.0f} MiB at the peak, the graphs aside: {peak / shape[2]:.0f} bytes a triple"
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", nargs=3, type=int, metavar=("ENTITIES", "RELATIONS", "TRIPLES"))
    parser.add_argument("--quick", action="store_true", help="the default: a small graph")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
