"""The paper solver beside popularity: settings chosen on validation triples, then measured on test triples.

    python benchmarks/results.py nations umls --data FOLDER --out CELLS --markdown TABLES

FOLDER holds one folder per dataset with {train,valid,test}.tsv.gz. Every fit is a cell, and every finished
cell a small JSON file in CELLS: a run that was cut short goes on where it stopped. For each dataset

1. the epochs of a round, the paper's grids of λ and ρ and, for tiny graphs, k are searched one after the
   other, then in the order of the grid, until --budget seconds of training are spent. A cell ends when the
   filtered MRR of (at most 2,000) validation triples has not improved for `PATIENCE` rounds, after the rounds
   that `ROUNDS` allows, or after --cell-seconds; the best round counts;
2. the best cell's settings are fitted again with each seed, for at most `FINAL_ROUNDS` and without a limit on
   seconds, and evaluated on the test triples with both protocols. Training, validation and test triples count
   as known.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import consmrf
from consmrf.config import Config
from consmrf.graph.triples import Graph
from machine import Clock, cores

Cell = dict[str, Any]
Axes = dict[str, Sequence[Any]]

DATASETS = ("nations", "kinship", "umls", "fb15k237", "lastfm", "dbpedia_music", "svo300k")
SHARED = Path(__file__).resolve().parents[2] / "shared"

REG = (5e-3, 5e-4, 5e-2)  # λ, the paper's grid; the first of each is where the search begins
RHO = (5e-4, 5e-5, 5e-3)  # ρ, the paper's grid
INNER = (10, 1)  # epochs of a round
DIMS = {"nations": (50, 10), "kinship": (50, 10), "umls": (50, 10), "svo300k": (10,)}  # k; 50 for others
ROUNDS = {1: 150, 10: 40}  # the most in the search, by epochs of a round
FINAL_ROUNDS = {1: 500, 10: 120}  # the most with the settings chosen
PATIENCE = 10


class Point(NamedTuple):
    """One place of the grid; the fields in the order in which they are searched."""

    inner_epochs: int
    reg: float
    rho: float
    dim: int

    def name(self) -> str:
        """Hand on the cell's name among its dataset's files."""
        return f"tune-inner{self.inner_epochs}-reg{self.reg:g}-rho{self.rho:g}-dim{self.dim}"


class Splits(NamedTuple):
    """A dataset as it is handed out."""

    train: Graph
    valid: Graph
    test: Graph


class Cells:
    """The finished cells of one dataset: a folder of JSON files, each written whole or not at all."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    def get(self, name: str) -> Cell | None:
        """Hand on a finished cell."""
        path = self._folder / f"{name}.json"
        return _read_cell(path) if path.exists() else None

    def finished(self, name: str, make: Callable[[], Cell]) -> Cell:
        """Hand on a cell, made now if it is not there."""
        cell = self.get(name)
        if cell is None:
            cell = make()
            self._write(self._folder / f"{name}.json", cell)
        return cell

    def starting(self, prefix: str) -> dict[str, Cell]:
        """Hand on the finished cells whose names begin so."""
        paths = sorted(self._folder.glob(f"{prefix}*.json"))
        return {path.stem: _read_cell(path) for path in paths}

    @staticmethod
    def _write(path: Path, cell: Cell) -> None:
        draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        with open(draft, "x") as file:
            json.dump(cell, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)


def _read_cell(path: Path) -> Cell:
    cell: Cell = json.loads(path.read_text())
    return cell


def source() -> int:
    """Hand on a checksum of the package's source: figures made with different ones are not of one version."""
    found = 0
    for path in sorted(Path(consmrf.__file__).parent.rglob("*.py")):
        found = zlib.crc32(path.read_bytes(), found)
    return found


def main() -> None:
    """Finish the cells of every dataset asked for; print their tables."""
    asked = _arguments()
    clock = Clock()
    for dataset in asked.datasets:
        cells = Cells(asked.out / dataset)
        best = tune(dataset, cells, asked)
        measure(dataset, best, cells, asked)
        print(f"{dataset}: done; so far {clock.describe()}", flush=True)
    text = tables({dataset: Cells(asked.out / dataset) for dataset in asked.datasets})
    print(f"\n{text}")
    if asked.markdown is not None:
        asked.markdown.write_text(text)


@lru_cache(maxsize=1)
def read(folder: Path) -> Splits:
    """Read a dataset's folder."""
    return Splits(*(consmrf.read_triples(folder / f"{split}.tsv.gz") for split in Splits._fields))


