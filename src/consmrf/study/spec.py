"""What a study is: frozen records, read from a study file and checked before anything runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields
from itertools import product
from pathlib import Path
from typing import Any

from consmrf.config import METHODS as BASELINES
from consmrf.config import Config
from consmrf.errors import InputError, SettingError
from consmrf.evaluation.options import EvaluationOptions
from consmrf.study.entries import Entries, nearest, read_toml
from consmrf.study.graphs import GRAPHS

__all__ = ["METHODS", "Budget", "Data", "Extras", "Growth", "Method", "Study", "read_study", "shipped"]

# The names of the methods, and the settings that they stand for.
METHODS: dict[str, dict[str, Any]] = {
    "wave": {"method": "consensus", "solver": "wave"},
    "paper": {"method": "consensus", "solver": "paper"},
    **{name: {"method": name} for name in BASELINES if name != "consensus"},
}
PARTS = ("train", "valid", "test")
_SETTINGS = tuple(f.name for f in fields(Config) if f.name not in ("seed", "threads"))
# What is varied by the study itself, so that a method may not fix it.
_TAKEN = "is varied by the study itself; see `seeds`, `[cores]` and `[budget]`"

Settings = dict[str, Any]


@dataclass(frozen=True)
class Data:
    """A dataset: three parts, one file to cut, or a graph that the package makes."""

    name: str
    folder: str | None = None  # holds one file each of train, valid and test
    parts: tuple[str, str, str] | None = None  # or these three
    file: str | None = None  # or one file with all triples
    graph: str | None = None  # or the name of a generator
    arguments: Mapping[str, int] = field(default_factory=dict)
    pooled: bool = False  # parts are put together and cut anew
    folds: int = 1  # parts as given, and not pooled, are one fold
    settings: Mapping[str, Any] = field(default_factory=dict)  # for every method; they outdo grids


@dataclass(frozen=True)
class Method:
    """A name, fixed settings, and a grid of settings to choose from."""

    name: str
    settings: Mapping[str, Any]
    grid: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    datasets: tuple[str, ...] = ()

    def points(self, data: Data) -> list[Settings]:
        """Hand on the settings to choose from on a dataset, in the order of the grid."""
        free = {name: values for name, values in self.grid.items() if name not in data.settings}
        fixed = {**self.settings, **self._own(data.settings)}
        return [{**fixed, **dict(zip(free, point, strict=True))} for point in product(*free.values())]

    def _own(self, given: Mapping[str, Any]) -> Settings:
        return {name: value for name, value in given.items() if name not in METHODS["wave"]}


@dataclass(frozen=True)
class Budget:
    """What the run may take."""

    fit_seconds: float | None = None  # no round of a fit is begun after this long
    cell_seconds: float = 3600.0  # a cell is ended after this long, whatever it does
    total_seconds: float | None = None  # no cell is begun after this long
    cores: int = 1
    memory_gib: float = 4.0


@dataclass(frozen=True)
class Extras:
    """Cells beside the comparison: for these datasets and methods, with these settings fixed.

    `values` are what is varied: epochs of the learning curves, threads, ρ. `targets`: of a method that trains
    every target by itself, so many are timed, and the seconds multiplied.
    """

    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    settings: Mapping[str, Any]
    values: tuple[Any, ...] = ()
    targets: int | None = None


@dataclass(frozen=True)
class Growth:
    """Graphs with more and more relations: with `triples` in all, and with `per_relation` in each."""

    methods: tuple[str, ...]
    settings: Mapping[str, Any]
    relations: tuple[int, ...]
    entities: int
    triples: int
    per_relation: int


@dataclass(frozen=True)
class Study:
    """A whole study."""

    title: str
    ours: str  # the method that the first page speaks of
    datasets: Mapping[str, Data]
    methods: Mapping[str, Method]
    seeds: tuple[int, ...]
    valid: float  # the share of what is not tested that validates, where graphs are cut here
    split_seed: int
    search_folds: str  # "first": settings are chosen on the first fold's hold-out; "each": on every fold's
    options: EvaluationOptions
    full: bool  # filtered ranking of both sides against all entities, too
    budget: Budget
    timing: Extras | None = None
    curves: Extras | None = None
    cores: Extras | None = None
    rho: Extras | None = None
    growth: Growth | None = None

    def pairs(self) -> Iterator[tuple[Data, Method]]:
        """Hand on every dataset with every method that is asked of it."""
        for data in self.datasets.values():
            yield from ((data, m) for m in self.methods.values() if data.name in m.datasets)


def shipped(name: str) -> Path:
    """Hand on the file of a study that comes with the package."""
    return Path(__file__).with_name(f"{name}.toml")


def read_study(path: Path) -> Study:
    """Read and check a study file; a mistake is one line that names the file and the key."""
    top = read_toml(path)
    datasets = {name: _data(name, table) for name, table in top.tables("datasets").items()}
    for kind in ("datasets", "methods"):
        if not top.tables(kind):
            raise InputError(f"{path}: {kind}: none is given; add a table [{kind}.NAME]")
    methods = {name: _method(name, table, datasets) for name, table in top.tables("methods").items()}
    search, protocol = top.table("search"), top.table("protocol")
    study = Study(
        title=top.text("title", path.stem),
        ours=top.text("ours", "wave" if "wave" in methods else next(iter(methods)), choices=methods),
        datasets=datasets,
        methods=methods,
        seeds=top.wholes("seeds", [0]),
        valid=top.real("valid", 0.1) or 0.1,
        split_seed=top.whole("split_seed", 0, least=0),
        search_folds=search.text("folds", "first", choices=("first", "each")),
        full=protocol.flag("full", False),
        options=_options(protocol),
        budget=_budget(top.table("budget")),
        timing=_extras(top, "timing", datasets, methods),
        curves=_extras(top, "curves", datasets, methods, epochs=1),
        cores=_extras(top, "cores", datasets, methods, threads=1),
        rho=_extras(top, "rho", datasets, methods, values=None),
        growth=_growth(top, methods),
    )
    search.close()
    top.close()
    _check_settings(study, path)
    return study


def _data(name: str, table: Entries) -> Data:
    sources = [key for key in ("folder", "train", "file", "graph") if key in table]
    if len(sources) != 1:
        told = ", ".join(sources) or "none"
        raise InputError(
            f"{table.file}: {table.path}: must have one of folder, train (with valid and test), file or "
            f"graph; it has {told}"
        )
    [source] = sources
    graph = table.text("graph", choices=GRAPHS) if source == "graph" else None
    pooled = table.flag("pooled", False) if source in ("folder", "train") else False
    given = source in ("folder", "train") and not pooled
    data = Data(
        name,
        folder=table.text("folder") if source == "folder" else None,
        parts=(table.text("train"), table.text("valid"), table.text("test")) if source == "train" else None,
        file=table.text("file") if source == "file" else None,
        graph=graph,
        arguments=_arguments(table.table("with"), graph),
        pooled=pooled,
        folds=1 if given else table.whole("folds", 1),
        settings=_settings(table, "set"),
    )
    if given and "folds" in table:
        raise table.error(
            "folds", "needs pooled = true, which puts the given parts together and cuts them anew"
        )
    table.close(("folder", "train", "valid", "test", "file", "graph", "pooled", "folds"))
    return data


def _arguments(table: Entries, graph: str | None) -> dict[str, int]:
    found = {} if graph is None else {k: table.whole(k) for k in GRAPHS[graph].sizes if k in table}
    table.close(GRAPHS[graph].sizes if graph is not None else ())
    return found


def _method(name: str, table: Entries, datasets: Collection[str]) -> Method:
    settings, grid = _settings(table, "set"), _settings(table, "grid")
    if name not in METHODS and "method" not in settings:
        raise InputError(
            f"{table.file}: {table.path}: unknown method{nearest(name, METHODS)}; known: "
            f"{', '.join(METHODS)}; a name of your own needs set.method"
        )
    for key, values in grid.items():
        if not isinstance(values, list) or not values:
            raise InputError(f"{table.file}: {table.path}.grid.{key} = {values!r}: must be a list of values")
    found = Method(
        name,
        {**METHODS.get(name, {}), **settings},
        {key: tuple(values) for key, values in grid.items()},
        table.names("datasets", datasets),
    )
    table.close()
    return found


def _settings(table: Entries, key: str) -> Settings:
    """Hand on settings of a Config by name."""
    values = table.values(key)
    for name in values:
        at = f"{table.file}: {table.path}.{key}.{name}"
        if name in ("seed", "threads"):
            raise InputError(f"{at}: {_TAKEN}")
        if name not in _SETTINGS:
            raise InputError(f"{at}: unknown setting{nearest(name, _SETTINGS)}; see consmrf fit --help")
    return {k: tuple(v) if k == "targets" and isinstance(v, list) else v for k, v in values.items()}


def _options(table: Entries) -> EvaluationOptions:
    try:
        found = EvaluationOptions(
            candidates=table.whole("candidates", 1000),
            confidence=table.real("confidence", 0.99) or 0.99,
            bootstrap=table.whole("bootstrap", 1000),
            seed=table.whole("seed", 0, least=0),
        )
    except SettingError as problem:
        raise InputError(f"{table.file}: {table.path}: {problem}") from None
    table.close(("full",))
    return found


def _budget(table: Entries) -> Budget:
    default = Budget()
    found = Budget(
        fit_seconds=table.real("fit_seconds"),
        cell_seconds=table.real("cell_seconds", default.cell_seconds) or default.cell_seconds,
        total_seconds=table.real("total_seconds"),
        cores=table.whole("cores", default.cores),
        memory_gib=table.real("memory_gib", default.memory_gib) or default.memory_gib,
    )
    table.close()
    return found


def _extras(
    top: Entries, key: str, datasets: Collection[str], methods: Collection[str], **varied: int | None
) -> Extras | None:
    """Read a section of cells beside the comparison; `varied` names its list and the least whole number."""
    if key not in top:
        return None
    table = top.table(key)
    values: tuple[Any, ...] = ()
    for name, least in varied.items():
        values = table.reals(name) if least is None else table.wholes(name, least=least)
    settings = _settings(table, "set")
    targets = table.whole("targets") if "targets" in table else None
    names = table.names("datasets", datasets), table.names("methods", methods)
    found = Extras(*names, settings, values, targets)
    table.close()
    return found


def _growth(top: Entries, methods: Collection[str]) -> Growth | None:
    if "growth" not in top:
        return None
    table = top.table("growth")
    found = Growth(
        methods=table.names("methods", methods),
        settings=_settings(table, "set"),
        relations=table.wholes("relations", least=1),
        entities=table.whole("entities", 2000),
        triples=table.whole("triples"),
        per_relation=table.whole("per_relation"),
    )
    if len(found.relations) < 3:
        raise table.error("relations", "must hold at least three numbers: an exponent is fitted to them")
    table.close()
    return found


def _check_settings(study: Study, path: Path) -> None:
    """Build every configuration once, so that a value out of its range is told before anything runs."""
    for data, method in study.pairs():
        try:
            for point in method.points(data):
                Config.from_dict(point)
        except SettingError as problem:
            raise InputError(f"{path}: methods.{method.name} on {data.name}: {problem}") from None
