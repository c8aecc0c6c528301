"""The pictures of a study: which of its figures go into which panel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from consmrf.report.charts import Panel, bars, lines
from consmrf.study.findings import Findings, Timed
from consmrf.study.plan import FIXED, PER_RELATION

__all__ = ["comparison_bars", "core_lines", "growth_lines", "learning_lines", "rho_lines"]

_BARS = ("auc", "recall@5", "precision@5")
_SECONDS = "seconds of training"


def comparison_bars(findings: Findings, titles: Mapping[str, str]) -> str:
    """Draw the paper's three bar charts."""
    panels = {
        titles[metric]: {
            dataset: {method: (e.mean, e.low, e.high) for method, e in by_method.items()}
            for dataset, by_method in findings.estimates[metric].items()
        }
        for metric in _BARS
    }
    return bars(panels, findings.methods, "comparison", chance={titles["auc"]: 0.5})


def learning_lines(findings: Findings) -> str:
    """Draw AUC on the test triples against the seconds of training."""
    panels = [
        Panel(dataset, series, f"{_SECONDS}, one core", "AUC", log_x=True)
        for dataset, series in _by_dataset(
            findings.timed["curve"], lambda t: (t.seconds, t.found["evaluation"]["objects"]["auc"])
        ).items()
    ]
    return lines(panels, findings.methods, "learning")


def core_lines(findings: Findings) -> str:
    """Draw the seconds of training against threads."""
    told = findings.timed["cores"]
    panels = [
        Panel(dataset, series, "threads", _SECONDS, log_y=True, ticks=sorted({t.x for t in told}))
        for dataset, series in _by_dataset(told, lambda t: (t.x, t.seconds)).items()
    ]
    return lines(panels, findings.methods, "cores")


def rho_lines(findings: Findings) -> str:
    """Draw AUC on the test triples against ρ."""
    panels = [
        Panel(dataset, series, "ρ", "AUC", log_x=True)
        for dataset, series in _by_dataset(
            findings.timed["rho"], lambda t: (t.x, t.found["evaluation"]["objects"]["auc"])
        ).items()
    ]
    return lines(panels, findings.methods, "rho")


def growth_lines(findings: Findings) -> str:
    """Draw the seconds of an epoch against the number of relations, for both ways of growing."""
    panels = []
    for way, title in ((FIXED, "as many triples in all"), (PER_RELATION, "as many triples per relation")):
        told = [t for t in findings.timed["growth"] if t.x[0] == way and t.epoch]
        series = {
            m: [(float(t.x[1]), float(t.epoch or 0)) for t in told if t.method == m] for m in findings.methods
        }
        ticks = sorted({t.x[1] for t in told})
        panels.append(Panel(title, series, "relations", "seconds per epoch", True, True, ticks))
    return lines(panels, findings.methods, "growth", columns=2)


def _by_dataset(
    told: Sequence[Timed], point: Callable[[Timed], tuple[float, float]]
) -> dict[str, dict[str, list[tuple[float, float]]]]:
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for each in told:
        found.setdefault(each.dataset, {}).setdefault(each.method, []).append(point(each))
    return found