def tune(dataset: str, cells: Cells, asked: argparse.Namespace) -> Point:
    """Finish cells until the budget is spent; hand on the point with the best validation MRR."""
    axes = axes_of(dataset)
    spent = 0.0
    done: dict[Point, float] = {}
    for point in search(axes, done):
        if spent >= asked.budget and cells.get(point.name()) is None:
            break
        cell = cells.finished(point.name(), partial(_tuned, asked.data / dataset, point, asked))
        done[point] = cell["mrr"]
        spent += cell["seconds"]
        print(f"{dataset} {point.name()}: {_told(cell)}", flush=True)
    return max(done, key=lambda point: done[point])


def axes_of(dataset: str) -> Axes:
    """Hand on the values of every field of `Point`, in the order of its fields."""
    return {"inner_epochs": INNER, "reg": REG, "rho": RHO, "dim": DIMS.get(dataset, (50,))}


def grid(axes: Axes) -> list[Point]:
    """Hand on every point, those with the first k before those with the next."""
    points = [Point(*values) for values in product(*axes.values())]
    return sorted(points, key=lambda point: axes["dim"].index(point.dim))


def search(axes: Axes, done: Mapping[Point, float]) -> Iterator[Point]:
    """Yield points not yet done: along each axis in turn from the best point so far, then all others.

    `done` is read between two points: the score of each point yielded has to be there by then.
    """
    yield Point(*(values[0] for values in axes.values()))
    for axis, values in axes.items():
        best = max(done, key=lambda point: done[point])
        yield from (point for point in (best._replace(**{axis: v}) for v in values) if point not in done)
    yield from (point for point in grid(axes) if point not in done)


def configuration(point: Point, seed: int, rounds: int, threads: int) -> Config:
    """Hand on a point's settings. Validation decides when to stop, so the paper's ε is set to zero."""
    return Config(
        solver="paper",
        **point._asdict(),
        max_epochs=rounds * point.inner_epochs,
        tol=0.0,
        patience=PATIENCE,
        seed=seed,
        threads=threads,
    )


def _tuned(folder: Path, point: Point, asked: argparse.Namespace) -> Cell:
    config = configuration(point, 0, ROUNDS[point.inner_epochs], asked.threads)
    config = replace(config, max_seconds=asked.cell_seconds)
    try:
        _, cell = _fitted(read(folder), config)
    except consmrf.DivergedError as error:
        cell = {"status": "DIVERGED", "mrr": 0.0, "rounds": 0, "best_round": 0, "seconds": 0.0}
        print(error)
    return cell | {"settings": point._asdict(), "seed": 0}


def _fitted(splits: Splits, config: Config) -> tuple[consmrf.Model, Cell]:
    """Fit, early stopping on the validation triples; hand on the model and how it went."""
    clock = Clock()
    result = consmrf.fit(splits.train, valid=splits.valid, config=config)
    info, rounds = result.info, result.info.rounds
    return result.model, {
        "status": info.status.name,
        "mrr": rounds[info.best_round - 1].validation if rounds else None,
        "rounds": len(rounds),
        "best_round": info.best_round,
        "seconds": info.seconds["total"],
        "seconds_validation": sum(r.seconds.get("validation", 0.0) for r in rounds),
        "curve": [[r.loss, r.validation, r.primal_residual, r.dual_residual] for r in rounds],
        "skipped_triples": info.skipped_triples,
        "threads": config.threads,
        "cores_of_others": clock.others(),
    }


def measure(dataset: str, best: Point, cells: Cells, asked: argparse.Namespace) -> None:
    """Finish the cells that hold test results: popularity, and the chosen settings with every seed."""
    wanted = {"test-popularity": Config(method="popularity")}
    rounds = FINAL_ROUNDS[best.inner_epochs]
    for seed in range(asked.seeds):
        wanted[f"test-paper-seed{seed}"] = configuration(best, seed, rounds, asked.threads)
    for name, config in wanted.items():
        cell = cells.finished(name, partial(_tested, asked.data / dataset, config))
        print(f"{dataset} {name}: test MRR {cell['full']['both']['mrr']:.4f}", flush=True)


