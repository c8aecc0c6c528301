"""What a study found, in sections: who is ahead is read off, not decided here."""

from __future__ import annotations

from collections.abc import Iterator

from consmrf.report.tables import Table
from consmrf.study.document import Block, Picture, Section, Sentences
from consmrf.study.findings import Estimate, Findings, Verdict
from consmrf.study.pictures import comparison_bars
from consmrf.study.timings import timing_sections

__all__ = ["TITLES", "lead", "sections"]

TITLES = {
    "auc": "AUC",
    "recall@5": "Recall@5",
    "precision@5": "Precision@5",
    "mrr": "MRR (filtered, both sides)",
}
# Relations of a dataset that are shown by name.
_MOST = 8


def lead(findings: Findings) -> str:
    """Say where our method is best, tied for best, or behind, in AUC."""
    study = findings.study
    told: dict[str, list[str]] = {"best": [], "tied for best": [], "behind": []}
    for verdict in findings.verdicts:
        told[standing(verdict, study.ours)].append(verdict.dataset)
    if not findings.verdicts:
        return f"No dataset has been tested with {study.ours} and another method yet."
    where = "; ".join(f"{how} on {', '.join(names)}" for how, names in told.items() if names)
    return f"In AUC, {study.ours} is {where}. Tied: the interval of the paired difference holds 0."


def standing(verdict: Verdict, ours: str) -> str:
    """Put a verdict into a word: better than every other beyond the interval, tied with some, or behind."""
    if verdict.ahead:
        return "behind"
    alone = verdict.first == ours and all(gap.verdict == "better" for gap in verdict.against.values())
    return "best" if alone else "tied for best"


def sections(findings: Findings) -> list[Section]:
    """Hand on the report's sections, those that have something to show."""
    made = [
        *_verdicts(findings),
        *_datasets(findings),
        *_comparison(findings),
        *timing_sections(findings),
        *_specificity(findings),
        *_sizes(findings),
        *_settings(findings),
        *_trouble(findings),
        *_origin(findings),
    ]
    return [section for section in made if section.blocks]


def _verdicts(findings: Findings) -> Iterator[Section]:
    ours = findings.study.ours
    rows = []
    for verdict in findings.verdicts:
        rivals = {n: e.mean for n, e in findings.estimates["auc"][verdict.dataset].items() if n != ours}
        if not rivals:
            continue
        rival = max(rivals, key=lambda name: rivals[name])
        gap = verdict.against[rival]
        own = findings.estimates["auc"][verdict.dataset][ours]
        rows.append(
            (
                verdict.dataset,
                written(own),
                f"{rival} {rivals[rival]:.3f}",
                f"{gap.mean:+.4f}",
                f"{gap.low:+.4f} to {gap.high:+.4f}",
                standing(verdict, ours),
            )
        )
    if rows:
        head = ("AUC", ours, "best other", "difference", "interval", "verdict")
        yield Section(f"Where {ours} stands", [Table(head, tuple(rows)), *_behind(findings), _how(findings)])


def _behind(findings: Findings) -> Iterator[Block]:
    lines = [
        f"{v.dataset}: {name} is better than {findings.study.ours} by {-gap.mean:.4f} "
        f"({-gap.high:.4f} to {-gap.low:.4f})."
        for v in findings.verdicts
        for name, gap in v.against.items()
        if gap.verdict == "worse"
    ]
    if lines:
        yield Sentences(tuple(lines))


def _how(findings: Findings) -> str:
    options = findings.study.options
    return (
        "The paper's protocol: each (relation, subject) of the test ranks its objects among "
        f"{options.candidates:,} unobserved ones, drawn alike for all methods; means over all pairs. "
        f"Intervals hold {100 * options.confidence:g} %: of a mean, Student's over the runs (folds and "
        "seeds) where there are five and more, else the bootstrap's over the pairs of all runs; likewise of "
        "a difference, each pair compared with itself."
    )


def _datasets(findings: Findings) -> Iterator[Section]:
    rows = []
    for name, runs in findings.first_runs().items():
        for run in list(runs.values())[:1]:
            sizes = (run.found or {})["sizes"]
            numbers = (
                sizes[k] for k in ("entities", "relations", "triples", "training", "validation", "test")
            )
            folds = findings.study.datasets[name].folds
            rows.append((name, *(f"{n:,}" for n in numbers), str(folds)))
    head = ("dataset", "entities", "relations", "triples", "training", "validation", "test", "folds")
    if rows:
        yield Section(
            "Datasets", [Table(head, tuple(rows)), "The sizes of the parts are those of the first fold."]
        )


