"""Popularity, CD, the paper solver and wave, each as a user gets it, on the same test queries.

    python benchmarks/arena.py nations umls --data FOLDER --out CELLS --seeds 3 --markdown TABLES

FOLDER holds one folder per dataset with {train,valid,test}.tsv.gz. Nothing is tuned: wave and CD (one A for
all relations) run with their defaults, popularity has none, the paper solver has the middle of the paper's
grids and rounds of 10 epochs, at most --paper-epochs and --paper-seconds of them. All but popularity stop by
the validation triples. Test triples are evaluated with both protocols; training, validation and test triples
count as known. Of test sets above --most triples the same random sample is asked of every method.

Every fit is a cell, made in a process of its own: a JSON file with settings, progress and figures, and an
.npz file with the values of single queries. A run that was cut short goes on where it stopped; a cell that
failed leaves its error in NAME.failed.json and is tried again by the next run; a cell made with other
settings is made anew.

Where there are several seeds, a query's value is its mean over the seeds. Intervals are 95 % bootstrap
percentiles over test triples (MRR, Hits@10: both sides of a triple are drawn together) or over (relation,
subject) pairs (AUC, P@5, R@5). The verdict on wave is that of the interval of the paired difference. What
another seed would change is in no interval; it is told beside them.

Relation by relation wave is compared with CD and with the consensus that its own views depart from, in MRR,
corrected for the number of relations.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import consmrf
from child import FailedError, in_child, peak_memory
from consmrf.config import Config
from consmrf.evaluation.metrics import hit_at, reciprocal_rank
from consmrf.evaluation.protocol import Evaluation, EvaluationOptions
from consmrf.graph.triples import Graph
from machine import Clock, cores
from pairing import (
    CONFIDENCE,
    Estimate,
    Verdict,
    at_least_as_good,
    better_than_all,
    by_relation,
    estimate,
    paired,
)
from results import SHARED, Cell, Cells, Splits, read, source

DATASETS = (
    *("fb15k237", "wn18rr", "nell995", "kinship", "umls", "nations"),
    *("svo300k", "lastfm", "lastfm_tags", "ciao", "dbpedia_music", "yago_mkgy"),
)
DIMS = {"svo300k": 10, "lastfm_tags": 10}  # k as the paper has it; 50 for others
RIVALS = {"popularity": "popularity", "cd": "CD", "paper": "paper solver"}
TITLES = RIVALS | {"wave": "wave"}
LISTS = {"AUC": 0, "P@5": 1, "R@5": 2}  # column of the values of a pair
METRICS = (*LISTS, "MRR", "Hits@10")
JUDGED = ("AUC", "MRR")
OPTIONS = EvaluationOptions(bootstrap=0)  # the tables have intervals of their own

Arrays = dict[str, NDArray[Any]]
Values = NDArray[np.float64]


def configuration(method: str, dataset: str, seed: int, asked: argparse.Namespace) -> Config:
    """Hand on a method's settings: what a user gets who gives k, the seed and the threads."""
    given = {"dim": asked.dim or DIMS.get(dataset, 50), "seed": seed, "threads": asked.threads}
    if method == "popularity":
        return Config(method="popularity")
    if method == "cd":
        return Config(method="shared", **given)
    if method == "paper":
        limits = {
            "max_epochs": asked.paper_epochs,
            "max_seconds": asked.paper_seconds,
            "tol": 0.0,
            "patience": 10,
        }
        return Config(solver="paper", inner_epochs=10, **limits, **given)
    return Config(**given)


def main() -> None:
    """Finish the cells of every dataset asked for; print their tables."""
    asked = _arguments()
    for dataset in asked.datasets:
        clock = Clock()
        cells = Cells(asked.out / dataset)
        for method in asked.methods:
            for seed in range(asked.seeds if method != "popularity" else 1):
                print(
                    f"{dataset} {method} seed {seed}: {finish(dataset, method, seed, cells, asked)}",
                    flush=True,
                )
        print(f"{dataset}: done; {clock.describe()}\n{describe(dataset, asked)}\n", flush=True)
    text = tables(asked)
    print(text)
    if asked.markdown is not None:
        asked.markdown.write_text(text)


