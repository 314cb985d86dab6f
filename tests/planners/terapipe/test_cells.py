"""Costs of slices of a cell: the whole sequence is the stage, shares add up, and which graphs have slices at all."""

from __future__ import annotations

from dataclasses import replace

import pytest
from meshwright.errors import InputError
from meshwright.planners.alpa.baseline_megatron import block_stages
from meshwright.planners.alpa.intra import IntraOptions
from meshwright.planners.terapipe.cell_pricer import CellPricer
from meshwright.profiles.graph import roofline, zoo_graph
from meshwright.profiles.graph.models.language import Llama
from meshwright.profiles.graph.token_loops import sliced, token_loops
from meshwright.simulator import Cluster
from meshwright.simulator.mesh import Mesh

CLUSTER = Cluster(2, 8, "v100-16gb")
LLAMA = Llama(layers=2, hidden=64, heads=4, kv_heads=2, ffn=96, vocab=128, seq=32, dtype="float16").graph("grouped")


def cell(graph, shape, pipe=2, stage=0, recompute="none"):
    pricer = CellPricer(graph, roofline(CLUSTER.spec), IntraOptions(microbatches=2))
    n = shape[0] * shape[1]
    mesh = Mesh(CLUSTER, max(1, n // 8), min(n, 8)).view(shape)
    return pricer.cell(*block_stages(graph, pipe)[stage], mesh, recompute)


@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (1, 4), (2, 2)])
@pytest.mark.parametrize("name", ["matmuls", "fused", "llama"])
def test_the_whole_sequence_is_the_stage(name, shape, recompute):
    """Priced slice by slice with one slice, a stage takes what Alpa's scoring of it says, collectives included."""
    graph = LLAMA if name == "llama" else zoo_graph("tiny-gpt", attention=name)
    if name == "llama" and shape[1] == 4:
        with pytest.raises(InputError, match="cannot be cut into 4"):
            cell(graph, shape)
        return
    for stage in (0, 1):
        found = cell(graph, shape, stage=stage, recompute=recompute)
        forward, backward = found.seconds(1, found.tokens)
        plan = found.plan
        assert forward == pytest.approx(plan.forward_s, rel=1e-12)
        assert backward == pytest.approx(plan.backward_input_s + plan.backward_weight_s, rel=1e-12)
        assert found.activation_bytes([found.tokens]) == plan.activation_bytes


def test_more_samples_are_the_stage_at_that_batch():
    graph = zoo_graph("tiny-gpt")
    one, four = cell(graph, (1, 2)), cell(graph.with_batch(4), (4, 2))
    assert one.seconds(4, 16)[0] == pytest.approx(cell_at(graph, 4).plan.forward_s, rel=1e-12)
    assert four.seconds(1, 16) == pytest.approx(one.seconds(1, 16), rel=1e-12)  # replicas: only the reduction is more


def cell_at(graph, batch):
    """The stage of a graph whose samples are not spread over replicas."""
    from meshwright.planners.alpa.fixed import megatron
    from meshwright.planners.alpa.inter.pricing.fixed_pricer import fixed_choice
    from meshwright.planners.alpa.intra import score

    graph = graph.with_batch(batch)
    first, last = block_stages(graph, 2)[0]
    mesh = Mesh(CLUSTER, 1, 2).view((1, 2))
    choice = fixed_choice(graph, megatron(graph, (1, 2)), first, last, 0)

    class Found:
        plan = score(graph, first, last, mesh, roofline(CLUSTER.spec), choice, IntraOptions(microbatches=2))

    return Found


def test_context_costs_only_attention():
    """Later slices of one length are slower, by the same products that grow with the keys."""
    found = cell(zoo_graph("gpt3-350m"), (1, 1), pipe=24, stage=1)
    times = [found.seconds(1, 128, 128 * k) for k in range(8)]
    assert times == sorted(times)
    assert times[0][0] < times[-1][0] < 2 * times[0][0]


def test_eq_2_9_meets_the_cost_model():
    """Linear products below a wave of tiles are steps: near in sum, and the fit says how far it is off."""
    found = cell(zoo_graph("gpt3-350m"), (1, 1), pipe=24, stage=1)
    for way, fit in enumerate(found.latencies((1, 2), 64)):
        assert fit.held_out >= 10
        assert 0 < fit.error < fit.overhead_error < 0.3
        for i, j in ((64, 512), (448, 320), (192, 832)):
            assert fit.seconds(i, j, 2) == pytest.approx(found.seconds(2, i, j)[way], rel=0.05)
        assert fit.seconds(640, 0, 2) == found.seconds(2, 640)[way]


def test_fused_slices_compute_what_is_below_the_diagonal():
    graph = zoo_graph("tiny-gpt", attention="fused")
    k = graph.index["layers.0.attention.core"]
    op, loops = graph.operators[k], token_loops(graph)[k]
    pieces = [sliced(op, loops, i, j).flops for i, j in ((5, 0), (3, 5), (8, 8))]
    assert sum(pieces) == pytest.approx(op.flops)


def test_kept_scores_are_a_triangle_of_slices():
    found = cell(zoo_graph("tiny-gpt"), (1, 1))
    per = found.square_bytes / 16**2
    assert found.square_bytes > 0
    saved = found.activation_bytes([16]) - found.activation_bytes([4, 4, 4, 4])
    assert saved == pytest.approx(per * (16 * 16 - 4 * (4 + 8 + 12 + 16)))
    assert cell(zoo_graph("tiny-gpt"), (1, 1), recompute="full").square_bytes == 0


def test_gradients_of_keys_and_values_are_carried():
    """Two blocks a cell, keys and values of 16 tokens x 32 hidden in float32, halved by two devices."""
    assert cell(zoo_graph("tiny-gpt"), (1, 1)).carried_bytes == 2 * 2 * 16 * 32 * 4
    assert cell(zoo_graph("tiny-gpt"), (1, 2)).carried_bytes == 2 * 16 * 32 * 4


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("bert-large", "not causal"),
        ("tiny-moe", "deals tokens out"),
        ("tiny-resnet", "samples are images"),
        ("tiny-mlp", "need sequences of tokens"),
    ],
)
def test_graphs_without_slices(name, said):
    with pytest.raises(InputError, match=said):
        token_loops(zoo_graph(name))


@pytest.mark.parametrize("shape", [(1, 2), (2, 2)])
def test_links_are_busy_for_what_slices_send(shape):
    """A whole sequence's collectives are those of Alpa's stage; slices' take their seconds but for latencies."""
    found = cell(LLAMA, shape)
    forward, backward = found.busy(1, (found.tokens,))
    traffic = found.plan.traffic
    assert forward == pytest.approx(traffic["forward"], rel=1e-12)
    both = [traffic[way] for way in ("backward_input", "backward_weight") if way in traffic]
    assert backward == pytest.approx([sum(busy) for busy in zip(*both, strict=True)], rel=1e-12)
    spec = replace(CLUSTER.spec, intra_node=replace(CLUSTER.spec.intra_node, latency_s=0.0))
    swift = replace(found, mesh=Mesh(Cluster(2, 8, spec), 1, shape[0] * shape[1]).view(shape))
    tokens = (8, 16, 8)
    for backward, busy in enumerate(swift.busy(3, tokens)):
        sent = sum(swift._sending(bool(backward), 3, n, sum(tokens[:k])) for k, n in enumerate(tokens))
        assert busy[0] == pytest.approx(sent, rel=1e-12)
        assert busy[0] > 0
        assert not any(busy[1:])
