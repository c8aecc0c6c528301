"""Why the paper solver scores what it scores: the finished cells of results.py, looked into.

    python benchmarks/diagnosis.py fb15k237 svo300k --data FOLDER --out CELLS

For each dataset, with the settings that results.py chose, seed 0, and at most --rounds rounds:

* variants, each one change away from the paper, trained and stopped alike, on test triples. ρ is zero where
  the change would make the derived dual V_r untrue;
* how far the factors are from where they began, and how many relations move an entity's row in a round;
* what the relation's own view A_r and the consensus Z are worth, each by itself;
* what an intercept from counts adds to the finished model, its weight chosen on validation triples;
* results by whether the relation met the test triple's subject and object in training;
* results by size of the relation, beside popularity.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consmrf.baselines.popularity import popularity
from consmrf.config import Config
from consmrf.consensus.average import mean_change
from consmrf.consensus.kernels import add_rows
from consmrf.consensus.local import local_problems
from consmrf.consensus.solve import Average, Solution, solve
from consmrf.consensus.state import ConsensusState, Floats, LocalUpdate, initial_state
from consmrf.engine.threads import Threads
from consmrf.evaluation.metrics import auc, mrr
from consmrf.evaluation.protocol import EvaluationOptions, evaluate
from consmrf.evaluation.ranking import Ids, Scorer, ValidationScore
from consmrf.fit import factors
from consmrf.graph.partition import partition
from consmrf.graph.vocabulary import Vocabulary
from consmrf.predictors import Factors
from results import SHARED, Splits, read

# Of the intercept: how many triples an entity's overall share is worth, and the weights tried.
ALPHA = 50.0
WEIGHTS = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0)
SIZES = (100, 1000, 5000)


@dataclass(frozen=True)
class Scored:
    """Anything that scores, as an evaluation takes it."""

    vocabulary: Vocabulary
    known: Ids
    scorer: Scorer

    def object_scores(self, relation: int, subjects: Ids, /) -> NDArray[np.float32]:
        return self.scorer.object_scores(relation, subjects)

    def subject_scores(self, relation: int, objects: Ids, /) -> NDArray[np.float32]:
        return self.scorer.subject_scores(relation, objects)


class WithCounts:
    """Factors and, on top, `weight` times the log of an entity's smoothed share among the relation's ends."""

    def __init__(self, within: Factors, triples: Ids, weight: float) -> None:
        self._factors, self._weight = within, weight
        self._triples = triples[np.argsort(triples[:, 1], kind="stable")]
        self._bounds = np.searchsorted(self._triples[:, 1], np.arange(within.shape[1] + 1))

    def object_scores(self, relation: int, subjects: Ids, /) -> NDArray[np.float32]:
        return self._factors.object_scores(relation, subjects) + self._intercept(relation, 2)

    def subject_scores(self, relation: int, objects: Ids, /) -> NDArray[np.float32]:
        return self._factors.subject_scores(relation, objects) + self._intercept(relation, 0)

    def _intercept(self, relation: int, column: int) -> NDArray[np.float32]:
        n_entities = self._factors.shape[0]
        share = np.bincount(self._triples[:, column], minlength=n_entities) + 0.5
        share /= share.sum()
        own = self._triples[self._bounds[relation] : self._bounds[relation + 1], column]
        own_share = np.log(ALPHA * share + np.bincount(own, minlength=n_entities))
        intercept: NDArray[np.float32] = (self._weight * own_share).astype(np.float32)
        return intercept


@dataclass(frozen=True)
class Variant:
    """One change away from the paper."""

    name: str
    config: Config
    average: Average = mean_change
    prepare: Callable[[ConsensusState], None] = lambda _: None


def variants(config: Config) -> list[Variant]:
    """Hand on what is compared."""
    free = replace(config, rho=0.0)
    alone = replace(config, method="independent")
    return [
        Variant("as printed", config),
        Variant("ρ = 0", free),
        Variant("ρ = 0, Z: mean over the relations that moved the row", free, mean_of_movers),
        Variant("the same, W_r begun at ones", free, mean_of_movers, ones),
        Variant("ρ = 0, W_r begun at ones", free, mean_change, ones),
        Variant("relations alone, A_r kept from round to round", alone, no_change),
    ]


def mean_of_movers(z: Floats, updates: Sequence[LocalUpdate]) -> Floats:
    """Hand on, for each row, the mean of Δ_r over the relations that moved it, not over all."""
    total, movers = np.zeros_like(z), np.zeros(len(z), z.dtype)
    for update in updates:
        add_rows(total, update.rows, update.delta)
        movers[update.rows] += 1
    mean: Floats = total / np.maximum(movers, 1)[:, None]
    return mean


def no_change(z: Floats, _: Sequence[LocalUpdate]) -> Floats:
    """Share nothing."""
    return np.zeros_like(z)


def ones(state: ConsensusState) -> None:
    """Begin every W_r at ones instead of near zero."""
    for local in state.locals:
        local.w[:] = 1


def main() -> None:
    """Print one section for each dataset asked for."""
    asked = _arguments()
    for dataset in asked.datasets:
        paper, popular = (_cell(asked.out, dataset, name) for name in ("paper-seed0", "popularity"))
        splits = read(asked.data / dataset)
        config = _settings(paper, asked)
        print(
            f"\n## {dataset}: {config.inner_epochs} epochs a round, k = {config.dim}, λ = {config.reg:g}, "
            f"ρ = {config.rho:g}\n",
            flush=True,
        )
        for i, variant in enumerate(variants(config)):
            solution = run(splits, variant)
            print(_variant_line(splits, variant, solution), flush=True)
            if i == 0:
                look_into(splits, solution, variant)
        print(by_size(splits, paper, popular), flush=True)


def run(splits: Splits, variant: Variant) -> Solution:
    """Fit a variant; the best round on the validation triples is kept."""
    graph, config = splits.train, variant.config
    n_entities, partitions = len(graph.vocabulary.entities), partition(graph)
    problems = local_problems(partitions, n_entities, config.inner_epochs)
    score = ValidationScore(splits.valid.encode(graph.vocabulary).triples, graph.triples, n_entities)
    state = initial_state(partitions, n_entities, config)
    variant.prepare(state)
    with Threads(problems, n_entities, config) as engine:
        return solve(
            state,
            engine.sweep,
            config,
            average=variant.average,
            validate=lambda views: score.measure(factors(views, config)),
        )


def look_into(splits: Splits, solution: Solution, variant: Variant) -> None:
    """Print norms, movers, the worth of either view, and what an intercept adds."""
    predictor = factors(solution.views, variant.config)
    print(norms(splits, solution, predictor))
    for name, view in (("A_r", predictor), ("Z", predictor.consensus())):
        print(f"view {name}: {_scores(splits, view)}", flush=True)
    known = splits.train.triples
    valid = splits.valid.encode(splits.train.vocabulary).triples
    score = ValidationScore(valid, known, predictor.shape[0])
    by_weight = {weight: score(WithCounts(predictor, known, weight)) for weight in WEIGHTS}
    best = max(by_weight, key=lambda weight: by_weight[weight])
    print(f"with an intercept, weight {best:g}: {_scores(splits, WithCounts(predictor, known, best))}")
    alone = factors(replace(solution.views, z=np.zeros_like(solution.views.z)), variant.config).consensus()
    print(f"the intercept alone: {_scores(splits, WithCounts(alone, known, 1.0))}", flush=True)
    counting = popularity(splits.train, Config(method="popularity")).predictor
    print(by_acquaintance(splits, (predictor, counting)), flush=True)


def norms(splits: Splits, solution: Solution, predictor: Factors) -> str:
    """Hand on how far the factors have come, and how many relations move a row in one round."""
    n_entities, n_relations = predictor.shape
    begun, state = solution.state.z0, solution.state
    own, others = [], []
    for part in partition(splits.train):
        update = solution.views.updates[part.relation]
        inside = np.isin(update.rows, part.entities)
        lengths = np.linalg.norm(update.delta, axis=1)
        own.append(lengths[inside])
        others.append(lengths[~inside])
    inside, outside = np.concatenate(own), np.concatenate(others)
    movers = (len(inside) + len(outside)) / n_entities
    members = sum(len(part.entities) for part in partition(splits.train)) / n_entities
    last = solution.info.rounds[-1]
    rows = (
        f"mean norm of a row: z {_norm(begun)} at the beginning, {_norm(predictor.z)} in the round kept; "
        f"W_r {_norm(predictor.w)}; Δ_r {inside.mean():.3f} for entities of the relation, "
        f"{outside.mean():.4f} for others that moved"
    )
    shares = (
        f"of {n_relations} relations an entity occurs in {members:.1f}, is moved by {movers:.1f} in a round; "
        f"dividing by R leaves {movers / n_relations:.1%} of the mean of those that moved it"
    )
    ways = (
        f"Z moved by ‖Z − Z⁰‖ = {np.linalg.norm(state.z - begun):.1f} from ‖Z⁰‖ = "
        f"{np.linalg.norm(begun):.1f} in {last.round} rounds; loss {solution.info.rounds[0].loss:.4f} in the "
        f"first, {last.loss:.4f} in the last"
    )
    return "\n".join((rows, shares, ways))


def by_acquaintance(splits: Splits, scorers: Sequence[Scorer]) -> str:
    """Hand on a table of ranks of objects, by which end of a triple the relation has met, beside popularity.

    The last columns say how many ranks of the first scorer are in the best and in the worst twentieth.
    """
    graph = splits.train
    n_entities = len(graph.vocabulary.entities)
    members = [part.relation * n_entities + part.entities.astype(np.int64) for part in partition(graph)]
    all_ranks = [
        evaluate(
            Scored(graph.vocabulary, graph.triples, scorer),
            splits.test,
            known=[splits.train, splits.valid],
            options=EvaluationOptions(bootstrap=0, sides=("objects",)),
        ).ranks
        for scorer in scorers
    ]
    first = all_ranks[0]
    subject, obj = (
        np.isin(first.r.astype(np.int64) * n_entities + e, np.concatenate(members))
        for e in (first.s, first.o)
    )
    place = first.rank / first.candidates
    lines = [
        "| the relation has met | test triples | AUC | popularity | MRR | popularity | best 5 % | worst 5 % |"
    ]
    lines.append("|---|---|---|---|---|---|---|---|")
    for title, own in (
        ("subject and object", subject & obj),
        ("the object only", ~subject & obj),
        ("the subject only", subject & ~obj),
        ("neither", ~subject & ~obj),
    ):
        if own.any():
            shares = [np.nanmean(auc(ranks.rank[own], ranks.candidates[own])) for ranks in all_ranks]
            cells = [*shares, *(mrr(ranks.rank[own]) for ranks in all_ranks)]
            ends = [np.mean(place[own] <= 0.05), np.mean(place[own] > 0.95)]
            told = [*(f"{x:.3f}" for x in cells), *(f"{x:.0%}" for x in ends)]
            lines.append(f"| {title} | {own.sum():,} | {' | '.join(told)} |")
    return "\n".join(lines)


def by_size(splits: Splits, paper: dict[str, Any], popular: dict[str, Any]) -> str:
    """Hand on a table of MRR of objects and of subjects by size of the relation, weighted by test triples."""
    counts = np.bincount(splits.train.triples[:, 1])
    size_of = dict(zip(splits.train.vocabulary.relations, counts.tolist(), strict=True))
    relations = paper["full"]["relations"]
    lines = ["| triples of the relation | test triples | objects | popularity | subjects | popularity |"]
    lines.append("|---|---|---|---|---|---|")
    for low, high in zip((0, *SIZES), (*SIZES, 10**9), strict=True):
        names = [name for name in relations if low <= size_of[name] < high]
        if not names:
            continue
        weights = [relations[name]["objects"]["count"] for name in names]
        cells = [
            f"{np.average([cell['full']['relations'][n][side]['mrr'] for n in names], weights=weights):.3f}"
            for side in ("objects", "subjects")
            for cell in (paper, popular)
        ]
        title = f"{low:,} to {high - 1:,}" if high < 10**9 else f"{low:,} and more"
        lines.append(f"| {title} | {sum(weights):,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _settings(paper: dict[str, Any], asked: argparse.Namespace) -> Config:
    chosen = Config.from_dict(paper["settings"])
    inner_epochs = asked.inner_epochs or chosen.inner_epochs
    return replace(
        chosen,
        threads=asked.threads,
        inner_epochs=inner_epochs,
        reg=chosen.reg if asked.reg is None else asked.reg,
        max_epochs=asked.rounds * inner_epochs,
    )


def _variant_line(splits: Splits, variant: Variant, solution: Solution) -> str:
    info = solution.info
    told = f"round {info.best_round} of {len(info.rounds)}, loss {info.rounds[info.best_round - 1].loss:.3f}"
    return f"{variant.name}: {_scores(splits, factors(solution.views, variant.config))} ({told})"


def _scores(splits: Splits, scorer: Scorer) -> str:
    model = Scored(splits.train.vocabulary, splits.train.triples, scorer)
    known, options = [splits.train, splits.valid], EvaluationOptions(bootstrap=0)
    full, paper = (
        evaluate(model, splits.test, known=known, protocol=protocol, options=options).to_dict()
        for protocol in ("full", "paper")
    )
    sides = ", ".join(f"{side} {full[side]['mrr']:.3f}" for side in ("objects", "subjects"))
    return f"AUC {paper['objects']['auc']:.3f}, MRR {full['both']['mrr']:.3f} ({sides})"


def _norm(rows: Floats) -> str:
    return f"{np.linalg.norm(rows, axis=1).mean():.3f}"


def _cell(out: Path, dataset: str, name: str) -> dict[str, Any]:
    cell: dict[str, Any] = json.loads((out / dataset / f"test-{name}.json").read_text())
    return cell


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Why the paper solver scores what it scores.")
    parser.add_argument("datasets", nargs="+")
    parser.add_argument("--data", type=Path, default=SHARED / "data", help="the folder of all datasets")
    parser.add_argument("--out", type=Path, required=True, help="the finished cells of results.py")
    parser.add_argument("--rounds", type=int, default=40, help="the most for each variant")
    parser.add_argument("--inner-epochs", type=int, help="epochs of a round, instead of the chosen")
    parser.add_argument("--reg", type=float, help="λ, instead of the chosen")
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