def _tested(folder: Path, config: Config) -> Cell:
    splits = read(folder)
    model, cell = _fitted(splits, config)
    clock = Clock()
    for protocol in ("full", "paper"):
        found = consmrf.evaluate(model, splits.test, known=[splits.train, splits.valid], protocol=protocol)
        cell[protocol] = found.to_dict()
    sizes = {
        "entities": len(model.entities),
        "relations": len(model.relations),
        "triples": len(splits.train),
        "test": len(splits.test),
    }
    return cell | {
        "settings": config.to_dict(),
        "seed": config.seed,
        "sizes": sizes,
        "seconds_evaluation": clock.seconds(),
    }


def _told(cell: Cell) -> str:
    return (
        f"validation MRR {cell['mrr']:.4f}, round {cell['best_round']} of {cell['rounds']}, "
        f"{cell['status']}, {cell['seconds']:.0f} s"
    )


_FITS = (
    *("data", "entities", "relations", "training triples", "k", "λ", "ρ", "epochs a round"),
    *("rounds (best)", "ended by", "seconds", "cells run", "test triples left out", "MRR by seed"),
)


def tables(datasets: dict[str, Cells]) -> str:
    """Hand on three tables in Markdown: the paper's protocol, the full one, and what was fitted."""
    paper = [("auc", "AUC"), ("precision@5", "P@5"), ("recall@5", "R@5")]
    full = [("both", "mrr"), ("both", "hits@10"), ("objects", "mrr"), ("subjects", "mrr")]
    lines = [_line("data", "model", *(title for _, title in paper), "pairs scored"), _rule(6)]
    more = [_line("data", "model", "MRR", "Hits@10", "MRR objects", "MRR subjects"), _rule(6)]
    fits = [_line(*_FITS), _rule(len(_FITS))]
    for dataset, cells in datasets.items():
        for name, title in (("test-popularity", "popularity"), ("test-paper-seed0", "paper solver")):
            cell = cells.get(name)
            if cell is None:
                continue
            sampled = [_value(cell["paper"], "objects", metric) for metric, _ in paper]
            lines.append(_line(dataset, title, *sampled, f"{cell['paper']['objects']['count']:,}"))
            more.append(_line(dataset, title, *(_value(cell["full"], view, m) for view, m in full)))
        seeds = list(cells.starting("test-paper-seed").values())
        if seeds:
            fits.append(_fit_line(dataset, seeds, cells))
    return "\n".join([*lines, "", *more, "", *fits, ""])


def _fit_line(dataset: str, seeds: Sequence[Cell], cells: Cells) -> str:
    first, tuned = seeds[0], cells.starting("tune-")
    settings, sizes = first["settings"], first["sizes"]
    left_out = first["full"]["triples"]
    unseen = left_out["unseen_entity"] + left_out["unseen_relation"]
    return _line(
        dataset,
        *(f"{sizes[name]:,}" for name in ("entities", "relations", "triples")),
        settings["dim"],
        *(f"{settings[name]:g}" for name in ("reg", "rho", "inner_epochs")),
        f"{first['rounds']} ({first['best_round']})",
        first["status"].lower(),
        f"{first['seconds']:.0f}",
        f"{len(tuned)} of {len(grid(axes_of(dataset)))}",
        f"{unseen} of {sizes['test']:,}",
        " ".join(_digits(cell["full"]["both"]["mrr"]) for cell in seeds),
    )


def _value(evaluation: Cell, view: str, metric: str) -> str:
    """Hand on a value and its bootstrap interval, in thousandths."""
    low, high = evaluation["intervals"][view][metric]
    return f"{_digits(evaluation[view][metric])} ({_digits(low)}–{_digits(high)})"


def _digits(value: float | None) -> str:
    return "—" if value is None else f"{value:.3f}".removeprefix("0")


def _line(*cells: object) -> str:
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def _rule(columns: int) -> str:
    return f"|{'---|' * columns}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The paper solver beside popularity.")
    parser.add_argument("datasets", nargs="*", default=DATASETS, help=f"by default {' '.join(DATASETS)}")
    parser.add_argument("--data", type=Path, default=SHARED / "data", help="the folder of all datasets")
    parser.add_argument("--out", type=Path, required=True, help="a folder for the finished cells")
    parser.add_argument("--budget", type=float, default=300, help="seconds of training in search of settings")
    parser.add_argument("--cell-seconds", type=float, default=60, help="the most for one cell of that search")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=cores())
    parser.add_argument("--markdown", type=Path, help="where to write the tables, too")
    return parser.parse_args()


if __name__ == "__main__":
    main()
