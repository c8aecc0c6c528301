"""Which cells a study consists of, as far as the finished ones let it be known.

First the search on the hold-out, then the finals with the settings chosen, then what is timed, alone on the
machine. A pure function of the study and of what its cells have found: asked again after each cell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

from consmrf.study.cells import Cell, Found
from consmrf.study.datasets import Source
from consmrf.study.spec import Data, Extras, Growth, Method, Settings, Study

__all__ = ["Planned", "Planner", "growth_data"]

Lookup = Callable[[Cell], Found | None]  # the file of a cell: "found" or "error"; None while it has none
FIXED, PER_RELATION = "fixed |D|", "fixed |D_r|"
# The method whose targets share nothing, so that the seconds of some tell those of all.
_BY_TARGET = "dmf"
# Timings that shall last all their epochs are not cut short by validation.
_ENDLESS = 10**9


@dataclass(frozen=True)
class Planned:
    """A cell, and what the study wants it for."""

    kind: str  # search, final, rho, stop, curve, cores, growth
    dataset: str
    method: str
    cell: Cell
    fold: int = 0
    seed: int = 0
    x: Any = None  # what is varied: epochs, threads, ρ, or (way, relations)


@dataclass(frozen=True)
class Planner:
    """Makes the cells of one study; `sources` hands on how a fold of a dataset is made."""

    study: Study
    sources: Callable[[Data, int], Source]

    def plan(self, held: Lookup) -> list[Planned]:
        """Hand on the cells that are known, each once, in the order in which they are to be run."""
        found = [*self.searches(), *self.finals(held), *self.extras(held)]
        return list({p.cell.key: p for p in reversed(found)}.values())[::-1]

    def awaited(self, held: Lookup) -> int:
        """Hand on how many cells are still to come whose settings wait for a search."""
        pairs = list(self.study.pairs())
        finals = [(data, method, fold) for data, method in pairs for fold in range(data.folds)]
        beside = [
            (data, method, 0)
            for _, extras, _ in self._sections()
            for data, method in pairs
            if data.name in extras.datasets and method.name in extras.methods
            for _ in extras.values or (None,)
        ]
        waiting = {
            (data.name, method.name, fold)
            for data, method, fold in finals
            if self.chosen(data, method, fold, held) is None and not self._settled(data, method, fold, held)
        }
        each = len(self.study.seeds)
        return sum(
            n * ((data.name, method.name, fold) in waiting)
            for n, wanted in ((each, finals), (1, beside))
            for data, method, fold in wanted
        )

    def searches(self) -> Iterator[Planned]:
        """Hand on the cells that settings are chosen by."""
        for data, method in self.study.pairs():
            for fold in range(data.folds if self.study.search_folds == "each" else 1):
                yield from self._searched(data, method, fold)

    def _searched(self, data: Data, method: Method, fold: int) -> list[Planned]:
        """Hand on one cell per point of the grid; none where there is nothing to choose."""
        points = method.points(data)
        if len(points) < 2:
            return []
        seed = self.study.seeds[0]
        return [
            Planned(
                "search", data.name, method.name, self._cell(data, method, fold, point, "valid", seed), fold
            )
            for point in points
        ]

    def chosen(self, data: Data, method: Method, fold: int, held: Lookup) -> Settings | None:
        """Hand on the settings with the best AUC on the hold-out, the first of equals.

        None while a cell is missing, and where all failed.
        """
        points = method.points(data)
        if len(points) < 2:
            return points[0]
        searched = self._searched(data, method, fold if self.study.search_folds == "each" else 0)
        files = [held(p.cell) for p in searched]
        if any(file is None for file in files):
            return None
        scores = [-1.0 if file is None or "found" not in file else auc(file["found"]) for file in files]
        best = max(range(len(points)), key=lambda i: (scores[i], -i))
        return points[best] if scores[best] >= 0 else None

    def _settled(self, data: Data, method: Method, fold: int, held: Lookup) -> bool:
        """Say whether all that was to be searched has been, in vain or not."""
        searched = self._searched(data, method, fold if self.study.search_folds == "each" else 0)
        return all(held(p.cell) is not None for p in searched)

    def finals(self, held: Lookup) -> Iterator[Planned]:
        """Hand on the cells of the comparison."""
        for data, method in self.study.pairs():
            for fold in range(data.folds):
                settings = self.chosen(data, method, fold, held)
                if settings is None:
                    continue
                for seed in self.study.seeds:
                    cell = self._cell(data, method, fold, settings, "test", seed)
                    yield Planned("final", data.name, method.name, cell, fold, seed)

    def extras(self, held: Lookup) -> Iterator[Planned]:
        """Hand on the cells beside the comparison, on the first fold with its chosen settings."""
        for kind, extras, varied in self._sections():
            yield from self._beside(kind, extras, held, varied)
        if self.study.growth:
            yield from self._growing(self.study.growth)

    def _sections(self) -> Iterator[tuple[str, Extras, Callable[[Any], Settings]]]:
        """Hand on each section's kind, and the settings that a value of it stands for."""
        study, whole = self.study, {"patience": _ENDLESS, "tol": 0.0}
        if study.rho:
            yield "rho", study.rho, lambda rho: {"rho": rho}
        if study.timing:
            yield "stop", study.timing, lambda _: {}
        if study.curves:
            yield "curve", study.curves, lambda epochs: {"max_epochs": epochs}
        if study.cores:
            yield "cores", study.cores, lambda threads: {"threads": threads, **whole}

    def _beside(
        self, kind: str, extras: Extras, held: Lookup, varied: Callable[[Any], Settings]
    ) -> Iterator[Planned]:
        judged = "test" if kind in ("rho", "curve") else "none"
        for x, dataset, name in product(extras.values or (None,), extras.datasets, extras.methods):
            data, method = self.study.datasets[dataset], self.study.methods[name]
            # a method that is not compared on a dataset may be timed there, with the first of its settings
            compared = dataset in method.datasets
            settings = self.chosen(data, method, 0, held) if compared else method.points(data)[0]
            if settings is not None:
                own = _whole_rounds({**settings, **extras.settings, **varied(x)})
                cell = self._cell(data, method, 0, own, judged, self.study.seeds[0], timed=kind != "rho")
                if extras.targets and own.get("method") == _BY_TARGET and judged == "none":
                    cell = replace(cell, sampled=extras.targets)
                yield Planned(kind, dataset, name, cell, x=x)

    def _growing(self, growth: Growth) -> Iterator[Planned]:
        for way in (FIXED, PER_RELATION):
            for relations in growth.relations:
                data = growth_data(growth, way, relations)
                for name in growth.methods:
                    method = self.study.methods[name]
                    settings = {**method.points(data)[0], **growth.settings}
                    seed = self.study.seeds[0]
                    cell = self._cell(data, method, 0, settings, "none", seed, timed=True, validated=False)
                    yield Planned("growth", data.name, name, cell, x=(way, relations))

    def _cell(
        self, data: Data, method: Method, fold: int, settings: Settings, judged: str, seed: int, *,
        timed: bool = False, validated: bool = True,
    ) -> Cell:  # fmt: skip
        limit = self.study.budget.fit_seconds
        own = {} if limit is None or method.name == "popularity" else {"max_seconds": limit}
        return Cell(
            source=self.sources(data, fold),
            method=method.name,
            settings={"threads": 1, **own, **settings, "seed": seed},
            judged=judged,
            evaluation={**_options(self.study), "full": self.study.full and judged == "test" and not timed},
            validated=validated,
            timed=timed,
        )


def _whole_rounds(settings: Settings) -> Settings:
    """Round the most epochs up to whole rounds, so that one fit is one cell."""
    inner, most = settings.get("inner_epochs", 1), settings.get("max_epochs")
    return settings if most is None else {**settings, "max_epochs": -(-most // inner) * inner}


def growth_data(growth: Growth, way: str, relations: int) -> Data:
    """Hand on the dataset of one size, where all relations share their groups; both ways may come to one."""
    triples = growth.triples if way == FIXED else growth.per_relation * relations
    sizes = {"entities": growth.entities, "relations": relations, "triples": triples, "groups": 10}
    return Data(f"R = {relations}, {triples} triples", graph="grouped", arguments=sizes)


def auc(found: Mapping[str, Any]) -> float:
    """Hand on the AUC of a judged cell."""
    return float(found["evaluation"]["objects"]["auc"])


def _options(study: Study) -> dict[str, Any]:
    values = asdict(study.options)
    return {name: values[name] for name in ("candidates", "seed", "bootstrap", "confidence")}
