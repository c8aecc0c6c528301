"""The shape of the package, checked on its source: one-way imports, honest names, short functions.

Each rule is a function from parsed modules to complaints; each is also shown sources that break it.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
ROOT = REPOSITORY / "src" / "consmrf"

# From low to high. A module imports from its own group and from those before it; the stages of a group marked
# "apart" do not import each other.
ORDER: tuple[tuple[str, ...], ...] = (
    ("errors",),
    ("config",),
    ("graph",),
    ("consensus",),
    ("model", "predictors", "storage"),
    ("apart", "baselines", "evaluation", "engine"),
    ("fit",),
    ("serve", "study", "report", "demo"),
    ("cli",),
)
RANK = {stage: rank for rank, group in enumerate(ORDER) for stage in group if stage != "apart"}
APART = {stage for group in ORDER if "apart" in group for stage in group}

# Who alone may import what.
RESERVED = {
    "ray": "consmrf.engine.ray",
    "cyclopts": "consmrf.cli",
    "argparse": "consmrf.cli",
    "click": "consmrf.cli",
    "optparse": "consmrf.cli",
    "typer": "consmrf.cli",
}
COMPILERS = {"numba", "llvmlite"}
# Imported, and rightly not declared: numba brings the version that fits it; Python 3.14 has the other.
UNDECLARED = {"llvmlite", "compression"}
WITHOUT_COMPILER = ("errors", "config", "graph", "model", "predictors", "storage", "serve")
# The method knows no threads, no processes and no network.
FOREIGN_TO_METHOD = {
    "asyncio",
    "concurrent",
    "http",
    "multiprocessing",
    "queue",
    "socket",
    "threading",
    "urllib",
}

EMPTY_NAMES = {"util", "utils", "core", "common", "base", "helper", "helpers"}
LONGEST = 60
LONGEST_LOOP = 39  # consensus/solve.py::solve: under 40
MOST_PARAMETERS = 8
INIT_WITH_CODE = {"consmrf", "consmrf.cli", "consmrf.engine"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """A parsed file; a folder's `__init__` carries the folder's name."""

    name: str
    tree: ast.Module
    folder: bool = False

    @property
    def stage(self) -> str:
        """Where it stands in the order: graph for consmrf.graph.triples."""
        return second(self.name)

    def at(self, line: int) -> str:
        return f"{self.name}:{line}"


def second(name: str) -> str:
    """Hand on a dotted name's second part, empty where there is none."""
    return [*name.split("."), ""][1]


def read(root: Path) -> list[Module]:
    """Hand on every module of the package."""
    found = []
    for path in sorted(root.rglob("*.py")):
        parts = [root.name, *path.relative_to(root).with_suffix("").parts]
        folder = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if folder else parts)
        found.append(Module(name, ast.parse(path.read_text(), str(path)), folder))
    return found


# -- what a module imports


def imports(module: Module, *, types: bool = True) -> Iterator[tuple[int, str]]:
    """Hand on (line, dotted name) of each import, also in functions; `types`: also for type checkers only."""
    for node in _nodes(module.tree, types):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = _origin(module, node)
            yield from ((node.lineno, f"{origin}.{alias.name}") for alias in node.names)


