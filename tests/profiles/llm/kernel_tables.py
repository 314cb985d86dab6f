"""Small kernel tables in the two public formats, following plain laws, for the tests of tables and costs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

FLOPS, BANDWIDTH, LINK = 1e15, 3e12, 4e11
YAML = f"""
gpu: {{mem_bw: {BANDWIDTH}, bfloat16_tc_flops: {FLOPS}, fp8_tc_flops: {2 * FLOPS}, mem_capacity: 80000000000}}
node: {{intra_node_bw: {LINK}, inter_node_bw: 50000000000, p2p_latency: 0.00001, num_gpus_per_node: 8}}
"""


def gemm_frame(scale: float = 1e3) -> pd.DataFrame:
    rows = []
    for dtype, size in (("bfloat16", 2), ("fp8", 1)):
        for m in (1, 16, 256, 4096):
            for n in (128, 2048, 32768):
                for k in (128, 2048, 16384):
                    moved = size * (k * n + m * k) + 2 * m * n
                    best = max(2 * m * n * k / (FLOPS * 2 / size), moved / BANDWIDTH)
                    extra = 7e-6 + 1e-11 * m * k if dtype == "fp8" else 0.0
                    rows.append((dtype, m, n, k, scale * (3e-6 + best / 0.8 + extra)))
    return pd.DataFrame(rows, columns=["gemm_dtype", "m", "n", "k", "latency"])


def attention_frame(decode: bool) -> pd.DataFrame:
    rows = []
    for kv_heads, kv in ((1, "bfloat16"), (8, "bfloat16"), (8, "fp8")):
        for heads in (8, 64):
            for batch in (1, 4, 64):
                for length in (2, 128, 1024, 8192):
                    if batch * length > 64 * 1024:
                        continue
                    if decode:
                        best = 4 * kv_heads * 128 * batch * length / BANDWIDTH / (1 + (kv == "fp8"))
                    else:
                        best = 4 * heads * 128 * batch * length * (length + 1) / 2 / FLOPS
                    isl, step = (1, length - 1) if decode else (length, 0)
                    rows.append((batch, isl, heads, kv_heads, 128, step, "bfloat16", kv, 1e3 * (5e-6 + best / 0.7)))
    names = "batch_size isl num_heads num_key_value_heads head_dim step attn_dtype kv_cache_dtype latency"
    return pd.DataFrame(rows, columns=names.split())


def reduce_frame() -> pd.DataFrame:
    rows = [
        ("bfloat16", way, devices, size, 1e3 * (4e-6 + 2 * (devices - 1) / devices * 2 * size / (0.8 * LINK)))
        for way in ("vllm_graph", "vllm_eager")
        for devices in (2, 4)
        for size in (128, 65536, 67108864)
    ]
    return pd.DataFrame(rows, columns=["allreduce_dtype", "backend", "num_gpus", "message_size", "latency"])


def write_system(folder: Path) -> Path:
    system = folder / "toy"
    system.mkdir()
    (folder / "toy.yaml").write_text(YAML)
    gemm_frame().to_parquet(system / "gemm.parquet")
    attention_frame(False).to_parquet(system / "context_attention.parquet")
    attention_frame(True).to_parquet(system / "generation_attention.parquet")
    reduce_frame().to_parquet(system / "custom_allreduce.parquet")
    return system


def write_layers(folder: Path, model: str = "meta-llama/Llama-3.2-1B") -> Path:
    """Layers of Llama-3.2-1B (hidden 2048, 32 heads and 8 KV heads of 64, vocabulary 128256) at 1 TB/s."""
    kernels = folder / "kernels"
    kernels.mkdir()
    (kernels / "meta.yaml").write_text(f"model: {model}\nhardware: toy\ngpu: Toy\nvllm_version: 0.0\n")
    layers = ["embedding", "layernorm", "qkv_proj", "rotary_emb", "o_proj", "gate_up_proj", "act_fn", "down_proj"]
    dense = [(layer, t, 2.0 + i + 0.01 * t) for i, layer in enumerate(layers) for t in (1, 16, 64, 2048)]
    pd.DataFrame(dense, columns=["layer", "tokens", "time_us"]).to_csv(kernels / "dense.csv", index=False)
    heads = [("lm_head", s, 525.0 + s) for s in (1, 8, 64)] + [("sampler", s, 20.0 + s) for s in (1, 8, 64)]
    pd.DataFrame(heads, columns=["layer", "sequences", "time_us"]).to_csv(kernels / "per_sequence.csv", index=False)
    rows = []
    for chunk in (0, 16, 64, 512):
        for before in (0, 16, 1024) if chunk else (0,):
            for decodes in (0, 1, 8, 32):
                for context in (16, 128, 2048) if decodes else (0,):
                    if chunk or decodes:
                        rows.append(
                            (
                                chunk,
                                before,
                                decodes,
                                context,
                                5 + 0.1 * chunk + chunk * before / 1e3 + decodes * context / 1e2,
                            )
                        )
    rows.append((24, 16, 1, 16, 9.0))  # a refinement of one axis, as the public tables have
    names = ["prefill_chunk", "kv_prefill", "n_decode", "kv_decode", "time_us"]
    pd.DataFrame(rows, columns=names).to_csv(kernels / "attention.csv", index=False)
    return kernels


def write_moe(kernels: Path, *, ep: bool) -> None:
    """Experts at 10 us each and 0.1 us a token; half the tokens' time where experts are split in two."""
    rows = [
        (degree, tokens, experts, 20 + 10.0 * experts + 0.1 * tokens / degree)
        for degree in ((1, 2) if ep else (1,))
        for tokens in (1, 4, 16, 64, 256, 2048)
        for experts in (8, 16, 32, 64, 128)
        if 8 // degree <= experts <= min(128 // degree, tokens * 8)
    ]
    frame = pd.DataFrame(rows, columns=["ep", "tokens", "activated_experts", "time_us"])
    (frame if ep else frame.drop(columns="ep")).to_csv(kernels / "moe.csv", index=False)
    dense = pd.read_csv(kernels / "dense.csv")
    inner = dense["layer"].isin(["gate_up_proj", "act_fn", "down_proj"])
    dense[~inner].to_csv(kernels / "dense.csv", index=False)


