"""Fixed shardings: the loops that the papers say are cut, and the collectives that follow from them."""

from __future__ import annotations

import pytest
from meshwright.errors import InputError
from meshwright.planners.alpa.fixed import data_parallel, expert_parallel, heuristic, megatron
from meshwright.planners.alpa.inter.pricing.fixed_pricer import FixedPricer
from meshwright.planners.alpa.inter.pricing.repeats import interval_keys
from meshwright.planners.alpa.intra import IntraOptions
from meshwright.profiles.graph import roofline, zoo_graph
from meshwright.simulator import Cluster
from meshwright.simulator.mesh import Mesh


def stage(name, batch, method, shape, zero):
    graph = zoo_graph(name).with_batch(batch)
    cluster = Cluster(1, shape[0] * shape[1])
    pricer = FixedPricer(roofline(cluster.spec), IntraOptions(zero=zero), method)
    mesh = Mesh(cluster, 1, cluster.n_devices).view(shape)
    return graph, pricer.stage(graph, 0, len(graph.operators), mesh, "none", 4, 1, 0.0)


def test_megatron_cuts_columns_then_rows():
    """Shoeybi et al. 2019, Fig. 3: heads and the first product by columns, output products by rows."""
    axes = megatron(zoo_graph("tiny-gpt").with_batch(4), (2, 2))
    cuts = {"q": "n", "k": "n", "v": "n", "scores": "n", "softmax": "n", "context": "n", "out": "n"}
    for name, loop in cuts.items():
        assert axes[f"layers.1.attention.{name}"] == ("b", loop)
    assert axes["layers.1.mlp.up"] == axes["layers.1.mlp.gelu"] == axes["layers.1.mlp.down"] == ("b", "f")
    assert axes["layers.1.norm1"] == axes["layers.1.residual2"] == ("b", "")
    assert axes["embedding"] == axes["head"] == axes["loss"] == ("b", "v")


def test_megatron_sums_twice_a_block_in_each_pass():
    """The same figure: g in the forward pass and f in the backward pass, once for attention and once for the MLP."""
    _, one = stage("tiny-gpt", 4, megatron, (1, 2), 0)
    blocks = 4
    assert one.collectives["forward.all_reduce"] == 2 * blocks + 2  # the embedding's rows, the loss's statistic
    assert one.collectives["backward.all_reduce"] == 2 * blocks + 1  # the head's input
    assert "forward.all_to_all" not in one.collectives


def test_data_parallel_communicates_gradients_only():
    graph, one = stage("tiny-gpt", 8, data_parallel, (1, 4), 0)
    assert set(one.collectives) <= {"forward.all_reduce", "reduce.all_reduce"}
    assert one.collectives["forward.all_reduce"] == 1  # the loss
    assert one.collectives["reduce.all_reduce"] >= len(graph.parameters)
    assert all(set(spec) <= {"R"} for spec in one.parameters.values())


def test_zero_2_scatters_gradients_and_gathers_weights():
    _, plain = stage("tiny-gpt", 8, data_parallel, (1, 4), 0)
    _, cut = stage("tiny-gpt", 8, data_parallel, (1, 4), 2)
    assert "reduce.reduce_scatter" in cut.collectives
    assert "update.all_gather" in cut.collectives
    assert cut.state_bytes < plain.state_bytes
    weights = [name for name in cut.parameters if name.endswith(".weight") and "norm" not in name]
    assert all(set(cut.parameters[name]) <= {"R"} for name in weights)


def test_zero_3_gathers_weights_where_they_are_used():
    _, cut = stage("tiny-gpt", 8, data_parallel, (1, 4), 3)
    assert cut.collectives["forward.all_gather"] > 0
    assert any("S" in spec for spec in cut.parameters.values())


def test_experts_are_dealt_to_devices():
    graph = zoo_graph("tiny-moe").with_batch(8)
    axes = expert_parallel(graph, (2, 2))
    assert axes["layers.1.moe.up"] == axes["layers.1.moe.gelu"] == axes["layers.1.moe.down"] == ("b", "e")
    assert axes["layers.1.moe.combine"] == axes["layers.0.mlp.up"] == ("b", "b")
    _, one = stage("tiny-moe", 8, expert_parallel, (1, 4), 2)
    blocks = 2  # every other block has experts
    assert one.collectives["forward.all_to_all"] == 2 * blocks  # there and back (GShard, §3.2)
    assert one.collectives["backward.all_to_all"] == 2 * blocks


def test_the_heuristic_cuts_the_largest_dimensions():
    axes = heuristic(zoo_graph("tiny-gpt").with_batch(4), (1, 4))
    assert axes["embedding"] == ("", "v")
    assert axes["layers.0.mlp.up"][1] in ("h", "f")
    _, one = stage("tiny-gpt", 4, heuristic, (1, 4), 2)
    assert sum(n for what, n in one.collectives.items() if what.startswith("forward")) > 1


def test_what_cannot_be_cut_is_refused():
    graph = zoo_graph("tiny-gpt").with_batch(2)
    with pytest.raises(InputError, match="batch of 2 cannot be cut into 4"):
        data_parallel(graph, (1, 4))
    with pytest.raises(InputError, match="tensor-parallel degree"):
        megatron(graph, (1, 8))  # four heads
    with pytest.raises(InputError, match="experts"):
        expert_parallel(zoo_graph("tiny-moe").with_batch(16), (1, 16))


def test_runs_of_layers_that_are_built_alike_have_one_key():
    graph = zoo_graph("tiny-gpt")
    starts = [graph.index[f"layers.{k}.norm1"] for k in range(4)]
    layers = list(zip([0, *starts[1:]], [*starts[1:], len(graph.operators)], strict=True))
    keys = interval_keys(graph, layers)
    assert keys[1, 1] == keys[2, 2]
    assert len({keys[i, i] for i in range(4)}) == 3  # the first has the embedding, the last the head
    assert keys[0, 1] != keys[1, 2] != keys[2, 3]
    shifted = [(a + 1, b + 1) for a, b in layers[:-1]]
    assert interval_keys(graph, shifted)[1, 1] != keys[1, 1]