def _nodes(tree: ast.AST, types: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(tree):
        if not types and isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for alternative in child.orelse:
                yield alternative
                yield from _nodes(alternative, types)
        else:
            yield child
            yield from _nodes(child, types)


def _origin(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return str(node.module)
    up = node.level - 1 if module.folder else node.level
    parts = module.name.split(".")
    return ".".join([*parts[: len(parts) - up], *([node.module] if node.module else [])])


def loads(modules: Sequence[Module], start: Module) -> dict[str, str]:
    """Hand on every name that `start` can come to load, each with the module that asks for it."""
    known = {module.name: module for module in modules}
    asked_by: dict[str, str] = {}
    waiting = [start]
    while waiting:
        module = waiting.pop()
        for _, target in imports(module, types=False):
            parts = target.split(".")
            for prefix in (".".join(parts[: n + 1]) for n in range(len(parts))):
                if prefix not in asked_by and prefix != start.name:
                    asked_by[prefix] = module.name
                    waiting += [known[prefix]] if prefix in known else []
    return asked_by


# -- the rules


def one_way(modules: Sequence[Module]) -> Iterator[str]:
    """A module imports from lower or equal stages, and every module has a stage."""
    for module in modules:
        if module.name == "consmrf":
            continue
        if module.stage not in RANK:
            yield f"{module.name}: {module.stage} has no place in the order of stages"
            continue
        for line, target in imports(module):
            if target.split(".")[0] == "consmrf":
                yield from _upward(module, line, second(target))


def _upward(module: Module, line: int, stage: str) -> Iterator[str]:
    if stage not in RANK:
        yield f"{module.at(line)} imports the package itself: import {stage or 'a name'} from its module"
    elif RANK[stage] > RANK[module.stage]:
        yield f"{module.at(line)} imports {stage}, a later stage"
    elif stage != module.stage and {stage, module.stage} <= APART:
        yield f"{module.at(line)} imports {stage}: the two stand apart"


def reserved(modules: Sequence[Module]) -> Iterator[str]:
    """Only engine/ray.py imports ray, only cli/ parses arguments."""
    for module in modules:
        for line, target in imports(module):
            owner = RESERVED.get(target.split(".")[0], module.name)
            if not f"{module.name}.".startswith(f"{owner}."):
                yield f"{module.at(line)} imports {target}: only {owner} does"


def no_compiler(modules: Sequence[Module]) -> Iterator[str]:
    """Scoring, storing and serving a model load no compiler, directly or through others."""
    for module in modules:
        if module.stage in WITHOUT_COMPILER:
            found = loads(modules, module)
            yield from (
                f"{module.name} can load {name}, through {found[name]}" for name in COMPILERS & set(found)
            )


def method_alone(modules: Sequence[Module]) -> Iterator[str]:
    """The consensus stage knows no threads, processes or network."""
    for module in modules:
        if module.stage == "consensus":
            for line, target in imports(module):
                if target.split(".")[0] in FOREIGN_TO_METHOD:
                    yield f"{module.at(line)} imports {target}: the method knows no threads or network"


def telling_names(modules: Sequence[Module]) -> Iterator[str]:
    """Modules and classes have no empty word in their names; functions are not named by one."""
    for module in modules:
        if words(module.name) & EMPTY_NAMES:
            yield f"{module.name}: the module's name says nothing"
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef) and words(node.name) & EMPTY_NAMES:
                yield f"{module.at(node.lineno)} class {node.name}: the name says nothing"
            if isinstance(node, Function) and node.name.strip("_") in EMPTY_NAMES:
                yield f"{module.at(node.lineno)} {node.name}(): the name says nothing"


def words(name: str) -> set[str]:
    """Hand on the words of a dotted, snake_case or CamelCase name, in lower case."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)}


def short_functions(modules: Sequence[Module]) -> Iterator[str]:
    """No function is over 60 lines, docstring aside; the solver's own loop is under 40."""
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, Function):
                loop = (module.name, node.name) == ("consmrf.consensus.solve", "solve")
                most = LONGEST_LOOP if loop else LONGEST
                lines = length(node)
                if lines > most:
                    yield f"{module.at(node.lineno)} {node.name}() has {lines} lines, the most is {most}"


def length(node: Function) -> int:
    """Hand on the lines from `def` to the last, without the docstring's."""
    first = node.body[0]
    docstring = (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    )
    return _lines(node) - (_lines(first) if docstring else 0)


