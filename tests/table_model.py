"""A model whose scores stand in a table, for tests of what only looks at scores."""

from __future__ import annotations

import numpy as np

from consmrf.graph.triples import Graph
from consmrf.graph.vocabulary import Vocabulary


class TableModel:
    """score(s, r, o) = table[r, s, o]; what it hands on cannot be written to."""

    def __init__(self, table: np.ndarray, known: object = ()) -> None:
        self.table = np.asarray(table, np.float32)
        n_relations, n_entities, _ = self.table.shape
        self.vocabulary = vocabulary(n_entities, n_relations)
        self.known = ids(known)
        self.rows_asked = 0
        self.largest_block = 0

    def object_scores(self, relation: int, subjects: np.ndarray) -> np.ndarray:
        return self._hand_on(self.table[relation, subjects])

    def subject_scores(self, relation: int, objects: np.ndarray) -> np.ndarray:
        return self._hand_on(self.table[relation][:, objects].T)

    def pair_scores(self, relation: int, subjects: np.ndarray, objects: np.ndarray) -> np.ndarray:
        return self.table[relation, subjects, objects]

    def relation_scores(self, subjects: np.ndarray, objects: np.ndarray) -> np.ndarray:
        return self._hand_on(self.table[:, subjects, objects].T.copy())

    def _hand_on(self, scores: np.ndarray) -> np.ndarray:
        self.rows_asked += len(scores)
        self.largest_block = max(self.largest_block, len(scores))
        scores.flags.writeable = False
        return scores


def vocabulary(n_entities: int, n_relations: int) -> Vocabulary:
    """Hand on labels that sort as their ids do."""
    return Vocabulary(
        tuple(f"e{i:06}" for i in range(n_entities)), tuple(f"r{i:04}" for i in range(n_relations))
    )


def ids(triples: object) -> np.ndarray:
    """Hand on triples as int32 [n, 3], empty ones too."""
    rows = sorted(triples) if isinstance(triples, set | frozenset) else list(triples)  # type: ignore[call-overload]
    return np.array(rows, np.int32).reshape(-1, 3)


def graph_of(model: TableModel, triples: object) -> Graph:
    """Hand on a graph in the model's own ids."""
    return Graph(model.vocabulary, ids(triples))
