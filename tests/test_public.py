"""The surface: which names are public, what importing them costs, and that errors and versions are real."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import consmrf
from consmrf import errors

REPOSITORY = Path(__file__).parents[1]
SOURCE = REPOSITORY / "src" / "consmrf"

PUBLIC = {
    "config": {"PRESETS", "Config"},
    "consensus.solve": {"Info", "Round", "Status"},
    "errors": set(errors.__all__),
    "evaluation.audit.audit": {"Audit", "AuditOptions", "Cleaned", "audit", "without_leaks"},
    "evaluation.comparison": {"Comparison", "ComparisonOptions", "compare"},
    "evaluation.saved_ranks": {"read_ranks"},
    "evaluation.protocol": {"Evaluation", "EvaluationOptions", "evaluate"},
    "fit": {"Result", "estimate_memory", "fit"},
    "graph.split": {"Split", "folds", "split"},
    "graph.triples": {"Graph", "read_triples", "write_triples"},
    "graph.vocabulary": {"Vocabulary"},
    "model": {"Answer", "Model"},
}


def python(code: str) -> str:
    """Hand on what a fresh interpreter prints."""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


# -- names


def test_all_is_exact() -> None:
    assert set(consmrf.__all__) == {"__version__"}.union(*PUBLIC.values())
    assert len(consmrf.__all__) == len(set(consmrf.__all__))


def test_all_is_sorted() -> None:
    """Constants, then classes, then functions, each by code point: the order that the linter keeps too."""

    def place(name: str) -> tuple[int, str]:
        return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)

    assert consmrf.__all__ == sorted(consmrf.__all__, key=place)


@pytest.mark.parametrize(("module", "name"), [(m, n) for m, names in PUBLIC.items() for n in sorted(names)])
def test_public_name_is_its_modules_own(module: str, name: str) -> None:
    home = importlib.import_module(f"consmrf.{module}")
    assert getattr(consmrf, name) is getattr(home, name)
    assert name in home.__all__
    assert name in dir(consmrf)


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        (str(node.module), alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == {(f"consmrf.{module}", name) for module, names in PUBLIC.items() for name in names}
    assert (SOURCE / "py.typed").exists()


def test_star_import_gives_everything() -> None:
    assert (
        python("from consmrf import *; print(fit.__name__, Model.__name__, __version__ != '')")
        == "fit Model True"
    )


def test_unknown_name_is_an_attribute_error() -> None:
    unknown = "fitt"
    with pytest.raises(AttributeError, match="module 'consmrf' has no attribute 'fitt'"):
        getattr(consmrf, unknown)


# -- consmrf.fit is a function and a module


@pytest.mark.parametrize(
    "before",
    [
        "import consmrf",
        "import consmrf.fit",
        "import consmrf; consmrf.fit; import consmrf.fit",
        "import consmrf.fit; import consmrf",
        "from consmrf.fit import Result; import consmrf",
        "import consmrf; from consmrf.fit import fit",
        "import consmrf, importlib; importlib.import_module('consmrf.fit')",
    ],
)
def test_fit_is_the_function_whatever_was_imported_before(before: str) -> None:
    says = python(
        f"{before}\nimport types\n"
        "from consmrf import fit\n"
        "print(isinstance(consmrf.fit, types.FunctionType), consmrf.fit is fit, fit.__module__)"
    )
    assert says == "True True consmrf.fit"


def test_other_submodules_are_themselves() -> None:
    assert python(
        "import consmrf.errors, consmrf.graph; print(consmrf.errors.__name__, consmrf.graph.__name__)"
    ) == ("consmrf.errors consmrf.graph")


# -- what an import costs

HEAVY = "numba llvmlite polars matplotlib pyoxigraph rich cyclopts pandas pyarrow safetensors"


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import consmrf", HEAVY),
        ("import consmrf; consmrf.__version__; dir(consmrf)", HEAVY),
        ("import consmrf.errors, consmrf.config, consmrf.graph.triples", HEAVY),
        ("import consmrf.model", "numba llvmlite matplotlib cyclopts"),
        (
            "import consmrf; consmrf.Model, consmrf.read_triples, consmrf.evaluate, consmrf.audit",
            "numba llvmlite matplotlib cyclopts",
        ),
    ],
)
def test_import_loads_nothing_heavy(statement: str, absent: str) -> None:
    says = python(
        "import sys, time\n"
        "before = time.perf_counter()\n"
        f"{statement}\n"
        f"print(f'{{time.perf_counter() - before:.3f}} s', [m for m in {absent.split()} if m in sys.modules])"
    )
    print(f"{statement}: {says}")
    assert says.endswith("s []")


# -- errors


def constructed(sources: list[str]) -> set[str]:
    """Hand on the names of the classes that are called or raised."""
    nodes = [node for source in sources for node in ast.walk(ast.parse(source))]
    named = [n.func for n in nodes if isinstance(n, ast.Call)] + [
        n.exc for n in nodes if isinstance(n, ast.Raise)
    ]
    return {
        n.id if isinstance(n, ast.Name) else n.attr for n in named if isinstance(n, ast.Name | ast.Attribute)
    }


@pytest.mark.parametrize("name", errors.__all__)
def test_every_error_is_raised_somewhere(name: str) -> None:
    """A class that only groups others counts as raised when one of them is."""
    raised = constructed([path.read_text() for path in SOURCE.rglob("*.py") if path.name != "errors.py"])
    family = [n for n in errors.__all__ if issubclass(getattr(errors, n), getattr(errors, name))]
    assert raised & set(family if len(family) > 1 else [name]), f"{name} is raised nowhere"


def test_an_unraised_error_would_be_noticed() -> None:
    source = "def f():\n    x = DataError\n    raise errors.SettingError('no') from None\n"
    assert constructed([source]) == {"SettingError"}


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    assert errors.__doc__ is not None
    drawn = re.findall(r"^[ │]*(?:[├└]── )?(\w+Error)\b", errors.__doc__, flags=re.MULTILINE)
    assert sorted(drawn) == sorted(errors.__all__)
    defined = {n for n, v in vars(errors).items() if isinstance(v, type) and issubclass(v, Exception)}
    assert defined == set(errors.__all__)


# -- the version


def newest(changelog: str) -> str:
    """Hand on the version of the first heading that has one."""
    found = re.search(r"^## \[?(\d+\.\d+\.\d+[^\s\]]*)", changelog, flags=re.MULTILINE)
    assert found is not None
    return found[1]


def test_version_is_the_changelogs_newest() -> None:
    changelog = REPOSITORY / "CHANGELOG.md"
    assert metadata.version("consmrf") == consmrf.__version__ == newest(changelog.read_text())


def test_the_newest_heading_is_the_first() -> None:
    assert newest("# Changelog\n\n## [0.2.0]\n\n## [0.1.0]\n") == "0.2.0"
