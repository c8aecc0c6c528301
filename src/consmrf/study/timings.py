"""What a study found of time: to the stopping rule, to a level of AUC, by threads, and as relations grow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from consmrf.report.tables import Table
from consmrf.study.document import Block, Picture, Section
from consmrf.study.findings import Findings, Timed
from consmrf.study.pictures import core_lines, growth_lines, learning_lines, rho_lines

__all__ = ["Runtime", "reached", "runtimes", "timing_sections"]

# The paper's runtime table has each of these over ConsMRF.
_RIVALS = ("dmf", "catsmf")
# Of the way from chance to the best AUC of a dataset, what a method has to come.
_LEVEL = 0.95
_BUSY = "Others kept up to {:.1f} cores busy meanwhile."


@dataclass(frozen=True)
class Runtime:
    """The seconds to the stopping rule.

    `bound` says that the time limit ended the fit before it, `scaled` that some targets stand for all.
    """

    seconds: float
    epochs: int
    epoch: float | None
    bound: bool
    scaled: bool

    @property
    def sign(self) -> str:
        """What stands before the seconds: "> " where they are a lower bound, "≈ " where they are scaled."""
        return "> " if self.bound else "≈ " if self.scaled else ""


def runtimes(findings: Findings) -> dict[str, dict[str, Runtime]]:
    """Hand on, by dataset and method, the seconds to the stopping rule on one core."""
    found: dict[str, dict[str, Runtime]] = {}
    for each in findings.timed.get("stop", ()):
        bound = each.found["status"] == "MAX_SECONDS"
        told = Runtime(each.seconds, each.found["epochs"], each.epoch, bound, each.scale != 1)
        found.setdefault(each.dataset, {})[each.method] = told
    return found


def reached(points: Sequence[tuple[float, float]], level: float) -> float | None:
    """Hand on the least seconds of a curve's points (seconds, AUC) that have come to a level."""
    return min((seconds for seconds, auc in points if auc >= level), default=None)


def timing_sections(findings: Findings) -> Iterator[Section]:
    """Hand on the sections of what has been timed."""
    timed = findings.timed
    if "stop" in timed:
        yield Section("Runtime on one core", list(_runtime(findings)))
    if "curve" in timed:
        yield Section("Learning curves", list(_curves(findings)))
    if "cores" in timed:
        yield Section("Cores", list(_cores(findings)))
    if "rho" in timed:
        caption = "AUC on the test triples of the first fold, all else as chosen."
        words = _rho_table(findings)
        yield Section("Sensitivity to ρ", [Picture("rho", rho_lines(findings), caption), words])
    if "growth" in timed:
        yield Section("Cost as relations grow", list(_growth(findings)))


def _runtime(findings: Findings) -> Iterator[Block]:
    told = runtimes(findings)
    methods = [m for m in findings.methods if any(m in by for by in told.values())]
    what = {m: findings.study.methods[m].settings["method"] for m in methods}
    consensus, rivals = ([m for m in methods if what[m] in of] for of in (("consensus",), _RIVALS))
    pairs = [(a, b) for b in consensus for a in rivals]
    head = ("seconds to the stopping rule", *methods, *(f"{a} / {b}" for a, b in pairs))
    rows, epochs = [], []
    for dataset, by in told.items():
        cells = [by[m].sign + figure(by[m].seconds) if m in by else "–" for m in methods]
        rows.append((dataset, *cells, *(_ratio(by, a, b, each=False) for a, b in pairs)))
        cells = ["–" if m not in by or by[m].epoch is None else figure(by[m].epoch or 0) for m in methods]
        epochs.append((dataset, *cells, *(_ratio(by, a, b, each=True) for a, b in pairs)))
    yield Table(head, tuple(rows))
    yield Table(("seconds per epoch", *head[1:]), tuple(epochs))
    busy = max((t.found["others"] or 0.0 for t in findings.timed["stop"]), default=0.0)
    yield (
        "One fit each, alone on one core, with the settings chosen and validation triples, until the "
        "method's own rule stops it: no better validation score for patience rounds, or the most epochs. "
        "Seconds of validation, and of what is chosen by it afterwards, are left out, and kernels were "
        "compiled before. “>”: the time limit came first. “≈”: some targets, which share nothing, were "
        "trained and stand for all. In an epoch every model that a method trains passes once over its "
        f"facts; the fastest of each stage counts. {_BUSY.format(busy)} Ratios are plain: 25.0 means 25 "
        "times the seconds. In these terms the paper has, for dmf and catsmf over ConsMRF, 1.02 and 1.11 "
        "on DBpedia, 25.0 and 20.7 on Wikipedia-SVO, 8.6 and 7.9 on YAGO; its table mixes ratios with "
        "ratios less one."
    )


