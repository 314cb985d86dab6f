"""Mixtures of experts: published sizes, the law of distinct experts, config.json fields, tables, cost of a step."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from meshwright.errors import InputError
from meshwright.profiles import device
from meshwright.profiles.llm import (
    DECODERS,
    NO_OVERHEADS,
    Iteration,
    KernelTables,
    Overheads,
    compiled,
    decoder,
    iteration_cost,
    kv_capacity,
)
from meshwright.profiles.llm.decoder import DecoderSpec
from meshwright.profiles.llm.experts import distinct_experts, popularity
from meshwright.profiles.llm.fullest_rank import fullest_rank

Writer = Callable[..., Path]
QWEN = decoder("Qwen3-30B-A3B")


@pytest.mark.parametrize(
    ("name", "total", "active"),
    [  # billions, from the models' cards and papers
        ("Mixtral-8x7B-v0.1", 46.7, 12.9),
        ("Mixtral-8x22B-v0.1", 141.0, 39.0),
        ("Qwen3-30B-A3B", 30.5, 3.3),
        ("Qwen3-235B-A22B", 235.0, 22.0),
        ("Qwen3-Coder-480B-A35B-Instruct", 480.0, 35.0),
    ],
)
def test_published_sizes(name: str, total: float, active: float) -> None:
    assert DECODERS[name].weights == pytest.approx(1e9 * total, rel=0.01)
    assert DECODERS[name].active_weights == pytest.approx(1e9 * active, rel=0.02)


def test_distinct_experts_against_draws() -> None:
    """Uniform: the closed form. Skewed: independent draws with those chances."""
    tokens = np.array([1, 2, 7, 40, 300])
    assert distinct_experts(128, 8, tokens, 0.0) == pytest.approx(128 * (1 - (1 - 8 / 128) ** tokens))
    chance = popularity(16, 4, 1.5)
    assert chance.sum() == pytest.approx(4)
    assert (chance <= 1).all()
    assert (np.diff(chance) <= 0).all()
    hits = np.random.default_rng(0).random((20_000, 5, 16)) < chance
    drawn = hits.any(axis=1).sum(axis=1)
    found = float(distinct_experts(16, 4, 5, 1.5))
    assert abs(drawn.mean() - found) < 4 * drawn.std() / np.sqrt(len(drawn))


def test_the_default_skew_is_that_of_recorded_gates() -> None:
    """0.87 of the uniform law's experts through the middle, k at one token, nearly all of them in large batches."""
    tokens = np.array([1, 16, 32, 1024])
    ratio = distinct_experts(128, 8, tokens) / distinct_experts(128, 8, tokens, 0.0)
    assert ratio == pytest.approx([1.0, 0.87, 0.87, 1.0], abs=0.01)


def test_config_files_of_several_families() -> None:
    base = {
        "num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 8, "num_key_value_heads": 2,
        "vocab_size": 100, "intermediate_size": 96, "max_position_embeddings": 512,
    }  # fmt: skip
    mixtral = DecoderSpec.from_config(
        base | {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}
    )
    assert (mixtral.experts, mixtral.experts_per_token, mixtral.moe_ffn, mixtral.dense_layers) == (8, 2, 96, 0)
    assert mixtral.moe_weights == 8 * 3 * 64 * 96 + 8 * 64
    qwen = DecoderSpec.from_config(
        base | {"model_type": "qwen2_moe", "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
                "shared_expert_intermediate_size": 48, "decoder_sparse_step": 2}
    )  # fmt: skip
    assert (qwen.moe_ffn, qwen.shared_ffn, qwen.dense_layers, qwen.moe_layers) == (32, 48, 2, 2)
    deepseek = DecoderSpec.from_config(
        base | {"model_type": "deepseek", "n_routed_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 32,
                "n_shared_experts": 2, "first_k_dense_replace": 1}
    )  # fmt: skip
    assert (deepseek.shared_ffn, deepseek.dense_layers) == (64, 1)
    each = 3 * 64 * 32
    assert deepseek.weights == (
        4 * deepseek.attention_weights + 3 * 64 * 96 + 3 * (8 * each + 2 * each + 8 * 64) + 2 * 100 * 64
    )
    assert deepseek.weights - deepseek.active_weights == 3 * 5 * each
    inner = DecoderSpec.from_config(
        {"text_config": base | {"model_type": "llama4_text", "num_local_experts": 16, "num_experts_per_tok": 1,
                                "intermediate_size_mlp": 128, "interleave_moe_layer_step": 2}}
    )  # fmt: skip
    assert (inner.ffn, inner.moe_ffn, inner.shared_ffn, inner.dense_layers) == (128, 96, 96, 2)
    with pytest.raises(InputError, match="latent attention"):
        DecoderSpec.from_config(base | {"kv_lora_rank": 512})
    with pytest.raises(InputError, match="num_experts_per_tok"):
        DecoderSpec.from_config(base | {"num_experts": 8, "moe_intermediate_size": 32})


