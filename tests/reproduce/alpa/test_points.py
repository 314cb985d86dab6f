"""Points of Alpa's figures: what is measured, on models that plan in seconds."""

from __future__ import annotations

import dataclasses
import math
import re

import numpy as np
import pytest
from meshwright.planners.alpa import AlpaOptions, plan
from meshwright.profiles.graph import roofline
from meshwright.profiles.graph.zoo import zoo_graph
from meshwright.reproduce.alpa import ablation, points, systems
from meshwright.reproduce.alpa.picture import layers
from meshwright.reproduce.alpa.prices import best_with, seconds_with
from meshwright.simulator.cluster import Cluster
from meshwright.simulator.mesh import Mesh


def test_best_cut_by_hand():
    inf = math.inf
    first = np.array([[1, 2, 6], [inf, 1, 5], [inf, inf, 4.0]])
    second = np.array([[1, 2, 3], [inf, 2, 4], [inf, inf, 1.0]])
    # cuts after layer 0: 1 + 4 + 9 x 4 = 41; after layer 1: 2 + 1 + 9 x 2 = 21
    assert best_with([first, second], 10) == 21
    assert best_with([first], 10) == 6 + 9 * 6


def test_given_stages_cost_what_the_planner_says_of_its_own():
    graph, cluster, options = zoo_graph("tiny-gpt", 4), Cluster(1, 4), AlpaOptions(recompute="full", n_layers=4)
    found = plan(graph, cluster, global_batch=16, microbatches=4, options=options)
    gpus = [found.mesh(s).n_devices for s in range(len(found.stages))]
    ours = seconds_with(graph, cluster, 4, options, gpus)
    assert ours == pytest.approx(found.predicted["dp_seconds"], rel=1e-9)
    for other in ([1, 1, 2], [2, 2], [4], [1, 1, 1, 1]):
        assert seconds_with(graph, cluster, 4, options, other) >= ours * (1 - 1e-9)


def test_prices_that_are_remembered_give_the_same_plans(monkeypatch):
    from meshwright.planners.alpa.inter.pricing import intra_pricer
    from meshwright.reproduce.alpa.prices import Remembering

    graph, cluster, options = zoo_graph("tiny-gpt", 4), Cluster(1, 4), AlpaOptions(recompute="full", n_layers=4)
    calls: list[object] = []
    whole = intra_pricer.interval_costs
    monkeypatch.setattr(intra_pricer, "interval_costs", lambda *a, **k: (calls.append(a), whole(*a, **k))[1])
    kept, seconds = Remembering.of(cluster, options), []
    for stages, pricer in (("any", None), ("any", kept), ("equal_layer", kept)):
        before = len(calls)
        given = {"options": dataclasses.replace(options, stages=stages), "pricer": pricer}
        found = plan(graph, cluster, global_batch=16, microbatches=4, **given)
        seconds.append((found.predicted["seconds"], len(calls) - before))
    assert seconds[0] == seconds[1]
    assert seconds[1][1] > 0
    assert seconds[2][1] == 0
    assert seconds[2][0] >= seconds[1][0]


def test_a_network_that_is_swept_is_the_testbeds_but_for_its_rate():
    slow = systems.Assumed(network_gbps=10.0, nvlink=0.5).cluster(16).spec
    spec = systems.AS_SAID.cluster(16).spec
    assert slow.inter_node.bandwidth_bytes_per_s == pytest.approx(1.25e9)
    assert slow.intra_node.bandwidth_bytes_per_s == pytest.approx(0.5 * spec.intra_node.bandwidth_bytes_per_s)
    assert dataclasses.replace(slow, inter_node=spec.inter_node, intra_node=spec.intra_node, name=spec.name) == spec
    assert systems.options_of("moe", "Alpa", 16, systems.Assumed(layers=5))["n_layers"] == 5
    assert systems.options_of("moe", "Alpa", 16)["n_layers"] == 8


