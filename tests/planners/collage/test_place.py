"""The op level: as cheap as the best of all covers, never one that waits for itself, whatever the kind of match."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import networkx as nx
import pytest
from drawn_placements import chain_of_blocks, drawn_instance
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InfeasibleError, InputError, LimitError
from meshwright.planners.collage import (
    PLACERS,
    exhaustive,
    place,
    published_placement,
    read_instance,
    rule_based,
    single_backend,
    single_backends,
)  # fmt: skip
from meshwright.planners.collage.exact import near
from meshwright.planners.collage.masks import masks_of
from meshwright.planners.collage.placement import placement_of, running_order
from meshwright.planners.collage.program import Programme
from meshwright.planners.collage.search import Search

CROSSED: dict[str, Any] = {
    "nodes": [
        {"id": 0, "op": "a", "inputs": [-1]}, {"id": 1, "op": "b", "inputs": [-1]}, {"id": 2, "op": "c", "inputs": [0]},
        {"id": 3, "op": "d", "inputs": [1]}, {"id": 4, "op": "e", "inputs": [2, 3]},
    ],
    "matches": [
        *({"backend": "one", "nodes": [v], "root": v, "cost": 1.0} for v in range(5)),
        {"backend": "two", "nodes": [0, 3], "root": 3, "cost": 0.1},
        {"backend": "two", "nodes": [1, 2], "root": 2, "cost": 0.1},
    ],
    "eps": 0.01,
}  # fmt: skip
"""Two cheap matches, each of which reads a result of the other."""


def cost_of(planner: Any, instance: dict[str, Any]) -> float | None:
    try:
        return planner(instance).cost
    except InfeasibleError:
        return None


def near_the_bound(instance: dict[str, Any], steps: int = 10**6) -> Any:
    """The search among what is within reach of the bound, though all matches may be whole there."""
    given = read_instance(instance)
    programme = Programme(given, masks_of(given), 60.0)
    found, _ = near(given, programme, replace(programme.relaxed(), whole=False), steps)
    return placement_of(given, found, "near")


WAYS: dict[str, Any] = {
    "search": place, "near": near_the_bound, "programme": lambda i: near_the_bound(i, 1),
    "whole or programme": lambda i: place(i, steps=1),
}  # fmt: skip


def check(seed: int) -> None:
    instance = drawn_instance(seed)
    best = cost_of(exhaustive, instance)
    for name, planner in WAYS.items():
        found = cost_of(planner, instance)
        assert (best is None) == (found is None), (seed, name)
        assert best is None or found == pytest.approx(best, rel=1e-9, abs=1e-9), (seed, name)


@settings(max_examples=examples(40, anew=1500))
@given(st.integers(0, 10**6))
def test_as_cheap_as_the_best_of_all_covers(seed: int) -> None:
    check(seed)


@pytest.mark.slow
def test_thousands_of_drawn_instances() -> None:
    for seed in range(3000):
        check(seed)


@pytest.mark.parametrize("seed", range(24))
def test_an_answer_is_a_cover_that_runs_at_its_cost(seed: int) -> None:
    instance = drawn_instance(seed, most=14)
    found = cost_of(place, instance)
    if found is None:
        return
    answer, matches = place(instance), instance["matches"]
    assert sorted(v for k in answer.matches for v in matches[k]["nodes"]) == list(range(len(instance["nodes"])))
    owner = {v: k for k in answer.matches for v in matches[k]["nodes"]}
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(answer.matches)
    edges = {(owner[x], owner[n["id"]], x) for n in instance["nodes"] for x in n["inputs"] if x >= 0}
    graph.add_edges_from((a, b) for a, b, _ in edges if a != b)
    assert nx.is_directed_acyclic_graph(graph)
    place_in = {k: i for i, k in enumerate(answer.matches)}
    assert all(place_in[a] < place_in[b] for a, b in graph.edges)
    crossing = sum(a != b and matches[a]["backend"] != matches[b]["backend"] for a, b, _ in edges)
    cost = sum(matches[k]["cost"] + instance["eps"] for k in answer.matches)
    assert answer.cost == pytest.approx(cost + instance.get("boundary_cost", 0.0) * crossing)
    assert answer == place(instance)


def test_matches_that_wait_for_each_other_are_not_both_taken() -> None:
    published, found = published_placement(CROSSED), place(CROSSED)
    assert published.circular
    assert published.cost == pytest.approx(1.23)
    assert not found.circular
    assert found.cost == pytest.approx(3.14)
    assert len(set(found.matches) & {5, 6}) == 1
    assert place(CROSSED, steps=1).cost == found.cost
    assert exhaustive(CROSSED).cost == found.cost


@pytest.mark.parametrize("seed", [6 * k for k in range(40)])
def test_published_is_exact_where_only_roots_are_read_outside(seed: int) -> None:
    instance = drawn_instance(seed, most=12)
    best = cost_of(place, instance)
    assert cost_of(published_placement, instance) == (None if best is None else pytest.approx(best))


def test_published_is_never_above_the_best_that_runs_without_boundaries() -> None:
    for seed in [6 * k + 1 for k in range(40)]:
        instance = drawn_instance(seed)
        best, published = cost_of(place, instance), cost_of(published_placement, instance)
        if best is not None and published is not None and not published_placement(instance).circular:
            assert published >= best - 1e-9


def test_a_match_around_an_outsider_is_never_taken() -> None:
    nodes = [{"id": v, "op": "x", "inputs": [v - 1]} for v in range(3)]
    around = {"backend": "a", "nodes": [0, 2], "root": 2, "cost": 0.0}
    alone = [{"backend": "a", "nodes": [v], "root": v, "cost": 1.0} for v in range(3)]
    assert place({"nodes": nodes, "matches": [around, *alone], "eps": 0.0}).matches == (1, 2, 3)
    with pytest.raises(InfeasibleError, match=r"operator 0 .* wait for themselves"):
        place({"nodes": nodes, "matches": [around, alone[1]], "eps": 0.0})


def test_boundaries_count_values_and_reading_matches() -> None:
    """A value read by two matches elsewhere is paid for twice, by one match twice once, the graph's input never."""
    nodes = [
        {"id": 10, "op": "a", "inputs": [-1]}, {"id": 11, "op": "b", "inputs": [10, 10]},
        {"id": 12, "op": "c", "inputs": [10]}, {"id": 13, "op": "d", "inputs": [11, 12, -1]},
    ]  # fmt: skip
    matches = [
        {"backend": "p", "nodes": [10], "root": 10, "cost": 1.0},
        {"backend": "q", "nodes": [11], "root": 11, "cost": 1.0},
        {"backend": "q", "nodes": [12], "root": 12, "cost": 1.0},
        {"backend": "q", "nodes": [13], "root": 13, "cost": 1.0},
        {"backend": "q", "nodes": [11, 12], "root": 12, "cost": 2.6},
    ]
    instance = {"nodes": nodes, "matches": matches, "eps": 0.0, "boundary_cost": 0.5}
    found = place(instance)
    assert (found.matches, found.cost, found.boundary_ms) == ((0, 1, 2, 3), 5.0, 1.0)
    found = place({**instance, "boundary_cost": 0.7})
    assert (found.matches, found.boundary_ms) == ((0, 4, 3), 0.7)
    assert found.cost == pytest.approx(5.3)