# -- cells


def finish(dataset: str, method: str, seed: int, cells: Cells, asked: argparse.Namespace) -> str:
    """Make a cell unless it is there as asked; hand on how that went, whatever happened."""
    name, folder = f"{method}-seed{seed}", asked.out / dataset
    failed = folder / f"{name}.failed.json"
    failed.unlink(missing_ok=True)
    try:
        config = configuration(method, dataset, seed, asked)
        cell = cells.get(name)
        if cell is not None and not same_question(cell, config, asked.most):
            for path in (folder / f"{name}.json", folder / f"{name}.npz"):
                path.unlink(missing_ok=True)
        given = (asked.data / dataset, config, asked.most, folder / f"{name}.npz")
        cell = cells.finished(name, partial(in_child, make, *given))
    except (FailedError, consmrf.ConsmrfError) as problem:
        cells.finished(failed.stem, partial(dict, error=str(problem)))
        return f"FAILED, {problem}"
    return (
        f"{cell['status']}, {cell['rounds']} rounds, {cell['seconds']['total']:.0f} s; "
        f"AUC {_digits(cell['paper']['objects']['auc'])}, MRR {_digits(cell['full']['both']['mrr'])}"
    )


def same_question(cell: Cell, config: Config, most: int) -> bool:
    """Say whether a cell was made with these settings; the number of threads changes no figure."""
    then, now = cell["settings"], json.loads(json.dumps(config.to_dict()))
    return cell["most"] == most and {**then, "threads": 0} == {**now, "threads": 0}


def make(folder: Path, config: Config, most: int, arrays: Path) -> Cell:
    """Fit and evaluate; write the values of single queries, hand on everything else."""
    splits = read(folder)
    clock = Clock()
    result = consmrf.fit(splits.train, valid=splits.valid, config=config)
    if result.info.status is consmrf.Status.INTERRUPTED:
        raise FailedError("the fit was interrupted")
    cell = _fitted(result, config, splits) | {"cores_of_others": clock.others(), "most": most}
    clock = Clock()
    asked = sample(splits.test, most)
    found = {
        protocol: consmrf.evaluate(result.model, asked, known=splits, protocol=protocol, options=OPTIONS)
        for protocol in ("full", "paper")
    }
    queries = single_queries(found["full"], found["paper"])
    if config.solver == "wave" and config.method == "consensus":
        model = result.model
        shared = consmrf.Model(
            *(model.vocabulary, model.known, model.predictor.consensus(), model.config, model.provenance)
        )
        told = consmrf.evaluate(shared, asked, known=splits, protocol="full", options=OPTIONS)
        queries["consensus"] = both_ends(told)
    _write(arrays, queries)
    return cell | {
        **{protocol: evaluation.to_dict() for protocol, evaluation in found.items()},
        "seconds_evaluation": clock.seconds(),
    }


def _fitted(result: consmrf.Result, config: Config, splits: Splits) -> Cell:
    info, rounds = result.info, result.info.rounds
    return {
        "status": info.status.name,
        "settings": config.to_dict(),
        "seconds": info.seconds,
        "rounds": len(rounds),
        "best_round": info.best_round,
        "progress": [
            {
                "stage": getattr(each, "stage", None),
                "loss": each.loss,
                "validation": each.validation,
                "balance": each.balance,
                "seconds": each.seconds,
            }
            for each in rounds
        ],
        "skipped_triples": info.skipped_triples,
        "peak_memory": peak_memory(),
        "source": source(),
        "sizes": {
            "entities": len(result.model.entities),
            "relations": len(result.model.relations),
            **{name: len(graph) for name, graph in splits._asdict().items()},
        },
    }


