"""What `consmrf demo` does: make the example, learn it, measure it, and tell what came out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from consmrf.config import Config
from consmrf.demo.social import SocialExample, make_social_graph
from consmrf.demo.story import METHODS, learn, measure, story_to_dict
from consmrf.demo.telling import predictions, report_page, table, verdicts
from consmrf.errors import OutputError
from consmrf.graph.triples import Graph, read_triples, write_triples
from consmrf.report.files import check_folder, check_model_place, write_json, write_text

__all__ = ["run_demo"]


def run_demo(out: Path, *, seed: int, threads: int | None, say: Callable[[str], None]) -> None:
    """Write graph, model, figures and a page into the folder `out`; say what is found on the way."""
    configs = {name: replace(c, seed=seed, threads=threads) for name, c in METHODS.items()}
    _prepare(out)
    begun = time.perf_counter()
    example = make_social_graph(seed)
    graphs = _through_files(example, out)
    sizes = ", ".join(f"{len(graph):,} {name}" for name, graph in graphs.items())
    say(f"{out}: {len(example.users):,} users and {len(example.items):,} news items; triples: {sizes}")
    fits = {name: learn(name, config, graphs, say) for name, config in configs.items()}
    story = measure(example, graphs, fits)
    say("\n" + table(story).text())
    say("\n" + "\n".join(verdicts(story)))
    say("\nin words:\n" + "\n".join(line for lines in predictions(story).values() for line in lines))
    fits["ConsMRF"].model.save(out / "model.consmrf")
    write_json(out / "figures.json", story_to_dict(story))
    write_text(out / "report.html", report_page(story))
    say(f"\n{time.perf_counter() - begun:.0f} s; look at {out / 'report.html'}, or go on by hand:")
    say("\n".join(commands(out, configs["ConsMRF"])))


def commands(out: Path, config: Config) -> list[str]:
    """Hand on the command lines that do the same from the files of the demo."""
    return [
        f"consmrf fit {out}/train.tsv --valid {out}/valid.tsv --out again.consmrf{_options(config)}",
        f"consmrf evaluate again.consmrf {out}/test.tsv --known {out}/valid.tsv",
    ]


def _options(config: Config) -> str:
    """Hand on the options that make this configuration of the default one, but for the number of threads."""
    plain, default = config.to_dict(), Config().to_dict()
    changed = [name for name in plain if plain[name] != default[name] and name != "threads"]
    return "".join(f" --{name.replace('_', '-')} {plain[name]}" for name in changed)


def _prepare(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise OutputError(f"{out}: is a file; choose another folder for the demo with --out")
    check_folder(out if out.is_dir() else out.parent, out)
    out.mkdir(exist_ok=True)
    check_model_place(out / "model.consmrf")


def _through_files(example: SocialExample, out: Path) -> dict[str, Graph]:
    """Write the parts and read them back, as anybody would who goes on from the files."""
    parts = {"train": example.train, "valid": example.valid, "test": example.test}
    for name, graph in parts.items():
        write_triples(graph, out / f"{name}.tsv")
    return {name: read_triples(out / f"{name}.tsv") for name in parts}