def _comparison(findings: Findings) -> Iterator[Section]:
    if not findings.runs:
        return
    caption = (
        f"AUC, recall@5 and precision@5 with {100 * findings.study.options.confidence:g} % intervals. The "
        "bars of AUC begin at ½, which is chance."
    )
    blocks: list[Block] = [Picture("comparison", comparison_bars(findings, TITLES), caption)]
    for metric, by_dataset in findings.estimates.items():
        rows = tuple(
            (
                method,
                *(written(by_dataset[d][method]) if method in by_dataset[d] else "–" for d in by_dataset),
            )
            for method in findings.methods
            if any(method in by for by in by_dataset.values())
        )
        blocks.append(Table((TITLES[metric], *by_dataset), rows))
    yield Section("How well the methods rank", blocks)


def written(estimate: Estimate) -> str:
    """Put a mean and its interval into a cell."""
    if estimate.low is None or estimate.high is None:
        return f"{estimate.mean:.3f}"
    return f"{estimate.mean:.3f} ({estimate.low:.3f}–{estimate.high:.3f})"


def _specificity(findings: Findings) -> Iterator[Section]:
    blocks: list[Block] = []
    ours = findings.study.ours
    for dataset, runs in findings.first_runs().items():
        told = (runs[ours].found or {}).get("departures") if ours in runs else None
        if not told:
            continue
        order = sorted(told, key=lambda label: (-max(told[label].values()), label))
        kinds = list(next(iter(told.values())))
        kept = sum(max(x.values()) > 0 for x in told.values())
        rows = tuple(
            (label, *(f"{told[label][k]:.3f}" for k in kinds)) for label in order[: min(_MOST, kept)]
        )
        most = ". The most departed:" if kept else ""
        blocks.append(f"{dataset}: {kept:,} of {len(told):,} relations keep features of their own{most}")
        if kept:
            blocks.append(Table((f"{dataset}: ‖Δ_r‖/‖Z‖", *kinds), rows))
    why = (
        "How far the view of a relation is from the consensus, ‖Δ_r‖ over ‖Z‖ on the relation's entities, "
        f"after validation has chosen what share of it is kept ({ours}, first fold). 0 is the shared model."
    )
    if blocks:
        yield Section("How target-specific the relations are", [why, *blocks])


def _sizes(findings: Findings) -> Iterator[Section]:
    first = findings.first_runs()
    shown = [name for name, runs in first.items() if runs]
    rows = []
    for method in findings.methods:
        cells = []
        for name in shown:
            found = first[name][method].found if method in first[name] else None
            cells.append("–" if found is None else f"{found['parameters']:,} ({_human(found['bytes'])})")
        rows.append((method, *cells))
    if shown:
        words = "Learned numbers, and the bytes of all that a model scores by, with the settings chosen."
        yield Section("What a model weighs", [Table(("parameters", *shown), tuple(rows)), words])


def _human(size: int) -> str:
    return f"{size / 2**20:.1f} MiB" if size >= 2**20 else f"{size / 2**10:.1f} KiB"


def _settings(findings: Findings) -> Iterator[Section]:
    rows = []
    for (dataset, method, fold), values in findings.chosen.items():
        grid = findings.study.methods[method].grid
        free = {k: values[k] for k in grid if k in values}
        if free:
            told = ", ".join(f"{k} = {v}" for k, v in free.items())
            rows.append((f"{dataset}, {method}", str(fold), told))
    words = "Chosen by AUC on the validation triples of the fold named; the test triples took no part."
    if rows:
        yield Section("Settings chosen", [Table(("", "fold", "settings"), tuple(rows)), words])


def _trouble(findings: Findings) -> Iterator[Section]:
    lines = list(dict.fromkeys(f"{p.dataset}, {p.method}, {p.kind}: {why}" for p, why in findings.failed))
    if lines:
        again = "A failed cell is run again when the study is started with --retry."
        yield Section("Cells that failed", [Sentences(tuple(lines)), again])
    cut = sorted(
        {
            f"{r.dataset}, {r.method}: {r.found['epochs']:,} epochs"
            for r in findings.runs
            if r.found is not None and r.found["status"] == "MAX_SECONDS"
        }
    )
    if cut:
        words = "Ended by the time limit (budget.fit_seconds), so these figures depend on the machine:"
        yield Section("Fits that the time limit ended", [words, Sentences(tuple(cut))])
    missing: dict[str, int] = {}
    for p in findings.missing:
        at = f"{p.dataset}, {p.method}, {p.kind}"
        missing[at] = missing.get(at, 0) + 1
    if missing:
        lines = [f"{at}: {n}" for at, n in missing.items()]
        yield Section("Cells not run", ["Start the study again to run them.", Sentences(tuple(lines))])


def _origin(findings: Findings) -> Iterator[Section]:
    machines = sorted({_machine(r.found["machine"]) for r in findings.runs if r.found is not None})
    study = findings.study
    limits = [f"seeds {', '.join(map(str, study.seeds))}"]
    if study.budget.fit_seconds is not None:
        limits.append(f"a fit begins no round after {study.budget.fit_seconds:g} s")
    yield Section("Made with", [Sentences((*machines, *limits))])


def _machine(told: dict[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in told.items())
