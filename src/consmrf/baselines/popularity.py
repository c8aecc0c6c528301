"""Popularity, the first baseline to beat: rank by the count in the relation, then by the count in all."""

from __future__ import annotations

from consmrf.config import Config
from consmrf.graph.triples import Graph
from consmrf.model import Model
from consmrf.predictors import Counts

__all__ = ["popularity"]


def popularity(graph: Graph, config: Config) -> Model:
    """Count a graph's triples; hand on a model that ranks each end by how often entities stand there.

    Nothing is learned: of `config`, which the model carries, only the method is ever looked at.
    """
    vocabulary = graph.vocabulary
    counts = Counts.from_triples(graph.triples, len(vocabulary.entities), len(vocabulary.relations))
    return Model(vocabulary, graph.triples, counts, config)
