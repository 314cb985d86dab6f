"""The intra-operator pass in CPU seconds, beside a bare lower bound: building the problem, with nothing solved."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise

import pytest
from meshwright.planners.alpa.intra import Analysis, IntraOptions, interval_costs, solve_stage
from meshwright.planners.alpa.intra.pricing import Pricing
from meshwright.planners.alpa.intra.stage_model import build_stage
from meshwright.profiles.graph import layer_bounds, roofline, zoo_graph
from meshwright.simulator import Cluster
from meshwright.simulator.mesh import Mesh

CLUSTER = Cluster(8, 8, "v100-16gb")
COSTS = roofline(CLUSTER.spec)


def cpu(run):
    start = time.process_time()
    answer = run()
    return time.process_time() - start, answer


def test_ilp_of_24_layers():
    """GPT-3 1.3B, forward, backward and update, no layer merged, on 2 x 8; the issue asks for 30 s."""
    graph = zoo_graph("gpt3-1.3b", 16)
    mesh, analysis = Mesh(CLUSTER, 2, 8).view((2, 8)), Analysis(graph)
    options = IntraOptions(microbatches=8, in_flight=2)
    n = len(graph.operators)
    bare, _ = cpu(lambda: build_stage(Pricing(analysis, mesh, COSTS, options), 0, n))
    taken, plan = cpu(lambda: solve_stage(graph, 0, n, mesh, COSTS, options, analysis=analysis))
    print(f"\n24 layers, {n} operators on 2 x 8: {taken:.2f} CPU s ({taken / bare:.1f} x building it), {plan.status}")
    assert plan.status == "optimal"
    table = interval_costs(graph, [(0, n)], mesh, COSTS, options, analysis=analysis)
    needs = (table.state_bytes + options.in_flight * table.activation_bytes + table.work_bytes)[0, 0]
    for share in (0.999, 0.7, 0.3):
        limit = float(needs.min() + share * (needs[0] - needs.min()))
        bounded = replace(options, memory_bytes=limit)
        taken, plan = cpu(lambda b=bounded: solve_stage(graph, 0, n, mesh, COSTS, b, analysis=analysis))
        print(f"  {limit / 2**30:.2f} GiB: {taken:.2f} CPU s, {plan.status}, gap {plan.gap:.2%}")


@pytest.mark.parametrize("name", ["gpt3-39b", "wide-resnet-13b", "gshard-moe-70b"])
def test_intervals_on_all_views_of_64_devices(name):
    """16 layers, 8 prices of memory; the issue's plan of GPT-39B leaves 30 s for it."""
    graph = zoo_graph(name, 32)
    bounds = layer_bounds(graph)
    step = max(1, round((len(bounds) - 1) / 16))
    layers = list(pairwise((0, *bounds[1:-1][step::step][:15], len(graph.operators))))
    analysis, options = Analysis(graph), IntraOptions(microbatches=32)
    bare = taken = 0.0
    views = 0
    for shape in ((1, 1), (1, 2), (1, 4), *((hosts, 8) for hosts in range(1, 9))):
        mesh = Mesh(CLUSTER, *shape)
        for view in map(mesh.view, mesh.logical_shapes):
            views += 1
            bare += cpu(lambda v=view: build_stage(Pricing(analysis, v, COSTS, options), 0, len(graph.operators)))[0]
            taken += cpu(lambda v=view: interval_costs(graph, layers, v, COSTS, options, analysis=analysis))[0]
    print(
        f"\n{name}: {len(layers)} layers on {views} views: {taken:.1f} CPU s, {taken / bare:.1f} x building each stage"
    )