COLUMNS = [
    "model_path", "system", "backend", "precision", "gemm_quant_mode", "isl", "osl", "batch_size", "concurrency",
    "tp_size", "pp_size", "silicon_ttft_ms", "silicon_tpot_ms",
]  # fmt: skip
ROW = ["meta-llama/Llama-3.1-8B", "toy", "vllm", "", "", 512, 32, 4, 4, 1, 1, 20.0, 5.0]


def silicon_rows(folder: Path, *changes: dict, columns: list[str] = COLUMNS) -> Path:
    path = folder / "rows.csv"
    said = [dict(zip(COLUMNS, ROW, strict=True)) | change for change in changes]
    pd.DataFrame(said, columns=columns).to_csv(path, index=False)
    return path


def recorded_run(folder: Path, model: str = "meta-llama/Llama-3.2-1B", **arguments) -> Path:
    kept = folder / "run"
    kept.mkdir()
    said = {"tensor_parallel_size": 1, "max_num_seqs": 8, "max_num_batched_tokens": 512, "max_model_len": None}
    meta = {"model": model, "vllm_version": "0.19.0", "engine_kwargs": said | arguments}
    (kept / "meta.json").write_text(json.dumps(meta))
    lines = []
    for i in range(4):
        queued = 100.0 + i + 0.002 * (i > 0)
        lines.append(
            {
                "input_toks": 64,
                "output_toks": 11,
                "arrival_time": 5000.0 + i,
                "queued_ts": queued,
                "first_token_ts": queued + 0.05,
                "last_token_ts": queued + 0.25,
            }
        )
    (kept / "requests.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    ticks = [(t, 10.0, 10.0, 1, 0, 3.0) for t in (1.0, 2.0, 3.0)]
    names = ["t", "prompt_throughput", "gen_throughput", "running", "waiting", "kv_cache_pct"]
    pd.DataFrame(ticks, columns=names).to_csv(kept / "timeseries.csv", index=False)
    return kept


@pytest.fixture
def silicon_columns() -> list[str]:
    """Columns of a file of measured rows."""
    return list(COLUMNS)


@pytest.fixture
def rows_file() -> Callable[..., Path]:
    """Writes a file of measured rows."""
    return silicon_rows


@pytest.fixture
def write_run() -> Callable[..., Path]:
    """Writes a recorded run of four requests that never meet, and gives its folder."""
    return recorded_run


@pytest.fixture
def write_experts() -> Callable[..., None]:
    """Writes experts beside tables by layer, and takes the feed-forward block out of them."""
    return write_moe


@pytest.fixture
def write_tables() -> Callable[..., Path]:
    """Writes tables by operator into a folder, and gives the system's."""
    return write_system


@pytest.fixture
def write_layer_tables() -> Callable[..., Path]:
    """Writes tables by layer into a folder, and gives theirs."""
    return write_layers


@pytest.fixture
def gemm_rows() -> Callable[..., pd.DataFrame]:
    """The GEMM table at a scale of its unit (milliseconds: 1000)."""
    return gemm_frame
