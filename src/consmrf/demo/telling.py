"""The demo's findings: a table, sentences, one page. Who is ahead is read off, not decided here."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib import metadata

import numpy as np

from consmrf.demo.story import FEW, PLANTED, Story
from consmrf.report.figures import departure_bars, learning_curve, relation_bars, residuals
from consmrf.report.files import departures
from consmrf.report.page import heading, listing, page, paragraph, picture, section, settings
from consmrf.report.tables import Table, conditions, figures, number

__all__ = ["predictions", "report_page", "table", "verdicts"]

# relation → what is foretold, and what those around the user do already
_VERBS = {
    "reads": ("may like to read", "read it"),
    "follows": ("may like to follow", "follow them"),
    "friends": ("may become friends with", "are friends with them"),
}


def table(story: Story) -> Table:
    """Put the main figures of all methods beside each other."""
    columns = {
        "MRR": ("mrr", {m: f["both"] for m, f in story.full.items()}),
        "Hits@10": ("hits@10", {m: f["both"] for m, f in story.full.items()}),
        "AUC": ("auc", {m: f["objects"] for m, f in story.paper.items()}),
        "Prec@5": ("precision@5", {m: f["objects"] for m, f in story.paper.items()}),
        **{f"MRR {r}": ("mrr", _of_relation(story, r)) for r in story.relations},
        "few reads": ("mrr", {m: f["objects"] for m, f in story.few.items()}),
    }
    rows = [
        (m, *(number(metric, values[m][metric]) for metric, values in columns.values())) for m in story.full
    ]
    return Table(("", *columns), tuple(rows))


def verdicts(story: Story) -> list[str]:
    """Say who is ahead in what, whoever it is; the planted chances, which are no method, aside."""
    full = {m: f["both"] for m, f in story.full.items()}
    few = {m: f["objects"] for m, f in story.few.items()}
    paper = {m: f["objects"] for m, f in story.paper.items()}
    return [
        f"All relations, MRR: {_order(full, 'mrr')}.",
        *(f"{r}, MRR: {_order(_of_relation(story, r), 'mrr')}." for r in story.relations),
        f"reads of users with at most {FEW} of them in training, MRR of the items: {_order(few, 'mrr')}.",
        f"All relations, the paper's AUC: {_order(paper, 'auc')}.",
    ]


def _of_relation(story: Story, relation: str) -> dict[str, Mapping[str, float]]:
    return {m: f["relations"][relation]["both"] for m, f in story.full.items()}


def _order(values: Mapping[str, Mapping[str, float]], metric: str) -> str:
    fitted = sorted((m for m in values if m != PLANTED), key=lambda m: -values[m][metric])
    return ", then ".join(f"{m} {values[m][metric]:.3f}" for m in fitted)


def predictions(story: Story, users: int = 3) -> dict[str, list[str]]:
    """Put ConsMRF's first answers into words, for the first users (by name) of whom few reads are known."""
    train = story.train
    reads = train.triples[train.triples[:, 1] == train.vocabulary.relation("reads"), 0]
    counts = np.bincount(reads, minlength=len(train.vocabulary.entities))
    little = [train.vocabulary.entities[i] for i in np.flatnonzero((counts >= 2) & (counts <= FEW // 2))]
    return {user: [_foretold(story, user, relation) for relation in _VERBS] for user in little[:users]}


def _foretold(story: Story, user: str, relation: str) -> str:
    """What the model ranks first, what the planted chances say of it, and what training holds nearby."""
    example, verb, do = story.example, *_VERBS[relation]
    known = _objects(story, user, relation)
    circle = _objects(story, user, "follows") | _objects(story, user, "friends")
    first = story.fits["ConsMRF"].model.objects(user, relation, top=1)[0].label
    pool = example.items if relation == "reads" else example.users
    if first not in pool:
        return f"{user} {verb} {first}: a thing of the wrong kind."
    chance = example.chance[relation][example.users.index(user)]
    others = [i for i, label in enumerate(pool) if label not in known and label != user]
    place = 1 + int((chance[others] > chance[pool.index(first)]).sum())
    near = sum(first in _objects(story, other, relation) for other in circle)
    return (
        f"{user} {verb} “{first}”: number {place} of {len(others):,} by the planted chances. "
        f"Of the {len(circle)} people whom {user} follows or is friends with, {near} {do} in training."
    )


def _objects(story: Story, subject: str, relation: str) -> set[str]:
    vocabulary, triples = story.train.vocabulary, story.train.triples
    own = (triples[:, 0] == vocabulary.entity(subject)) & (triples[:, 1] == vocabulary.relation(relation))
    return {vocabulary.entities[o] for o in triples[own, 2].tolist()}


def report_page(story: Story) -> str:
    """Hand on the whole report; it holds no times, so the same figures make the same bytes."""
    example = story.example
    lead = (
        f"{len(example.users):,} users follow each other, are friends, and read {len(example.items):,} news "
        "items. The graph is made up, so the right answers are known: every fact was drawn with a planted "
        f"chance. {len(story.fits)} methods learned from {len(story.train):,} triples, and rank here what "
        "they were not shown."
    )
    parts = [_found(story), _by_relation(story), _recovered(story), _in_words(story), _learning(story)]
    for title, tree in (("full protocol", story.full), ("the paper's protocol", story.paper)):
        words = paragraph(conditions(tree["ConsMRF"]) + " Intervals hold 99 % of the bootstrap's resamples.")
        parts.append(section(f"All figures, {title}", words, figures(tree)))
    origin = (heading("Made with"), settings(_provenance(story)))
    parts.append(section("Settings and provenance", _chosen(story), *origin))
    return page("A social network, learned", lead, parts)


def _found(story: Story) -> str:
    words = (
        "MRR and Hits@10: filtered ranking against all entities, both sides. AUC and Prec@5: the paper's "
        f"protocol, objects only. Few reads: MRR of the items for users with at most {FEW} reads in "
        "training. The planted chances rank by how probable each fact was made: no method can be expected "
        "to do better."
    )
    return section("Who finds the missing facts", table(story), paragraph(words), listing(verdicts(story)))


def _by_relation(story: Story) -> str:
    above, below = "MRR of both sides, over the test triples", "AUC over (relation, subject) pairs"
    shown = ((story.full, "full", above), (story.paper, "paper", below))
    pictures = [
        picture(relation_bars(tree, story.relations, name), f"{caption}. Lines: 99 % Student's intervals.")
        for tree, name, caption in shown
    ]
    return section("By relation", *pictures)


def _recovered(story: Story) -> str:
    rows = tuple((m, *(f"{x:.0%}" for x in shares.values())) for m, shares in story.recovered.items())
    words = (
        "The planted chance that the first ten answers not in training carry, over all subjects of the "
        "relation, as a share of the most that ten answers could carry."
    )
    return section("Are the right answers found", Table(("", *story.relations), rows), paragraph(words))


def _in_words(story: Story) -> str:
    told = [part for user, lines in predictions(story).items() for part in (heading(user), listing(lines))]
    words = "The model gives an order, not reasons; the counts beside it are read off the training triples."
    return section("Predictions in words", *told, paragraph(words))


def _chosen(story: Story) -> Table:
    """Tabulate the settings of the methods that learn; popularity has none."""
    learners = {m: values for m, values in story.settings.items() if values["method"] != "popularity"}
    names = next(iter(learners.values()))
    rows = tuple((name, *(str(values[name]) for values in learners.values())) for name in names)
    return Table(("setting", *learners), rows)


def _provenance(story: Story) -> dict[str, object]:
    versions = {name: metadata.version(name) for name in ("consmrf", "numpy", "numba")}
    seen = {f"ConsMRF's {k}".replace("_", " "): v for k, v in story.fits["ConsMRF"].model.provenance.items()}
    return {"Python": platform.python_version(), **versions, **seen}


def _learning(story: Story) -> str:
    info = story.fits["ConsMRF"].info
    curve = (
        "Mean training loss; filtered MRR on validation triples, which chooses the round. First all "
        "relations find the consensus; then it rests, and each relation departs from it on its own triples."
    )
    distance = (
        "How far the relations' views are from the consensus, and how far a round moves what is trained: the "
        "consensus first, then the views."
    )
    target = (
        "How far each relation's view is from the consensus, after validation has chosen what share of the "
        "departure it keeps. 0 would be the shared model."
    )
    departed = departures(story.fits["ConsMRF"].model)
    own = [] if departed is None else [picture(departure_bars(departed, "departures"), target)]
    return section(
        "How ConsMRF learned",
        picture(learning_curve(info.rounds, info.best_round), curve),
        picture(residuals(info.rounds), distance),
        *own,
        paragraph(info.summary),
    )