def test_how_operators_are_listed_and_numbered_does_not_matter() -> None:
    for seed in range(60):
        instance = drawn_instance(seed)
        draw, graph = random.Random(seed), nx.DiGraph()
        graph.add_nodes_from(n["id"] for n in instance["nodes"])
        graph.add_edges_from((x, n["id"]) for n in instance["nodes"] for x in n["inputs"] if x >= 0)
        lottery = {v: draw.random() for v in graph}
        order = list(nx.lexicographical_topological_sort(graph, lottery.__getitem__))
        name = {v: 3 * k + 7 for v, k in zip(order, draw.sample(range(len(order)), len(order)), strict=True)} | {-1: -1}
        nodes = [{"id": name[v], "op": "x", "inputs": [name[x] for x in instance["nodes"][v]["inputs"]]} for v in order]
        matches = [{**m, "nodes": [name[v] for v in m["nodes"]], "root": name[m["root"]]} for m in instance["matches"]]
        other = cost_of(place, {**instance, "nodes": nodes, "matches": matches})
        best = cost_of(place, instance)
        assert other == (None if best is None else pytest.approx(best))


@pytest.mark.parametrize("reach", ["private", "several"])
@pytest.mark.parametrize("boundary", [0.0, 0.1])
def test_sixty_operators_by_search_and_by_programme(reach: str, boundary: float) -> None:
    instance = chain_of_blocks(3, 60, 400, reach) | {"boundary_cost": boundary}
    assert place(instance).states > 60
    assert place(instance, steps=1).cost == pytest.approx(place(instance, steps=10**7, seconds=0.0).cost, rel=1e-9)


def test_a_network_of_a_thousand_operators_takes_few_steps() -> None:
    instance = read_instance(chain_of_blocks(1, 1000, 7700))
    search = Search(instance, masks_of(instance), 10**6)
    chosen = search.best()
    assert search.taken < 30_000  # 0.2 s; 18,000 were seen
    assert running_order(instance, chosen) is not None


