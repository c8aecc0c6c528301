"""Text and JSON onto disk, whole or not at all."""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from consmrf.errors import OutputError
from consmrf.graph.source import replacing, takes_bytes_itself
from consmrf.graph.triples import Graph, write_triples
from consmrf.predictors import Factors
from consmrf.storage import check_replaceable

if TYPE_CHECKING:
    from consmrf.consensus.solve import Info
    from consmrf.model import Model

__all__ = [
    "check_folder",
    "check_model_place",
    "check_new_folder",
    "check_writable",
    "departures",
    "info_to_dict",
    "to_json",
    "write_json",
    "write_split",
    "write_text",
]

_SUFFIXES = {"csv": ".csv", "parquet": ".parquet"}  # by the format that was read; else tabs
_SUFFIXES |= dict.fromkeys(("ntriples", "nquads", "turtle", "trig", "rdfxml"), ".nt")


def to_json(value: Any) -> str:
    """Hand on strict JSON: numbers that are not finite become null, for JSON has no word for them."""
    return json.dumps(_plain(value), ensure_ascii=False, indent=2, allow_nan=False)


def write_json(path: Path, value: Any) -> None:
    """Write `value` as JSON; a reader sees the old file or the new one."""
    write_text(path, to_json(value) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write `text` as UTF-8, whole or not at all."""
    with replacing(path) as file:
        # a label may hold half of a surrogate pair, which UTF-8 cannot write
        file.write(text.encode("utf-8", errors="backslashreplace"))


def check_writable(path: Path) -> None:
    """Stop unless a file of this name could be written, so that long work does not end in vain."""
    if path.is_dir():
        raise OutputError(f"{path}: is a folder; give the name of a file")
    if not takes_bytes_itself(path):
        check_folder(Path(os.path.realpath(path)).parent, path)


def check_folder(folder: Path, wanted: Path) -> None:
    """Stop unless something could be written into the folder, on behalf of the path wanted."""
    if not folder.is_dir():
        raise OutputError(
            f"{wanted}: the folder {str(folder)!r} does not exist; make it first or choose another place"
        )
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        problem = error.strerror or error
        raise OutputError(
            f"{wanted}: {str(folder)!r} cannot be written to ({problem}); choose another place"
        ) from None


def check_new_folder(path: Path) -> None:
    """Stop unless a folder could be made here: nothing is there yet, or an empty folder."""
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        what = "is not empty" if path.is_dir() else "is not a folder"
        raise OutputError(f"{path}: {what}; choose another place")
    check_folder(Path(os.path.realpath(path)).parent, path)


def write_split(folder: Path, parts: Mapping[str, Graph], read: Mapping[str, Graph]) -> list[str]:
    """Write the parts of a split into a new folder, all or none; hand on the names of the files.

    Each part is written in the format and compression that the graph of the same name in `read` was read
    from, the first of several sources. All RDF becomes N-Triples, and what was read from no file becomes TSV.
    """
    names = {part: f"{part}{_suffix(read[part])}" for part in parts}
    place = Path(os.path.realpath(folder))
    try:
        draft = place.with_name(f".{place.name[:100]}.{os.getpid()}.tmp")
        draft.mkdir()
        try:
            for part, graph in parts.items():
                write_triples(graph, draft / names[part])
            os.replace(draft, place)  # what is there is an empty folder, or nothing
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except OutputError as error:
        raise OutputError(str(error).replace(str(draft), str(folder))) from None
    except OSError as error:
        problem = error.strerror or error
        raise OutputError(f"{folder}: cannot be written: {problem}; nothing was changed") from None
    return list(names.values())


def _suffix(graph: Graph) -> str:
    """Hand on the suffix of the format and compression that a graph was read from."""
    if graph.report is None:
        return ".tsv"
    source = graph.report.parts[0]
    kind = _SUFFIXES.get(source.format, ".tsv")
    return kind + {"gzip": ".gz", "zstd": ".zst", None: ""}[source.compression]


def check_model_place(path: Path) -> None:
    """Stop unless a model could be saved here: nothing is there yet, or a model, or an empty folder."""
    check_folder(path if check_replaceable(path) else path.parent, path)


def info_to_dict(info: Info) -> dict[str, Any]:
    """Hand on how a fit went as plain values: the status by name, a sentence, and every round."""
    return {
        "status": info.status.name,
        "sentence": info.summary,
        "best_round": info.best_round,
        "skipped_triples": info.skipped_triples,
        "seconds": info.seconds,
        "rounds": [
            {
                name: x for name, x in asdict(r).items() if name != "block_seconds"
            }  # of use to a benchmark only
            for r in info.rounds
        ],
    }


def model_to_dict(model: Model) -> dict[str, Any]:
    """Hand on what a model holds as plain values: sizes, triples by relation, settings, origin."""
    counts = np.bincount(model.known[:, 1], minlength=len(model.relations)).tolist()
    return {
        "kind": model.predictor.kind,
        "entities": len(model.entities),
        "triples": len(model.known),
        "relations": dict(zip(model.relations, counts, strict=True)),
        "departures": departures(model),
        "config": None if model.config is None else model.config.to_dict(),
        "provenance": model.provenance,
    }


def departures(model: Model) -> dict[str, dict[str, float]] | None:
    """Hand on how target-specific each relation is: ‖Δ_r‖ over ‖Z‖ on the entities of r.

    By relation, then by what the view ranks: objects, and subjects, for which it may have a view of its own.
    None where there is no consensus to depart from.
    """
    predictor = model.predictor
    if not isinstance(predictor, Factors) or predictor.shared == "none":
        return None
    told, n = predictor.departures().tolist(), len(model.relations)
    views = {"objects": told[:n], "subjects": told[n:]} if predictor.reciprocal else {"both sides": told}
    return {label: {kind: own[r] for kind, own in views.items()} for r, label in enumerate(model.relations)}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
