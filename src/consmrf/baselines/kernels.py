"""The compiled loops of the baselines that learn from the facts of several relations at once.

`draw` fills samples from any set of relations; `descend_kernel` builds the SGD over them, on one table of
entity rows and one of relation rows. Which row an entity or a relation has is the caller's choice, and all
that differs between a shared model, DMF and CATSMF.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from consmrf.consensus import kernels
from consmrf.consensus.facts import Facts
from consmrf.consensus.kernels import draw_negative
from consmrf.consensus.losses import LOSSES
from consmrf.consensus.primitives import (
    AHEAD,
    FAST,
    LINE,
    SOURCE,
    adagrad,
    backprop,
    below,
    inlined,
    loss_of,
    prefetch,
    query,
    stream,
    weights_of,
)
from consmrf.consensus.scorers import SCORERS

__all__ = ["CHECKSUM", "Spans", "Steps", "begin_stream", "descend_kernel", "draw", "spans_of"]

# As SOURCE, with the file that draws o′.
CHECKSUM = zlib.crc32(Path(str(kernels.__file__)).read_bytes(), SOURCE)


class Spans(NamedTuple):
    """The facts that samples are drawn from, as runs of neighbours."""

    first: NDArray[np.int64]  # [n] the first fact of each run
    end: NDArray[np.int64]  # [n] how many facts the runs up to and with this one have


class Steps(NamedTuple):
    """The numbers of a step, in the precision of the tables."""

    learning_rate: np.floating[Any]  # η
    reg: np.floating[Any]  # λ


def spans_of(indptr: NDArray[np.int64], relations: NDArray[np.bool_]) -> Spans:
    """Hand on the runs of facts of these relations; `indptr` says where each relation's begin."""
    chosen = np.flatnonzero(relations & (np.diff(indptr) > 0))
    first, after = indptr[chosen], indptr[chosen + 1]
    starts = np.flatnonzero(np.append(True, first[1:] != after[:-1])) if len(chosen) else chosen
    total = np.concatenate([[0], np.cumsum(after - first)])
    return Spans(first[starts], total[np.append(starts[1:], len(chosen))] if len(chosen) else total[:0])


@njit(cache=True, nogil=True)
def begin_stream(seed: int, epoch: int, block: int) -> np.uint64:
    """Hand on the random stream of (seed, epoch, block), which a sweep of the paper's solver has too."""
    return stream(seed, epoch, block)


@inlined
def _row(row_of: Any, entities: Any, size: Any, entity: Any) -> tuple[Any, Any]:
    """Hand on (the entity's row, rows in use), giving it the next one if it has none."""
    at = row_of[entity]
    if at < 0:
        row_of[entity] = size
        entities[size] = entity
        return size, size + 1
    return at, size


def _make_draw(source: int) -> Callable[..., tuple[np.uint64, int, int]]:
    @njit(cache=True, nogil=True, error_model="numpy")
    def draw(
        facts: Facts,
        spans: Spans,
        n_entities: int,
        state: np.uint64,
        row_of: NDArray[np.int32],
        entities: NDArray[np.int32],
        size: int,
        w_of: NDArray[np.int32],
        samples: NDArray[np.int32],
    ) -> tuple[np.uint64, int, int]:
        if source < 0:  # never: read here, it stands in the closure and so in the key of the disk cache
            return state, 0, 0
        relations, subjects, objects, heads = facts.relations, facts.subjects, facts.objects, facts.heads
        indptr, first, end = facts.head_indptr, spans.first, spans.end
        total, rejections = np.uint64(end[-1]), 0
        for t in range(len(samples)):
            state, drawn = below(state, total)
            at, run = np.int64(drawn), np.searchsorted(end, np.int64(drawn), "right")
            fact = first[run] + at - (end[run - 1] if run else 0)
            sample = samples[t]
            sample[0] = w_of[relations[fact]]
            sample[1], size = _row(row_of, entities, size, subjects[fact])
            sample[2], size = _row(row_of, entities, size, objects[fact])
            for i in range(3, len(sample)):
                state, neg, rejected = draw_negative(state, indptr, objects, heads[fact], n_entities)
                rejections += rejected
                sample[i], size = _row(row_of, entities, size, neg)
        return state, size, rejections

    return draw


@cache
def draw() -> Callable[..., tuple[np.uint64, int, int]]:
    """Hand on the compiled drawing of samples (row of w, row of s, row of o, row of each o′).

    It takes (facts, spans, |E|, state of the stream, row_of, entities, rows in use, w_of, samples): (s, r, o)
    with replacement from the facts of `spans`, o′ ~ O_s^r. An entity without a row, −1 in `row_of`, gets the
    next one, and is noted in `entities`. Hands on (state of the stream, rows in use, rejected draws).
    """
    return _make_draw(CHECKSUM)


def _make_descend(scorer: int, loss: int, dim: int, width: int, source: int) -> Callable[..., float]:
    @njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
    def descend(samples: Any, table: Any, w_table: Any, shares: Any, steps: Steps) -> float:
        if source < 0:  # never, see `_make_draw`
            return np.nan
        weights, eta = weights_of(scorer, dim), steps.learning_rate
        q, dq, da = np.empty(dim, table.dtype), np.empty(dim, table.dtype), np.empty(dim, table.dtype)
        scores, coefficients = np.empty(width, table.dtype), np.empty(width, table.dtype)
        gradients, dw = np.empty((width, dim), table.dtype), np.empty(weights, table.dtype)
        total = 0.0
        for t in range(len(samples)):
            if t + AHEAD < len(samples):
                for i in range(1, width + 2):
                    for j in range(0, 2 * dim, LINE):
                        prefetch(table, samples[t + AHEAD, i], j)
            sample = samples[t]
            w, s, share = w_table[sample[0]], table[sample[1]], shares[sample[0]]
            decay = share * steps.reg
            query(scorer, dim, s, w, q)
            for i in range(width):
                a = table[sample[i + 2]]
                score = q[0] * a[0]
                for j in range(1, dim):
                    score += q[j] * a[j]
                scores[i] = score
            total += share * loss_of(loss, scores, coefficients, 1.0)
            # all gradients before any update: a row may stand twice among s, o and o′
            dq[:] = 0
            for i in range(width):
                a = table[sample[i + 2]]
                coefficient = share * coefficients[i]
                for j in range(dim):
                    dq[j] += coefficient * a[j]
                    gradients[i, j] = coefficient * q[j] + decay * a[j]
            backprop(scorer, dim, s, w, dq, da, dw)
            for j in range(dim):
                da[j] += decay * s[j]
            for j in range(weights):
                dw[j] += decay * w[j]
            adagrad(dim, s[:dim], s[dim:], da, eta)
            for i in range(width):
                a = table[sample[i + 2]]
                adagrad(dim, a[:dim], a[dim:], gradients[i], eta)
            adagrad(weights, w[:weights], w[weights:], dw, eta)
        return total

    return descend


@cache
def descend_kernel(scorer: str, loss: str, dim: int, negatives: int) -> Callable[..., float]:
    """Hand on the compiled SGD for one form of W_r, one loss, one k and a number of o′.

    It takes (samples, table [·, 2k], w_table [·, 2m], shares [·], steps): rows beside their AdaGrad sums, and
    what the loss counts by row of w. Each sample is one step of Algorithm 2. Hands on the summed loss.
    """
    return _make_descend(SCORERS[scorer].code, LOSSES[loss].code, dim, 1 + negatives, CHECKSUM)
