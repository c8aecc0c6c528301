"""Ranking by factors: tiles of scores are counted while they are in the cache, and no scores are kept.

A tile is the product of up to HEIGHT queries with some consecutive rows of Z, or of a relation's view. Which
of the two a relation's queries meet depends on the model alone, and so do the bits of each score, whatever
other queries share the tile, whatever the memory and the threads.

Two scores are equal where rounding may account for their difference: an answer's score t is summed in double,
and a candidate equals it within √k ε Σ|terms of t|, ε being the spacing of the factors' floats at 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consmrf.evaluation.counting import FINITE, count, settle
from consmrf.evaluation.products import ROWS, correction, lanes, padded, product
from consmrf.evaluation.queries import SIDES, Longs, Queries, not_finite, runs
from consmrf.predictors import Factors

__all__ = ["HEIGHT", "count_answers", "score_wanted", "workers"]

# Queries of one tile: so many that laying out the candidates for them is a small part of the work.
HEIGHT = 40 * ROWS
# Bytes of a tile's scores: they and its queries stay in a core's second cache.
_TILE_BYTES = 240 << 10
# What a worker holds besides: its queries in the factors' floats and in double, the rows of a view, products.
_WORKER_BYTES = 8 << 20
# From this share of the entities on, a relation's queries meet its view instead of Z and corrections.
_OWN_FROM = 1 / 4
# Answers whose scores are summed at once.
_ANSWERS = 256
# Wanted entities whose rows are gathered at once, and bytes of a score that waits to be taken.
_TOGETHER = 1024
_WANTED_BYTES = 32
# Pieces of work for each worker, where there are entities enough.
_PIECES = 4


@dataclass(frozen=True)
class _Tile:
    """Up to HEIGHT queries that meet the same rows."""

    rows: Longs  # which queries
    view: int | None  # the view they meet; None for Z


@dataclass(frozen=True)
class _Laid:
    """A tile's queries and answers, ready to be compared with any candidates."""

    tile: _Tile
    seen: Longs  # [n] the view of each query
    q: NDArray[Any]  # [≥ n, k]; rows beyond the queries are 0
    beta: NDArray[Any]  # [n]
    indptr: Longs  # [n + 1] where each query's answers begin
    answers: Longs  # [a] their places among all answers
    low: NDArray[Any]  # [a] an answer's equals have at least this score
    high: NDArray[Any]  # [a] and at most this


