"""The commands: each calls the stages and prints what they hand back."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, CycloptsError, Parameter

from consmrf.cli.auditing import audit
from consmrf.cli.options import (
    Budgeting,
    Comparing,
    Ranking,
    Reading,
    Settings,
    described,
    flag,
    whole,
)
from consmrf.cli.terminal import explain, say, silence
from consmrf.config import Config
from consmrf.errors import ConsmrfError, InputError
from consmrf.report.tables import printable

if TYPE_CHECKING:
    from consmrf.model import Model

__all__ = ["run"]

_SETTINGS, _READING, _RANKING = Settings(), Reading(), Ranking()
_COMPARING, _BUDGETING = Comparing(), Budgeting()

app = App(
    name="consmrf",
    help="Rank the missing facts of a graph, each relation by its own view of the entities.",
    version=lambda: metadata.version("consmrf"),
    result_action="return_value",
    exit_on_error=False,
    print_error=False,
    suppress_keyboard_interrupt=False,
)


def run(arguments: Sequence[str] | None) -> int:
    """Run one command and hand on its exit code; a mistake becomes one line on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a label need not fit the terminal's encoding
    try:
        app(_typed(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # rich, which prints the help, leaves by SystemExit
        silence()
    except (CycloptsError, ConsmrfError, MemoryError, OSError) as error:
        sentence, code = explain(error)
        print(f"consmrf: error: {printable(' '.join(sentence.split()))}", file=sys.stderr)
        return code
    return 0


def _typed(arguments: Sequence[str]) -> list[str]:
    """Let "-" be a file: cyclopts takes it for an option, but not "./-", and Path makes the two equal."""
    files = list(arguments[:1]) in (["fit"], ["evaluate"], ["audit"])
    return ["./-" if files and token == "-" else token for token in arguments]


@app.command
def fit(
    train: Annotated[
        Path, described("files of triples: TSV, CSV, Parquet, RDF; .gz, .zst; - for standard input")
    ],
    /,
    *more: Annotated[Path, Parameter(show=False)],
    out: Annotated[Path, described("folder for the model; a model that is there is replaced")],
    valid: Annotated[Path | None, described("validation triples: they choose the round that is kept")] = None,
    preset: Annotated[str, described("where the settings start: default, paper, quick")] = "default",
    settings: Settings = _SETTINGS,
    reading: Reading = _READING,
    json: Annotated[Path | None, described("write what happened here, round by round")] = None,
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
    say(estimate_memory(graph, config, validated=held_out is not None).describe())
    with Progress(config.max_rounds, say) as progress:
        result = run(graph, valid=held_out, config=config, on_round=progress)
    result.model.save(out)
    if json is not None:
        write_json(json, {"config": config.to_dict(), **info_to_dict(result.info)})
    if skipped := result.info.skipped_triples:
        say(
            "triples left out of ranking objects, since their relation links the subject to every entity, so "
            f"that there is nothing to rank the object against: {skipped:,}"
        )
    kept = f" Kept: round {result.info.best_round}." if result.info.best_round else ""
    say(f"{result.info.summary}{kept}\nmodel: {out}")


@app.command
def evaluate(
    model: Annotated[Path, described("folder of a model")],
    test: Annotated[Path, described("test triples")],
    /,
    *,
    known: Annotated[
        list[Path] | None, described("more known triples, which never count as wrong; repeats")
    ] = None,
    ranking: Ranking = _RANKING,
    reading: Reading = _READING,
) -> None:
    """Measure how well a model ranks test triples, beside popularity."""
    from consmrf.baselines.popularity import popularity
    from consmrf.evaluation.protocol import evaluate as run
    from consmrf.evaluation.result import save_ranks
    from consmrf.graph.triples import Graph
    from consmrf.report import tables
    from consmrf.report.evaluated import evaluation_page, judge
    from consmrf.report.files import check_writable, write_json, write_text

    options = ranking.options()
    for path in (ranking.json, ranking.ranks, ranking.html):
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
    if ranking.html is not None:
        facts = [ours.known, *(part.encode(ours.vocabulary).triples for part in (graph, *others))]
        judged = judge(
            dict(zip(plain, (ours, counting), strict=True)), dict(zip(plain, found, strict=True)), facts
        )
        title = f"{model.resolve().stem} on {test.name}"
        write_text(ranking.html, evaluation_page(judged, title))
    if ranking.json is not None:
        write_json(ranking.json, {**plain["model"], "popularity": plain["popularity"]})
    shown = plain["model"]["relations"] if ranking.relations else tables.notable(plain["model"])
    say(f"\n{tables.conditions(plain['model'])}\n\n{tables.figures(plain).text()}")
    if len((rest := tables.further(plain)).head) > 1:
        say(f"\n{rest.text()}")
    if ranking.relations:
        say(f"\n{tables.grouped(plain).text()}")
    say(f"\n{tables.relations(plain, list(shown)).text()}")


@app.command
def compare(
    first: Annotated[Path, described("ranks of one model: evaluate --ranks, or any Parquet or CSV like it")],
    second: Annotated[Path, described("ranks of the other, on the same test triples")],
    /,
    *,
    comparing: Comparing = _COMPARING,
) -> None:
    """Compare two models by their saved ranks, query by query."""
    from consmrf.evaluation.comparison import compare as run
    from consmrf.evaluation.saved_ranks import read_ranks
    from consmrf.report import tables
    from consmrf.report.compared import comparison_page, told_apart
    from consmrf.report.files import check_writable, write_json, write_text

    options = comparing.options()
    for path in (comparing.json, comparing.html):
        if path is not None:
            check_writable(path)
    names = told_apart(first, second)
    found = run(read_ranks(first), read_ranks(second), names=names, options=options)
    plain = found.to_dict()
    if comparing.json is not None:
        write_json(comparing.json, plain)
    if comparing.html is not None:
        write_text(comparing.html, comparison_page(found))
    say(f"{tables.pairing(plain)}")
    say(f"\n{tables.compared(plain, found.view).text()}")
    most = None if comparing.relations else 20
    say(f"\n{tables.compared_relations(plain, most).text()}")


@app.command
def predict(
    model: Annotated[Path, described("folder of a model")],
    /,
    *,
    relation: Annotated[str | None, described("label of the relation")] = None,
    subject: Annotated[str | None, described("rank the objects of this subject")] = None,
    object: Annotated[
        str | None,
        described("rank the subjects of this object; with --subject the relations, or score all three"),
    ] = None,
    top: Annotated[int, whole("how many")] = 10,
    known: Annotated[str, described("facts of training: exclude, or include and mark")] = "exclude",
    view: Annotated[str, described("target (the relation's own features) or consensus")] = "target",
    json: Annotated[bool, flag("print JSON")] = False,
) -> None:
    """Rank the missing facts of one subject or object, or the relations between two entities."""
    from consmrf.report.files import to_json
    from consmrf.report.tables import Table

    asked = {"subject": subject, "relation": relation, "object": object}
    missing = [name for name, label in asked.items() if label is None]
    if len(missing) > 1:
        raise InputError(
            "nothing to rank: give two of --subject, --relation and --object, or all three for the score of "
            "one triple"
        )
    ours = _load(model)
    s, r, o = map(str, asked.values())  # the missing one is not looked at
    if not missing:
        score = ours.score(s, r, o, view=view)
        say(to_json({**asked, "score": score}) if json else f"{score:.6g}")
        return
    if missing == ["relation"]:
        answers = ours.relations_between(s, o, top=top, known=known, view=view)
    elif missing == ["object"]:
        answers = ours.objects(s, r, top=top, known=known, view=view)
    else:
        answers = ours.subjects(r, o, top=top, known=known, view=view)
    if json:
        say(to_json({**asked, "answers": [answer._asdict() for answer in answers]}))
        return
    rows = tuple((a.label, f"{a.score:.6g}", "known" if a.known else "") for a in answers)
    say(Table((missing[0], "score", ""), rows).without_empty().text())


@app.command
def info(
    model: Annotated[Path, described("folder of a model")],
    /,
    *,
    json: Annotated[bool, flag("print JSON")] = False,
) -> None:
    """Show what a model holds and how it was made."""
    from consmrf.report.files import model_to_dict, to_json
    from consmrf.report.tables import described as told

    plain = model_to_dict(_load(model))
    say(to_json(plain) if json else told(plain))


app.command(audit)


@app.command
def demo(
    *,
    out: Annotated[Path, described("folder for the graph, the model and the report")] = Path("demo"),
    seed: Annotated[int, whole("of the graph and of the fits")] = 0,
    threads: Annotated[int | None, whole("default: one per core")] = None,
) -> None:
    """Learn a small social network whose right answers are known, and report."""
    from consmrf.demo.run import run_demo

    run_demo(out, seed=seed, threads=threads, say=say)


@app.command
def study(
    file: Annotated[Path | None, described("the study, in TOML; see docs/study.md")] = None,
    /,
    *,
    out: Annotated[Path, described("folder for cells and report; what is there already is not run again")],
    quick: Annotated[bool, flag("the study of small graphs that the package makes itself")] = False,
    paper: Annotated[bool, flag("the paper's study; --data must hold dbpedia, svo and yago")] = False,
    data: Annotated[
        Path | None, described("where the study's paths begin; default: the file's folder")
    ] = None,
    budget: Budgeting = _BUDGETING,
    ranks: Annotated[
        list[str] | None, described("NAME=FILE: ranks of a method from outside, as --ranks writes; repeats")
    ] = None,
    retry: Annotated[bool, flag("run failed cells again")] = False,
) -> None:
    """Compare methods on datasets, cell by cell, and report; started again, it goes on where it stopped."""
    from consmrf.study.command import run_study, within
    from consmrf.study.spec import read_study, shipped

    if (file is not None) + quick + paper != 1:
        raise InputError("which study: give a file, or --quick, or --paper")
    path = file if file is not None else shipped("quick" if quick else "paper")
    outside: dict[str, list[Path]] = {}
    for given in ranks or []:
        name, equals, place = given.partition("=")
        if not (name and equals and place):
            raise InputError(f"--ranks {given!r}: must be NAME=FILE")
        outside.setdefault(name, []).append(Path(place))
    root = data if data is not None else Path() if file is None else path.parent
    asked = within(read_study(path), budget.given())
    run_study(asked, out, root=root, retry=retry, outside=outside, say=say)


def _load(path: Path) -> Model:
    from consmrf.model import Model

    return Model.load(path)
