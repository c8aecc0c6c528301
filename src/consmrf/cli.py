"""The command line: reads what was typed, calls the stages, prints what they hand back.

Exit codes: 0 done; 1 a user's mistake; 2 a command line that cannot be parsed; 130 interrupted.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, CycloptsError, Parameter

from consmrf.config import PRESETS, Config
from consmrf.errors import ConsmrfError, InputError, SettingError
from consmrf.report.tables import printable

if TYPE_CHECKING:
    from consmrf.graph.triples import Graph
    from consmrf.model import Model

__all__ = ["main"]

app = App(
    name="consmrf",
    help="Rank the missing facts of a graph, each relation by its own view of the entities.",
    version=lambda: metadata.version("consmrf"),
    result_action="return_value",
    exit_on_error=False,
    print_error=False,
    suppress_keyboard_interrupt=False,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and hand on its exit code; a mistake becomes one line on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a label need not fit the terminal's encoding
    try:
        app(_typed(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # rich, which prints the help, leaves by SystemExit
        _silence()
    except (CycloptsError, ConsmrfError, KeyboardInterrupt, MemoryError, OSError) as error:
        sentence, code = _explain(error)
        print(f"consmrf: error: {printable(' '.join(sentence.split()))}", file=sys.stderr)
        return code
    return 0


def _typed(arguments: Sequence[str]) -> list[str]:
    """Let "-" be a file: cyclopts takes it for an option, but not "./-", and Path makes the two equal."""
    files = list(arguments[:1]) in (["fit"], ["evaluate"])
    return ["./-" if files and token == "-" else token for token in arguments]


def _explain(error: BaseException) -> tuple[str, int]:
    """Hand on the sentence that tells of an error, and the exit code."""
    if isinstance(error, CycloptsError):
        return f"{error} See consmrf --help.", 2
    if isinstance(error, ConsmrfError):
        return str(error), 1
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", 130
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}; check the path and its permissions", 1
    return f"not enough memory ({error or 'refused'}); try a smaller --dim, --memory or fewer --threads", 1


def _say(text: str) -> None:
    """Print at once; when nobody reads any more, go on silently, since the work may still be wanted."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        _silence()


def _silence() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# -- groups of options


def _help(words: str) -> Parameter:
    return Parameter(help=words, negative_iterable="")


def _whole(words: str) -> Parameter:
    # cyclopts would round 1.5
    return Parameter(help=words, converter=lambda _, tokens: int(tokens[0].value))


