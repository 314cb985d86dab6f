"""The inference objective: brute force over every way to cut every operator, and closed forms."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from meshwright.errors import InputError
from meshwright.planners.alpa.inference import InferenceOptions, forward_graph, plan_forward
from meshwright.planners.alpa.intra import IntraOptions, score, solve_stage
from meshwright.profiles.graph import Builder, Graph, roofline, zoo_graph
from meshwright.profiles.hardware import device
from meshwright.simulator.cluster import Cluster
from meshwright.simulator.mesh import Mesh

V100 = device("v100-16gb")
COSTS = roofline(V100)
NO_COPIES = IntraOptions(data_parallel=False)


def chain(batch: int = 8, hidden: int = 64, wide: int = 256, norm: bool = False) -> Graph:
    """Two products with a ReLU between, a softmax behind if asked for, and a loss."""
    g = Builder("chain", batch=batch, dtype="float16")
    x, labels = g.input("features", hidden, dtype=g.dtype), g.input("labels")
    up = g.add("up", "contraction", "b h, h f -> b f", x, g.parameter("w1", hidden, wide), saves=(0, 1))
    active = g.add("relu", "elementwise", "b f -> b f", up, saves=(-1,), fn="relu")
    y = g.add("down", "contraction", "b f, f h -> b h", active, g.parameter("w2", wide, hidden), saves=(0, 1))
    if norm:
        y = g.add("soft", "softmax", "b h -> b h", y, statistic="h", saves=(-1,))
        y = g.add("more", "contraction", "b h, h c -> b c", y, g.parameter("w3", hidden, 32), saves=(0, 1))
    classes = "c" if norm else "h"
    g.add("loss", "loss", f"b {classes}, b ->", y, labels, statistic=classes, dtype="float32", fn="cross_entropy",
          reduction="mean", saves=(0, 1))  # fmt: skip
    return Graph(g.name, g.batch, tuple(g.inputs), tuple(g.parameters), tuple(g.operators))


def on(op: int, shape: tuple[int, int]):
    return Mesh(Cluster(1, 8, "v100-16gb"), 1, op).view(shape)


def test_what_serving_runs_has_no_loss_no_labels_and_nothing_to_train():
    graph = forward_graph(chain())
    assert [op.name for op in graph.operators] == ["up", "relu", "down"]
    assert [x.name for x in graph.inputs] == ["features"]
    assert graph.params == 0
    assert not any(op.saves for op in graph.operators)
    plan = solve_stage(graph, 0, 3, on(4, (1, 4)), COSTS, NO_COPIES)
    assert plan.backward_input_s == plan.backward_weight_s == plan.reduce_s == plan.update_s == 0
    assert plan.activation_bytes == 0  # nothing is kept for a backward pass
    assert {c.phase for c in plan.collectives} <= {"forward"}


def test_a_graph_of_inference_is_served_as_it_is():
    graph = forward_graph(chain())
    assert forward_graph(replace(graph, results=("down",))) == graph


@pytest.mark.parametrize("op", [2, 4, 8])
def test_two_products_are_cut_by_columns_and_rows_with_one_all_reduce(op):
    # Megatron-LM (2019), §3: the closed form is a share of the computation and one all-reduce of the result.
    # Of one request of 2,048 tokens. In shorter ones the launches of an all-reduce cost more than its bytes.
    batch, hidden, wide = 2048, 4096, 16384
    graph = forward_graph(chain(batch, hidden, wide))
    mesh = on(op, (1, op))
    found = solve_stage(graph, 0, 3, mesh, COSTS, NO_COPIES)
    assert [found.operators[name].axes[1] for name in ("up", "relu", "down")] == ["f", "f", "f"]
    assert found.counts == {"forward.all_reduce": 1}
    shares = sum(COSTS.times(x, {"f": op}).forward_s for x in graph.operators)
    assert found.forward_s == pytest.approx(shares + mesh.seconds("all_reduce", batch * hidden * 2.0, (1,)), rel=1e-12)
    assert found.objective == pytest.approx(found.forward_s, rel=1e-12)
    planned = plan_forward(graph, op, V100, COSTS)
    assert planned.seconds <= found.forward_s
    assert planned.computation_s.sum() + planned.collective_s.sum() == pytest.approx(planned.seconds, rel=1e-12)
    # Weights are kept as they are used, so the devices hold one copy between them.
    assert planned.weight_bytes(0, 3) == 2 * hidden * wide * 2 / op


def test_with_data_parallelism_the_samples_are_cut_and_nothing_is_sent():
    graph = forward_graph(chain(512, 1024, 4096))
    copied = plan_forward(graph, 4, V100, COSTS, InferenceOptions(data_parallel=True))
    assert copied.plan.counts == {}
    assert copied.weight_bytes(0, 1) == 1024 * 4096 * 2
    assert copied.seconds < plan_forward(graph, 4, V100, COSTS).seconds


@pytest.mark.parametrize("shape", [(1, 4), (2, 2)])
@pytest.mark.parametrize("norm", [False, True])
def test_brute_force_over_every_way_to_cut(shape, norm):
    graph, mesh = forward_graph(chain(16, 64, 256, norm)), on(4, shape)
    n = len(graph.operators)
    heavy = {op.name: [x.name for x in op.loops if not x.batch] for op in graph.operators if op.heavy}
    live = [size > 1 for size in mesh.shape]
    ways = {
        name: [(a if live[0] else "", b if live[1] else "") for a, b in itertools.product(loops, loops)]
        for name, loops in heavy.items()
    }
    best = solve_stage(graph, 0, n, mesh, COSTS, NO_COPIES)
    every = []
    for vector in itertools.product(*(sorted(set(w)) for w in ways.values())):
        plan = score(graph, 0, n, mesh, COSTS, dict(zip(ways, vector, strict=True)), NO_COPIES)
        # Priced anew from what the plan says it does.
        parts = {name: {} for name in plan.operators}
        for name, entry in plan.operators.items():
            for loop, size in zip(entry.axes, mesh.shape, strict=True):
                if loop and size > 1:
                    parts[name][loop] = parts[name].get(loop, 1) * size
        seconds = sum(COSTS.times(op, parts[op.name]).forward_s for op in graph.operators)
        seconds += sum(mesh.seconds(c.collective, c.n_bytes, c.axes) for c in plan.collectives)
        assert plan.objective == pytest.approx(seconds, rel=1e-9)
        every.append(seconds)
    assert best.status == "optimal"
    assert best.objective == pytest.approx(min(every), rel=1e-9)
    assert len(every) == len(set(ways["up"])) ** (3 if norm else 2)


def test_no_batch_and_no_tokens_are_cut():
    graph = forward_graph(zoo_graph("tiny-gpt", 8))
    copied = plan_forward(graph, 4, V100, COSTS, InferenceOptions(data_parallel=True))
    assert any("b" in entry.axes for entry in copied.plan.operators.values())
    plan = plan_forward(graph, 4, V100, COSTS).plan
    weights = {x.name for x in graph.parameters}
    for op in graph.operators:
        cut = {x for x in plan.operators[op.name].axes if x}
        assert not cut & {x.name for x in op.loops if x.batch}
        if op.heavy and weights & set(op.inputs):
            assert "s" not in cut


def test_experts_may_be_dealt_out():
    graph = forward_graph(zoo_graph("tiny-moe"))
    plan = plan_forward(graph, 4, V100, COSTS)
    up = next(name for name in plan.plan.operators if name.endswith("moe.up"))
    assert set(plan.plan.operators[up].axes) - {""} <= {"e", "h", "f"}


def test_more_devices_than_a_node_has_are_whole_nodes():
    graph = forward_graph(chain(512, 1024, 4096))
    assert plan_forward(graph, 16, V100, COSTS).plan.logical in {(1, 16), (2, 8), (4, 4), (8, 2), (16, 1)}
    with pytest.raises(InputError, match="whole nodes of 8"):
        plan_forward(graph, 12, V100, COSTS)


def test_refusals():
    with pytest.raises(InputError, match="data_parallel must be true"):
        IntraOptions(force_batch=True, data_parallel=False)
    graph = chain()
    with pytest.raises(InputError, match="no operators but the loss"):
        forward_graph(replace(graph, operators=(replace(graph.operators[-1], inputs=("features", "labels")),)))
