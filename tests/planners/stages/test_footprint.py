"""FlexFlow's memory of a stage, tensor by tensor; and what a stage receives, in its price and in the simulation."""

from __future__ import annotations

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.planners.graphpipe import (
    GraphPipeOptions,
    SequentialOptions,
    StageCosts,
    group_operators,
    pipedream,
    plan,
)
from meshwright.planners.stages.footprint import tensor_table
from meshwright.profiles.graph import zoo_graph
from meshwright.simulator.cluster import Cluster
from meshwright.simulator.training.simulate import simulate_training

SLOW = Cluster(2, 4, "v100-16gb")  # 25 Gb/s a node


def priced(name: str, batch: int = 64, devices: tuple[int, ...] = (1, 2)) -> StageCosts:
    graph = zoo_graph(name)
    return StageCosts.of(
        graph, SLOW, global_batch=batch, microbatches=(8, 16), devices=devices, units=group_operators(graph)
    )


def whole(costs: StageCosts) -> float:
    return float(costs.of_sets(np.ones((1, costs.n_units), bool)).activation_bytes[0])


def test_a_transformer_layer_is_counted_by_hand():
    """MMT's layer, in units of sequence x hidden floats (1 MiB), 16 heads of 256 x 256 scores: 4 units each.

    With gradients: two norms, queries, keys, values, the output's projection, two residual sums, down: 9, up with its
    gelu: 4. Without, as cuDNN's reserve has them: scores and softmax, 4 each, and the context.
    """
    graph = zoo_graph("mmt-2")
    table, sizes = tensor_table(graph, group_operators(graph))
    layer = 3  # in the middle of the first branch
    unit = 256 * 1024 * 4
    own = 2 * (9 + 4) + 4 + 4 + 1
    assert sizes[table[:, layer]].sum() / unit == pytest.approx(own + 2)  # and a copy of what it reads, with gradient


def test_a_line_of_products_is_counted_by_hand():
    """CANDLE-Uno's branch: a result and its gradient for each layer; bias and relu write over the product."""
    costs = priced("candle-uno-2").held_as("flexflow")
    width = 4096 * 4
    first, second = (float(x) for x in costs.of_sets(np.eye(costs.n_units, dtype=bool)).activation_bytes[:2])
    assert first == width * (1 + 2)  # features have no gradient
    assert second == width * (2 + 2)
    both = np.zeros((1, costs.n_units), bool)
    both[0, :2] = True
    assert costs.of_sets(both).activation_bytes[0] == width * (1 + 2 + 2)  # what stays inside has no copy


def test_operators_by_themselves_hold_what_crosses():
    """A product apart from its bias cannot be written over by it."""
    graph = zoo_graph("tiny-uno")
    layers, operators = (tensor_table(graph, group_operators(graph, g))[1].sum() for g in ("layer", "operator"))
    assert operators > layers


@pytest.mark.parametrize("name", ["tiny-mmt", "tiny-uno", "candle-uno-4"])
def test_nothing_is_reused_and_nothing_else_changes(name):
    saved = priced(name)
    held = saved.held_as("flexflow")
    assert saved.held_as("saved") is saved
    assert not held.work.any()
    assert whole(held) > whole(saved)
    masks = np.eye(saved.n_units, dtype=bool)
    for b, d in ((8, 1), (16, 2)):
        assert (held.tps(held.of_sets(masks), b, d) == saved.tps(saved.of_sets(masks), b, d)).all()


def test_planners_take_it_and_refuse_others():
    graph, cluster = zoo_graph("tiny-mmt"), Cluster(1, 4, "v100-16gb")
    for make in (plan, pipedream):
        peak = [
            float(max(simulate_training(made).peak_bytes))
            for made in (
                make(graph, cluster, global_batch=16, options={"footprint": how, "microbatches": (4,), "devices": (1,)})
                for how in ("saved", "flexflow")
            )
        ]
        assert peak[1] > peak[0]
    for options in (GraphPipeOptions, SequentialOptions):
        with pytest.raises(InputError, match="footprint"):
            options(footprint="torch")  # type: ignore[arg-type]


def test_what_many_send_is_in_the_price_of_the_one_that_receives():
    """The head of CANDLE-Uno reads seven branches. On two nodes it has two adapters; a sender's one is the limit."""
    costs = priced("candle-uno", batch=1024, devices=(1, 8))
    sets = costs.of_sets(np.eye(costs.n_units, dtype=bool))
    head = costs.n_units - 1
    link = SLOW.spec.inter_node
    arrives = 7 * 4096 * 4 * 16 / link.bandwidth_bytes_per_s + link.latency_s
    assert costs.received_s(sets, 16)[head] == pytest.approx(arrives)
    assert costs.transfer_s(sets, 16, 8)[head] < 0.6 * arrives  # the gradients that it returns, over both adapters
    reduce, step = costs.iteration_s(sets, 8)
    assert costs.tps(sets, 16, 8)[head] == pytest.approx(arrives / 16 + (reduce + step)[head] / 1024)
    busy = (sets.forward_s + sets.backward_input_s + sets.backward_weight_s)[:, costs.column(16, 1)]
    assert (costs.tps(sets, 16, 1) >= (busy + costs.transfer_s(sets, 16, 1)) / 16).all()


@pytest.mark.parametrize("make", [plan, pipedream])
def test_a_simulated_iteration_is_near_its_bottleneck(make):
    """Without the price of what a stage receives these plans took 2.2 and 2.6 times as long as their bottleneck."""
    made = make(zoo_graph("candle-uno"), Cluster(8, 4, "v100-16gb"), global_batch=32768, options={"optimizer": "sgd"})
    longer = made.predicted["seconds"] / (made.predicted["tps"] * 32768)
    assert 0.9 < longer < 1.3
