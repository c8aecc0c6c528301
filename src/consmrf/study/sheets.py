"""What a study found as plain tables for other programs: one CSV each, unrounded."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from typing import Any

from consmrf.study.findings import Findings
from consmrf.study.telling import standing
from consmrf.study.timings import runtimes

__all__ = ["sheets"]

Rows = list[Sequence[Any]]


def sheets(findings: Findings) -> dict[str, str]:
    """Hand on each table's name and its text."""
    tables: dict[str, tuple[str, Rows]] = {
        "comparison": ("dataset method metric mean low high runs", _comparison(findings)),
        "runs": ("dataset method fold seed metric value status", _runs(findings)),
        "verdicts": ("dataset other difference low high ours verdict", _verdicts(findings)),
        "runtimes": ("dataset method seconds epochs seconds_per_epoch bound", _runtimes(findings)),
        "timings": ("kind dataset method x seconds seconds_per_epoch epochs auc others", _timings(findings)),
        "exponents": ("way method exponent error", _exponents(findings)),
        "departures": ("dataset method relation side departure", _departures(findings)),
        "weights": ("dataset method parameters bytes peak_bytes", _weights(findings)),
        "chosen": ("dataset method fold settings", _chosen(findings)),
        "failed": (
            "dataset method kind reason",
            [(p.dataset, p.method, p.kind, why) for p, why in findings.failed],
        ),
    }
    return {name: _text(head.split(), rows) for name, (head, rows) in tables.items()}


def _text(head: Sequence[str], rows: Rows) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return file.getvalue()


def _comparison(findings: Findings) -> Rows:
    return [
        (dataset, method, metric, e.mean, e.low, e.high, e.runs)
        for metric, by_dataset in findings.estimates.items()
        for dataset, by_method in by_dataset.items()
        for method, e in by_method.items()
    ]


def _runs(findings: Findings) -> Rows:
    return [
        (
            r.dataset,
            r.method,
            r.fold,
            r.seed,
            metric,
            value,
            "outside" if r.found is None else r.found["status"],
        )
        for r in findings.runs
        for metric, value in r.metrics.items()
    ]


def _verdicts(findings: Findings) -> Rows:
    ours = findings.study.ours
    return [
        (v.dataset, name, gap.mean, gap.low, gap.high, gap.verdict, standing(v, ours))
        for v in findings.verdicts
        for name, gap in v.against.items()
    ]


def _runtimes(findings: Findings) -> Rows:
    return [
        (dataset, method, r.seconds, r.epochs, r.epoch, r.bound)
        for dataset, by in runtimes(findings).items()
        for method, r in by.items()
    ]


def _timings(findings: Findings) -> Rows:
    return [
        (
            kind, t.dataset, t.method, json.dumps(t.x, ensure_ascii=False), t.seconds, t.epoch,
            t.found["epochs"], t.found.get("evaluation", {}).get("objects", {}).get("auc"), t.found["others"],
        )
        for kind, told in findings.timed.items()
        for t in told
    ]  # fmt: skip


def _exponents(findings: Findings) -> Rows:
    return [
        (way, method, b.value, b.error)
        for way, by in findings.exponents().items()
        for method, b in by.items()
    ]


def _departures(findings: Findings) -> Rows:
    return list(_departed(findings))


def _departed(findings: Findings) -> Iterator[Sequence[Any]]:
    for dataset, runs in findings.first_runs().items():
        for method, run in runs.items():
            for relation, sides in ((run.found or {})["departures"] or {}).items():
                yield from ((dataset, method, relation, side, value) for side, value in sides.items())


def _weights(findings: Findings) -> Rows:
    return [
        (dataset, method, run.found["parameters"], run.found["bytes"], run.found["peak_bytes"])
        for dataset, runs in findings.first_runs().items()
        for method, run in runs.items()
        if run.found is not None
    ]


def _chosen(findings: Findings) -> Rows:
    return [(*at, json.dumps(settings, sort_keys=True)) for at, settings in findings.chosen.items()]
