"""Generated groups: those of the rule, said again with all paths listed one by one."""

from __future__ import annotations

import random
from typing import Any

import networkx as nx
import pytest
from drawn_placements import chain_of_blocks, drawn_instance
from meshwright.errors import InputError
from meshwright.planners.collage import groups, kind_of, post_dominators

BOUNDS = {0: (3, 2), 1: (3, 2), 2: (2, 2), 4: (2, 1), 7: (2, 2)}
"""Kind of a seed -> largest kind of the sink, and of what is between."""


def by_paths(nodes: list[dict[str, Any]], rule: str) -> list[list[int]]:
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(n["id"] for n in nodes)
    graph.add_edges_from((x, n["id"]) for n in nodes for x in n["inputs"] if x >= 0)
    output, kind = nodes[-1]["id"], {n["id"]: n["kind"] for n in nodes}
    dominator = nx.immediate_dominators(graph.reverse(), output)
    found: list[list[int]] = []
    for seed in (n["id"] for n in nodes if n["kind"] != 8):
        found.append([seed])
        sink = seed
        while sink != output and kind[seed] in BOUNDS:
            sink = dominator[sink]
            at_sink, between = BOUNDS[kind[seed]]
            paths = list(nx.all_simple_paths(graph, seed, sink))
            passing = [path for path in paths if all(kind[v] <= between for v in path[1:-1])]
            if kind[sink] > at_sink or not passing or (rule == "text" and len(passing) < len(paths)):
                break
            found.append(sorted({v for path in passing for v in path}))
    return found


def test_groups_are_those_of_the_rule() -> None:
    apart = 0
    for seed in range(250):
        draw = random.Random(seed)
        nodes = drawn_instance(seed, most=12)["nodes"]
        for n in nodes:
            n["kind"] = draw.choice((0, 0, 1, 1, 2, 2, 3, 4, 7, 8))
        text, code = by_paths(nodes, "text"), by_paths(nodes, "code")
        assert groups(nodes) == groups(nodes, "text") == text
        assert groups(nodes, "code") == code
        apart += text != code
    assert apart > 50


def test_a_convolution_and_what_follows() -> None:
    """Fig. 2.4's kind of network: the seed takes in both branches, and stops at the next product."""
    nodes = [
        {"id": 5, "op": "nn.conv2d", "inputs": [-1]}, {"id": 2, "op": "add", "inputs": [5, -1]},
        {"id": 9, "op": "nn.relu", "inputs": [2]}, {"id": 3, "op": "tanh", "inputs": [2]},
        {"id": 4, "op": "add", "inputs": [9, 3]}, {"id": 1, "op": "nn.dense", "inputs": [4]},
    ]  # fmt: skip
    assert groups(nodes) == [
        [5], [2, 5], [2, 3, 4, 5, 9], [2], [2, 3, 4, 9], [9], [4, 9], [3], [3, 4], [4], [1],
    ]  # fmt: skip
    assert post_dominators(nodes) == {5: 2, 2: 4, 9: 4, 3: 4, 4: 1, 1: None}


def test_where_text_and_code_part() -> None:
    """One branch does not pass: the text stops, the program takes the other branch alone, around the first."""
    nodes = [
        {"id": 0, "op": "relu", "inputs": [-1]}, {"id": 1, "op": "conv2d", "inputs": [0]},
        {"id": 2, "op": "tanh", "inputs": [0]}, {"id": 3, "op": "add", "inputs": [1, 2]},
    ]  # fmt: skip
    assert groups(nodes, "text") == [[0], [1], [1, 3], [2], [2, 3], [3]]
    assert groups(nodes, "code") == [[0], [0, 2, 3], [1], [1, 3], [2], [2, 3], [3]]


def test_a_group_has_256_operators_at_most() -> None:
    nodes = [{"id": v, "op": "relu", "inputs": [v - 1]} for v in range(300)]
    assert max(map(len, groups(nodes))) == 256


def test_a_thousand_operators() -> None:
    nodes = chain_of_blocks(0, 1000, 0)["nodes"]
    draw = random.Random(0)
    for n in nodes:
        n["op"] = draw.choice(("conv2d", "relu", "add", "reshape", "softmax"))
    found = groups(nodes)
    assert len(found) > len(nodes)
    assert [group for group in found if len(group) == 1] == [[n["id"]] for n in nodes]


def test_kinds_are_those_of_names_or_said() -> None:
    assert [kind_of(op) for op in ("nn.relu", "Add", "reshape", "softmax", "conv2d", "tuple", "no-such", 3)] == [
        0, 1, 2, 3, 4, 7, 8, 3,
    ]  # fmt: skip
    nodes = [{"id": 0, "op": "no-such", "kind": 0, "inputs": [-1]}, {"id": 1, "op": 3, "inputs": [0]}]
    assert groups(nodes) == [[0], [0, 1], [1]]
    with pytest.raises(InputError, match=r"nodes\[0\]: expected a kind of operator, .* \(got 5\)"):
        groups([{"id": 0, "op": 5, "inputs": [-1]}])
    with pytest.raises(InputError, match="rule: expected 'text' or 'code'"):
        groups(nodes, "both")  # type: ignore[arg-type]