def test_the_roofline_reads_the_experts_that_are_touched() -> None:
    """One token reads k experts' weights; a batch reads the distinct ones: the difference is bytes over bandwidth."""
    gpu = device("h100-80gb")
    cost = iteration_cost(QWEN, gpu, overheads=NO_OVERHEADS, skew=0.0)
    one, many = (
        next(p.seconds for p in cost.explain(Iteration((), n, n * 100, n)) if p.name == "experts") for n in (1, 64)
    )
    rate = 0.8 * gpu.memory_bandwidth_bytes_per_s
    experts = distinct_experts(128, 8, [1, 64], 0.0)
    moved = 48 * 2 * (experts[1] - experts[0]) * QWEN.expert_weights
    moved += 48 * 2 * 63 * 8 * (2 * 2048 + 3 * 768)  # activations in and out
    assert many - one == pytest.approx(moved / rate)
    dense = iteration_cost(decoder("Qwen3-32B"), gpu, overheads=NO_OVERHEADS)
    assert "experts" not in {p.name for p in dense.explain(Iteration((), 8, 800, 8))}


@pytest.mark.parametrize(("tp", "dp", "ep"), [(1, 1, 1), (2, 1, 1), (4, 1, 4), (1, 4, 4), (2, 2, 4), (2, 2, 1)])
def test_parts_add_up_and_numba_agrees(tp: int, dp: int, ep: int) -> None:
    cost = iteration_cost(QWEN, device("h100-80gb"), tp=tp, dp=dp, ep=ep, overheads=Overheads(), max_tokens=4096)
    for step in (
        Iteration((), 33, 33 * 700, 33),
        Iteration(((900, 0),), 5, 4000, 6),
        Iteration(((900, 64), (20, 0), (300, 0)), 64, 64 * 300, 66),
        Iteration(((3000, 0),), 0, 0, 1),
    ):
        seconds = cost.seconds(step)
        assert sum(p.seconds for p in cost.explain(step)) == pytest.approx(seconds, rel=1e-9)
        new, before = np.array(step.prefill, dtype=np.int64).reshape(-1, 2).T.copy()
        assert compiled()(cost.grid(), step.decodes, step.context, new, before, step.outputs) == pytest.approx(
            seconds, rel=1e-12
        )


