"""Operator clustering against all cuts of small graphs, and against what Eq. 6 says of its definition."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.planners.alpa import cluster_operators
from meshwright.planners.alpa.inter.crossing import received_bytes, values_between
from meshwright.planners.alpa.inter.flops import training_flops
from meshwright.profiles.graph import Graph, Loop, Operator, Tensor
from random_graphs import chain, random_graph


def received(graph, first, last):
    """Bytes of results from before `first` that operators first…last−1 read; by the definition."""
    inside = graph.operators[first:last]
    names = {name for op in inside for name in op.inputs if name in graph.index and graph.index[name] < first}
    return sum(graph.bytes_of(name) for name in names)


def brute_force(graph, n_layers, delta):
    """(most bytes received, Σ FLOPs²) of the best cut; None if no cut keeps the bound."""
    flops = training_flops(graph)
    bound = (1 + delta) * flops.sum() / n_layers
    best = None
    for cut in itertools.combinations(range(1, len(flops)), n_layers - 1):
        ends = [0, *cut, len(flops)]
        layers = list(itertools.pairwise(ends))
        sums = [flops[a:b].sum() for a, b in layers]
        if max(sums) <= bound * (1 + 1e-12):
            value = (max(received(graph, a, b) for a, b in layers), sum(x**2 for x in sums))
            best = value if best is None else min(best, value)
    return best


@pytest.mark.parametrize("seed", range(30))
def test_equals_the_best_of_all_cuts(seed):
    random = np.random.default_rng(seed)
    graph = random_graph(int(random.integers(4, 11)), seed)
    n_layers = int(random.integers(2, 5))
    delta = float(random.choice([0.3, 0.7, 2.0]))
    expected = brute_force(graph, n_layers, delta)
    layers = cluster_operators(graph, n_layers, delta)
    flops = training_flops(graph)
    sums = [flops[a:b].sum() for a, b in layers]
    if expected is None:  # the bound cannot be kept: it becomes the least that can
        least = min(
            max(flops[a:b].sum() for a, b in itertools.pairwise([0, *cut, len(flops)]))
            for cut in itertools.combinations(range(1, len(flops)), n_layers - 1)
        )
        assert max(sums) == pytest.approx(least)
    else:
        assert max(received(graph, a, b) for a, b in layers) == expected[0]
        assert sum(x**2 for x in sums) == pytest.approx(expected[1])


@given(seed=st.integers(0, 10**6), n=st.integers(2, 30), n_layers=st.integers(1, 30), equal=st.booleans())
@settings(max_examples=examples(25, anew=60), deadline=None)
def test_layers_are_consecutive_and_none_is_empty(seed, n, n_layers, equal):
    n_layers = min(n_layers, n)
    layers = cluster_operators(random_graph(n, seed), n_layers, 0.5, "equal_operator" if equal else "dp")
    assert len(layers) == n_layers
    assert [a for a, _ in layers] == [0, *(b for _, b in layers[:-1])]
    assert layers[-1][1] == n
    assert all(a < b for a, b in layers)


@pytest.mark.parametrize("seed", range(5))
def test_received_bytes_follow_the_definition(seed):
    graph = random_graph(9, seed, reach=9)
    c = received_bytes(graph)
    for i, k in itertools.combinations_with_replacement(range(9), 2):
        assert c[i, k] == received(graph, i, k + 1)


def test_a_looser_bound_never_receives_more():
    graph = random_graph(24, 3)
    most = [max(received(graph, a, b) for a, b in cluster_operators(graph, 5, delta)) for delta in (0.2, 0.5, 1.0, 3.0)]
    assert most == sorted(most, reverse=True)


def test_ties_go_to_equal_flops():
    """Every cut of a chain of equal results receives the same: the variance alone decides."""
    assert cluster_operators(chain([1, 1, 2, 4, 4]), 3, 9.0) == ((0, 3), (3, 4), (4, 5))
    layers = cluster_operators(chain([1] * 12), 4, 1.0)
    assert [b - a for a, b in layers] == [3, 3, 3, 3]


def test_equal_operators_count_operators_only():
    assert cluster_operators(chain([100, 1, 1, 1]), 2, variant="equal_operator") == ((0, 2), (2, 4))


def test_training_flops_count_each_gradient():
    loops = (Loop("b", 4, batch=True), Loop("h", 8), Loop("n", 16))
    first = Operator("first", "contraction", "b h, h n -> b n", ("x", "w"), loops)
    loops2 = (Loop("b", 4, batch=True), Loop("n", 16), Loop("m", 8))
    second = Operator("second", "contraction", "b n, n m -> b m", ("first", "v"), loops2)
    graph = Graph("g", 4, (Tensor("x", (4, 8)),), (Tensor("w", (8, 16)), Tensor("v", (16, 8))), (first, second))
    one = 2 * 4 * 8 * 16
    assert training_flops(graph).tolist() == [2 * one, 3 * one]  # the data needs no gradient


def test_values_between_stages_go_straight_to_each_reader():
    graph = chain([1] * 6, readers=[(0, 5), (1, 5), (1, 3)])
    assert values_between(graph, [(0, 2), (2, 4), (4, 6)]) == [(0, 2, "o0"), (0, 1, "o1"), (0, 2, "o1"), (1, 2, "o3")]


def test_bad_input():
    graph = chain([1, 1])
    with pytest.raises(InputError, match="expected 1 … 2"):
        cluster_operators(graph, 3)
    with pytest.raises(InputError, match="delta"):
        cluster_operators(graph, 2, -0.1)
    with pytest.raises(InputError, match="did you mean 'equal_operator'"):
        cluster_operators(graph, 2, 0.5, "equal_operators")