def test_layers_of_a_plan_have_the_cuts_that_it_says():
    graph, cluster = zoo_graph("tiny-resnet", 8), Cluster(1, 4)
    found = plan(graph, cluster, global_batch=16, microbatches=2, options={"stages": "one"})
    parts = layers(found, graph)
    weights = {t.name for t in graph.parameters if t.name.endswith(".weight") and ".norm" not in t.name}
    assert {f"{x.name}.weight" for x in parts} == weights
    (stage,) = found.stages
    for x in parts:
        batch, channels = re.findall(r"R|S\d+", stage.operators[x.name].result)[:2]
        for axes, spec in ((x.activation.rows, batch), (x.activation.columns, channels)):
            assert sorted(spec[1:]) == sorted(map(str, axes))
        loops = dict(enumerate(stage.operators[x.name].axes))
        used = {*x.activation.rows, *x.activation.columns, *x.weight.rows}
        assert used == {a for a, loop in loops.items() if loop and stage.logical[a] > 1}


def test_ways_of_sharding_are_what_they_say():
    from meshwright.planners.alpa.intra import Analysis

    graph, cluster = zoo_graph("tiny-gpt", 8), Cluster(1, 4)
    mesh, costs = Mesh(cluster, 1, 4).view((1, 4)), roofline(cluster.spec)
    ways = {
        name: ablation.sharded(graph, way, mesh, costs, Analysis(graph), "resnet")
        for name, way in ablation._WAYS.items()  # pyright: ignore[reportPrivateUsage]
    }
    data, zero2, zero3, heuristic = (ways[n] for n in ("Data", "ZeRO-2", "ZeRO-3", "Heuristic"))
    assert set("".join(data.parameters.values())) == {"R"}
    assert data.optimizer_states == {}
    assert set("".join(zero2.parameters.values())) == {"R"}
    assert all("S1" in spec for spec in zero2.optimizer_states.values())
    assert all("S1" in spec for spec in zero3.parameters.values())
    assert all("S1" in spec for spec in heuristic.parameters.values())
    # Adam in float32, per parameter: 4 + 4 + 8 bytes, of which ZeRO-2 cuts gradient and state, ZeRO-3 all.
    params = graph.params
    assert data.state_bytes == pytest.approx(16 * params)
    assert zero2.state_bytes == pytest.approx((4 + 12 / 4) * params)
    assert zero3.state_bytes == pytest.approx(16 / 4 * params)
    assert ways["Auto-sharding"].objective <= min(p.objective for n, p in ways.items() if n != "ZeRO-3") * (1 + 1e-9)


def test_sizes_and_batches_are_the_papers():
    from meshwright.profiles.graph.zoo import ZOO

    for family in systems.FAMILIES.values():
        assert set(family.models) == {1, 4, 8, 16, 32, 64}
        assert set(family.models.values()) <= set(ZOO)
        for system in systems.SYSTEMS[family.name]:
            for gpus in family.models:
                assert all(family.batch % count == 0 for count in family.counts(system, gpus))
    assert [f.batch for f in systems.FAMILIES.values()] == [1024, 1024, 1536]


def test_a_point_that_does_not_fit_is_nan_with_its_reason(monkeypatch):
    from meshwright.errors import InfeasibleError

    monkeypatch.setattr(systems, "_best", lambda *_: InfeasibleError("needs 20 GiB"))
    row = points.measure("gpt", "Alpa", 4)
    assert math.isnan(row["pflops"])
    assert row["note"] == "needs 20 GiB"
    with pytest.raises(InfeasibleError, match="20 GiB"):
        systems.plan_of("gpt", "Alpa", 4)


def test_reshardings_of_one_plan_are_ordered(monkeypatch):
    graph, cluster = zoo_graph("tiny-resnet", 8), Cluster(2, 4)
    found = plan(graph, cluster, global_batch=32, microbatches=4)
    monkeypatch.setattr(points, "plan_of", lambda *_, **__: found)
    frame = points.measure_reshardings((8,)).set_index("system").seconds
    signal, naive, shared, local = (frame[name] for name in points.RESHARDINGS)
    assert signal <= local <= shared * (1 + 1e-9)
    assert shared <= naive * (1 + 1e-9)