def test_ranks_that_step_together() -> None:
    """Two ranks with half the requests each: the dense part of half the batch, experts of all of it."""
    gpu = device("h100-80gb")
    quiet = Overheads(cuda_graphs=False, launch_s=0.0, scheduler_s=0.0, per_sequence_s=0.0)
    alone = iteration_cost(QWEN, gpu, overheads=quiet)
    pair = iteration_cost(QWEN, gpu, dp=2, ep=2, overheads=quiet)
    whole = {p.name: p.seconds for p in alone.explain(Iteration((), 64, 64 * 512, 64))}
    half = {p.name: p.seconds for p in alone.explain(Iteration((), 32, 32 * 512, 32))}
    both = {p.name: p.seconds for p in pair.explain(Iteration((), 64, 64 * 512, 64))}
    assert both["QKV projection"] == half["QKV projection"]
    assert both["attention of the fullest rank"] == pytest.approx(half["attention of decodes"])
    fixed = 48 * 4 * 3e-6
    # Half of the experts, and what the fuller rank has more of them (`test_fullest_rank`).
    distinct = fullest_rank(128, 8, 2, np.array([64.0]))[1][0] / distinct_experts(128, 8, 64.0)
    assert 0.5 < distinct < 0.53
    assert both["experts"] - fixed == pytest.approx((whole["experts"] - fixed) * distinct, rel=0.01)
    sent = 0.5 * 64 * 2048 * 2
    line = gpu.intra_node
    assert both["combine experts"] == pytest.approx(48 * (line.latency_s + sent / (0.8 * line.bandwidth_bytes_per_s)))
    # A prompt is on one rank: nobody is done before it.
    prompts = [{p.name: p.seconds for p in cost.explain(Iteration(((512, 0),), 0, 0, 1))} for cost in (alone, pair)]
    assert prompts[0]["QKV projection"] == prompts[1]["QKV projection"]
    assert prompts[0]["attention of prefill"] == pytest.approx(prompts[1]["attention of the fullest rank"])


def test_capacity_with_experts_over_ranks() -> None:
    """Qwen3-30B-A3B: 29 of 30.5 billion weights are experts; two ranks hold half of them each."""
    gib = 2**30
    one = kv_capacity(QWEN, 80 * gib)
    two = kv_capacity(QWEN, 80 * gib, dp=2, ep=2)
    routed = QWEN.moe_layers * QWEN.experts * QWEN.expert_weights
    assert one.weight_bytes == 2 * QWEN.weights
    assert two.weight_bytes == pytest.approx(2 * (QWEN.weights - routed / 2), abs=2)
    assert two.tokens == 2 * two.num_blocks * 16
    assert two.num_blocks > one.num_blocks
    assert "x 2 ranks" in two.explain()
    sharded = kv_capacity(QWEN, 80 * gib, tp=4, ep=4)
    assert sharded.weight_bytes == pytest.approx(2 * QWEN.weights / 4, abs=2)
    with pytest.raises(InputError, match="does not divide the 128 experts"):
        kv_capacity(QWEN, 80 * gib, dp=3, ep=3)
    with pytest.raises(InputError, match="has no experts"):
        kv_capacity(decoder("Qwen3-32B"), 800 * gib, tp=2, ep=2)


@pytest.mark.parametrize("ep", [False, True])
def test_layers_with_experts(
    tmp_path: Path, write_layer_tables: Writer, write_experts: Callable[..., None], ep: bool
) -> None:
    kernels = write_layer_tables(tmp_path, "Qwen/Qwen3-30B-A3B")
    write_experts(kernels, ep=ep)
    tables = KernelTables.load(kernels)
    cost = iteration_cost(QWEN, tables, overheads=NO_OVERHEADS, skew=0.0)
    parts = {p.name: p.seconds for p in cost.explain(Iteration((), 64, 64 * 100, 64))}
    experts = float(distinct_experts(128, 8, 64, 0.0))
    assert parts["experts"] == pytest.approx(48 * 1e-6 * (20 + 10 * experts + 6.4), rel=1e-6)
    assert parts["layernorm"] == pytest.approx(48 * 2 * 1e-6 * (3.0 + 0.64))
    assert "down_proj" not in parts
    pair = iteration_cost(QWEN, tables, dp=2, ep=2, overheads=NO_OVERHEADS, skew=0.0)
    parts = {p.name: p.seconds for p in pair.explain(Iteration((), 64, 64 * 100, 64))}
    rows, distinct = (float(found[0]) for found in fullest_rank(128, 8, 2, np.array([64.0]), 0.0))
    assert parts["experts"] == pytest.approx(48 * 1e-6 * (20 + 10 * distinct + 0.1 * rows / 8), rel=1e-6)
    assert parts["layernorm"] == pytest.approx(48 * 2 * 1e-6 * (3.0 + 0.32))
    assert "dispatch to experts" in parts


