"""Layers and stages of estimates against the model's own counts: every product is there, every weight is somewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from meshwright.simulator import Cluster
from meshwright.simulator.training import CORE, MEGATRON_2022, TransformerShape
from meshwright.simulator.training.configuration.collectives import GroupLinks
from meshwright.simulator.training.configuration.kernels import Kernels
from meshwright.simulator.training.configuration.layer_costs import FULL, NONE, SELECTIVE, end_times, layer_times
from meshwright.simulator.training.configuration.memory import (
    chunks_in_flight,
    device_params,
    layer_params,
    stage_layers,
)
from meshwright.simulator.training.configuration.rates import rates_of

NODE = Cluster(1, 8, "a100-80gb")
SHAPES = [
    TransformerShape(8, 512, 8, vocab=1024, seq=256),
    TransformerShape(8, 512, 8, vocab=1024, seq=256, tied=False),
    TransformerShape(8, 512, 8, 2, 1536, 1024, 256, gated=True),
    TransformerShape(8, 512, 8, 2, 1536, 1024, 256, gated=True, tied=True),
]


class Counting:
    """Kernels that take as many seconds as they have FLOPs in products, or none."""

    dtype = "bf16"
    size = 2

    def gemm(
        self, m: Any, n: Any, k: Any, *, batch: Any = 1, output_bytes: float | None = None, narrow: bool = False
    ) -> Any:
        return 2.0 * batch * m * n * k

    def flash(
        self, tokens: Any, heads: Any, seq: int, head_dim: int, *, backward: bool, generation: int | None = None
    ) -> Any:
        return (5 if backward else 2) * 2.0 * tokens * heads * seq * head_dim

    def streaming(self, n_bytes: Any, kernels: int = 1) -> Any:
        return 0.0 * n_bytes

    def beside(self, collective: Any, work: Any) -> Any:
        return 0.0 * work


def group(tp: int) -> GroupLinks:
    free = replace(NODE.spec.intra_node, latency_s=0.0, bandwidth_bytes_per_s=1e300)
    return GroupLinks.of(replace(NODE, device=replace(NODE.spec, intra_node=free)), rates_of(NODE.spec), [tp], 1)


@pytest.mark.parametrize("stack", [CORE, MEGATRON_2022], ids=["fused", "unfused"])
@pytest.mark.parametrize("tp", [1, 2])
@pytest.mark.parametrize("shape", SHAPES)
def test_no_product_of_a_layer_is_lost(shape: TransformerShape, tp: int, stack: Any) -> None:
    """Forward: what the model counts, over the devices. Backward: twice that, fused attention 5/2 of it."""
    counting: Any = Counting()
    quiet = replace(stack, op_s=0.0)
    tokens = 3 * shape.seq
    layers, head = shape.forward_flops()
    times = layer_times(shape, counting, quiet, group(tp), 3, False, NONE)
    matrices = 2 * shape.layer_matrix_params * tokens / tp
    attention = shape.attention_flops * tokens / tp
    assert layers == shape.layers * (2 * shape.layer_matrix_params + shape.attention_flops)
    assert float(times.gemm[0][0]) == pytest.approx(matrices)
    assert float(times.gemm[1][0]) == pytest.approx(2 * matrices)
    assert float(times.attention[0][0]) == pytest.approx(attention)
    assert float(times.attention[1][0]) == pytest.approx((2.5 if stack.flash else 2) * attention)
    ends = end_times(shape, counting, group(tp), 3, False)
    assert float(ends.head_forward[0]) == pytest.approx(head * tokens / tp)
    assert float(ends.head_backward[0]) == pytest.approx(2 * head * tokens / tp)


@pytest.mark.parametrize("stack", [CORE, MEGATRON_2022], ids=["fused", "unfused"])
def test_recomputation_is_a_forward_pass_or_its_attention(stack: Any) -> None:
    counting: Any = Counting()
    quiet = replace(stack, op_s=0.0)
    times = {
        code: layer_times(SHAPES[0], counting, quiet, group(1), 2, False, code) for code in (NONE, SELECTIVE, FULL)
    }
    assert float(times[NONE].recompute[0]) == 0
    forward = float(times[FULL].gemm[0][0] + times[FULL].attention[0][0])
    assert float(times[FULL].recompute[0]) == pytest.approx(forward)
    core = 0.0 if stack.flash else float(times[NONE].attention[0][0])
    assert float(times[SELECTIVE].recompute[0]) == pytest.approx(core)


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_fused_attention_is_causal_and_its_backward_pass_has_five_products(dtype: str) -> None:
    """Of s scores for each token and head half are needed: two products forward, five backward."""
    rates = replace(rates_of(NODE.spec), kernel_s=0.0)
    kernels = Kernels(NODE.spec, rates, dtype)
    tokens, heads, seq, width = 2**20, 16.0, 2048, 128
    product = 2.0 * tokens * heads * (seq / 2) * width
    share = seq / (seq + rates.flash_half_seq)
    for backward, products, rate in ((False, 2, rates.flash_forward), (True, 5, rates.flash_backward)):
        seconds = float(kernels.flash(tokens, heads, seq, width, backward=backward))
        assert seconds == pytest.approx(products * product / (kernels.peak * rate * share))
    assert Kernels(NODE.spec, rates, "bf16").peak == 2 * Kernels(NODE.spec, rates, "fp32").peak


def test_a_product_takes_its_flops_or_its_bytes() -> None:
    """Large and square: FLOPs over the rate, waves of tiles apart; one row: what it reads and writes."""
    rates = rates_of(NODE.spec)
    kernels = Kernels(NODE.spec, replace(rates, kernel_s=0.0, wave_s=0.0))
    n = 2**15
    ideal = 2.0 * n**3 / (kernels.peak * rates.matmul * rates.sustained)
    assert ideal <= float(kernels.gemm(n, n, n)) <= 1.05 * ideal
    one_row = (2 * (n + n * n) + 2 * n) / kernels.stream
    assert float(kernels.gemm(1, n, n)) == pytest.approx(one_row)
    into_fp32 = (2 * (n + n * n) + 8 * n) / kernels.stream
    assert float(kernels.gemm(1, n, n, output_bytes=8)) == pytest.approx(into_fp32)


@pytest.mark.parametrize("shape", SHAPES)
def test_stages_hold_every_parameter_once(shape: TransformerShape) -> None:
    """One device holds them all; a pipeline too, and a tied embedding at both of its ends."""
    first, last = device_params(shape, 1, 1)
    assert float(first) == float(last) == shape.params
    for pp in (2, 4, 8):
        first, last = device_params(shape, 1, pp)
        middle = float(stage_layers(shape, pp)[1] * layer_params(shape, 1))
        twice = shape.vocab * shape.hidden if shape.tied else 0
        assert float(first) + float(last) + (pp - 2) * middle == shape.params + twice


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("tp", [2, 4])
def test_tensor_parallel_shares_cover_the_model(shape: TransformerShape, tp: int) -> None:
    """Matrices are split; vectors that are not, and positions, are there on every device."""
    share = float(device_params(shape, tp, 1)[0])
    assert shape.params / tp <= share
    repeated = (2 + 6 * shape.layers + shape.seq) * shape.hidden
    assert share <= shape.params / tp + repeated


@pytest.mark.parametrize(("pp", "v"), [(2, 1), (4, 1), (2, 2), (4, 2), (4, 3)])
def test_chunks_in_flight_never_exceed_what_there_is(pp: int, v: int) -> None:
    for m in (pp, 2 * pp, 8 * pp):
        held = [tuple(map(float, chunks_in_flight(pp, v, m, stage))) for stage in range(pp)]
        assert all(1 <= first <= m * v for first, _ in held)
        assert [first for first, _ in held] == sorted((first for first, _ in held), reverse=True)
        if m >= 2 * pp:
            assert held[pp - 1][0] == held[0][1]  # the last stage, from either end