def _flag(words: str) -> Parameter:
    return Parameter(help=words, negative="")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Settings:
    """What may be set of a Config; None leaves the preset's value."""

    method: Annotated[str | None, _help("consensus (ConsMRF), or a baseline: independent, popularity")] = None
    solver: Annotated[str | None, _help("paper: Algorithms 1 and 2 as printed")] = None
    scorer: Annotated[str | None, _help("form of W_r: identity, diagonal, full")] = None
    dim: Annotated[int | None, _whole("features per entity, k")] = None
    max_epochs: Annotated[int | None, _whole("the most passes over the data")] = None
    inner_epochs: Annotated[int | None, _whole("passes of one round, between two consensus updates")] = None
    learning_rate: Annotated[float | None, _help("η, the step of AdaGrad")] = None
    reg: Annotated[float | None, _help("λ, regularisation; too large, and the factors vanish")] = None
    rho: Annotated[float | None, _help("ρ, pull towards the consensus; too large, and it diverges")] = None
    init_scale: Annotated[float | None, _help("σ of the initial factors")] = None
    max_seconds: Annotated[float | None, _help("begin no round after this long")] = None
    tol: Annotated[float | None, _help("ε: stop when the training loss changes by less")] = None
    patience: Annotated[int | None, _whole("with --valid: rounds without a better score")] = None
    seed: Annotated[int | None, _whole("same seed, same model, for any number of threads")] = None
    threads: Annotated[int | None, _whole("default: one per core")] = None
    precision: Annotated[str | None, _help("of the factors: single, double")] = None

    def over(self, preset: str) -> Config:
        """Hand on the preset's settings, overridden by those given."""
        if preset not in PRESETS:
            raise SettingError(f"preset = {preset!r}: must be one of {', '.join(PRESETS)}")
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(PRESETS[preset], **{name: x for name, x in given.items() if x is not None})


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Reading:
    """How files of triples are read; None concludes it from the file."""

    format: Annotated[str | None, _help("tsv, csv, parquet, ntriples, turtle, rdfxml, …")] = None
    columns: Annotated[str | None, _help("where the triple stands: sor, or head,edge,tail, or 0,3,1")] = None
    header: Annotated[bool | None, Parameter(help="whether the first line names columns")] = None
    literals: Annotated[bool, _flag("keep RDF triples whose object is a literal")] = False

    def read(self, *paths: Path) -> Graph:
        """Hand on the graph of these files, and print what was concluded."""
        from consmrf.graph.triples import read_triples

        columns: Any = self.columns
        if columns is not None and "," in columns:
            names = [name.strip() for name in columns.split(",")]
            columns = [int(name) for name in names] if all(map(str.isdecimal, names)) else names
        graph = read_triples(
            [*map(str, paths)],
            format=self.format,
            columns=columns,
            header=self.header,
            literals=self.literals,
        )
        if graph.report is not None:
            _say(graph.report.describe())
        return graph


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Ranking:
    """How an evaluation ranks, and where its figures go."""

    protocol: Annotated[str, _help("full: filtered, all entities; paper: sampled objects")] = "full"
    candidates: Annotated[int, _whole("paper protocol: objects drawn per (relation, subject)")] = 1000
    sides: Annotated[str, _help("full protocol: both, objects, subjects")] = "both"
    memory: Annotated[int, _whole("MiB for scores")] = 512
    seed: Annotated[int, _whole("of drawn objects and of the intervals' resampling")] = 0
    relations: Annotated[bool, _flag("show every relation, not the largest and the worst")] = False
    json: Annotated[Path | None, _help("write the figures here, as plain numbers")] = None
    ranks: Annotated[Path | None, _help("write every rank here, as Parquet")] = None


# -- commands


@app.command
def fit(
    train: Annotated[
        Path, _help("files of triples: TSV, CSV, Parquet, RDF; .gz, .zst; - for standard input")
    ],
    /,
    *more: Annotated[Path, Parameter(show=False)],
    out: Annotated[Path, _help("folder for the model; a model that is there is replaced")],
    valid: Annotated[Path | None, _help("validation triples: they choose the round that is kept")] = None,
    preset: Annotated[str, _help("where the settings start: paper, quick")] = "paper",
    settings: Settings = Settings(),
    reading: Reading = Reading(),
    json: Annotated[Path | None, _help("write what happened here, round by round")] = None,
) -> None:
    """Learn a model from triples."""
    from consmrf.fit import estimate_memory
    from consmrf.fit import fit as run
    from consmrf.report.files import check_model_place, check_writable, info_to_dict, write_json
    from consmrf.report.progress import Progress

    config = settings.over(preset)
    check_model_place(out)
    if json is not None:
        check_writable(json)
    graph = reading.read(train, *more)
    held_out = None if valid is None else reading.read(valid)
    _say(estimate_memory(graph, config).describe())
    with Progress(config.max_rounds, _say) as progress:
        result = run(graph, valid=held_out, config=config, on_round=progress)
    result.model.save(out)
    if json is not None:
        write_json(json, {"config": config.to_dict(), **info_to_dict(result.info)})
    kept = f" Kept: round {result.info.best_round}." if result.info.best_round else ""
    _say(f"{result.info.summary}{kept}\nmodel: {out}")