def test_layers_of_a_model_with_experts_need_their_table(tmp_path: Path, write_layer_tables: Writer) -> None:
    tables = KernelTables.load(write_layer_tables(tmp_path, "Qwen/Qwen3-30B-A3B"))
    with pytest.raises(InputError, match=r"no moe\.csv"):
        iteration_cost(QWEN, tables)


def test_operators_of_the_very_shape_count(tmp_path: Path, write_tables: Writer) -> None:
    """Power laws of 1.01 before balanced ones and before steeper ones; other shapes by the roofline."""
    system = write_tables(tmp_path)
    rows = [
        ("bfloat16", t, 2048, 768, 8, 128, 1, ep, law, scale * (0.1 + 1e-4 * t))
        for t in (1, 16, 256, 4096)
        for ep in (1, 4)
        for law, scale in (("balanced", 1.0), ("power_law_1.01", 2.0), ("power_law_1.2", 9.0))
    ]
    names = "moe_dtype num_tokens hidden_size inter_size topk num_experts moe_tp_size moe_ep_size distribution latency"
    pd.DataFrame(rows, columns=names.split()).to_parquet(system / "moe_perf.parquet")
    tables = KernelTables.load(system)

    def experts(**degrees: int) -> tuple[float, str]:
        cost = iteration_cost(QWEN, tables, overheads=NO_OVERHEADS, **degrees)
        part = next(p for p in cost.explain(Iteration((), 16, 1600, 16)) if p.name == "experts")
        return part.seconds, part.basis

    assert experts() == (pytest.approx(48 * 2e-3 * (0.1 + 1e-4 * 16)), "measured")
    assert experts(tp=4, ep=4)[1] == "measured"
    assert experts(tp=2)[1] == "extrapolated by roofline"


def test_attention_in_the_newer_form_is_the_same(tmp_path: Path, write_layer_tables: Writer) -> None:
    kernels = write_layer_tables(tmp_path)
    old = KernelTables.load(kernels)
    frame = pd.read_csv(kernels / "attention.csv")
    frame["prefill_key"] = frame.pop("kv_prefill") + frame["prefill_chunk"] / 2
    frame["layer"], frame["decode_q_len"], frame["measurement_protocol"] = "attention", 1, "any"
    drafts = frame.assign(decode_q_len=4, time_us=frame["time_us"] * 3)
    other = frame.assign(layer="indexer", time_us=1.0)
    pd.concat([frame, drafts, other]).to_csv(kernels / "attention.csv", index=False)
    new = KernelTables.load(kernels)
    assert old.layers is not None
    assert new.layers is not None
    for a, b in ((old.layers.decode, new.layers.decode), (old.layers.mixed, new.layers.mixed)):
        assert np.array_equal(a.seconds, b.seconds)
        assert all(np.array_equal(x, y) for x, y in zip(a.axes, b.axes, strict=True))


def test_a_machine_s_memory_and_link(tmp_path: Path, write_layer_tables: Writer) -> None:
    kernels = write_layer_tables(tmp_path)
    samples = [
        {"collective": "all_reduce", "bytes": n, "us": 1e6 * (12e-6 + n / 40e9)} for n in (4096, 65536, 2**20, 2**24)
    ] + [{"collective": "all_gather", "bytes": 4096, "us": 999}]
    said = {"spec": {"memory_total_gib": 23.5}, "measured": {"interconnect": {"samples": samples}}}
    (tmp_path / "hardware.yaml").write_text(json.dumps(said))
    tables = KernelTables.load(kernels)
    assert tables.layers is not None
    assert tables.layers.link is not None
    assert tables.peaks.memory_bytes == int(23.5 * 2**30)
    assert tables.layers.link.bandwidth_bytes_per_s == pytest.approx(40e9)
    assert tables.layers.link.latency_s == pytest.approx(12e-6)
