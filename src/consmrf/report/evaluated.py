"""The page of an evaluation: what a model finds, where it fails, and how far its scores can be believed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from consmrf.evaluation.calibration import Calibration, calibrate
from consmrf.evaluation.examples import Example, worst_queries, worst_relations
from consmrf.evaluation.options import RANKED
from consmrf.evaluation.ranking import SIDES
from consmrf.evaluation.result import Evaluation
from consmrf.graph.categories import MANY
from consmrf.report.evaluation_figures import Dot, Row, calibration_curve, dots, rank_histogram
from consmrf.report.page import columns, folded, heading, listing, page, paragraph, picture, section, tiles
from consmrf.report.tables import (
    Figures,
    conditions,
    figures,
    further,
    grouped,
    groups_of,
    main_side,
    metric_title,
    metrics,
    number,
    relations,
    sides,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from consmrf.model import Model

__all__ = ["Judged", "evaluation_page", "judge", "sentence"]

_MOST = 36  # relations in the picture


@dataclass(frozen=True)
class Judged:
    """Everything the page is made from, by name: the model first, what it is compared with after it."""

    evaluations: Mapping[str, Evaluation]
    plain: Mapping[str, Figures]
    calibrations: Mapping[str, Calibration]
    examples: Mapping[str, Sequence[Example]]  # by relation, the worst relation first

    @property
    def first(self) -> Figures:
        return next(iter(self.plain.values()))


def judge(
    models: Mapping[str, Model], evaluations: Mapping[str, Evaluation], known: Sequence[NDArray[np.int32]]
) -> Judged:
    """Look at single scores of models that were evaluated; `known` is what counted as known, the test too."""
    name, first = next(iter(evaluations.items()))
    n_entities = len(models[name].entities)
    ranks = first.ranks
    scored = (ranks.side == 0) & (ranks.candidates <= n_entities)
    facts = _triples(first, scored)
    curves = {
        method: found
        for method, model in models.items()
        if (found := calibrate(model, facts, known, n_entities, seed=first.options.seed)) is not None
    }
    examples: dict[str, list[Example]] = {}
    ends = any(side in first.measured.expected for side in SIDES)
    if first.protocol == "full" and ends and "mrr" in first.measured.metrics:
        for relation in worst_relations(first):
            own = worst_queries(models[name], first, known, relation)
            if own:
                examples[relation] = own
    plain = {method: evaluation.to_dict() for method, evaluation in evaluations.items()}
    return Judged(evaluations, plain, curves, examples)


def _triples(evaluation: Evaluation, rows: NDArray[np.bool_]) -> NDArray[np.int32]:
    import numpy as np

    ranks = evaluation.ranks
    return np.stack([ranks.s[rows], ranks.r[rows], ranks.o[rows]], axis=1)


def evaluation_page(judged: Judged, title: str) -> str:
    """Hand on the whole page; it holds no times, so the same figures make the same bytes."""
    parts = [_glance(judged), _pictures(judged)]
    if "categories" in judged.first:
        parts.append(_groups(judged))
    if judged.examples:
        parts.append(_worst(judged))
    said = conditions(judged.first)
    return page(title, said[:1].upper() + said[1:], [*parts, _all_figures(judged)])


def _glance(judged: Judged) -> str:
    """Set the leading figures in large type, and beside each what the other methods have."""
    side, tree = main_side(judged.first), judged.first
    names = [
        m for m in ("mrr", "hits@1", "hits@10", "mr", "auc", "amri", "ap", "precision@5") if m in tree[side]
    ]
    told = []
    for metric in names[:6]:
        span = tree["intervals"].get(side, {}).get(metric)
        interval = "" if span is None else f"{number(metric, span[0])} – {number(metric, span[1])}"
        others = [f"{m} {number(metric, own[side][metric])}" for m, own in list(judged.plain.items())[1:]]
        told.append((metric_title(metric), number(metric, tree[side][metric]), interval, "; ".join(others)))
    confidence = tree["options"]["confidence"]
    kind = "bootstrap" if tree["options"]["intervals"] == "bootstrap" else "Student's"
    words = f"Over {sides(side)}. Below each figure its {confidence:.0%} interval ({kind}, over triples)."
    return section("At a glance", tiles(told), paragraph(words))


def _pictures(judged: Judged) -> str:
    tree = judged.first
    side, lead = main_side(tree), metrics(tree)[0]
    shown = _shown(tree, lead)
    rows = [
        Row(label, _dots(judged, lead, "relations", label), f"{tree['relations'][label][side]['count']:,}")
        for label in shown
    ]
    left = len(tree["relations"]) - len(shown)
    which = (
        f" Shown are the {_MOST // 2} relations with the most test triples and the {_MOST // 2} worst of the "
        f"rest; {left:,} more are in the table below."
        if left
        else ""
    )
    by_relation = (
        f"{metric_title(lead)} of {sides(side)}, lines: {tree['options']['confidence']:.0%} Student's "
        f"intervals. At the right, how many answers were ranked.{which}"
    )
    ranks = {m: x.ranks.rank[_entity_sides(x)] for m, x in judged.evaluations.items()}
    stands = (
        "Each ranked answer is counted once; ranks are those of the protocol above, equals in the middle."
    )
    plot = [heading("By relation"), picture(dots(rows, "by-relation", metric_title(lead)), by_relation)]
    beside = [heading("Where the right answers stand"), picture(rank_histogram(ranks, "ranks"), stands)]
    if judged.calibrations:
        facts = next(iter(judged.calibrations.values())).facts
        errors = ", ".join(f"{own.error:.3f} ({method})" for method, own in judged.calibrations.items())
        words = (
            f"Predicted and observed shares differ by {errors} on average. {facts:,} test facts were taken, "
            "each with one object drawn at random that is not known to be right. A logistic curve of the "
            "score was fitted for each relation on one half and tells the probability of the other; points "
            "are tenths of all. On the dotted line, what is given a probability of p is a fact in a share p "
            "of cases: where half of all are facts, not among all candidates. Lines: 95 % intervals."
        )
        curve = picture(calibration_curve(judged.calibrations, "calibration"), words)
        shorter = plot if len(rows) < _MOST // 2 else beside
        shorter += [heading("How far scores can be believed"), curve]
    return section("What it finds, relation by relation", columns("\n".join(plot), "\n".join(beside)))


def _entity_sides(evaluation: Evaluation) -> NDArray[np.bool_]:
    """Hand on the ranks of entities, or of relations where only those were ranked."""
    ends = evaluation.ranks.side < RANKED.index("relations")
    found: NDArray[np.bool_] = ends if ends.any() else ~ends
    return found


def _shown(tree: Figures, lead: str) -> list[str]:
    """Hand on the relations of the picture, the best first."""
    side = main_side(tree)
    told = {label: own[side] for label, own in tree["relations"].items()}
    chosen = sorted(told, key=lambda r: (-told[r]["count"], r))
    if len(chosen) > _MOST:
        rest = sorted(chosen[_MOST // 2 :], key=lambda r: (told[r][lead] or 0.0, r))
        chosen = chosen[: _MOST // 2] + rest[: _MOST // 2]
    return sorted(chosen, key=lambda r: (-(told[r][lead] or 0.0), r))


def _dots(judged: Judged, lead: str, *path: str) -> dict[str, Dot]:
    """Hand on the leading metric of each method that has it there, with its interval where there is one."""
    side = main_side(judged.first)
    found = {}
    for method, tree in judged.plain.items():
        own = tree
        for key in path:
            own = own.get(key, {})
        value = own.get(side, {}).get(lead)
        if value is not None:
            span = tree["relation_intervals"].get(path[1], {}).get(side, {}).get(lead, [None, None])
            low, high = span if path[0] == "relations" else (None, None)
            found[method] = Dot(value, low, high)
    return found


def _groups(judged: Judged) -> str:
    tree = judged.first
    side, lead = main_side(tree), metrics(tree)[0]
    parts: list[list[Row]] = [[], []]
    for name, title, labels in groups_of(tree):
        rows = parts[name == "answer_frequency"]
        rows.append(Row(title, {}))
        for label, shown in labels.items():
            count = tree[name][label].get(side, {}).get("count", 0)
            rows.append(Row(shown, _dots(judged, lead, name, label), f"{count:,}"))
    captions = (
        f"A relation is 1-n if its subjects have {MANY} objects or more on average in training, and its "
        f"objects fewer than {MANY} subjects; n-1 and n-n accordingly. At the right, how many answers were "
        "ranked.",
        "How often training has met the entity that is the right answer, at either end of a triple.",
    )
    plots = [
        picture(dots(rows, f"groups-{i}", metric_title(lead)), caption)
        for i, (rows, caption) in enumerate(zip(parts, captions, strict=True))
        if rows
    ]
    return section(
        "What is easy, what is hard", columns(*plots), folded("The figures", grouped(judged.plain))
    )


def _worst(judged: Judged) -> str:
    parts = []
    view, lead = main_side(judged.first), metrics(judged.first)[0]
    for relation, examples in judged.examples.items():
        value = number(lead, judged.first["relations"][relation][view][lead])
        parts += [heading(f"{relation} ({metric_title(lead)} {value})"), listing(map(sentence, examples))]
    words = "The relations that the model ranks worst, each with the answers that it ranked last of all."
    return section("The worst, in words", paragraph(words), *parts)


def sentence(example: Example) -> str:
    """Put a ranked answer into words."""
    what = "object" if example.side == "objects" else "subject"
    before = f" Before it: {', '.join(example.before)}." if example.before else ""
    fact = f"{example.subject} —{example.relation}→ {example.object}"
    return f"{fact}: the {what} was ranked {example.rank:,.10g} of {example.candidates:,}.{before}"


def _all_figures(judged: Judged) -> str:
    tree = judged.first
    words = (
        "Bounds are what the leading metric would be with every equal score ahead of the right answer, or "
        "behind it. Metrics adjusted for chance are 0 for a random order and 1 at best. MAP, NDCG, precision "
        "and recall are of lists: a query's right answers in the test, ranked together."
    )
    rest = further(judged.plain)
    more = [rest] if len(rest.head) > 1 else []
    table = relations(judged.plain, sorted(tree["relations"]))
    return section(
        "All figures", figures(judged.plain), *more, paragraph(words), folded("Every relation", table)
    )
