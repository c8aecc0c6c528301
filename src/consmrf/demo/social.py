"""The paper's running example with known answers: users follow, befriend, and read news items."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from consmrf.errors import SettingError
from consmrf.graph.triples import Graph
from consmrf.graph.vocabulary import Vocabulary

__all__ = ["RELATIONS", "SocialExample", "make_social_graph"]

RELATIONS = ("follows", "friends", "reads")

# What names are made of (first, last), and headlines (about what, and what happens).
_FIRST = """\
Ada Amir Anja Bela Bruno Carla Chidi Dana Diego Edda Elif Emil Esra Femi Fiona Goran Greta Hana Hugo Ida
Igor Ines Ivo Jonas Jun Kaya Kofi Lara Leon Lina Luca Maja Marta Milan Mina Nadia Nils Nora Olga Omar
Otis Paula Pedro Petra Rafa Rosa Selim Tara Viktor Yara"""
_LAST = """\
Abel Adeyemi Alder Arslan Becker Bianchi Blum Brandt Castro Chen Costa Dahl Demir Duarte Eriksen Farkas
Fischer Flores Gruber Haas Ibsen Ito Jansen Kaplan Keller Kim Kovac Lang Lima Lindt Marin Meyer Moreau
Nagy Novak Okafor Olsen Park Petrov Quill Ramos Reyes Rossi Sato Silva Tanaka Vidal Weber Winter Zhou"""
_ABOUT = {
    "politics": "Rail strike, Budget vote, Coalition talks, Tax reform, Border deal, Mayor race, "
    "Court ruling, Housing bill, Pension plan, Press law",
    "sport": "Cup final, Marathon, Transfer deal, Tennis open, Relay team, Ski season, "
    "Chess match, Stadium plan, Cycling tour, Penalty row",
    "science": "Mars probe, Gene study, Fusion test, Deep-sea dive, Vaccine trial, Quantum chip, "
    "Fossil find, Telescope survey, Bee census, Ice core",
    "music": "Jazz festival, Debut album, Opera season, Vinyl revival, Reunion tour, Choir contest, "
    "Synth museum, Street concert, Lost score, Piano prize",
    "film": "Festival jury, Silent classic, Studio merger, Space sequel, Short film, Stunt school, "
    "Open-air cinema, Film archive, Script prize, Animation team",
    "travel": "Night train, Island ferry, Mountain hut, City pass, Airport rail, Desert road, "
    "Canal cruise, Border trail, Old town, Sleeper bus",
    "food": "Bread price, Cocoa harvest, Street market, Olive oil, School lunch, Tea house, "
    "Cheese label, Fish stocks, Noodle bar, Community garden",
    "money": "Interest rate, Chip maker, Gold price, Start-up fund, Harbour sale, Wage round, "
    "Grain export, Card fees, Housing loan, Trade fair",
    "health": "Sleep study, Flu season, Clinic merger, Nurse training, Allergy map, Running craze, "
    "Salt limit, Night shift, Eye test, Blood drive",
    "technology": "Phone recall, Open-source map, Robot arm, Search engine, Battery plant, Browser update, "
    "Satellite net, Game engine, Voice tool, Chip shortage",
}
_EVENTS = (
    "draws record crowd, under review, delayed again, wins wide support, faces new questions, starts early, "
    "ends in surprise, explained, splits experts, gets second chance, moves north, what comes next"
)

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SocialExample:
    """The three parts of the graph, in one vocabulary, and the chances that the facts were drawn with."""

    train: Graph
    valid: Graph
    test: Graph
    users: tuple[str, ...]
    items: tuple[str, ...]
    topics: tuple[str, ...]
    community: NDArray[np.int64]  # [users]
    topic: NDArray[np.int64]  # [items]
    interest: Floats  # [users, topics] each row sums to one
    chance: dict[str, Floats]  # relation → [users, users or items]: how probable each fact was


def make_social_graph(
    seed: int = 0, *, users: int = 1500, items: int = 1000, communities: int = 30
) -> SocialExample:
    """Make the running example; the same arguments give the same graph.

    A community shares its friends and, roughly, its interests. One reads what one is interested in, better
    items more often, and follows users of like interests, celebrities more often. So each relation tells
    about the others, and popularity tells something too, but not all.
    """
    _check(users, items, communities)
    rng = np.random.default_rng(seed)
    topics = tuple(_ABOUT)
    community = rng.permutation(np.arange(users) % communities)
    taste = rng.dirichlet(np.full(len(topics), 0.15), size=communities)
    interest = 0.7 * taste[community] + 0.3 * rng.dirichlet(np.full(len(topics), 0.15), size=users)
    topic = rng.permutation(np.arange(items) % len(topics))
    many = {
        name: rng.lognormal(np.log(14), spread, users) for name, spread in (("follows", 0.7), ("reads", 0.9))
    }
    rate = {
        "follows": _per_row(_follows(rng, interest), many["follows"].clip(3, users / 10)),
        "friends": _friends(rng, community),
        "reads": _per_row(_reads(rng, interest, topic), many["reads"].clip(2, items / 5)),
    }
    chance = {name: -np.expm1(-r) for name, r in rate.items()}
    drawn = {name: rng.random(p.shape) < p for name, p in chance.items()}
    drawn["friends"] = np.triu(drawn["friends"])  # a friendship has no direction: one draw for the pair
    facts = np.concatenate(
        [_facts(np.argwhere(drawn[n]), r, users * (n == "reads")) for r, n in enumerate(RELATIONS)]
    )
    names = _user_names(rng, users)
    headlines = _headlines(rng, topics, topic)
    train, valid, test = _parts(rng, facts, names + headlines)
    return SocialExample(train, valid, test, names, headlines, topics, community, topic, interest, chance)


def _check(users: int, items: int, communities: int) -> None:
    most = {"users": len(_FIRST.split()) * len(_LAST.split()), "items": 1200, "communities": users // 10}
    least = {"users": 60, "items": 60, "communities": 1}
    for name, value in (("users", users), ("items", items), ("communities", communities)):
        if not least[name] <= value <= most[name]:
            raise SettingError(
                f"{name} = {value!r}: must be a whole number from {least[name]} to {most[name]}"
            )


def _follows(rng: np.random.Generator, interest: Floats) -> Floats:
    """Say how readily each user follows each other one."""
    users = len(interest)
    celebrity = rng.permutation(users) < users * 0.03
    fame = np.where(celebrity, rng.lognormal(3, 0.7, users), rng.lognormal(0, 0.5, users))
    unit = interest / np.linalg.norm(interest, axis=1, keepdims=True)
    weight = ((unit @ unit.T) ** 3 + 0.01) * fame
    np.fill_diagonal(weight, 0)
    return np.asarray(weight)


def _friends(rng: np.random.Generator, community: NDArray[np.int64]) -> Floats:
    """Say how readily each pair of users becomes friends, ten friends each on average; symmetric."""
    sociable = rng.lognormal(0, 0.4, len(community))
    weight = ((community[:, None] == community) + 0.004) * sociable[:, None] * sociable
    np.fill_diagonal(weight, 0)
    return np.asarray(weight * (10 * len(community) / weight.sum()))


def _reads(rng: np.random.Generator, interest: Floats, topic: NDArray[np.int64]) -> Floats:
    """Say how readily each user reads each item."""
    return np.asarray((interest[:, topic] + 0.005) * rng.lognormal(0, 0.8, len(topic)))


def _per_row(weight: Floats, facts: Floats) -> Floats:
    """Scale each row to the number of facts that it shall have, roughly."""
    return np.asarray(weight * (facts / weight.sum(axis=1))[:, None])


def _facts(pairs: NDArray[np.int64], relation: int, offset: int) -> NDArray[np.int64]:
    return np.stack([pairs[:, 0], np.full(len(pairs), relation), pairs[:, 1] + offset], axis=1)


def _user_names(rng: np.random.Generator, count: int) -> tuple[str, ...]:
    names = [f"{first} {last}" for first in _FIRST.split() for last in _LAST.split()]
    return tuple(names[i] for i in rng.permutation(len(names))[:count])


def _headlines(
    rng: np.random.Generator, topics: tuple[str, ...], topic: NDArray[np.int64]
) -> tuple[str, ...]:
    pools = []
    for name in topics:
        about, events = _ABOUT[name].split(", "), _EVENTS.split(", ")
        pool = [f"{thing} {event} ({name})" for thing in about for event in events]
        pools.append([pool[i] for i in rng.permutation(len(pool))])
    return tuple(pools[t].pop() for t in topic.tolist())


def _parts(rng: np.random.Generator, facts: NDArray[np.int64], labels: tuple[str, ...]) -> list[Graph]:
    """Split as the paper does: a tenth for the test, then a tenth of the rest for validation.

    A friendship is one fact here and two triples in its part, so that no triple's mirror image gives it away.
    What touches an entity that training would lack goes to training.
    """
    part = np.zeros(len(facts), dtype=np.int64)
    for relation in range(len(RELATIONS)):
        rows = rng.permutation(np.flatnonzero(facts[:, 1] == relation))
        tested = len(rows) // 10
        part[rows[:tested]] = 2
        part[rows[tested : tested + (len(rows) - tested) // 10]] = 1
    seen = np.isin(facts[:, [0, 2]], facts[part == 0][:, [0, 2]]).all(axis=1)
    part[~seen] = 0
    known = np.unique(facts[:, [0, 2]])
    vocabulary = Vocabulary.of([labels[i] for i in known], RELATIONS)
    ids = np.array([vocabulary.entity_ids.get(label, -1) for label in labels], dtype=np.int32)
    graphs = []
    for p in range(3):
        own = facts[part == p]
        mirror = own[own[:, 1] == 1][:, ::-1]
        s, r, o = np.concatenate([own, mirror]).T
        triples = np.stack([ids[s], r.astype(np.int32), ids[o]], axis=1)
        graphs.append(Graph(vocabulary, triples[np.lexsort(triples.T[::-1])]))
    return graphs
