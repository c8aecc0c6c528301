"""The cells of a study: what each is asked, and the folder of JSON files in which the answers lie.

A cell goes by a checksum of everything that determines it: the dataset's digests and cut, the settings, what
is measured and how, and the source of the stages that compute it. Its file is written whole or not at all, so
a run that was ended at any moment goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from consmrf.errors import InputError
from consmrf.report.files import write_json
from consmrf.study.datasets import Source

__all__ = ["Cell", "Store", "source_digest"]

# What a cell's figures come from; a change anywhere else leaves the finished cells as they are.
_STAGES: tuple[str, ...] = (
    "baselines",
    "consensus",
    "engine",
    "evaluation",
    "graph",
    "demo/social.py",
    "study/datasets.py",
)
_STAGES += ("study/graphs.py", "study/measure.py", "config.py", "fit.py", "model.py", "predictors.py")

Found = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One fit and what is measured of it."""

    source: Source
    method: str
    settings: Mapping[str, Any]  # of a Config, seed and threads included
    judged: str  # "valid", "test", or "none"
    evaluation: Mapping[str, Any]  # of an EvaluationOptions; "full" says whether to rank against all, too
    validated: bool = True  # whether the fit is given validation triples
    timed: bool = False  # alone on the machine, its kernels compiled before
    sampled: int | None = None  # of a method that trains each target by itself: train so many, and scale

    @cached_property
    def key(self) -> str:
        """The checksum that the cell goes by."""
        text = json.dumps(self.asked(), sort_keys=True, ensure_ascii=False)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    @cached_property
    def name(self) -> str:
        """The name of its files, without a suffix."""
        slug = re.sub(r"[^A-Za-z0-9_.]+", "-", f"{self.source.dataset}-{self.method}")
        return f"{slug[:80]}-{self.key}"

    def asked(self) -> dict[str, Any]:
        """Hand on everything that determines what will be found.

        No figure depends on the number of threads, but seconds do.
        """
        settings = {k: v for k, v in self.settings.items() if self.timed or k != "threads"}
        return {
            "data": self.source.to_dict(),
            "settings": settings,
            "judged": self.judged,
            "evaluation": dict(self.evaluation) if self.judged != "none" else None,
            "validated": self.validated,
            "timed": self.timed,
            "sampled": self.sampled,
            "source": source_digest(),
        }

    def to_job(self, folder: Path) -> dict[str, Any]:
        """Hand on what the process that runs it has to know, as plain values."""
        return {
            "dataset": self.source.dataset,
            "method": self.method,
            "files": list(self.source.files),
            "path": str(folder / f"{self.name}.json"),
            "asked": self.asked(),
            "threads": self.settings.get("threads", 1),
        }


class Store:
    """The finished and the failed cells of one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read: dict[str, Found] = {}

    def get(self, cell: Cell) -> Found | None:
        """Hand on what the cell's file holds: "found" or "error"; None where there is none."""
        if cell.name not in self._read:
            path = self.folder / f"{cell.name}.json"
            try:
                self._read[cell.name] = json.loads(path.read_text("utf-8"))
            except FileNotFoundError:
                return None
            except ValueError:
                raise InputError(f"{path}: damaged; remove it, and the cell is run again") from None
        return self._read[cell.name]

    def found(self, cell: Cell) -> Found | None:
        """Hand on what was found; None where the cell has not been run, or failed."""
        held = self.get(cell)
        return None if held is None else held.get("found")

    def error(self, cell: Cell) -> str | None:
        """Hand on why the cell failed; None where it did not."""
        held = self.get(cell)
        return None if held is None else held.get("error")

    def ranks(self, cell: Cell) -> Path:
        """Hand on where the ranks of a tested cell lie."""
        return self.folder / f"{cell.name}.parquet"

    def fail(self, cell: Cell, why: str) -> None:
        """Write down that the cell failed."""
        job = cell.to_job(self.folder)
        write_json(Path(job["path"]), {**_heading(job), "error": why})

    def forget(self, cell: Cell) -> None:
        """Remove a failed cell, so that it is run again."""
        (self.folder / f"{cell.name}.json").unlink(missing_ok=True)
        self._read.pop(cell.name, None)


def write_found(job: Mapping[str, Any], found: Found) -> None:
    """Write down what a job found."""
    write_json(Path(job["path"]), {**_heading(job), "found": found})


def _heading(job: Mapping[str, Any]) -> dict[str, Any]:
    return {name: job[name] for name in ("dataset", "method", "asked")}


@lru_cache(maxsize=1)
def source_digest() -> str:
    """Hand on a checksum of the source that cells are computed by."""
    found = hashlib.blake2b(digest_size=8)
    root = Path(__file__).parents[1]
    for stage in sorted(_STAGES):
        place = root / stage
        for path in [place] if place.is_file() else sorted(place.rglob("*.py")):
            found.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return found.hexdigest()
