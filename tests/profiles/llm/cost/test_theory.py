"""Costs by the roofline against bytes and products counted by hand, as slopes: what is fixed per step falls out."""

from __future__ import annotations

import pytest
from meshwright.profiles import device
from meshwright.profiles.llm import NO_OVERHEADS, DecoderSpec, Iteration, TableCost, iteration_cost
from meshwright.profiles.llm.cost.attention import ATTENTION_S, DECODE_EFFICIENCY
from meshwright.profiles.llm.cost.operators import GEMM_SHARES, GEMM_SHARES_16
from meshwright.profiles.llm.tables.kernels import Peaks

H100 = device("h100-80gb")
RATE = H100.memory_bandwidth_bytes_per_s * DECODE_EFFICIENCY
MODEL = DecoderSpec("toy", 6, 2048, 16, 8192, 32768, 8, 128, max_positions=200_000)


def cost(model: DecoderSpec = MODEL, **options: object) -> TableCost:
    return iteration_cost(model, H100, overheads=NO_OVERHEADS, max_tokens=8, max_outputs=8, **options)  # type: ignore[arg-type]


def per_context_token(made: TableCost, sequences: int = 4) -> float:
    near, far = 20_000, 80_000
    seconds = [made.seconds(Iteration((), sequences, sequences * n, sequences)) for n in (near, far)]
    return (seconds[1] - seconds[0]) / (sequences * (far - near))


@pytest.mark.parametrize(("kv", "width"), [("bf16", 2), ("fp8", 1)])
@pytest.mark.parametrize("tp", [1, 2, 4, 8])
def test_a_decode_reads_a_key_and_a_value_of_every_kv_head_and_layer(kv: str, width: int, tp: int) -> None:
    """For each token of the context: 2 · layers · KV heads · head_dim numbers of the cache's width, over the GPUs."""
    made = cost(kv=kv, tp=tp)
    n_bytes = 2 * MODEL.layers * MODEL.kv_heads // tp * MODEL.head_dim * width
    assert per_context_token(made) == pytest.approx(n_bytes / RATE, rel=1e-6)


@pytest.mark.parametrize(("kv", "width"), [("bf16", 2), ("fp8", 1)])
def test_beyond_its_kv_heads_every_gpu_reads_one(kv: str, width: int) -> None:
    made = cost(kv=kv, tp=16)
    assert per_context_token(made) == pytest.approx(2 * MODEL.layers * MODEL.head_dim * width / RATE, rel=1e-6)


@pytest.mark.parametrize(("precision", "width"), [("bf16", 2), ("fp8", 1)])
def test_a_step_reads_every_weight_once(precision: str, width: int) -> None:
    """Of one sequence: a layer more costs that layer's weights and its small attention, whatever is beside it."""
    deep = DecoderSpec("deep", 12, 2048, 16, 8192, 32768, 8, 128, max_positions=200_000)
    one = Iteration((), 1, 1, 1)
    more = cost(deep, precision=precision).seconds(one) - cost(precision=precision).seconds(one)
    share = (GEMM_SHARES_16 if width == 2 else GEMM_SHARES)[1]
    weights = 6 * MODEL.layer_weights * width / (share * H100.memory_bandwidth_bytes_per_s)
    kernels = 6 * (12 * Peaks.of(H100).kernel_s + ATTENTION_S)  # a few of each layer
    assert weights <= more <= 1.05 * weights + kernels
