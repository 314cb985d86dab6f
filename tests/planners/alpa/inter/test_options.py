"""Options that reach the intra-operator pass: what each must and must not change."""

from __future__ import annotations

import pytest
from meshwright.errors import InfeasibleError
from meshwright.planners.alpa import plan
from meshwright.planners.alpa.inter.pricing.intra_pricer import least_device_seconds
from meshwright.planners.alpa.inter.pricing.refine import solve_chosen
from meshwright.planners.alpa.intra import Analysis, IntraOptions, solve_stage
from meshwright.profiles import DEVICES
from meshwright.profiles.graph import roofline, zoo_graph
from meshwright.simulator import Cluster
from meshwright.simulator.mesh import Mesh

CLUSTER = Cluster(1, 2)


def made(graph, **options):
    return plan(graph, CLUSTER, global_batch=16, microbatches=4, options={"n_layers": 3, "stages": "one"} | options)


@pytest.fixture(scope="module")
def gpt():
    return zoo_graph("tiny-gpt")


def test_more_freedom_is_never_slower(gpt):
    plain = made(gpt).predicted["dp_seconds"]
    assert made(gpt, sequence_parallel=True).predicted["dp_seconds"] <= plain * (1 + 1e-9)
    assert made(gpt, overlap=True).predicted["dp_seconds"] <= plain * (1 + 1e-9)
    assert made(gpt, force_batch=True).predicted["dp_seconds"] >= plain * (1 - 1e-9)


def test_forced_batch_is_on_axis_0(gpt):
    stage = made(gpt, force_batch=True, logical=((2, 1),)).stages[0]
    products = [e for name, e in stage.operators.items() if name.endswith("mlp.up")]
    assert products
    if stage.logical == (2, 1):
        assert {e.axes for e in products} == {("b", "")}
    # Views whose axis 0 has more devices than the microbatch has samples are left out, not refused.
    small = plan(gpt, CLUSTER, global_batch=4, microbatches=4, options={"stages": "one", "force_batch": True})
    assert small.stages[0].logical == (1, 2)


def test_recomputation_holds_less_and_takes_longer(gpt):
    none, full = made(gpt, recompute="none").stages[0], made(gpt, recompute="full").stages[0]
    assert full.activation_bytes < none.activation_bytes
    assert full.backward_input_s > none.backward_input_s
    assert full.recompute == "full"


def test_sgd_keeps_less(gpt):
    assert made(gpt, optimizer="sgd").stages[0].state_bytes < made(gpt).stages[0].state_bytes


def test_the_options_are_recorded(gpt):
    found = made(gpt, sequence_parallel=True, delta=0.3).planner.options
    assert found["sequence_parallel"] is True
    assert found["delta"] == 0.3
    assert found["layers"] == 1
    assert "workers" not in found  # nothing that cannot change the decision


@pytest.mark.parametrize("share", [1.02, 1.1, 1.3, 2.0])
def test_a_chosen_stage_keeps_its_memory_and_its_bound(gpt, share):
    """Against the exact ILP, for memories from the least possible up."""
    graph = gpt.with_batch(4)
    first, last = 0, graph.index["layers.0.norm2"]
    mesh, costs = Mesh(CLUSTER, 1, 2).view((1, 2)), roofline(CLUSTER.spec)
    options = IntraOptions(zero=2, microbatches=4, in_flight=2)
    free = solve_stage(graph, first, last, mesh, costs, options)
    tight = IntraOptions(zero=3, microbatches=4, in_flight=2)
    least = solve_stage(graph, first, last, mesh, costs, tight)

    def used(p):
        return p.state_bytes + 2 * p.activation_bytes + p.work_bytes

    memory = share * min(used(free), used(least))
    bounded = IntraOptions(zero=2, microbatches=4, in_flight=2, memory_bytes=memory)
    exact = solve_stage(graph, first, last, mesh, costs, bounded)
    for small in (0, 100):
        try:
            found = solve_chosen(graph, [(first, last)], mesh, costs, bounded, analysis=Analysis(graph), small=small)
        except InfeasibleError:
            pytest.fail("the exact ILP has a solution")
        assert used(found) <= memory * (1 + 1e-9)
        assert found.bound <= exact.objective * (1 + 1e-9)
        assert found.objective >= exact.objective * (1 - 1e-9)
    assert found.objective == pytest.approx(exact.objective, rel=1e-9)


@pytest.mark.parametrize("name", ["tiny-gpt", "tiny-moe", "tiny-resnet"])
def test_the_bound_of_the_microbatch_search_holds(name):
    """No plan takes less device time than all operators whole on one device."""
    graph, costs = zoo_graph(name), roofline(CLUSTER.spec)
    for count in (1, 4):
        least = least_device_seconds(graph.with_batch(16 // count), costs) * count / 2
        found = plan(graph, CLUSTER, global_batch=16, microbatches=count, options={"n_layers": 3})
        assert found.predicted["seconds"] >= least * (1 - 1e-9)


def test_costs_of_ones_own(gpt):
    faster = roofline(DEVICES["h100-80gb"])
    found = plan(gpt, CLUSTER, global_batch=16, microbatches=4, options={"n_layers": 3, "stages": "one"}, costs=faster)
    assert found.cost_source == faster.source != made(gpt).cost_source
    assert found.predicted["seconds"] < made(gpt).predicted["seconds"]