def sample(test: Graph, most: int, seed: int = 0) -> Graph:
    """Hand on at most so many test triples, the same ones for every method."""
    if len(test) <= most:
        return test
    chosen = np.random.default_rng(seed).choice(len(test), most, replace=False)
    return Graph(test.vocabulary, test.triples[np.sort(chosen)])


def single_queries(full: Evaluation, paper: Evaluation) -> Arrays:
    """Hand on the test triples with the ranks of both their ends, and the pairs with their list metrics."""
    ranks, sampled = full.ranks, paper.ranks
    pairs = np.unique(np.stack([sampled.r, sampled.s], axis=1), axis=0)
    lists = paper.measured.expected["objects"]
    if len(pairs) != len(lists):
        raise AssertionError("the pairs of the ranks are not those that were measured")
    return {
        "triples": np.stack([ranks.s, ranks.r, ranks.o], axis=1)[: len(full.measured.relation)],
        "ranks": both_ends(full),
        "pairs": pairs,
        "lists": lists,
    }


def both_ends(full: Evaluation) -> Values:
    """Hand on the ranks [triples, 2] of the objects and of the subjects."""
    return full.ranks.rank.reshape(2, len(full.measured.relation)).T


def _write(path: Path, arrays: Arrays) -> None:
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    with open(draft, "xb") as file:
        np.savez_compressed(file, **arrays)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)


# -- what a dataset's cells say


@dataclass(frozen=True)
class Entrant:
    """One method on one dataset: its cells, and the values of single queries, mean over the seeds."""

    cells: list[Cell]
    queries: Arrays  # triples, pairs
    values: dict[str, Values]  # by metric
    by_seed: dict[str, list[float]]  # by metric: the mean of each seed
    consensus: Values | None = None  # MRR of wave's consensus, as in `values`


def entrant(folder: Path, method: str, seeds: int, most: int) -> Entrant | None:
    """Hand on what there is of a method's cells; None where there is nothing."""
    if method == "popularity":
        seeds = 1
    asked, cells = [f"{method}-seed{seed}" for seed in range(seeds)], Cells(folder)
    there = {name: cell for name in asked if (cell := cells.get(name)) and cell["most"] == most}
    if not there:
        return None
    loaded = [_read(folder / f"{name}.npz") for name in there]
    each = [values_of(arrays) for arrays in loaded]
    return Entrant(
        list(there.values()),
        {key: loaded[0][key] for key in ("triples", "pairs")},
        {metric: np.mean([values[metric] for values in each], axis=0) for metric in METRICS},
        {metric: [float(np.mean(values[metric])) for values in each] for metric in METRICS},
        np.mean([_mrr(arrays["consensus"]) for arrays in loaded], axis=0) if method == "wave" else None,
    )


def _read(path: Path) -> Arrays:
    with np.load(path) as arrays:
        return dict(arrays)


def values_of(arrays: Arrays) -> dict[str, Values]:
    """Hand on each metric's values: of pairs for the lists, of triples (both ends together) for the ranks."""
    ranks = arrays["ranks"]
    return {
        **{metric: arrays["lists"][:, column] for metric, column in LISTS.items()},
        "MRR": _mrr(ranks),
        "Hits@10": hit_at(ranks, 10).mean(axis=1),
    }


def _mrr(ranks: Values) -> Values:
    return reciprocal_rank(ranks).mean(axis=1)


def entrants_of(dataset: str, asked: argparse.Namespace) -> dict[str, Entrant]:
    """Hand on the methods that have cells, wave last."""
    found = {method: entrant(asked.out / dataset, method, asked.seeds, asked.most) for method in TITLES}
    return {method: each for method, each in found.items() if each is not None}


def differences(wave: Entrant, rival: Entrant) -> dict[str, Estimate]:
    """Hand on wave − rival over the same queries, by judged metric."""
    for key, queries in wave.queries.items():
        if not np.array_equal(queries, rival.queries[key]):
            raise ValueError(f"the {key} asked of wave are not those asked of its rival; make the cells anew")
    return {metric: paired(wave.values[metric], rival.values[metric]) for metric in JUDGED}


