"""Method 2: groups by post-dominators, held against networkx and against a search by hand."""

from __future__ import annotations

import networkx as nx
import pytest
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.planners.collage import groups
from meshwright.profiles.backends import (
    GRAPH_LIBRARY,
    Backend,
    InferenceGraph,
    Node,
    SingleRule,
    TvmRule,
    Value,
    check_path,
    generated,
    kind_of,
    offers,
    post_dominators,
)

KINDS = {"conv2d": 4, "relu": 0, "add": 0, "flatten": 2, "softmax": 3, "embedding": 8, "batch_norm": 1}


@st.composite
def graphs(draw: st.DrawFn) -> InferenceGraph:
    """Graphs of a few operators; what nobody reads is joined at the end."""
    size = draw(st.integers(2, 9))
    rows, unread = list[tuple[str, str, list[str]]](), list[str]()
    for k in range(size):
        op = draw(st.sampled_from(sorted(KINDS)))
        earlier = ["x", *(id for id, _, _ in rows)]
        read = draw(st.lists(st.sampled_from(earlier), min_size=1, max_size=2, unique=True))
        rows.append((f"n{k}", op, read))
        unread = [name for name in unread if name not in read] + [f"n{k}"]
    if len(unread) > 1:
        rows.append(("end", "add", unread))
    nodes = tuple(Node(i, op, tuple(r), (), Value(i, (4,)), ((4,),) * len(r)) for i, op, r in rows)
    return InferenceGraph((Value("x", (4,)),), (), nodes, rows[-1][0])


def immediate(graph: InferenceGraph) -> list[int]:
    """Post-dominators by networkx: dominators of the graph turned round."""
    turned: nx.DiGraph[int] = nx.DiGraph()
    turned.add_nodes_from(range(len(graph.nodes)))
    turned.add_edges_from((reader, k) for k, readers in enumerate(graph.readers) for reader in readers)
    end = graph.index[graph.output]
    found = nx.immediate_dominators(turned, end)
    return [-1 if k == end else found[k] for k in range(len(graph.nodes))]


@settings(max_examples=examples(25, anew=200), deadline=None)
@given(graphs())
def test_post_dominators(graph: InferenceGraph) -> None:
    assert list(post_dominators(graph.readers)) == immediate(graph)


@settings(max_examples=examples(25, anew=200), deadline=None)
@given(graphs())
def test_generated_groups(graph: InferenceGraph) -> None:
    """As the text says: seed, then the next post-dominator if every operator between passes."""
    ways: nx.DiGraph[int] = nx.DiGraph()
    ways.add_nodes_from(range(len(graph.nodes)))
    ways.add_edges_from((k, reader) for k, readers in enumerate(graph.readers) for reader in readers)
    next_one, rule, expected = immediate(graph), TvmRule(), list[tuple[int, int]]()
    for seed, node in enumerate(graph.nodes):
        if KINDS[node.op] == 8:
            continue
        group, sink = {seed}, next_one[seed]
        expected.append((1 << seed, seed))
        while sink != -1:
            between = (nx.descendants(ways, seed) & nx.ancestors(ways, sink)) - {seed}
            kinds, last = [KINDS[graph.nodes[k].op] for k in between], KINDS[graph.nodes[sink].op]
            fits = {
                4: last <= 2 and all(kind <= 1 for kind in kinds),
                0: last <= 3 and all(kind <= 2 for kind in kinds),
                1: last <= 3 and all(kind <= 2 for kind in kinds),
                2: last <= 2 and all(kind <= 2 for kind in kinds),
                3: False,
            }[KINDS[node.op]]
            if not fits or last == 8 or 8 in kinds:
                break
            group |= between | {sink}
            expected.append((sum(1 << k for k in group), sink))
            sink = next_one[sink]
    assert list(generated(graph, rule, "b")) == list(dict.fromkeys(expected))
    for bits, root in generated(graph, rule, "b"):
        assert graph.convex(bits)
        assert graph.results(bits) == (graph.nodes[root].id,)


@settings(max_examples=examples(25, anew=200), deadline=None)
@given(graphs())
def test_the_rule_generates_what_the_planner_does(graph: InferenceGraph) -> None:
    """`planners.collage.groups` has the kinds' rule written out; here it is one that a user could give."""
    nodes = [
        {"id": k, "op": node.op, "inputs": [graph.index.get(name, -1) for name in node.inputs], "kind": KINDS[node.op]}
        for k, node in enumerate(graph.nodes)
    ]
    sets = [[k for k in range(len(nodes)) if bits >> k & 1] for bits, _ in generated(graph, TvmRule(), "b")]
    assert sets == groups(nodes, rule="text")


def chain(*ops: str) -> InferenceGraph:
    names = ["x", *(f"n{k}" for k in range(len(ops)))]
    nodes = tuple(
        Node(names[k + 1], op, (names[k],), (), Value(names[k + 1], (4,)), ((4,),)) for k, op in enumerate(ops)
    )
    return InferenceGraph((Value("x", (4,)),), (), nodes, names[-1])


def test_a_long_chain_stops_at_256_operators() -> None:
    longest = max(bits.bit_count() for bits, _ in generated(chain(*["relu"] * 300), TvmRule(), "b"))
    assert longest == 256


class OwnRule:
    """The paper's Listing 1: a product takes elementwise operators behind it."""

    def op_rule(self, node: Node) -> bool:
        return node.op in ("linear", "relu", "tanh")

    def fusion_rule(self, kind: int, src: Node, sink: Node, between: object) -> bool:
        return kind == 4 and kind_of(sink) == 0 and check_path(between, lambda node: kind_of(node) == 0)  # type: ignore[arg-type]


def test_a_rule_of_ones_own() -> None:
    of_two = generated(chain("linear", "relu", "tanh", "softmax"), OwnRule(), "own")
    assert [bin(bits) for bits, _ in of_two] == ["0b1", "0b11", "0b111", "0b10", "0b100"]


class Raises(OwnRule):
    def op_rule(self, node: Node) -> bool:
        raise KeyError(node.op)


def test_a_rule_that_raises_is_named() -> None:
    with pytest.raises(InputError, match=r"backend 'own': its op_rule raised KeyError: 'relu' for node 'n0' \(relu\)"):
        generated(chain("relu"), Raises(), "own")


class Library(Backend):
    name, kind, rule = "library", GRAPH_LIBRARY, SingleRule(frozenset({"relu"}))


def test_a_graph_library_is_offered_the_whole_graph() -> None:
    found = offers(chain("relu", "tanh"), [Library()])
    assert [one.nodes for one in found] == [("n0",), ("n0", "n1")]