def _ratio(by: Mapping[str, Runtime], over: str, under: str, *, each: bool) -> str:
    if over not in by or under not in by:
        return "–"
    a, b = ((r.epoch if each else r.seconds) for r in (by[over], by[under]))
    if not a or not b or (by[under].bound and not each):
        return "–"
    sign = ("≈ " if by[over].scaled else "") if each else by[over].sign
    return sign + figure(a / b)


def _curves(findings: Findings) -> Iterator[Block]:
    caption = (
        "AUC on the test triples of the first fold against the seconds of training on one core. Each point "
        "is a fit of its own with so many epochs at most; validation is left out of the seconds."
    )
    yield Picture("learning", learning_lines(findings), caption)
    rows = []
    for dataset, by in curves(findings).items():
        level = 0.5 + _LEVEL * (max(auc for points in by.values() for _, auc in points) - 0.5)
        times = {m: reached(by.get(m, ()), level) for m in findings.methods}
        rows.append((f"{dataset}: AUC {level:.3f}", *(_seconds(times[m]) for m in findings.methods)))
    yield Table(("seconds to reach", *findings.methods), tuple(rows))
    yield (
        f"The level is {100 * _LEVEL:g} % of the way from ½ to the best AUC of any curve on the dataset; a "
        "dash: not reached with the most epochs tried, or not tried."
    )


def curves(findings: Findings) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Hand on the points (seconds, AUC) of the learning curves, by dataset and method."""
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for each in findings.timed.get("curve", ()):
        point = (each.seconds, float(each.found["evaluation"]["objects"]["auc"]))
        found.setdefault(each.dataset, {}).setdefault(each.method, []).append(point)
    return found


def _cores(findings: Findings) -> Iterator[Block]:
    told = findings.timed["cores"]
    threads = sorted({t.x for t in told})
    yield Picture("cores", core_lines(findings), "Seconds of training against threads, for the same epochs.")
    rows = []
    for dataset, method in dict.fromkeys((t.dataset, t.method) for t in told):
        own = {t.x: t.seconds for t in told if (t.dataset, t.method) == (dataset, method)}
        gain = own[threads[0]] / own[threads[-1]] if {threads[0], threads[-1]} <= set(own) else None
        cells = [_seconds(own.get(n)) for n in threads]
        rows.append((f"{dataset}, {method}", *cells, "–" if gain is None else f"{gain:.2f}"))
    head = ("seconds", *(f"{n} threads" if n > 1 else "1 thread" for n in threads), "gain")
    yield Table(head, tuple(rows))
    busy = max((t.found["others"] or 0.0 for t in told), default=0.0)
    yield f"{_BUSY.format(busy)} The paper's picture goes to 40 cores."


def _rho_table(findings: Findings) -> Table:
    told: Sequence[Timed] = findings.timed["rho"]
    values = sorted({t.x for t in told})
    rows = []
    for dataset, method in dict.fromkeys((t.dataset, t.method) for t in told):
        own = {
            t.x: t.found["evaluation"]["objects"]["auc"]
            for t in told
            if (t.dataset, t.method) == (dataset, method)
        }
        rows.append((f"{dataset}, {method}", *(f"{own[v]:.3f}" if v in own else "–" for v in values)))
    return Table(("AUC by ρ", *(f"{v:g}" for v in values)), tuple(rows))


def _growth(findings: Findings) -> Iterator[Block]:
    growth = findings.study.growth
    assert growth is not None
    caption = (
        f"Seconds of an epoch on one core against the number of relations R, on planted graphs of "
        f"{growth.entities:,} entities: left with {growth.triples:,} triples in all, right with "
        f"{growth.per_relation:,} in each relation."
    )
    yield Picture("growth", growth_lines(findings), caption)
    rows = [
        (f"{way}: {method}", f"{b.value:.2f}", "–" if b.error != b.error else f"{b.error:.2f}")
        for way, by in findings.exponents().items()
        for method, b in by.items()
    ]
    yield Table(("seconds per epoch ∝ R^b", "b", "standard error"), tuple(rows))
    yield "Fitted by least squares to the logarithms; 0 is flat, 1 linear, 2 quadratic."


def _seconds(value: float | None) -> str:
    return "–" if value is None else figure(value)


def figure(value: float) -> str:
    """Write a number with three digits that count."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 1 else f"{value:.3f}"
