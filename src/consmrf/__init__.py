"""Rank the missing facts of a multi-relational graph, each relation by its own view of the entities.

The public names. Each is fetched from its module when it is first asked for, so that the import is quick.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from consmrf.config import PRESETS, Config
    from consmrf.consensus.solve import Info, Round, Status
    from consmrf.errors import (
        ConsmrfError,
        DataError,
        DivergedError,
        InputError,
        ModelFileError,
        OutputError,
        SettingError,
        UnknownLabelError,
    )
    from consmrf.evaluation.audit.audit import Audit, AuditOptions, Cleaned, audit, without_leaks
    from consmrf.evaluation.comparison import Comparison, ComparisonOptions, compare
    from consmrf.evaluation.protocol import Evaluation, EvaluationOptions, evaluate
    from consmrf.evaluation.saved_ranks import read_ranks
    from consmrf.fit import Result, estimate_memory, fit
    from consmrf.graph.split import Split, folds, split
    from consmrf.graph.triples import Graph, read_triples, write_triples
    from consmrf.graph.vocabulary import Vocabulary
    from consmrf.model import Answer, Model

    __version__: str

__all__ = [
    "PRESETS",
    "Answer",
    "Audit",
    "AuditOptions",
    "Cleaned",
    "Comparison",
    "ComparisonOptions",
    "Config",
    "ConsmrfError",
    "DataError",
    "DivergedError",
    "Evaluation",
    "EvaluationOptions",
    "Graph",
    "Info",
    "InputError",
    "Model",
    "ModelFileError",
    "OutputError",
    "Result",
    "Round",
    "SettingError",
    "Split",
    "Status",
    "UnknownLabelError",
    "Vocabulary",
    "__version__",
    "audit",
    "compare",
    "estimate_memory",
    "evaluate",
    "fit",
    "folds",
    "read_ranks",
    "read_triples",
    "split",
    "without_leaks",
    "write_triples",
]

_HOME = {
    name: f"consmrf.{module}"
    for module, names in {
        "config": "PRESETS Config",
        "consensus.solve": "Info Round Status",
        "errors": (
            "ConsmrfError DataError DivergedError InputError "
            "ModelFileError OutputError SettingError UnknownLabelError"
        ),
        "evaluation.audit.audit": "Audit AuditOptions Cleaned audit without_leaks",
        "evaluation.comparison": "Comparison ComparisonOptions compare",
        "evaluation.protocol": "Evaluation EvaluationOptions evaluate",
        "evaluation.saved_ranks": "read_ranks",
        "fit": "Result estimate_memory fit",
        "graph.split": "Split folds split",
        "graph.triples": "Graph read_triples write_triples",
        "graph.vocabulary": "Vocabulary",
        "model": "Answer Model",
    }.items()
    for name in names.split()
}


class _Package(ModuleType):
    """The package as a module whose public names arrive when asked for, and stay.

    Python hangs every submodule it imports on the package: `consmrf.fit` would be the function until somebody
    imports the module of that name, and the module from then on. Here it is the function throughout.
    """

    def __getattr__(self, name: str) -> Any:
        if name == "__version__":
            found = import_module("importlib.metadata").version("consmrf")  # loads much for one word
        elif name in _HOME:
            found = getattr(import_module(_HOME[name]), name)
        else:
            raise AttributeError(f"module 'consmrf' has no attribute {name!r}")
        setattr(self, name, found)  # the next look-up does not come here
        return found

    def __setattr__(self, name: str, value: object) -> None:
        if name in _HOME and isinstance(value, ModuleType):
            value = getattr(value, name)
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


sys.modules[__name__].__class__ = _Package