def judge(entrants: dict[str, Entrant]) -> dict[str, dict[str, Estimate]]:
    """Hand on the differences of wave to each rival that is there."""
    if "wave" not in entrants:
        return {}
    return {rival: differences(entrants["wave"], entrants[rival]) for rival in RIVALS if rival in entrants}


def relation_by_relation(entrants: dict[str, Entrant]) -> dict[str, dict[Verdict, int]]:
    """Hand on how many relations wave ranks better, as well and worse than its own consensus, and than CD."""
    if "wave" not in entrants:
        return {}
    wave = entrants["wave"]
    rivals = {
        "its own consensus": wave.consensus,
        "CD": entrants["cd"].values["MRR"] if "cd" in entrants else None,
    }
    relations = wave.queries["triples"][:, 1]
    return {
        name: by_relation(wave.values["MRR"], values, relations)
        for name, values in rivals.items()
        if values is not None
    }


# -- tables


def describe(dataset: str, asked: argparse.Namespace) -> str:
    """Hand on a dataset's tables in Markdown."""
    entrants = entrants_of(dataset, asked)
    errors = [
        f"{path.name.removesuffix('.failed.json')} failed: {json.loads(path.read_text())['error']}"
        for path in sorted((asked.out / dataset).glob("*.failed.json"))
    ]
    lines = [f"### {dataset}", "", *(_sizes(entrants) if entrants else ()), *errors, ""]
    lines += _figures(entrants)
    judged = judge(entrants)
    if judged:
        lines += ["", _line("wave −", *JUDGED), _rule(1 + len(JUDGED))]
        for rival, found in judged.items():
            lines.append(_line(TITLES[rival], *(_difference(found[metric]) for metric in JUDGED)))
    by_rival = relation_by_relation(entrants)
    if by_rival:
        heads = ("wave's MRR, relation by relation, beside", "relations tested", *(v.value for v in Verdict))
        lines += ["", _line(*heads), _rule(len(heads))]
        for rival, counts in by_rival.items():
            lines.append(_line(rival, sum(counts.values()), *(counts[verdict] for verdict in Verdict)))
    return "\n".join(lines)


def _sizes(entrants: dict[str, Entrant]) -> list[str]:
    first = next(iter(entrants.values()))
    cell, sizes = first.cells[0], first.cells[0]["sizes"]
    left_out = cell["full"]["triples"]["unseen_entity"] + cell["full"]["triples"]["unseen_relation"]
    said = [
        f"{sizes['entities']:,} entities, {sizes['relations']:,} relations, {sizes['train']:,} training "
        f"triples; of {sizes['test']:,} test triples {len(first.queries['triples']):,} ranked on both sides "
        f"({left_out:,} asked with labels unseen in training), {len(first.queries['pairs']):,} "
        "(relation, subject) pairs"
    ]
    if len({cell["source"] for each in entrants.values() for cell in each.cells}) > 1:
        said.append("These cells were made by different versions of the package.")
    return said


def _figures(entrants: dict[str, Entrant]) -> list[str]:
    several = any(len(each.cells) > 1 for each in entrants.values())
    spread = [f"{metric} by seed" for metric in JUDGED] if several else []
    heads = ("model", *METRICS, "k", "rounds (best)", "ended by", "seconds to fit", *spread)
    lines = [_line(*heads), _rule(len(heads))]
    for method, each in entrants.items():
        cell = each.cells[0]
        seconds = [f"{one['seconds']['total']:.0f}" for one in each.cells]
        lines.append(
            _line(
                TITLES[method],
                *(_interval(estimate(each.values[metric])) for metric in METRICS),
                cell["settings"]["dim"] if method != "popularity" else "—",
                f"{cell['rounds']} ({cell['best_round']})" if cell["rounds"] else "—",
                cell["status"].lower(),
                " ".join(seconds),
                *(" ".join(_digits(x) for x in each.by_seed[m]) for m in JUDGED if several),
            )
        )
    return lines