@app.command
def evaluate(
    model: Annotated[Path, _help("folder of a model")],
    test: Annotated[Path, _help("test triples")],
    /,
    *,
    known: Annotated[
        list[Path] | None, _help("more known triples, which never count as wrong; repeats")
    ] = None,
    ranking: Ranking = Ranking(),
    reading: Reading = Reading(),
) -> None:
    """Measure how well a model ranks test triples, beside popularity."""
    from consmrf.baselines.popularity import popularity
    from consmrf.evaluation.protocol import EvaluationOptions
    from consmrf.evaluation.protocol import evaluate as run
    from consmrf.evaluation.result import save_ranks
    from consmrf.graph.triples import Graph
    from consmrf.report import tables
    from consmrf.report.files import check_writable, write_json

    sides = ("objects", "subjects") if ranking.sides == "both" else (ranking.sides,)
    options = EvaluationOptions(
        candidates=ranking.candidates, sides=sides, memory_mib=ranking.memory, seed=ranking.seed
    )
    for path in (ranking.json, ranking.ranks):
        if path is not None:
            check_writable(path)
    ours = _load(model)
    counting = popularity(Graph(ours.vocabulary, ours.known), Config(method="popularity"))
    graph, others = reading.read(test), [reading.read(path) for path in known or []]
    found = [
        run(m, graph, known=others, protocol=ranking.protocol, options=options) for m in (ours, counting)
    ]
    plain = {name: result.to_dict() for name, result in zip(("model", "popularity"), found, strict=True)}
    if ranking.ranks is not None:
        save_ranks(found[0], ranking.ranks)
    if ranking.json is not None:
        write_json(ranking.json, {**plain["model"], "popularity": plain["popularity"]})
    shown = plain["model"]["relations"] if ranking.relations else tables.notable(plain["model"])
    _say(f"\n{tables.conditions(plain['model'])}\n\n{tables.figures(plain).text()}")
    _say(f"\n{tables.relations(plain, list(shown)).text()}")


@app.command
def predict(
    model: Annotated[Path, _help("folder of a model")],
    /,
    *,
    relation: Annotated[str, _help("label of the relation")],
    subject: Annotated[str | None, _help("rank the objects of this subject")] = None,
    object: Annotated[
        str | None, _help("rank the subjects of this object; with --subject, score both")
    ] = None,
    top: Annotated[int, _whole("how many")] = 10,
    known: Annotated[str, _help("facts of training: exclude, or include and mark")] = "exclude",
    view: Annotated[str, _help("target (the relation's own features) or consensus")] = "target",
    json: Annotated[bool, _flag("print JSON")] = False,
) -> None:
    """Rank the missing facts of one subject or object."""
    from consmrf.report.files import to_json
    from consmrf.report.tables import Table

    if subject is None and object is None:
        raise InputError("nothing to rank: give --subject, --object, or both for the score of one triple")
    ours = _load(model)
    asked = {"subject": subject, "relation": relation, "object": object}
    if subject is not None and object is not None:
        score = ours.score(subject, relation, object, view=view)
        _say(to_json({**asked, "score": score}) if json else f"{score:.6g}")
        return
    if object is None:
        answers = ours.objects(str(subject), relation, top=top, known=known, view=view)
    else:
        answers = ours.subjects(relation, object, top=top, known=known, view=view)
    if json:
        _say(to_json({**asked, "answers": [answer._asdict() for answer in answers]}))
        return
    rows = tuple((a.label, f"{a.score:.6g}", "known" if a.known else "") for a in answers)
    _say(Table(("object" if object is None else "subject", "score", ""), rows).without_empty().text())


@app.command
def info(
    model: Annotated[Path, _help("folder of a model")],
    /,
    *,
    json: Annotated[bool, _flag("print JSON")] = False,
) -> None:
    """Show what a model holds and how it was made."""
    from consmrf.report.files import model_to_dict, to_json
    from consmrf.report.tables import described

    plain = model_to_dict(_load(model))
    _say(to_json(plain) if json else described(plain))


@app.command
def demo(
    *,
    out: Annotated[Path, _help("folder for the graph, the model and the report")] = Path("demo"),
    seed: Annotated[int, _whole("of the graph and of the fits")] = 0,
    threads: Annotated[int | None, _whole("default: one per core")] = None,
) -> None:
    """Learn a small social network whose right answers are known, and report."""
    from consmrf.demo.run import run_demo

    run_demo(out, seed=seed, threads=threads, say=_say)


def _load(path: Path) -> Model:
    from consmrf.model import Model

    return Model.load(path)


if __name__ == "__main__":
    sys.exit(main())