def workers(threads: int, memory_mib: int) -> int:
    """Hand on how many of `threads` the memory has room for; one at least."""
    return max(1, min(threads, (memory_mib << 20) // _WORKER_BYTES))


def count_answers(
    factors: Factors, asked: Queries, *, memory_mib: int, threads: int, labels: Sequence[str]
) -> tuple[Longs, Longs]:
    """Hand on, for each answer, how many entities score better and how many the same.

    Known answers of its query do not count.
    """
    ranking = _Ranking(factors, asked, labels)
    counts = np.zeros((len(asked.answers), 2), np.int64)
    n = workers(threads, memory_mib)
    work = list(ranking.pieces(n))
    pool = ThreadPoolExecutor(min(n, len(work)), thread_name_prefix="consmrf-rank")
    try:
        for answers, found in pool.map(ranking.count, *zip(*work, strict=True)):
            counts[answers] += found
    finally:
        pool.shutdown(cancel_futures=True)
    better, reaching = counts.T
    return better, reaching - better


def score_wanted(
    factors: Factors,
    asked: Queries,
    wanted: Callable[[int], Longs],
    most: int,
    *,
    memory_mib: int,
    threads: int,
    labels: Sequence[str],
) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield each query with the scores of the entities wanted for it, `most` at the most."""
    ranking = _Ranking(factors, asked, labels)
    n = workers(threads, memory_mib)
    height = max(1, min(HEIGHT, (memory_mib << 20) // (_WANTED_BYTES * n * max(most, 1))))
    pool = ThreadPoolExecutor(n, thread_name_prefix="consmrf-rank")
    try:
        tiles = list(ranking.tiles(height))
        for i in range(0, len(tiles), n):  # no more than a tile for each worker waits to be taken
            together = tiles[i : i + n]
            scored = pool.map(partial(ranking.score, wanted=wanted), together)
            for tile, found in zip(together, scored, strict=True):
                yield from zip(tile.rows.tolist(), found, strict=True)
    finally:
        pool.shutdown(cancel_futures=True)


class _Ranking:
    """What the tiles of one side have in common."""

    def __init__(self, factors: Factors, asked: Queries, labels: Sequence[str]) -> None:
        self._factors, self._asked, self._labels = factors, asked, labels
        self._side = SIDES.index(asked.side)
        self._b, self._log_share = (
            np.ascontiguousarray(x[:, self._side]) if len(x) else np.empty(0, factors.z.dtype)
            for x in (factors.b, factors.log_share)
        )
        self._own_b = np.ascontiguousarray(factors.own_intercepts(self._side), factors.z.dtype)
        self._delta, self._pitch = _pitched(factors.delta.astype(factors.z.dtype, copy=False))
        self._own_entities = np.ascontiguousarray(factors.delta_rows)
        self._multiply, self._correct = product(factors.z.dtype), correction(factors.z.dtype)
        self._lanes = lanes(factors.z.dtype)
        self._width = padded(_TILE_BYTES // (HEIGHT * factors.z.itemsize), self._lanes)
        self._least = factors.shape[0] * _OWN_FROM if self._pitch else np.inf

    def pieces(self, n: int) -> Iterator[tuple[_Tile, int, int]]:
        """Yield each tile with a range of candidates: all, or parts where tiles are few for n workers."""
        tiles = list(self.tiles(HEIGHT))
        parts = ceil(_PIECES * n / len(tiles)) if n > 1 else 1
        step = self._width * ceil(self._asked.n_entities / (self._width * parts))
        for tile in tiles:
            for first in range(0, self._asked.n_entities, step):
                yield tile, first, min(first + step, self._asked.n_entities)

    def tiles(self, height: int) -> Iterator[_Tile]:
        """Yield tiles of at most `height` queries."""
        seen = self._factors.seen(self._asked.relation.astype(np.int64), self._side)
        rows = np.diff(self._factors.delta_indptr)
        apart = rows[seen] >= self._least
        meeting: list[tuple[Longs, int | None]] = [(np.flatnonzero(~apart), None)]
        for begin, end in runs(self._asked.relation):
            if apart[begin]:
                meeting.append((np.arange(begin, end), int(seen[begin])))
        for queries, view in meeting:
            for first in range(0, len(queries), height):
                yield _Tile(queries[first : first + height], view)

    def count(self, tile: _Tile, first: int, last: int) -> tuple[Longs, Longs]:
        """Hand on the places of the tile's answers, and how many candidates are above, and at least equal."""
        asked, z = self._asked, self._factors.z
        laid = self._laid(tile)
        counts = np.zeros((len(laid.answers), 2), np.int64)
        own = self._runs(laid, first)
        passed = np.stack([_from(asked, tile.rows, first), asked.known_indptr[tile.rows + 1]], axis=1)
        q = laid.q[: padded(len(tile.rows), ROWS)]
        scores = np.empty((len(q), self._width), z.dtype)
        panel = np.empty((z.shape[1], self._lanes), z.dtype)
        room = panel, np.empty((len(laid.q), self._lanes), z.dtype)
        view = np.empty((self._width if tile.view is not None else 0, z.shape[1]), z.dtype)
        for begin in range(first, last, self._width):
            end = min(begin + self._width, last)
            rows = z[begin:end] if tile.view is None else self._rows(view, tile.view, begin, end)
            self._multiply(q, rows, panel, scores)
            if len(own):
                pitch = self._pitch if tile.view is None else 0
                departed = self._own_entities, self._delta, pitch, self._own_b
                self._correct(scores, begin, laid.q, own, departed, room)
            strange = settle(
                scores, begin, end - begin, self._b, self._log_share, laid.beta, asked.known, passed
            )
            if strange != FINITE:
                raise not_finite(asked, int(tile.rows[strange]), self._labels)
            count(scores, laid.indptr, laid.low, laid.high, counts)
        return laid.answers, counts

    def score(self, tile: _Tile, wanted: Callable[[int], Longs]) -> list[NDArray[Any]]:
        """Hand on the scores of the entities wanted for each query of a tile."""
        factors, found = self._factors, []
        seen, q, beta = self._asking(tile)
        panel = np.empty((factors.z.shape[1], self._lanes), factors.z.dtype)
        scores = np.empty((ROWS, padded(_TOGETHER, self._lanes)), factors.z.dtype)
        for i, query in enumerate(tile.rows.tolist()):
            entities, view = wanted(query).astype(np.int32), int(seen[i])
            row = np.empty(len(entities), factors.z.dtype)
            for first in range(0, len(entities), scores.shape[1]):
                part = entities[first : first + scores.shape[1]]
                self._multiply(q[i : i + 1].repeat(ROWS, axis=0), factors.rows(view, part), panel, scores)
                row[first : first + len(part)] = scores[0, : len(part)]
            if len(self._b):
                row += self._b[entities]
            if len(self._log_share):
                row += beta[i] * self._log_share[entities]
            if len(self._own_b):
                at = factors.departed(view, entities)
                row[at >= 0] += self._own_b[at[at >= 0]]
            if not np.isfinite(row).all():
                raise not_finite(self._asked, query, self._labels)
            found.append(row)
        return found

    def _rows(self, view: NDArray[Any], number: int, begin: int, end: int) -> NDArray[Any]:
        """Lay the rows of a view in `view`: Z, and Δ where the relation has rows."""
        factors, own = self._factors, self._factors.own(number)
        rows = view[: end - begin]
        rows[:] = factors.z[begin:end]
        low, high = own.start + np.searchsorted(factors.delta_rows[own], [begin, end])
        rows[factors.delta_rows[low:high] - begin] += factors.delta[low:high]
        return rows

    def _runs(self, laid: _Laid, first: int) -> Longs:
        """Hand on what `correct` asks for: a run for each relation of the tile that has rows of its own."""
        found = []
        if self._pitch or len(self._own_b):
            for begin, end in runs(laid.seen):
                own = self._factors.own(int(laid.seen[begin]))
                low = own.start + int(np.searchsorted(self._factors.delta_rows[own], first))
                if low < own.stop:
                    found.append((begin, end, low, own.stop))
        return np.array(found, np.int64).reshape(-1, 4)

    @np.errstate(over="ignore", invalid="ignore")  # scores that are not finite are found, and named, later
    def _asking(self, tile: _Tile) -> tuple[Longs, NDArray[Any], NDArray[Any]]:
        """Hand on the views of a tile's queries, q, and β."""
        factors, asked = self._factors, self._asked
        relation = asked.relation[tile.rows].astype(np.int64)
        seen = factors.seen(relation, self._side)
        q = np.zeros((padded(len(seen), ROWS) + ROWS, factors.z.shape[1]), factors.z.dtype)
        q[: len(seen)] = factors.queries(relation, asked.given[tile.rows], self._side)
        beta = np.zeros(len(seen), self._log_share.dtype)
        if len(factors.beta):
            beta = factors.own_betas(relation, self._side)
        return seen, q, beta

    def _laid(self, tile: _Tile) -> _Laid:
        asked = self._asked
        seen, q, beta = self._asking(tile)
        answers, indptr = _spread(asked.indptr[tile.rows], asked.indptr[tile.rows + 1])
        query = np.repeat(np.arange(len(seen)), np.diff(indptr))
        low, high = np.empty((2, len(answers)), q.dtype)
        for i in range(0, len(answers), _ANSWERS):
            part = slice(i, i + _ANSWERS)
            of = query[part]
            same = self._scored(q[of], seen[of], beta[of], asked.answers[answers[part]])
            low[part], high[part] = same
        return _Laid(tile, seen, q, beta, indptr, answers, low, high)

    @np.errstate(over="ignore", invalid="ignore")
    def _scored(
        self, q: NDArray[Any], seen: Longs, beta: NDArray[Any], answers: NDArray[np.int32]
    ) -> NDArray[Any]:
        """Hand on the least and the greatest score [2, n] that is the same as that of each answer."""
        factors, side = self._factors, self._side
        at = np.empty(len(answers), np.int64)
        for begin, end in runs(seen):
            at[begin:end] = factors.departed(int(seen[begin]), answers[begin:end])
        own = np.flatnonzero(at >= 0)
        q = q.astype(np.float64)
        terms = [q * factors.z[answers]]
        if factors.delta.shape[1]:
            terms.append(np.zeros_like(q))
            terms[-1][own] = q[own] * factors.delta[at[own]]
        if len(factors.b):
            terms.append(factors.b[answers, side].astype(np.float64)[:, None])
        if len(factors.beta):
            counted = beta.astype(np.float64) * factors.log_share[answers, side]
            terms.append(counted[:, None])
        if len(self._own_b):
            terms.append(np.zeros((len(q), 1)))
            terms[-1][own, 0] = self._own_b[at[own]]
        score = np.sum([term.sum(axis=1) for term in terms], axis=0)
        size = np.sum([np.abs(term).sum(axis=1) for term in terms], axis=0)
        reach = np.sqrt(q.shape[1]) * np.finfo(factors.z.dtype).eps * size
        return np.stack([score - reach, score + reach]).astype(factors.z.dtype)


def _pitched(rows: NDArray[Any]) -> tuple[NDArray[Any], int]:
    """Hand on rows as the flat run of memory they lie in, uncopied, and how far apart they begin there.

    While a model is trained, a row of Δ stands beside its sums of squares.
    """
    if not rows.size:
        return np.empty(0, rows.dtype), 0
    if rows.strides[1] != rows.itemsize or rows.strides[0] < rows.shape[1] * rows.itemsize:
        rows = np.ascontiguousarray(rows)
    pitch = rows.strides[0] // rows.itemsize
    length = (len(rows) - 1) * pitch + rows.shape[1]
    return np.lib.stride_tricks.as_strided(rows, (length,), (rows.itemsize,), writeable=False), pitch


def _spread(starts: Longs, ends: Longs) -> tuple[Longs, Longs]:
    """Hand on the numbers from each start to its end, one after the other, and where each begins [n + 1]."""
    indptr = np.concatenate([[0], np.cumsum(ends - starts)])
    return np.arange(indptr[-1]) + np.repeat(starts - indptr[:-1], ends - starts), indptr


def _from(asked: Queries, rows: Longs, first: int) -> Longs:
    """Hand on where each query's known facts reach the entity `first`."""
    starts = asked.known_indptr[rows].copy()
    if first:
        for i, query in enumerate(rows.tolist()):
            known = asked.known[asked.known_indptr[query] : asked.known_indptr[query + 1]]
            starts[i] += np.searchsorted(known, first)
    return starts