def tables(asked: argparse.Namespace) -> str:
    """Hand on the tables of all datasets, and what they add up to."""
    parts = [describe(dataset, asked) for dataset in asked.datasets]
    judged = {dataset: judge(entrants_of(dataset, asked)) for dataset in asked.datasets}
    verdicts = {
        dataset: {rival: [found[metric].verdict for metric in JUDGED] for rival, found in each.items()}
        for dataset, each in judged.items()
    }
    counted = [relation_by_relation(entrants_of(dataset, asked)) for dataset in asked.datasets]
    return "\n\n".join([*parts, summary(verdicts), *_added_up(counted)]) + "\n"


def _added_up(counted: Sequence[Mapping[str, Mapping[Verdict, int]]]) -> list[str]:
    """Hand on, for each rival, what its relations come to on all datasets."""
    told = []
    for rival in dict.fromkeys(name for each in counted for name in each):
        sums = {
            verdict: sum(each[rival][verdict] for each in counted if rival in each) for verdict in Verdict
        }
        parts = ", ".join(f"{sums[verdict]} {verdict.value}" for verdict in Verdict)
        told.append(f"Relation by relation beside {rival}, in MRR, corrected within each dataset: {parts}.")
    return told


def summary(verdicts: Mapping[str, Mapping[str, Sequence[Verdict]]]) -> str:
    """Hand on wave's verdicts by dataset, and the counts; what is missing counts for nothing."""
    heads = ["data", *(f"{metric}: {title}" for metric in JUDGED for title in RIVALS.values())]
    heads += ["at least as good everywhere", "better than all in both"]
    lines = ["### wave against each", "", _line(*heads), _rule(len(heads))]
    good = best = 0
    for dataset, found in verdicts.items():
        whole = set(found) == set(RIVALS)
        no_worse, wins = whole and at_least_as_good(found), whole and better_than_all(found)
        good, best = good + no_worse, best + wins
        told = [
            found[rival][i].value if rival in found else "missing"
            for i in range(len(JUDGED))
            for rival in RIVALS
        ]
        lines.append(_line(dataset, *told, "yes" if no_worse else "no", "yes" if wins else "no"))
    return "\n".join(
        [
            *lines,
            "",
            f"At least as good everywhere: {good} of {len(verdicts)}. "
            f"Significantly better than all three in both: {best} of {len(verdicts)}. "
            f"Intervals: {CONFIDENCE:.0%}, paired.",
        ]
    )


def _interval(found: Estimate) -> str:
    return f"{_digits(found.mean)} ({_digits(found.low)}–{_digits(found.high)})"


def _difference(found: Estimate) -> str:
    told = [f"{'−' if value < 0 else '+'}{_digits(abs(value), 4)}" for value in found]
    return f"{told[0]} ({told[1]} to {told[2]}): {found.verdict.value}"


def _digits(value: float | None, places: int = 3) -> str:
    return "—" if value is None else f"{value:.{places}f}".removeprefix("0")


def _line(*cells: object) -> str:
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def _rule(columns: int) -> str:
    return f"|{'---|' * columns}"


def _arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Popularity, CD, the paper solver and wave.")
    parser.add_argument("datasets", nargs="*", default=DATASETS, help=f"by default {' '.join(DATASETS)}")
    parser.add_argument("--data", type=Path, default=SHARED / "data", help="the folder of all datasets")
    parser.add_argument("--out", type=Path, required=True, help="a folder for the finished cells")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=cores())
    parser.add_argument("--methods", nargs="+", choices=TITLES, default=list(TITLES), help="which to fit")
    parser.add_argument("--dim", type=int, help="k, for every dataset")
    parser.add_argument("--paper-seconds", type=float, default=300, help="the most for the paper solver")
    parser.add_argument("--paper-epochs", type=int, default=400, help="as --paper-seconds, in epochs")
    parser.add_argument("--most", type=int, default=20_000, help="the most test triples evaluated")
    parser.add_argument("--markdown", type=Path, help="where to write the tables, too")
    return parser.parse_args(given)


if __name__ == "__main__":
    main()
