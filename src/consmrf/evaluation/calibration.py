"""What scores are worth as probabilities: logistic curves, checked on queries they were not fitted to.

The question is a forced choice: of a test fact and one candidate drawn at random that is not known to be a
fact, each alone, is this one the fact? Half of all are, by construction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from consmrf.evaluation.intervals import share_interval
from consmrf.evaluation.ranking import Ids

__all__ = ["Calibration", "PairScorer", "calibrate"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_BINS = 10
_FEWEST = 10 * _BINS  # of facts: fewer make no curve
_OWN_SCALE = 20  # scores of a relation that tell its scale
_TRIES = 64  # draws of a candidate before its fact is passed over
_STEPS = 50  # of Newton's method, which needs few


class PairScorer(Protocol):
    """What is asked of a model."""

    def pair_scores(self, relation: int, subjects: Ids, objects: Ids, /) -> NDArray[np.float32]: ...


@dataclass(frozen=True)
class Calibration:
    """Bins of equally many scored pairs, in rising order of the predicted probability."""

    predicted: Floats  # the mean prediction
    observed: Floats  # the share that are facts
    low: Floats  # Wilson's interval of the share
    high: Floats
    facts: int  # test facts taken, each with one candidate
    error: float  # the mean of |predicted − observed|


def calibrate(
    scorer: PairScorer,
    triples: Ids,
    known: Sequence[Ids],
    n_entities: int,
    *,
    most: int = 10_000,
    seed: int = 0,
) -> Calibration | None:
    """Fit and check a curve per relation on at most `most` of the triples; None where there are too few.

    Each relation's curve is P(fact) = 1 / (1 + e^−(a + b·score)), held to that of all relations where there
    is little to fit. Facts fall at random into two halves, and each half is predicted from the other.
    """
    rng = np.random.default_rng(seed)
    taken = triples[rng.permutation(len(triples))[:most]]
    drawn, found = _candidates(taken, known, n_entities, rng)
    taken, drawn = taken[found], drawn[found]
    if len(taken) < _FEWEST:
        return None
    relation = np.tile(taken[:, 1], 2)
    half = np.tile(np.arange(len(taken)) % 2 == 0, 2)
    fact = np.repeat([True, False], len(taken))
    score = _scores(scorer, np.tile(taken[:, 0], 2), relation, np.concatenate([taken[:, 2], drawn]))
    predicted = np.empty(len(score))
    for fold in (half, ~half):
        predicted[~fold] = _predicted(score, fact, relation, fold)
    order = np.argsort(predicted, kind="stable")
    bins = np.array_split(order, _BINS)
    mean = np.array([predicted[own].mean() for own in bins])
    share = np.array([fact[own].mean() for own in bins])
    low, high = np.array([share_interval(int(fact[own].sum()), len(own), 0.95) for own in bins]).T
    return Calibration(mean, share, low, high, len(taken), float(np.abs(mean - share).mean()))


def _candidates(
    taken: Ids, known: Sequence[Ids], n_entities: int, rng: np.random.Generator
) -> tuple[Ids, Bools]:
    """Draw for each triple an object that is not known to be one; say for which there was one."""

    def key(triples: Ids, objects: Ids) -> NDArray[np.int64]:
        pair = triples[:, 1].astype(np.int64) * n_entities + triples[:, 0]
        return pair * n_entities + objects

    facts = np.unique(np.concatenate([key(part, part[:, 2]) for part in (taken, *known)]))
    drawn = taken[:, 2].copy()
    left = np.arange(len(taken))
    for _ in range(_TRIES):
        drawn[left] = rng.integers(0, n_entities, len(left))
        keys = key(taken[left], drawn[left])
        at = np.minimum(np.searchsorted(facts, keys), len(facts) - 1)
        left = left[facts[at] == keys]
    found = np.ones(len(taken), bool)
    found[left] = False
    return drawn, found


def _scores(scorer: PairScorer, subjects: Ids, relations: Ids, objects: Ids) -> Floats:
    scores = np.empty(len(relations))
    for r in np.unique(relations).tolist():
        own = relations == r
        scores[own] = scorer.pair_scores(r, subjects[own], objects[own])
    return scores


def _predicted(score: Floats, fact: Bools, relation: Ids, fold: Bools) -> Floats:
    """Hand on the probabilities of what is outside the fold, from curves fitted inside it."""
    x = _standardised(score, relation, fold)
    pooled = _fitted(x[fold], fact[fold], np.zeros(2))
    told = np.empty(int((~fold).sum()))
    outside = relation[~fold]
    for r in np.unique(outside).tolist():
        own = fold & (relation == r)
        curve = _fitted(x[own], fact[own], pooled)
        told[outside == r] = _logistic(curve[0] + curve[1] * x[~fold & (relation == r)])
    return told


def _standardised(score: Floats, relation: Ids, fold: Bools) -> Floats:
    """Bring relations to one scale: mean 0 and spread 1 of their own in the fold, or of all if too few."""
    x: Floats = (score - score[fold].mean()) / (score[fold].std() or 1.0)
    for r in np.unique(relation[fold]).tolist():
        own = score[fold & (relation == r)]
        if len(own) >= _OWN_SCALE and own.std() > 0:
            x[relation == r] = (score[relation == r] - own.mean()) / own.std()
    return x


def _fitted(x: Floats, fact: Bools, centre: Floats) -> Floats:
    """Hand on (a, b) of greatest likelihood with a normal prior of variance 1 around `centre`, by Newton."""
    curve, ones = centre.copy(), np.stack([np.ones_like(x), x])
    for _ in range(_STEPS):
        p = _logistic(curve @ ones)
        gradient = ones @ (fact - p) - (curve - centre)
        curvature = (ones * (p * (1 - p))) @ ones.T + np.eye(2)
        step = np.linalg.solve(curvature, gradient)
        curve = curve + step * min(1.0, 4.0 / max(float(np.abs(step).max()), 1e-300))
        if np.abs(step).max() < 1e-10:
            break
    return curve


def _logistic(z: Floats) -> Floats:
    found: Floats = 0.5 * (1 + np.tanh(z / 2))
    return found
