"""Shards of sequences in the cost of an iteration and in KV memory: the same bytes as `decode_layer`."""

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.profiles import device
from meshwright.profiles.llm import (
    NO_OVERHEADS,
    Iteration,
    KernelTables,
    Overheads,
    Parallel,
    compiled,
    decode_layer,
    decoder,
    iteration_cost,
    kv_capacity,
)
from meshwright.profiles.llm.cost.attention import DECODE_EFFICIENCY
from meshwright.profiles.llm.cost.operators import OperatorKernels

LLAMA = decoder("Llama-2-7b")
GROUPED = decoder("Llama-3.1-70B")
GPU = device("a100-80gb")
LAYOUTS = [
    (LLAMA, Parallel(cp=4, exchange="qkv")),
    (LLAMA, Parallel(cp=4, exchange="q")),
    (LLAMA, Parallel(cp=4, exchange="helix")),
    (LLAMA, Parallel(tp=2, cp=2, exchange="qkv")),
    (GROUPED, Parallel(tp=16, cp=2, exchange="ag_rs")),
    (GROUPED, Parallel(tp=16, cp=2, exchange="a2a")),
]


def cost_of(model, layout, **more):
    return iteration_cost(
        model, GPU, tp=layout.tp, cp=layout.cp, exchange=layout.exchange, **({"overheads": NO_OVERHEADS} | more)
    )


@pytest.mark.parametrize(("model", "layout"), LAYOUTS)
def test_the_same_bytes_as_a_layer_of_the_decode_step(model, layout):
    """Exchanges between shards: message by message; all-reduces are the engine's in both."""
    batch = 64
    layer = decode_layer(model, layout, [1000] * batch)
    kernels = cost_of(model, layout).kernels
    assert isinstance(kernels, OperatorKernels)
    ours = kernels.exchanges(batch)
    theirs = [c for c in layer.collectives if c.kind != "all-reduce"]
    assert [(c.name, c.sent_bytes, c.steps) for c in ours] == [(c.name, c.sent_bytes, c.steps) for c in theirs]
    line = GPU.intra_node
    rate = 0.8 * line.bandwidth_bytes_per_s if layout.stage_devices <= 8 else GPU.inter_node.bandwidth_bytes_per_s
    parts = {p.name: p.seconds for p in cost_of(model, layout).explain(Iteration((), batch, 1000 * batch, batch))}
    for c in theirs:
        expected = c.steps * line.latency_s + c.sent_bytes / rate
        assert parts[f"exchange of {c.name}"] == pytest.approx(model.layers * expected)


@pytest.mark.parametrize(("model", "layout"), LAYOUTS)
def test_a_rank_reads_its_shard(model, layout):
    """Attention's slope over the context is that of the bytes of `decode_layer` at the same bandwidth."""
    cost = cost_of(model, layout)

    def attention(context):
        parts = cost.explain(Iteration((), 32, 32 * context, 32))
        return next(p.seconds for p in parts if p.name == "attention of decodes")

    def read(context):
        return decode_layer(model, layout, [context] * 32).kv_bytes

    slope = (attention(64_000) - attention(32_000)) / model.layers
    bandwidth = DECODE_EFFICIENCY * GPU.memory_bandwidth_bytes_per_s
    assert slope == pytest.approx((read(64_000) - read(32_000)) / bandwidth, rel=1e-6)


@pytest.mark.parametrize(("model", "layout"), LAYOUTS)
def test_parts_add_up_and_numba_agrees(model, layout):
    cost = cost_of(model, layout, overheads=Overheads(), max_tokens=2048)
    for step in (Iteration((), 40, 40 * 900, 40), Iteration(((700, 0), (16, 64)), 8, 4000, 10)):
        assert sum(p.seconds for p in cost.explain(step)) == pytest.approx(cost.seconds(step))
        new, before = np.array(step.prefill, dtype=np.int64).reshape(-1, 2).T.copy()
        found = compiled()(cost.grid(), step.decodes, step.context, new, before, step.outputs)
        assert found == pytest.approx(cost.seconds(step), rel=1e-12)


def test_memory_of_shards():
    """Thesis CP: all weights on each rank, every fourth token; DCP: the copies of KV heads hold other tokens."""
    gib = 2**30
    whole = kv_capacity(LLAMA, 40 * gib)
    shards = kv_capacity(LLAMA, 40 * gib, cp=4, exchange="qkv")
    assert (shards.weight_bytes, shards.num_blocks) == (whole.weight_bytes, whole.num_blocks)
    assert shards.tokens == 4 * whole.tokens
    helix = kv_capacity(LLAMA, 40 * gib, cp=4, exchange="helix")
    assert whole.weight_bytes / 4 < helix.weight_bytes < whole.weight_bytes
    repeated = kv_capacity(GROUPED, 40 * gib, tp=16)
    split = kv_capacity(GROUPED, 40 * gib, tp=16, cp=2)
    assert split.block_bytes == repeated.block_bytes
    assert split.tokens == 2 * repeated.tokens


def test_layouts_that_cannot_be(tmp_path, write_layer_tables):
    with pytest.raises(InputError, match="at most tp / KV heads"):
        iteration_cost(GROUPED, GPU, tp=8, cp=2)
    with pytest.raises(InputError, match="exchange"):
        iteration_cost(LLAMA, GPU, cp=2, exchange="carrier pigeons")
    tables = KernelTables.load(write_layer_tables(tmp_path))
    with pytest.raises(InputError, match="no shards of sequences"):
        iteration_cost(decoder("Llama-3.2-1B"), tables, cp=2, exchange="qkv")
