"""D_r as arrays against the same facts as dictionaries of sets."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from consmrf.graph.partition import partition
from consmrf.graph.triples import Graph, read_triples
from consmrf.graph.vocabulary import Vocabulary

E, R = 8, 4
facts = st.sets(st.tuples(st.integers(0, E - 1), st.integers(0, R - 1), st.integers(0, E - 1)), max_size=60)


def graph_of(rows: list[tuple[int, int, int]]) -> Graph:
    vocabulary = Vocabulary(tuple(f"e{i}" for i in range(E)), tuple(f"r{i}" for i in range(R)))
    return Graph(vocabulary, np.array(rows, dtype=np.int32).reshape(-1, 3))


@given(facts, st.randoms(use_true_random=False))
def test_partitions_hold_exactly_the_facts_of_their_relation(
    rows: set[tuple[int, int, int]], random: object
) -> None:
    shuffled = sorted(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    cut = partition(graph_of(shuffled))
    assert [p.relation for p in cut] == list(range(R))
    for p in cut:
        naive: dict[int, set[int]] = {}
        for s, r, o in rows:
            if r == p.relation:
                naive.setdefault(s, set()).add(o)
        occurring = sorted(set(naive) | {o for objects in naive.values() for o in objects})
        assert len(p) == sum(map(len, naive.values()))
        assert p.heads.tolist() == sorted(naive)
        assert p.entities.tolist() == occurring
        assert p.indptr[0] == 0
        assert p.indptr[-1] == len(p)
        assert set(zip(p.subjects.tolist(), p.objects.tolist(), strict=True)) == {
            (s, o) for s, objects in naive.items() for o in objects
        }
        assert p.entities[p.local_heads].tolist() == p.heads.tolist()
        assert p.entities[p.local_objects].tolist() == p.objects.tolist()
        for i, head in enumerate(p.heads.tolist()):
            assert p.objects[p.indptr[i] : p.indptr[i + 1]].tolist() == sorted(naive[head])
            assert (p.head_of[p.indptr[i] : p.indptr[i + 1]] == i).all()
        for s in range(E):
            assert p.objects_of(s).tolist() == sorted(naive.get(s, ()))
            assert [p.contains(s, o) for o in range(E)] == [o in naive.get(s, ()) for o in range(E)]


@given(facts)
def test_types_are_what_the_kernels_take(rows: set[tuple[int, int, int]]) -> None:
    for p in partition(graph_of(sorted(rows))):
        assert p.indptr.dtype == np.int64
        for array in (p.heads, p.objects, p.head_of, p.entities, p.local_heads, p.local_objects, p.subjects):
            assert array.dtype == np.int32
            assert array.flags.c_contiguous


def test_the_order_of_lines_changes_no_partition() -> None:
    rows = [("a", "r", "b"), ("b", "r", "a"), ("a", "q", "a"), ("a", "r", "a")]
    for one, two in zip(partition(read_triples(rows)), partition(read_triples(rows[::-1])), strict=True):
        for name in ("heads", "indptr", "objects", "head_of", "entities", "local_heads", "local_objects"):
            assert np.array_equal(getattr(one, name), getattr(two, name))
