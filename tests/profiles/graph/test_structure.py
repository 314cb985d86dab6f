"""Leaders, cuts and repeats, against brute force and against what the words say."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.profiles.graph import (
    ZOO,
    Builder,
    Graph,
    depths,
    graph_cut,
    layer_bounds,
    leaders,
    repeats,
    signature,
    zoo_graph,
)


@st.composite
def chains(draw: st.DrawFn) -> Graph:
    """Random graphs of squares: each operator reads one or two earlier values; heavy and trivial ones mixed."""
    b = Builder("random", dtype="float32")
    names = [b.input("x", 4, dtype="float32"), b.parameter("w", 4, 4)]
    made = ["x"]
    for i in range(draw(st.integers(1, 12))):
        first, second = draw(st.sampled_from(made)), draw(st.sampled_from(made))
        if draw(st.booleans()):
            made.append(b.add(f"o{i}", "contraction", "b h, h k -> b k", first, names[1]))
        else:
            made.append(b.add(f"o{i}", "elementwise", "b h, b h -> b h", first, second, fn="add"))
    b.add("loss", "reduction", "b h ->", made[-1], fn="mean")
    return b.graph(1, "samples", "test")


@given(chains())
@settings(max_examples=60, deadline=None)
def test_depths_are_longest_paths(graph: Graph) -> None:
    net = nx.DiGraph((name, op.name) for op in graph.operators for name in op.inputs)
    found = depths(graph)
    for op, depth in zip(graph.operators, found, strict=True):
        above = net.subgraph(nx.ancestors(net, op.name) | {op.name})
        assert depth == nx.dag_longest_path_length(above)


@given(chains())
@settings(max_examples=60, deadline=None)
def test_a_trivial_operator_follows_its_deepest_operand_that_follows_something(graph: Graph) -> None:
    depth, found = depths(graph), leaders(graph)
    for i, op in enumerate(graph.operators):
        if op.heavy:
            assert found[i] == i
            continue
        made = [graph.index[name] for name in op.inputs if name in graph.index and found[graph.index[name]] >= 0]
        if not made:
            assert found[i] == -1
            continue
        deepest = max(depth[j] for j in made)
        assert found[i] in {found[j] for j in made if depth[j] == deepest}
        assert graph.operators[found[i]].heavy


@given(chains(), st.data())
@settings(max_examples=60, deadline=None)
def test_a_cut_is_what_is_made_before_and_read_after(graph: Graph, data: st.DataObject) -> None:
    i = data.draw(st.integers(0, len(graph.operators)))
    before = {op.name for op in graph.operators[:i]}
    read = {name for op in graph.operators[i:] for name in op.inputs}
    cut = graph_cut(graph, i)
    assert set(cut) == before & read
    assert list(cut) == sorted(cut, key=lambda name: graph.index[name])


def test_leaders_of_a_gpt_layer() -> None:
    graph = zoo_graph("tiny-gpt")
    names = {graph.operators[i].name: graph.operators[j].name for i, j in enumerate(leaders(graph))}
    assert names["layers.1.attention.softmax"] == "layers.1.attention.scores"
    assert names["layers.1.residual1"] == "layers.1.attention.out"
    assert names["layers.1.norm2"] == "layers.1.attention.out"
    assert names["position"] == "embedding"
    assert names["loss"] == "head"


@pytest.mark.parametrize("name", [n for n in ZOO if n.startswith(("gpt3", "llama", "bert", "tiny-gpt"))])
def test_all_layers_of_a_uniform_transformer_are_one(name: str) -> None:
    graph = zoo_graph(name)
    found = repeats(graph)
    assert found == (0, *([1] * (len(found) - 2)), len(found) - 1)


def test_moe_layers_alternate_and_resnet_blocks_repeat_within_stages() -> None:
    assert repeats(zoo_graph("gshard-moe-380m")) == (0, 1, 2, 1, 2, 1, 2, 1, 2, 9)
    assert repeats(zoo_graph("wide-resnet-250m")) == (0, 1, 2, 2, 4, 5, 5, 5, 8, 9, 9, 9, 9, 9, 14, 15, 15, 17)


def test_names_do_not_count_and_everything_else_does() -> None:
    graph = zoo_graph("tiny-gpt")
    bounds = layer_bounds(graph)
    first, last = bounds[2], bounds[3]
    mine = signature(graph, first, last)
    for change in (
        {"dtype": "float64"}, {"flops": 1.0}, {"saves": ()}, {"attributes": {"fn": "sub"}},
    ):  # fmt: skip
        at = next(i for i in range(first, last) if graph.operators[i].name.endswith("residual1"))
        if change == {"saves": ()}:
            at = next(i for i in range(first, last) if graph.operators[i].saves)
        operators = list(graph.operators)
        operators[at] = replace(operators[at], **change)
        assert signature(replace(graph, operators=tuple(operators)), first, last) != mine
    crossed = list(graph.operators)  # the second operand of a residual, swapped for the first: other wiring
    at = next(i for i in range(first, last) if graph.operators[i].name.endswith("residual1"))
    crossed[at] = replace(crossed[at], inputs=crossed[at].inputs[:1] * 2)
    assert signature(replace(graph, operators=tuple(crossed)), first, last) != mine
    # One layer read by a later one as well is not the same: what crosses its end differs.
    assert signature(graph, first, last - 1) != signature(graph, bounds[1], bounds[2])


def test_a_weight_read_twice_is_not_a_weight_of_its_own() -> None:
    def two(shared: bool) -> Graph:
        b = Builder("two", dtype="float32")
        x = b.add("start", "elementwise", "b h -> b h", b.input("x", 4, dtype="float32"), fn="relu")
        for i in range(2):
            b.layer = i
            x = b.add(f"y{i}", "contraction", "b h, h k -> b k", x, b.parameter("w" if shared else f"w{i}", 4, 4))
            x = b.add(f"z{i}", "elementwise", "b h -> b h", x, fn="relu")
        b.layer = -1
        b.add("loss", "reduction", "b h ->", x, fn="mean")
        return b.graph(1, "samples", "test")

    assert repeats(two(False), (1, 3, 5)) == (0, 0)
    assert signature(two(False), 1, 3) != signature(two(True), 1, 3)


@pytest.mark.parametrize("bounds", [(), (0,), (0, 5, 5), (3, 1), (-1, 4), (0, 10**6)])
def test_bounds_must_increase_within_the_graph(bounds: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="bounds: expected increasing positions from 0 to 85"):
        repeats(zoo_graph("tiny-gpt"), bounds)
