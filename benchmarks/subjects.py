"""What the counted intercept of subjects is worth, where no inverse relations rank them.

    python benchmarks/subjects.py umls lastfm fb15k237 --data FOLDER

Fits each dataset with reciprocal=False and ranks both sides of its validation triples: objects, and subjects
with c times the intercept of `baselines/counted.py`, c = 0 being none. Prints a line of MRRs each.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import consmrf
from consmrf import Config, EvaluationOptions, Model, evaluate, read_triples

SHARES = (0.0, 0.25, 0.5, 1.0, 2.0)


def scaled(model: Model, share: float) -> Model:
    """Hand on the model with a share of the subjects' intercepts."""
    factors = model.predictor
    beta = factors.beta.copy()
    beta[len(factors.w) :] *= share
    changed = replace(factors, beta=beta, subject_b=share * factors.subject_b)
    return Model(model.vocabulary, model.known, changed)


def measure(folder: Path, config: Config) -> dict[str, float]:
    """Hand on the MRR of objects, and that of subjects for each share of the intercept."""
    train, valid = (read_triples(folder / f"{part}.tsv.gz") for part in ("train", "valid"))
    model = consmrf.fit(train, valid=valid, config=config).model

    def mrr(asked: Model, side: str) -> float:
        found = evaluate(asked, valid, known=[train], options=EvaluationOptions(sides=(side,)))
        return float(found.summary(side)["mrr"])

    told = {"objects": mrr(model, "objects")}
    return told | {f"subjects, c = {c:g}": mrr(scaled(model, c), "subjects") for c in SHARES}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("datasets", nargs="+")
    parser.add_argument("--data", type=Path, required=True, help="folder of the datasets' folders")
    parser.add_argument("--dim", type=int, default=32)
    parser.add_argument("--negatives", type=int, default=128)
    parser.add_argument("--max-epochs", type=int, default=8)
    given = parser.parse_args()
    config = Config(
        reciprocal=False, dim=given.dim, negatives=given.negatives, max_epochs=given.max_epochs, threads=1
    )
    for name in given.datasets:
        told = measure(given.data / name, config)
        print(name, *(f"{what}: {value:.4f}" for what, value in told.items()), sep="  ", flush=True)


if __name__ == "__main__":
    main()
