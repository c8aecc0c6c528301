"""The peer's side of benchmarks/ranking.py, which runs it: PyKEEN ranks triples by given embeddings.

    PEER_PYTHON benchmarks/pykeen_ranking.py GIVEN.npz RANKS.npz THREADS BATCH REPEATS

Needs `pykeen` and `torch`, and nothing of consmrf. Prints one line of JSON.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from pykeen.evaluation import RankBasedEvaluator
from pykeen.models import DistMult
from pykeen.triples import CoreTriplesFactory


def main() -> None:
    given, found = sys.argv[1:3]
    threads, batch, repeats = map(int, sys.argv[3:6])
    torch.set_num_threads(threads)
    arrays = {name: torch.from_numpy(array) for name, array in np.load(given).items()}
    model = distmult(arrays["z"], arrays["w"], arrays["train"])
    seconds, cpu = [], []
    for _ in range(repeats):
        evaluator = RankBasedEvaluator(filtered=True, clear_on_finalize=False)
        begun, begun_cpu = time.perf_counter(), time.process_time()
        evaluator.evaluate(
            model,
            arrays["asked"],
            batch_size=batch,
            additional_filter_triples=[arrays["train"], arrays["valid"], arrays["test"]],
            use_tqdm=False,
        )
        seconds.append(time.perf_counter() - begun)
        cpu.append(time.process_time() - begun_cpu)
    sides = {"objects": "tail", "subjects": "head"}
    bounds = {"lower": "optimistic", "upper": "pessimistic"}
    ranks = {
        f"{side}_{name}": np.concatenate(evaluator.ranks[target, kind]).astype(np.int64)
        for side, target in sides.items()
        for name, kind in bounds.items()
    }
    np.savez(found, **ranks)
    peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) << 10
    print(json.dumps({"seconds": seconds, "cpu": cpu, "peak": peak}))


def distmult(z: torch.Tensor, w: torch.Tensor, train: torch.Tensor) -> DistMult:
    """Hand on PyKEEN's model with these embeddings, in their precision."""
    factory = CoreTriplesFactory(train, num_entities=len(z), num_relations=len(w))
    model = DistMult(triples_factory=factory, embedding_dim=z.shape[1], random_seed=0).to(z.dtype)
    [entities], [relations] = model.entity_representations, model.relation_representations
    with torch.no_grad():
        for representation, values in ((entities, z), (relations, w)):
            [weights] = representation.parameters()
            weights.copy_(values.reshape(weights.shape))
    return model.eval()


if __name__ == "__main__":
    main()