def test_parallel_branches_and_boundaries_are_solved_by_the_bound() -> None:
    """Eight branches open at a time, every boundary paid for: the relaxation is whole, or nearly so."""
    given = read_instance(chain_of_blocks(5, 300, 2200, branches=8) | {"boundary_cost": 1.0})
    masks = masks_of(given)
    programme = Programme(given, masks, 60.0)
    relaxed = programme.relaxed()
    assert place(given).cost == pytest.approx(relaxed.bound, rel=2e-3)
    assert place(given).cost >= relaxed.bound - 1e-9


def test_circles_are_forbidden_however_many_there_are() -> None:
    """A ladder of crossed pairs: every cheap pair waits for its neighbour, so at most one of each crossing is taken."""
    rungs = 6
    nodes = [
        {"id": 2 * k + s, "op": "x", "inputs": [2 * k + s - 2] if k else [-1]} for k in range(rungs) for s in (0, 1)
    ]
    nodes.append({"id": 2 * rungs, "op": "x", "inputs": [2 * rungs - 2, 2 * rungs - 1]})
    matches = [{"backend": "one", "nodes": [n["id"]], "root": n["id"], "cost": 1.0} for n in nodes]
    for k in range(rungs - 1):  # left here with right there, and the other way round
        for a, b in ((2 * k, 2 * k + 3), (2 * k + 1, 2 * k + 2)):
            matches.append({"backend": "two", "nodes": [a, b], "root": b, "cost": 0.1})
    for boundary in (0.0, 0.2):
        instance = {"nodes": nodes, "matches": matches, "eps": 0.01, "boundary_cost": boundary}
        best = exhaustive(instance).cost
        for name, planner in WAYS.items():
            found = planner(instance)
            assert not found.circular, name
            assert found.cost == pytest.approx(best), name


def test_limits_are_said() -> None:
    instance = chain_of_blocks(3, 40, 300)
    with pytest.raises(LimitError, match=r"limit of 1 steps .* so the cheapest placement is not known"):
        place(instance, steps=1, seconds=0.0)
    with pytest.raises(LimitError, match="16 operators"):
        exhaustive(instance)
    with pytest.raises(InputError, match="steps >= 1"):
        place(instance, steps=0)


def test_what_nobody_takes_is_named() -> None:
    broken = {**CROSSED, "matches": [m for m in CROSSED["matches"] if 4 not in m["nodes"]]}
    for name, planner in PLACERS.items():
        if name != "single-backend":
            with pytest.raises(InfeasibleError):
                planner(broken)
    with pytest.raises(InfeasibleError, match=r"operator 4 \('e'\) is taken by no backend \(there are: one, two\)"):
        place(broken)
    crossed_only = {**CROSSED, "matches": CROSSED["matches"][4:]}
    for planner in (place, lambda i: place(i, steps=1), exhaustive, rule_based):
        with pytest.raises(InfeasibleError, match="circle"):
            planner(crossed_only)


def test_single_backends_are_the_best_on_each_alone() -> None:
    assert list(single_backends(CROSSED)) == ["one"]
    assert single_backend(CROSSED).matches == (0, 1, 2, 3, 4)
    for seed in range(0, 120, 5):
        instance = drawn_instance(seed)
        for name, found in single_backends(instance).items():
            own = {**instance, "matches": [m for m in instance["matches"] if m["backend"] == name]}
            assert found.cost == pytest.approx(exhaustive(own).cost)
            assert found.backends == {name: len(instance["nodes"])}
    with pytest.raises(InfeasibleError, match="none of two takes"):
        single_backend({**CROSSED, "matches": CROSSED["matches"][5:]})


def test_the_rule_takes_the_first_backend_and_its_largest_match() -> None:
    assert rule_based(CROSSED).matches == (0, 1, 2, 3, 4)
    assert set(rule_based(CROSSED, ["two", "one"]).matches) & {5, 6}
    for seed in range(60):
        instance = drawn_instance(seed)
        best, found = cost_of(place, instance), cost_of(rule_based, instance)
        assert (best is None) == (found is None)
        assert best is None or found is None or (found >= best - 1e-9 and not rule_based(instance).circular)
    with pytest.raises(InputError, match="priority"):
        rule_based(CROSSED, ["three"])


def test_the_rule_takes_what_it_prefers_though_another_is_cheaper() -> None:
    """Two backends take the same operator: the first of the list has it, whatever it costs."""
    given = {
        "nodes": [{"id": 0, "op": "relu", "inputs": [-1]}],
        "matches": [{"backend": b, "nodes": [0], "root": 0, "cost": c} for b, c in (("slow", 2.0), ("fast", 1.0))],
    }
    assert rule_based(given, ["slow", "fast"]).backends == {"slow": 1}
    assert rule_based(given, ["fast", "slow"]).backends == {"fast": 1}
