"""Groups of queries: by the kind of their relation, and by how often training has met relation and answer.

Pure functions of training triples. Each query has a number, the position of its group's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from consmrf.graph.categories import CATEGORIES, cardinality

__all__ = ["Grouping", "frequencies", "groupings"]

Ids = NDArray[np.int32]
Longs = NDArray[np.int64]

_KINDS = (*CATEGORIES, "untrained")  # the last: a relation without training triples


class Grouping(NamedTuple):
    """Names of groups, and by side the group that each query is in."""

    name: str
    labels: tuple[str, ...]
    keys: Mapping[str, Longs]
    whole: bool  # whether all positives of a query (relation, given end) are in one group


def frequencies(counts: Longs) -> tuple[tuple[str, ...], Longs]:
    """Hand on names of powers of ten, "0", "1-9", "10-99", …, and which one each count falls into."""
    most = len(str(int(counts.max(initial=0))))
    labels = ("0", *(f"{10**i}-{10 ** (i + 1) - 1}" for i in range(most)))
    return labels, np.searchsorted(10 ** np.arange(most, dtype=np.int64), counts, side="right")


def groupings(tested: Ids, trained: Ids, ends: Mapping[str, int], sizes: tuple[int, int]) -> list[Grouping]:
    """Group tested triples by relation and, for each side, by the answer in the column that `ends` names.

    `sizes` is how many entities and relations there are. An answer's frequency is the number of training
    triples that it stands in, at either end.
    """
    n_entities, n_relations = sizes
    relation = tested[:, 1]
    known = cardinality(trained, n_relations)
    kind = known.category.astype(np.int64)[relation] % len(_KINDS)  # −1, without triples, is the last
    names, bins = frequencies(known.triples)
    degree = np.bincount(trained[:, [0, 2]].ravel(), minlength=n_entities)
    degree -= np.bincount(trained[trained[:, 0] == trained[:, 2], 0], minlength=n_entities)
    answer_names, answer_bins = frequencies(degree)
    answers = {side: answer_bins[tested[:, end]] for side, end in ends.items() if end != 1}
    return [
        Grouping("categories", _KINDS, dict.fromkeys(ends, kind), True),
        Grouping("relation_frequency", names, dict.fromkeys(ends, bins[relation]), True),
        Grouping("answer_frequency", answer_names, answers, False),
    ]
