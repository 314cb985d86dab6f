"""Both levels together, and contiguous regions: what a string of bits stands for can always run."""

from __future__ import annotations

import random
from typing import Any

import pytest
from drawn_placements import drawn_instance
from meshwright.errors import InfeasibleError, InputError
from meshwright.planners.collage import (
    EvolutionOptions,
    GraphLevel,
    collage,
    exhaustive,
    narrow_points,
    place,
    published_placement,
    read_instance,
    segments,
    stretches,
)  # fmt: skip
from meshwright.planners.collage.graph_level import Region
from test_place import CROSSED


def check_regions(instance: dict[str, Any], regions: tuple[Region, ...]) -> None:
    """Every operator once, and each region reads only what regions before it made."""
    made: set[int] = set()
    inputs = {n["id"]: n["inputs"] for n in instance["nodes"]}
    for region in regions:
        assert {x for v in region.nodes for x in inputs[v] if x >= 0} <= made | set(region.nodes)
        assert made.isdisjoint(region.nodes)
        made |= set(region.nodes)
    assert made == set(inputs)


def test_neighbours_become_one_engine_but_never_wait_for_themselves() -> None:
    joined = 0
    for seed in range(150):
        instance = drawn_instance(seed, most=12)
        try:
            placement = place(instance)
        except InfeasibleError:
            continue
        draw = random.Random(seed)
        level = GraphLevel(read_instance(instance), placement, "b0", lambda ids: ids[0] % 5 != 0)
        for _ in range(4):
            bits = "".join(draw.choice("01") for _ in level.free)
            regions = level.regions(bits)
            check_regions(instance, regions)
            assert sorted(k for region in regions for k in region.matches) == sorted(placement.matches)
            for k, bit in zip(level.free, bits, strict=True):
                (region,) = (r for r in regions if placement.matches[k] in r.matches)
                assert region.backend == ("b0" if bit == "1" else placement.chosen[k].backend)
                assert bit == "1" or len(region.matches) == 1
            joined += len(regions) < len(placement.matches)
    assert joined > 100


def chain(backends: str) -> dict[str, Any]:
    nodes = [{"id": v, "op": "x", "inputs": [v - 1]} for v in range(len(backends))]
    matches = [{"backend": b, "nodes": [v], "root": v, "cost": 1.0} for v, b in enumerate(backends)]
    return {"nodes": nodes, "matches": matches, "eps": 0.0}


def test_a_chain_by_hand() -> None:
    instance = read_instance(chain("aabaLa"))
    level = GraphLevel(instance, place(instance), "L")
    assert len(level.free) == 5
    assert [(r.backend, r.nodes) for r in level.regions("01101")] == [
        ("a", (0,)), ("L", (1, 2)), ("a", (3,)), ("L", (4, 5)),
    ]  # fmt: skip
    assert [r.nodes for r in level.regions("11111")] == [(0, 1, 2, 3, 4, 5)]
    with pytest.raises(InputError, match="bits: expected 5 of 0 and 1"):
        level.regions("0110")
    with pytest.raises(InputError, match="placement: expected one that can run"):
        GraphLevel(read_instance(CROSSED), published_placement(CROSSED), "L")


def test_both_ends_of_a_branch_stay_apart_while_its_middle_is_elsewhere() -> None:
    instance = chain("aaa")
    instance["nodes"][2]["inputs"] = [0, 1]
    level = GraphLevel(read_instance(instance), place(instance), "L")
    assert [r.nodes for r in level.regions("101")] == [(0,), (1,), (2,)]
    assert [r.nodes for r in level.regions("111")] == [(0, 1, 2)]


def test_collage_is_never_slower_than_the_op_level_or_the_library() -> None:
    instance = chain("abcabcabca")

    def fitness(regions: tuple[Region, ...]) -> float:
        return sum(0.7 + sum(0.4 if r.backend == "L" else 1.0 + 0.1 * (v % 3 == 0) for v in r.nodes) for r in regions)

    found = collage(instance, "L", fitness, options=EvolutionOptions(evaluations=60))
    assert found.bits == "1" * 10
    assert found.time_ms == pytest.approx(4.7)
    assert found.search.history[0] == ("0" * 10, pytest.approx(17.4))
    kept = collage(instance, "L", fitness, takes=lambda ids: 5 not in ids)
    assert [r.nodes for r in kept.regions] == [(0, 1, 2, 3, 4), (5,), (6, 7, 8, 9)]
    assert kept.op_level.cost == 10.0


def test_segments_are_the_best_of_contiguous_matches() -> None:
    for seed in range(60):
        instance = drawn_instance(seed, most=8)
        close = [m for m in instance["matches"] if max(m["nodes"]) - min(m["nodes"]) + 1 == len(m["nodes"])]
        try:
            best = exhaustive({**instance, "matches": close}).cost
        except InfeasibleError:
            with pytest.raises(InfeasibleError, match="collage-segments"):
                segments(instance)
            continue
        found = segments(instance)
        assert found.cost == pytest.approx(best)
        assert found.chosen == tuple(instance_match(instance, k) for k in found.matches)


def instance_match(instance: dict[str, Any], k: int) -> Any:
    return read_instance(instance).matches[k]


def test_narrow_points_are_where_one_value_is_open() -> None:
    nodes = [[-1], [0], [1], [0, 2], [3], [3, 4]]
    instance = {"nodes": [{"id": v, "op": "x", "inputs": i} for v, i in enumerate(nodes)], "matches": [], "eps": 0.0}
    assert narrow_points(instance) == (0, 1, 4, 6)
    assert narrow_points(instance, values=2) == (0, 1, 2, 3, 4, 5, 6)
    assert stretches(instance) == [
        (0,), (0, 1, 2, 3), (0, 1, 2, 3, 4, 5), (1, 2, 3), (1, 2, 3, 4, 5), (4, 5),
    ]  # fmt: skip
    with pytest.raises(InputError, match="values"):
        narrow_points(instance, values=0)
