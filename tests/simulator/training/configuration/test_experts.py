"""Experts: published parameter counts, every product on some device, exchanged bytes by enumeration, memory by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.planners.megatron import model_shape
from meshwright.profiles.llm import decoder
from meshwright.simulator import Cluster
from meshwright.simulator.training import CORE, TransformerShape, estimate
from meshwright.simulator.training.configuration.collectives import GroupLinks
from meshwright.simulator.training.configuration.columns import Columns
from meshwright.simulator.training.configuration.layer.spread import Spread
from meshwright.simulator.training.configuration.layer_costs import NONE, layer_times
from meshwright.simulator.training.configuration.mixture.exchange import Exchange, nodes_met
from meshwright.simulator.training.configuration.mixture.held import experts_of_stages
from meshwright.simulator.training.configuration.mixture.parts import Experts, Latent
from meshwright.simulator.training.configuration.rates import rates_of
from meshwright.simulator.training.configuration.stages import Stages
from meshwright.simulator.training.configuration.weights import device_params
from test_layer_theory import Counting

H100 = Cluster(8, 8, "h100-80gb")
SMALL = TransformerShape(
    6, 256, 8, 4, 512, 1024, 128, True,
    experts=Experts(8, 2, 128, 256, dense_layers=2, imbalance=1.0),
)  # fmt: skip
LATENT = replace(SMALL, kv_heads=8, head_dim=48, latent=Latent(32, 16, 24, 64))


@pytest.mark.parametrize(
    ("name", "total", "active"),
    [  # billions: DeepSeek-V3's report; Mixtral's paper; Qwen3's report; Meta's model cards (Scout with 1.2 B that see)
        ("deepseek-v3", 671.0, 37.6), ("mixtral-8x7b-v0.1", 46.7, 12.9), ("mixtral-8x22b-v0.1", 140.6, 39.2),
        ("qwen3-235b-a22b", 235.1, 22.2), ("qwen3-30b-a3b", 30.5, 3.3), ("llama-4-scout", 107.8, 17.2),
        ("llama-4-maverick", 400.7, 17.2),
    ],
)  # fmt: skip
def test_parameters_are_the_published_ones(name, total, active):
    shape = model_shape(name)
    assert shape.params / 1e9 == pytest.approx(total, abs=0.06)
    assert shape.active_params / 1e9 == pytest.approx(active, abs=0.06)
    if not name.startswith("llama-4"):
        few = 58 * 256 if name == "deepseek-v3" else 0  # biases of the router
        norms = shape.layers * 2 * shape.head_dim if name.startswith("qwen3") else 0  # of queries and keys: left out
        assert decoder(name).weights == pytest.approx(shape.params - few + norms, rel=1e-5)


def one(shape: TransformerShape, cluster: Cluster, **said: Any) -> Columns:
    return Columns.of(**{"pp": 1, "microbatch": 2, "global_batch": 64, "sequence_parallel": True, **said})


@pytest.mark.parametrize("shape", [SMALL, LATENT], ids=["plain", "latent"])
@pytest.mark.parametrize(
    ("tp", "cp", "ep", "etp"),
    [(1, 1, 1, 1), (1, 1, 8, 1), (2, 1, 4, 0), (2, 1, 8, 1), (1, 2, 4, 1), (2, 2, 2, 2), (4, 2, 8, 1)],
)
def test_no_product_is_lost(shape, tp, cp, ep, etp):
    """What the devices of a stage multiply for one microbatch each is what the model counts."""
    counting: Any = Counting()
    quiet = replace(CORE, op_s=0.0)
    cluster = Cluster(2, 8, "h100-80gb")
    c = one(shape, cluster, tp=tp, dp=16 // tp // cp, cp=cp, ep=ep, etp=etp)
    assert not c.problems(shape, cluster).any()
    rates = rates_of(cluster.spec)
    spread, group = Spread.of(shape, cluster, rates, c), GroupLinks.of(cluster, rates, c.tp, 1)
    own = (c.microbatch, c.sequence_parallel, [NONE], spread)
    dense, mixed = (layer_times(shape, counting, quiet, group, *own, mixed=kind) for kind in (False, True))
    tokens = 2 * shape.seq / (tp * cp)
    found = 2 * dense.gemm[0] + 4 * mixed.gemm[0] + 6 * dense.attention[0]
    # Projections to latents are not split, but each device makes those of its rows; the router alike.
    assert float(found[0]) == pytest.approx(tokens * shape.forward_flops()[0])
    assert float(mixed.gemm[1][0]) == pytest.approx(2 * float(mixed.gemm[0][0]))
    assert float(mixed.weight[0]) == pytest.approx(float(mixed.gemm[0][0]))


@pytest.mark.parametrize(
    ("count", "top_k", "nodes", "limit"), [(8, 2, 4, 0), (8, 3, 2, 0), (12, 3, 4, 2), (8, 8, 4, 0)]
)
def test_nodes_met_by_enumeration(count, top_k, nodes, limit):
    each = count // nodes
    met = []
    for chosen in combinations(range(nodes), limit or nodes):
        inside = [e for e in range(count) if e // each in chosen]
        met += [len({e // each for e in some}) for some in combinations(inside, top_k)]
    assert nodes_met(Experts(count, top_k, 16, nodes=limit), nodes) == pytest.approx(np.mean(met))


def test_exchange_by_hand():
    rates, spec = rates_of(H100.spec), H100.spec
    links = Exchange.of(H100, rates, [1, 4, 16, 16], [1, 1, 1, 2], Experts(16, 2, 64))
    assert links.near.tolist() == [0, 3 / 4, 7 / 16, 3 / 16]
    assert links.far.tolist() == [0, 0, 8 / 16, 12 / 16]
    seconds = links.even(1e9)
    assert seconds[0] == 0
    near = spec.intra_node.bandwidth_bytes_per_s * rates.half[1]
    assert seconds[1] == pytest.approx(spec.intra_node.latency_s + 0.75e9 / near)
    assert seconds[2] == pytest.approx(
        spec.inter_node.latency_s + 0.5e9 / (spec.inter_node.bandwidth_bytes_per_s * 0.9)
    )
    # A token of two experts among 16 on two nodes: 1 - 7/15 meet both, so 1 + 8/15 nodes, half of them the own one.
    assert links.once[2] == pytest.approx((1 + 8 / 15) / 2)
    assert links.tokens(1e9, 2, 1.0, once=True)[2] < links.tokens(1e9, 2, 1.0, once=False)[2]


@pytest.mark.parametrize("shape", [SMALL, replace(SMALL, mtp_layers=1), LATENT])
@pytest.mark.parametrize(
    ("tp", "pp", "ep", "etp"), [(1, 1, 1, 1), (1, 2, 4, 1), (2, 2, 4, 1), (2, 1, 2, 0), (4, 3, 2, 2)]
)
def test_every_weight_is_somewhere(shape, tp, pp, ep, etp):
    """Over the stages, each weight once for all of its replicas; a tail for further tokens has its own layer,
    projection, norms and copy of the embedding."""
    c = one(shape, H100, tp=tp, pp=pp, dp=8, ep=ep, etp=etp)
    stages = Stages.of(shape, c.pp)
    first, last = device_params(shape, c.tp, c.pp)
    routed = experts_of_stages(shape, c, stages)
    split = int(c.expert_tensor[0]) * ep
    found = split * (routed[0][0] if pp == 1 else routed[0][0] + (pp - 2) * routed[1][0] + routed[2][0])
    assert found == pytest.approx((4 + shape.mtp_layers) * 8 * shape.expert_params)
    if tp == 1:
        ends = first[0] if pp == 1 else first[0] + last[0]
        layer = shape.attention_params + shape.latent_params + shape.layer_vector_params
        inner = shape.router_params + shape.shared_params
        further = shape.mtp_layers * (layer + inner + 2 * 256**2 + 3 * 256) + (
            1024 * 256 if shape.mtp_layers and pp > 1 else 0
        )
        assert ends == pytest.approx(shape.params - 32 * shape.expert_params + further)


def test_states_of_experts_by_hand():
    """Mixtral on 16 devices, 8 experts over 8 of them: two replicas of the experts, 16 of the rest."""
    mixtral = model_shape("mixtral-8x7b-v0.1", 4096)
    r = estimate(mixtral, Cluster(2, 8, "h200-141gb"), 1, 1, 16, 1, 16, zero=1, ep=8, check_memory=False)
    routed = 32 * mixtral.expert_params
    rest = mixtral.params - 8 * routed
    held = r.breakdown.memory
    assert held.parameters == pytest.approx(2 * (routed + rest), rel=1e-6)
    assert held.gradients == pytest.approx(4 * (routed + rest), rel=1e-6)
    assert held.optimizer == pytest.approx(12 * (routed / 2 + rest / 16), rel=1e-6)


def test_load_and_capacity_cost_what_they_say():
    even = TransformerShape(4, 4096, 32, 8, 14336, 32000, 4096, True, experts=Experts(8, 2, 14336, imbalance=1.0))
    more = replace(even, experts=Experts(8, 2, 14336, imbalance=2.0))
    full = replace(even, experts=Experts(8, 2, 14336, capacity=2.0))
    base, slow, padded = (estimate(s, Cluster(1, 8, "h100-80gb"), 1, 1, 8, 2, 16, ep=8) for s in (even, more, full))
    assert slow.seconds > base.seconds
    waited = slow.breakdown.time.launch  # for launches of the one expert that a device has: the host knows a capacity
    assert waited > padded.breakdown.time.launch == 0
    assert padded.seconds == pytest.approx(slow.seconds - waited)
    assert slow.breakdown.memory.activations > base.breakdown.memory.activations


def test_overlap_hides_tokens_on_their_way():
    shape = model_shape("mixtral-8x7b-v0.1", 4096)
    plain, hidden = (
        estimate(shape, H100, 1, 4, 16, 1, 256, zero=1, ep=8, overlap_experts=flag, check_memory=False)
        for flag in (False, True)
    )
    assert hidden.breakdown.time.expert_parallel < 0.5 * plain.breakdown.time.expert_parallel
    assert hidden.breakdown.memory.activations > plain.breakdown.memory.activations


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ep": 3}, r"ep: expected a divisor of the 8 experts \(got .*ep 3.*choose another ep"),
        (
            {"ep": 8, "tp": 2, "dp": 4, "sequence_parallel": False},
            "needs sequence_parallel.*set sequence_parallel=True",
        ),
        ({"tp": 2, "dp": 4, "ep": 8, "sequence_parallel": True}, "ep x etp: expected a divisor of tp x cp x dp"),
        ({"etp": 3}, "etp: expected a divisor of the experts' width 128"),
        ({"overlap_experts": True}, "overlap_experts: needs experts on several devices"),
        ({"ep": 0}, "cp, ep and etp: expected positive integers"),
    ],
)
def test_degrees_that_do_not_divide(change, message):
    said = {"tp": 1, "pp": 1, "dp": 8, "microbatch": 1, "global_batch": 8, **change}
    with pytest.raises(InputError, match=message) as caught:
        estimate(SMALL, Cluster(1, 8, "h100-80gb"), **said)
    assert "\n" not in str(caught.value)


def test_bad_parts():
    for part, message in (
        ({"count": 4, "top_k": 5, "ffn": 8}, "top_k: expected at most the 4"),
        ({"count": 4, "top_k": 1, "ffn": 0}, "ffn: expected an integer >= 1"),
        ({"count": 4, "top_k": 1, "ffn": 8, "imbalance": 0.5}, "imbalance: expected a number >= 1"),
        ({"count": 4, "top_k": 1, "width": 8}, "unknown field 'width'"),
        ({"count": 4, "top_k": 1}, "missing"),
        ({"count": 4, "top_k": 1, "ffn": 8, "dense_layers": 2}, "dense_layers: expected fewer than the 2 layers"),
        (7, "expected Experts or its fields"),
    ):
        with pytest.raises(InputError, match=message):
            TransformerShape(2, 64, 4, vocab=100, seq=16, gated=True, experts=part)
    with pytest.raises(InputError, match=r"model.gated: expected True"):
        TransformerShape(2, 64, 4, vocab=100, seq=16, experts={"count": 4, "top_k": 1, "ffn": 8})
    with pytest.raises(InputError, match="ep, etp: expected 1 for a model without experts"):
        estimate(TransformerShape(2, 64, 4, vocab=100, seq=16), Cluster(1, 2, "h100-80gb"), 1, 1, 2, 1, 2, ep=2)
