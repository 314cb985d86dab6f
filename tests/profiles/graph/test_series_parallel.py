"""Series-parallel trees against random compositions, a brute-force search for an N, and the zoo's branches."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.profiles.graph import (
    Graph,
    Leaf,
    Loop,
    Operator,
    Parallel,
    Series,
    SPTree,
    Tensor,
    is_series_parallel,
    leaves,
    operators_of,
    sp_tree,
    zoo_graph,
)
from meshwright.seeds import generator

Shape = object
"""A tree without order among parallel parts: a position, or ("series", parts …) or ("parallel", frozenset of parts)."""


def graph_of(count: int, edges: Iterable[tuple[int, int]], layers: dict[int, int] | None = None) -> Graph:
    """Operators 0 … count − 1, of which one reads another where there is an edge."""
    reads: list[list[str]] = [[] for _ in range(count)]
    for a, b in sorted(set(edges)):
        reads[b].append(f"o{a}")
    operators = tuple(
        Operator(
            f"o{i}", "elementwise", ", ".join(["b"] * max(1, len(own))) + " -> b", tuple(own or ["x"]),
            (Loop("b", 2, True),), layer=(layers or {}).get(i, -1),
        )
        for i, own in enumerate(reads)
    )  # fmt: skip
    return Graph("g", 2, (Tensor("x", (2,), batch_dims=(0,)),), (), operators)


def composed(random: np.random.Generator, size: int, kind: str = "") -> tuple[SPTree, set[tuple[int, int]]]:
    """A random tree of `size` leaves and the whole order that it says; positions are topological."""

    def build(first: int, size: int, kind: str) -> tuple[SPTree, set[tuple[int, int]]]:
        if size == 1:
            return Leaf((first,)), set()
        parts = int(random.integers(2, min(size, 4) + 1))
        cuts = sorted(random.choice(np.arange(1, size), parts - 1, replace=False).tolist())
        children, order = list[SPTree](), set[tuple[int, int]]()
        other = "parallel" if kind == "series" else "series"
        for a, b in itertools.pairwise([0, *cuts, size]):
            child, own = build(first + a, b - a, other)
            order |= own
            if kind == "series":
                order |= {(i, j) for i in range(first, first + a) for j in range(first + a, first + b)}
            children.append(child)
        return (Series if kind == "series" else Parallel)(tuple(children)), order

    return build(0, size, kind or str(random.choice(["series", "parallel"])))


def shape(tree: SPTree) -> Shape:
    if isinstance(tree, Leaf):
        return tree.operators
    parts = [shape(x) for x in tree.children]
    return ("series", *parts) if isinstance(tree, Series) else ("parallel", frozenset(parts))


def closure(count: int, edges: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
    import networkx as nx

    whole = nx.DiGraph()
    whole.add_nodes_from(range(count))
    whole.add_edges_from(edges)
    return set(nx.transitive_closure(whole).edges)


def order_of(tree: SPTree) -> set[tuple[int, int]]:
    """What a tree says comes before what, leaves taken whole."""
    if isinstance(tree, Leaf):
        return set()
    found = set[tuple[int, int]]().union(*(order_of(x) for x in tree.children))
    if isinstance(tree, Series):
        for a, b in itertools.combinations([operators_of(x) for x in tree.children], 2):
            found |= set(itertools.product(a, b))
    return found


def has_n(count: int, order: set[tuple[int, int]]) -> bool:
    def apart(i: int, j: int) -> bool:
        return (i, j) not in order and (j, i) not in order

    return any(
        {(a, c), (b, c), (b, d)} <= order and apart(a, b) and apart(c, d) and apart(a, d)
        for a, b, c, d in itertools.permutations(range(count), 4)
    )


def well_formed(tree: SPTree) -> bool:
    if isinstance(tree, Leaf):
        return len(tree.operators) > 0
    return len(tree.children) >= 2 and all(type(x) is not type(tree) and well_formed(x) for x in tree.children)


@pytest.mark.parametrize("seed", range(60))
def test_what_was_composed_is_found_again(seed: int) -> None:
    random = generator(seed, "series-parallel")
    size = int(random.integers(1, 60))
    tree, order = composed(random, size)
    direct = {(a, b) for a, b in order if not any((a, m) in order and (m, b) in order for m in range(a + 1, b))}
    skips = {pair for pair in order if random.random() < 0.05}  # an edge past others says nothing new
    found = sp_tree(graph_of(size, direct | skips), convert="refuse")
    assert shape(found) == shape(tree)
    assert well_formed(found)


def test_every_small_graph_is_series_parallel_unless_it_has_an_n() -> None:
    count, both = 5, [0, 0]
    pairs = list(itertools.combinations(range(count), 2))
    for chosen in itertools.product((False, True), repeat=len(pairs)):
        edges = [pair for pair, there in zip(pairs, chosen, strict=True) if there]
        order, graph = closure(count, edges), graph_of(count, edges)
        wants = not has_n(count, order)
        assert is_series_parallel(graph) == wants
        both[wants] += 1
        tree = sp_tree(graph)
        assert order_of(tree) >= order
        assert (order_of(tree) == order) == wants
        assert well_formed(tree)
        assert len({i for leaf in leaves(tree) for i in leaf.operators}) == count
    assert min(both) > 50


@pytest.mark.parametrize("seed", range(25))
def test_other_graphs_get_an_order_that_keeps_theirs(seed: int) -> None:
    random = generator(seed, "any graph")
    count = int(random.integers(6, 40))
    edges = [pair for pair in itertools.combinations(range(count), 2) if random.random() < 2.0 / count]
    graph, order = graph_of(count, edges), closure(count, edges)
    for convert in ("order", "group"):
        tree = sp_tree(graph, convert=convert)  # type: ignore[arg-type]
        line = operators_of(tree)
        assert sorted(line) == list(range(count))
        place = {i: k for k, i in enumerate(line)}
        assert all(place[a] < place[b] for a, b in order)  # a topological order
        together = {(a, b) for leaf in leaves(tree) for a in leaf.operators for b in leaf.operators}
        assert order <= order_of(tree) | together
        assert well_formed(tree)
        for leaf in leaves(tree):  # nothing outside a leaf is both after and before something inside it
            inside = set(leaf.operators)
            after = {b for a, b in order if a in inside} - inside
            assert not any(a in after and b in inside for a, b in order)


def test_the_n_costs_one_pair_or_one_leaf_or_is_refused() -> None:
    graph = graph_of(4, [(0, 2), (1, 2), (1, 3)])
    assert not is_series_parallel(graph)
    both = Series((Parallel((Leaf((0,)), Leaf((1,)))), Parallel((Leaf((2,)), Leaf((3,))))))
    assert sp_tree(graph) == both
    assert sp_tree(graph, convert="group") == Leaf((0, 1, 2, 3))
    with pytest.raises(
        InputError, match=re.escape("not series-parallel: 'o2' waits for 'o0' and 'o1', 'o3' for 'o1' only")
    ):
        sp_tree(graph, convert="refuse")
    whole = graph_of(4, [(0, 2), (1, 2), (1, 3), (0, 3)])  # all before all: no N
    assert sp_tree(whole, convert="refuse") == both


def test_a_link_between_branches_leaves_most_of_them_parallel() -> None:
    # Two chains of ten. Cutting after the link's start orders seven pairs that were free, or before its end seven.
    chains = [*itertools.pairwise(range(10)), *itertools.pairwise(range(10, 20))]
    one, other = tuple(Leaf((i,)) for i in range(10)), tuple(Leaf((i,)) for i in range(10, 20))
    early = sp_tree(graph_of(20, [*chains, (0, 17)]))
    assert early == Series((one[0], Parallel((Series(one[1:]), Series(other)))))
    late = sp_tree(graph_of(20, [*chains, (2, 19)]))
    assert late == Series((Parallel((Series(one), Series(other[:-1]))), other[-1]))


def test_a_skip_connection_is_no_branch_and_a_layer_is_one_leaf() -> None:
    graph = zoo_graph("tiny-gpt")
    tree = sp_tree(graph)
    assert isinstance(tree, Series)
    assert Leaf((graph.index["layers.1.residual2"],)) in tree.children
    coarse = sp_tree(graph, groups="layers")
    assert isinstance(coarse, Series)
    assert all(isinstance(x, Leaf) for x in coarse.children)
    layers = [x.operators for x in coarse.children if isinstance(x, Leaf) and len(x.operators) > 1]
    assert layers == [tuple(i for i, op in enumerate(graph.operators) if op.layer == k) for k in range(4)]


@pytest.mark.parametrize(("name", "branches"), [("mmt-3", 3), ("candle-uno-16", 16), ("case-study-3-7-4", 2)])
@pytest.mark.parametrize("groups", ["operators", "layers"])
def test_branches_of_the_zoo_are_parallel(name: str, branches: int, groups: str) -> None:
    graph = zoo_graph(name)
    tree = sp_tree(graph, groups=groups, convert="refuse")  # type: ignore[arg-type]
    assert isinstance(tree, Series)
    first, second, *_ = tree.children
    assert isinstance(first, Parallel)
    assert len(first.children) == branches
    assert second == Leaf((graph.index["concat"],))
    size = graph.index["concat"] // branches
    for k, branch in enumerate(first.children):  # branch after branch
        assert sorted(operators_of(branch)) == list(range(k * size, (k + 1) * size))
    per_branch = {"mmt-3": 8, "candle-uno-16": 4, "case-study-3-7-4": 4}[name]
    if groups == "layers":
        assert all(isinstance(x, Series) and len(x.children) == per_branch for x in first.children)


def test_dlrm_has_its_bags_beside_its_dense_branches() -> None:
    graph = zoo_graph("dlrm-3")
    tree = sp_tree(graph)
    assert isinstance(tree, Series)
    assert isinstance(tree.children[0], Parallel)
    kinds = [type(x).__name__ for x in tree.children[0].children]
    assert kinds == ["Series"] * 3 + ["Leaf"] * 3
    bag = tree.children[0].children[3]
    assert [graph.operators[i].name for i in operators_of(bag)] == ["sparse.0", "sparse.0.bag"]  # its view with it


def test_sets_that_wait_for_each_other_are_made_one() -> None:
    graph = graph_of(4, [(0, 1), (1, 2), (2, 3)], {0: 7, 2: 7})
    assert sp_tree(graph, groups="layers") == Series((Leaf((0, 1, 2)), Leaf((3,))))
    assert sp_tree(graph, groups=[(0, 1), (2, 3)]) == Series((Leaf((0, 1)), Leaf((2, 3))))
    assert sp_tree(graph, groups=[(0, 3)]) == Leaf((0, 1, 2, 3))


def test_wrong_options_have_one_clear_line() -> None:
    graph = graph_of(3, [(0, 1), (1, 2)])
    with pytest.raises(InputError, match=re.escape("expected positions from 0 to 2, each in one group (got 3)")):
        sp_tree(graph, groups=[(0, 3)])
    with pytest.raises(InputError, match=re.escape("each in one group (got 1)")):
        sp_tree(graph, groups=[(0, 1), (1, 2)])
    with pytest.raises(InputError, match=re.escape("expected operators, layers or sets of positions (got 'x')")):
        sp_tree(graph, groups="x")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=re.escape("convert: expected order, group or refuse (got 'no')")):
        sp_tree(graph, convert="no")  # type: ignore[arg-type]


def test_long_chains_and_ladders_need_no_deep_recursion() -> None:
    chain = graph_of(3000, itertools.pairwise(range(3000)))
    assert len(list(leaves(sp_tree(chain)))) == 3000
    rungs = [(i, i + 2) for i in range(1998)] + [(2 * i, 2 * i + 3) for i in range(998)]  # two chains, linked all along
    ladder = graph_of(2000, rungs)
    assert not is_series_parallel(ladder)
    tree = sp_tree(ladder)
    place = {i: k for k, i in enumerate(operators_of(tree))}
    assert all(place[a] < place[b] for a, b in rungs)
