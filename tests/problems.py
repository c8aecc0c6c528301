"""Small graphs for tests, some with planted structure whose right answers are known."""

from functools import partial

import numpy as np

from consmrf.config import Config
from consmrf.graph.triples import Graph
from consmrf.graph.vocabulary import Vocabulary

# The settings of the paper's solver, for what is tested of Algorithms 1 and 2.
paper = partial(Config, solver="paper")


def graph_of(triples, n_entities=None, n_relations=None):
    """A graph of integer triples, with labels that sort in the order of the ids."""
    triples = np.array(sorted(set(map(tuple, triples))), np.int32).reshape(-1, 3)
    n_entities = n_entities or int(triples[:, [0, 2]].max()) + 1
    n_relations = n_relations or int(triples[:, 1].max()) + 1
    vocabulary = Vocabulary(
        tuple(f"e{i:06}" for i in range(n_entities)), tuple(f"r{i:04}" for i in range(n_relations))
    )
    return Graph(vocabulary, triples)


def random_graph(seed, n_entities=17, sizes=(40, 1, 25, 9)):
    """Relations of very different sizes, one with a single triple.

    The last entity is in no triple; self-loops.
    """
    rng = np.random.default_rng(seed)
    triples = []
    for r, size in enumerate(sizes):
        triples += [(rng.integers(n_entities - 1), r, rng.integers(n_entities - 1)) for _ in range(size)]
        e = rng.integers(n_entities - 1)
        if size > 1:
            triples.append((e, r, e))
    return graph_of(triples, n_entities, len(sizes))


def planted_graph(seed=0, n_entities=200, n_groups=8, n_relations=4, per_subject=8):
    """Every relation links a group to one other group, by a permutation of its own; popularity says nothing.

    Hands on (graph of the training triples, graph of the withheld triples, group of each entity, target
    groups [r, g]).
    """
    rng = np.random.default_rng(seed)
    group = np.arange(n_entities) % n_groups
    target = np.stack([rng.permutation(n_groups) for _ in range(n_relations)])
    train, test = [], []
    for r in range(n_relations):
        for s in range(n_entities):
            pool = np.flatnonzero(group == target[r, group[s]])
            chosen = rng.choice(pool, size=min(per_subject, len(pool)), replace=False)
            train += [(s, r, o) for o in chosen[2:]]
            test += [(s, r, o) for o in chosen[:2]]
    return graph_of(train, n_entities, n_relations), graph_of(test, n_entities, n_relations), group, target
