"""Held-out facts that training gives away: a fact of training and a rule that the graph bears out name them.

RULES make a leak, each by itself:
    repeated           the fact itself is in training
    symmetric          its mirror image is, and the relation is symmetric
    duplicate          the same pair is, under a relation that holds nearly the same pairs
    inverse            the reversed pair is, under a relation that holds nearly the same pairs reversed
    contained          the same pair is, under a relation whose pairs are nearly all this relation's too
    inverse contained  the reversed pair is, under a relation whose pairs, reversed, nearly all are
    cartesian          the relation links nearly all its subjects to nearly all its objects, it has both ends

LINKS are counted beside them and make none: many pairs are related in more than one way by nature.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from consmrf.evaluation.audit.overlaps import Overlaps
from consmrf.evaluation.audit.pairs import Ids, Longs, Pairs, member

__all__ = ["LINKS", "RULES", "Example", "Leaks", "Rules", "find_leaks"]

RULES = ("repeated", "symmetric", "duplicate", "inverse", "contained", "inverse contained", "cartesian")
LINKS = ("same pair, other relation", "reversed pair, same relation", "reversed pair, any relation")

Flags = NDArray[np.bool_]
Triple = tuple[int, int, int]


@dataclass(frozen=True)
class Rules:
    """What the graph bears out, as ascending numbers body·|R| + head by name, and its Cartesian relations."""

    straight: dict[str, Longs]
    turned: dict[str, Longs]
    cartesian: Flags  # [R]

    @classmethod
    def of(cls, found: Overlaps, cartesian: Flags, share: float) -> Rules:
        """Tell apart what holds in both directions and what holds in one."""
        both = (found.share_of_body >= share) & (found.share_of_head >= share)
        own = found.body == found.head
        straight = {"duplicate": ~found.reversed & both, "contained": ~found.reversed & ~both}
        turned = {
            "symmetric": found.reversed & own,
            "inverse": found.reversed & both & ~own,
            "inverse contained": found.reversed & ~both & ~own,
        }
        return cls(
            {rule: found.rules(chosen) for rule, chosen in straight.items()},
            {rule: found.rules(chosen) for rule, chosen in turned.items()},
            cartesian,
        )


@dataclass(frozen=True)
class Example:
    """A held-out triple that a rule names, and the triple of training it is read off, where there is one."""

    rule: str
    triple: Triple
    because: Triple | None


@dataclass(frozen=True)
class Leaks:
    """One row per held-out triple."""

    triples: Ids  # [n, 3]
    answered: Flags  # [n, RULES]
    linked: Flags  # [n, LINKS]
    unseen_entity: Flags  # [n] whether it has an entity that no triple of training has
    unseen_relation: Flags  # [n]
    examples: tuple[Example, ...]

    @property
    def leaking(self) -> Flags:
        """Whether any rule names the triple."""
        leaking: Flags = np.logical_or.reduce(self.answered, axis=1)
        return leaking


def find_leaks(train: Pairs, held: Ids, rules: Rules, n_relations: int, examples: int = 3) -> Leaks:
    """Try every rule on every held-out triple, each by itself."""
    s, r, o = held.T
    answered = np.zeros((len(held), len(RULES)), dtype=bool)
    linked = np.zeros((len(held), len(LINKS)), dtype=bool)
    witness: dict[str, dict[int, int]] = {rule: {} for rule in RULES}

    def mark(rule: str, rows: Longs, relations: Ids) -> None:
        answered[rows, RULES.index(rule)] = True
        first = np.unique(rows, return_index=True)[1][:examples]
        for row, relation in zip(rows[first].tolist(), relations[first].tolist(), strict=True):
            if len(witness[rule]) < examples:
                witness[rule].setdefault(row, relation)

    turned = np.where(s == o, -1, train.find(o, s))  # what links an entity to itself has no other direction
    for way, pair in ((rules.straight, train.find(s, o)), (rules.turned, turned)):
        for row, relation in train.meet(pair):
            same: Flags = relation == r[row]
            if way is rules.straight:
                mark("repeated", row[same], relation[same])
                linked[row[~same], 0] = True
            else:
                linked[row[same], 1] = True
                linked[row, 2] = True
            number = relation.astype(np.int64) * n_relations + r[row]
            for rule, numbers in way.items():
                hit = member(number, numbers)
                mark(rule, row[hit], relation[hit])
    ts, to = train.ends
    pair = train.pair
    ends = [(train.relation, ts[pair], s), (train.relation, to[pair], o)]
    known = [_known(relation, end, asked, r, train.n_entities) for relation, end, asked in ends]
    answered[:, -1] = rules.cartesian[r] & known[0] & known[1]
    met = np.zeros(train.n_entities, dtype=bool)
    met[ts] = met[to] = True
    has = np.bincount(train.relation, minlength=n_relations) > 0
    cartesian = np.flatnonzero(answered[:, -1])[:examples]
    told = [_example(rule, held[row], by) for rule in RULES for row, by in witness[rule].items()]
    told += [_example("cartesian", held[row], None) for row in cartesian.tolist()]
    return Leaks(held, answered, linked, ~(met[s] & met[o]), ~has[r], tuple(told))


def _known(relation: Ids, end: Ids, asked: Ids, r: Ids, n_entities: int) -> Flags:
    """Say of each held-out triple whether its relation has the entity at this end in training."""
    has = np.sort(relation.astype(np.int64) * n_entities + end)
    return member(r.astype(np.int64) * n_entities + asked, has)


def _example(rule: str, triple: Ids, by: int | None) -> Example:
    s, r, o = triple.tolist()
    turned = rule in ("symmetric", "inverse", "inverse contained")
    because = None if by is None else (o, by, s) if turned else (s, by, o)
    return Example(rule, (s, r, o), because)
