"""Bad input: one clear error each."""

from __future__ import annotations

from dataclasses import replace

import pytest
from meshwright.errors import InfeasibleError, InputError
from meshwright.planners.alpa.intra import IntraOptions, interval_costs, score, solve_stage
from meshwright.profiles.graph import roofline, zoo_graph
from meshwright.profiles.hardware import LinkSpec, device
from meshwright.simulator.cluster import Cluster
from meshwright.simulator.mesh import Mesh

V100 = device("v100-16gb")
COSTS = roofline(V100)
GRAPH = zoo_graph("tiny-gpt", 6)
LAST = len(GRAPH.operators)
MESH = Mesh(Cluster(1, 4, V100), 1, 4)


def test_a_mesh_that_is_not_two_dimensional():
    with pytest.raises(InputError, match="two positive sizes"):
        MESH.view((2, 2, 1))  # pyright: ignore[reportArgumentType]
    for wrong in ((2, 2), MESH, None):
        with pytest.raises(InputError, match="two-dimensional LogicalMesh"):
            solve_stage(GRAPH, 0, LAST, wrong, COSTS)  # pyright: ignore[reportArgumentType]


def test_a_batch_that_does_not_divide():
    with pytest.raises(InputError, match=r"axis 0 of 4 devices does not divide its batch of 6.*multiple of 4"):
        solve_stage(GRAPH, 0, LAST, MESH.view((4, 1)), COSTS, IntraOptions(force_batch=True))
    # Without the option other loops are cut.
    solve_stage(GRAPH, 0, LAST, MESH.view((4, 1)), COSTS)


def test_a_link_without_bandwidth():
    dead = replace(V100, intra_node=LinkSpec.__new__(LinkSpec))
    object.__setattr__(dead.intra_node, "bandwidth_bytes_per_s", 0.0)
    object.__setattr__(dead.intra_node, "latency_s", 1e-6)
    view = Mesh(Cluster(1, 4, dead), 1, 4).view((2, 2))
    with pytest.raises(InputError, match=r"axis 0 have a bandwidth of 0 bytes/s"):
        solve_stage(GRAPH, 0, LAST, view, COSTS)


def test_nothing_fits():
    with pytest.raises(InfeasibleError) as error:
        solve_stage(GRAPH, 0, LAST, MESH.view((2, 2)), COSTS, IntraOptions(memory_bytes=1000.0, in_flight=3))
    text = str(error.value)
    for part in ("no sharding fits", "at least", "GiB are needed", "optimiser states", "3 x", "zero=3", "recompute"):
        assert part in text


def test_contradicting_choices():
    with pytest.raises(InfeasibleError, match="contradict"):
        score(
            GRAPH, 0, LAST, MESH.view((1, 4)), COSTS,
            {"layers.0.mlp.up": ("", "s"), "layers.0.mlp.gelu": ("", "f")},
        )  # fmt: skip


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"nothing": ("", "b")}, "no operator, parameter or input"),
        ({"layers.0.mlp.up": ("", "b")}, "no strategy"),  # 6 samples on 4 devices
        ({"layers.0.mlp.up.weight": "S0R"}, "no strategy"),
    ],
)
def test_choices_that_do_not_exist(choice, message):
    with pytest.raises(InputError, match=message):
        score(GRAPH, 0, LAST, MESH.view((1, 4)), COSTS, choice)


@pytest.mark.parametrize(("first", "last"), [(3, 3), (-1, 2), (0, LAST + 1)])
def test_ranges(first, last):
    with pytest.raises(InputError, match="expected a range"):
        solve_stage(GRAPH, first, last, MESH.view((1, 4)), COSTS)


@pytest.mark.parametrize(
    "options",
    [
        {"in_flight": 0},
        {"microbatches": 1.5},
        {"memory_bytes": -1.0},
        {"memory_bytes": float("nan")},
        {"zero": 1},
        {"recompute": "some"},
        {"compute": "half"},
        {"optimizer": "lion"},
        {"time_limit_s": 0.0},
    ],
)
def test_options(options):
    with pytest.raises(InputError, match=f"IntraOptions.{next(iter(options))}"):
        IntraOptions(**options)


def test_intervals_say_the_same():
    with pytest.raises(InputError, match="axis 0 of 4 devices"):
        interval_costs(GRAPH, [(0, LAST)], MESH.view((4, 1)), COSTS, IntraOptions(force_batch=True))


@pytest.mark.parametrize("hosts", [2, 3, 5])
def test_every_view_of_every_submesh_has_a_plan(hosts):
    """Groups of neighbours may straddle a node's border, as those of 3 devices do on nodes of 8."""
    graph = zoo_graph("tiny-mlp", 8)
    mesh = Mesh(Cluster(5, 8, V100), hosts, 8)
    for shape in mesh.logical_shapes:
        plan = solve_stage(graph, 0, len(graph.operators), mesh.view(shape), COSTS)
        assert plan.status == "optimal"
        assert plan.logical == shape