def _lines(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def few_parameters(modules: Sequence[Module]) -> Iterator[str]:
    """No public function or method has more than 8 parameters, self and cls aside."""
    for module in modules:
        for node in _public(module.tree):
            names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
            names += [a.arg for a in (node.args.vararg, node.args.kwarg) if a is not None]
            count = len([name for name in names if name not in ("self", "cls")])
            if count > MOST_PARAMETERS:
                yield f"{module.at(node.lineno)} {node.name}() has {count} parameters: over {MOST_PARAMETERS}"


def _public(tree: ast.Module | ast.ClassDef) -> Iterator[Function]:
    """Hand on the functions that others can reach: not nested, not private, `__init__` included."""
    for node in tree.body:
        if isinstance(node, Function) and (not node.name.startswith("_") or node.name.endswith("__")):
            yield node
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from _public(node)


def bare_folders(modules: Sequence[Module]) -> Iterator[str]:
    """A folder's `__init__` is a docstring; the package's and the engine's may hold code."""
    for module in modules:
        if module.folder and ast.get_docstring(module.tree) is None:
            yield f"{module.name}/__init__.py says nothing about the folder: it needs a docstring"
        elif module.folder and module.name not in INIT_WITH_CODE and len(module.tree.body) > 1:
            yield f"{module.at(module.tree.body[1].lineno)}: a folder's __init__ holds a docstring only"


# -- the package keeps them, and each can be broken

Rule = Callable[[Sequence[Module]], Iterator[str]]

LONG = "    x = 1\n"
WORDY = "line\n" * 70
NINE = "a, b, c, d, e, f, g, h, i"

# rule, module, a source that breaks the rule; "/" marks a folder's __init__
BREACHES: list[tuple[Rule, str, str]] = [
    (one_way, "consmrf.errors", "import consmrf.config"),
    (one_way, "consmrf.graph.triples", "from consmrf.consensus.state import State"),
    (one_way, "consmrf.graph.triples", "def f():\n    from consmrf import report"),
    (one_way, "consmrf.graph.triples", "from ..model import Model"),
    (one_way, "consmrf.graph/", "from ..model import Model"),
    (one_way, "consmrf.graph.triples", "from consmrf import Config"),
    (one_way, "consmrf.graph.triples", "import consmrf"),
    (one_way, "consmrf.consensus.solve", "from consmrf.engine import Engine"),
    (one_way, "consmrf.consensus.solve", "import consmrf.evaluation.metrics"),
    (one_way, "consmrf.consensus.solve", "if TYPE_CHECKING:\n    from consmrf.engine import Engine"),
    (one_way, "consmrf.model", "from consmrf.fit import fit"),
    (one_way, "consmrf.evaluation.protocol", "import consmrf.baselines.popularity"),
    (one_way, "consmrf.baselines.popularity", "from consmrf.engine import threads"),
    (one_way, "consmrf.engine.threads", "from consmrf import evaluation"),
    (one_way, "consmrf.fit", "from consmrf import report"),
    (one_way, "consmrf.report", "import consmrf.cli"),
    (one_way, "consmrf.extra", "x = 1"),
    (reserved, "consmrf.engine.threads", "import ray"),
    (reserved, "consmrf.fit", "def f():\n    from ray.util import queue"),
    (reserved, "consmrf.demo", "import cyclopts"),
    (reserved, "consmrf.client", "import cyclopts"),
    (reserved, "consmrf.report", "from argparse import ArgumentParser"),
    (no_compiler, "consmrf.model", "import numba"),
    (no_compiler, "consmrf.storage", "def f():\n    from numba import njit"),
    (no_compiler, "consmrf.predictors", "from consmrf.consensus.compiled import step"),
    (no_compiler, "consmrf.serve.app", "from consmrf.consensus import compiled"),
    (method_alone, "consmrf.consensus.solve", "from concurrent.futures import ThreadPoolExecutor"),
    (method_alone, "consmrf.consensus.local", "import threading"),
    (telling_names, "consmrf.graph.utils", "x = 1"),
    (telling_names, "consmrf.core/", "x = 1"),
    (telling_names, "consmrf.graph.triple_helpers", "x = 1"),
    (telling_names, "consmrf.model", "class BaseModel: ..."),
    (telling_names, "consmrf.model", "class A:\n    def _helper(self): ..."),
    (short_functions, "consmrf.model", f"def f():\n{LONG * 60}"),
    (short_functions, "consmrf.model", f"class A:\n    async def f(self):\n{('    ' + LONG) * 60}"),
    (short_functions, "consmrf.consensus.solve", f"def solve():\n{LONG * 39}"),
    (few_parameters, "consmrf.model", f"def f({NINE}): ..."),
    (few_parameters, "consmrf.model", "def f(a, b, /, c, d, *e, f, g, h, **i): ..."),
    (few_parameters, "consmrf.model", f"class A:\n    def __init__(self, {NINE}): ..."),
    (bare_folders, "consmrf.graph/", '"""Stage 1."""\nfrom consmrf.graph.triples import Graph'),
    (bare_folders, "consmrf.engine/", "x = 1"),
]

# what looks like a breach and is none
ALLOWED: list[tuple[Rule, str, str]] = [
    (one_way, "consmrf/", "from consmrf.fit import fit"),
    (one_way, "consmrf.engine.threads", "from . import Engine\nfrom ..consensus.local import sweep"),
    (one_way, "consmrf.demo", "from consmrf.report import write"),
    (one_way, "consmrf.model", "import numpy as np\nfrom consmrf.storage import load"),
    (reserved, "consmrf.engine.ray", "import ray"),
    (reserved, "consmrf.cli.options", "import cyclopts"),
    (no_compiler, "consmrf.engine.threads", "from consmrf.consensus.compiled import step"),
    (no_compiler, "consmrf.model", "if TYPE_CHECKING:\n    from consmrf.consensus.compiled import Step"),
    (telling_names, "consmrf.model", "class Database: ...\ndef score(): ..."),
    (short_functions, "consmrf.model", f'def f():\n    """{WORDY}"""\n{LONG * 59}'),
    (short_functions, "consmrf.consensus.solve", f"def solve():\n{LONG * 38}"),
    (few_parameters, "consmrf.model", f"def _f({NINE}): ...\ndef g(x):\n    def h({NINE}): ..."),
    (few_parameters, "consmrf.model", "class A:\n    def f(self, a, b, c, d, e, f, g, h): ..."),
    (bare_folders, "consmrf.engine/", '"""Where the local problems run."""\nx = 1'),
]

RULES = (
    one_way,
    reserved,
    no_compiler,
    method_alone,
    telling_names,
    short_functions,
    few_parameters,
    bare_folders,
)
COMPILED = Module("consmrf.consensus.compiled", ast.parse("from numba import njit"))


def complaints(rule: Rule, name: str, source: str) -> list[str]:
    """Hand on what the rule says about a small package of one compiled module and the source given."""
    return list(rule([COMPILED, Module(name.rstrip("/"), ast.parse(source), name.endswith("/"))]))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_package_keeps(rule: Rule) -> None:
    assert not list(rule(read(ROOT)))


@pytest.mark.parametrize(("rule", "name", "source"), BREACHES)
def test_a_breach_is_found(rule: Rule, name: str, source: str) -> None:
    assert len(complaints(rule, name, source)) == 1


@pytest.mark.parametrize(("rule", "name", "source"), ALLOWED)
def test_what_is_allowed_passes(rule: Rule, name: str, source: str) -> None:
    assert not complaints(rule, name, source)


def test_every_rule_was_broken_once() -> None:
    assert {rule for rule, _, _ in BREACHES} == set(RULES)


def test_the_whole_package_is_read() -> None:
    modules = {module.name for module in read(ROOT)}
    assert {"consmrf", "consmrf.errors", "consmrf.graph", "consmrf.graph.triples"} <= modules
    assert len(modules) == len(list(ROOT.rglob("*.py")))


def test_the_solvers_loop_is_where_the_rule_looks() -> None:
    solve = next(module for module in read(ROOT) if module.name == "consmrf.consensus.solve")
    assert any(isinstance(node, Function) and node.name == "solve" for node in solve.tree.body)


def third_party(modules: Sequence[Module]) -> set[str]:
    """Hand on the names of the foreign packages that are imported anywhere."""
    tops = {target.split(".")[0] for module in modules for _, target in imports(module)}
    return tops - set(sys.stdlib_module_names) - {"consmrf"}


def test_what_is_imported_is_declared_and_nothing_else() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    declared = {re.split(r"[^\w-]", requirement)[0] for requirement in project["dependencies"]}
    assert third_party(read(ROOT)) - UNDECLARED == declared


def test_an_import_in_a_function_counts_as_imported() -> None:
    source = "import os\nfrom consmrf import errors\ndef f():\n    from backports import zstd\n"
    assert third_party([Module("consmrf.graph.source", ast.parse(source))]) == {"backports"}
