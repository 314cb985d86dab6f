"""Costs of operators on one device: closed forms of the roofline."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from meshwright.errors import InputError
from meshwright.profiles import device
from meshwright.profiles.graph import Loop, Operator
from meshwright.profiles.graph.costs.model import roofline
from meshwright.profiles.graph.costs.rates import peak_flops, rates_of
from meshwright.profiles.graph.costs.shapes import local
from meshwright.simulator.training.configuration import rates as training

V100 = device("v100-16gb")


def matmul(b: int = 8, s: int = 1024, h: int = 1024, n: int = 4096, dtype: str = "float16") -> Operator:
    loops = (Loop("b", b, batch=True), Loop("s", s), Loop("h", h), Loop("n", n))
    return Operator("mm", "contraction", "b s h, h n -> b s n", ("x", "w"), loops, dtype, saves=(0, 1))


def test_products_of_a_matmul_forward_and_backward():
    on = local(matmul(), {"b": 2, "n": 4})
    forward, inputs, weights = on.forward(), on.gradient(0), on.gradient(1)
    assert (forward.batch, forward.m, forward.n, forward.k) == (1, 4096, 1024, 1024)
    assert (inputs.batch, inputs.m, inputs.n, inputs.k) == (1, 4096, 1024, 1024)  # [b s, n] x [n, h]
    assert (weights.batch, weights.m, weights.n, weights.k) == (1, 1024, 1024, 4096)  # [h, b s] x [b s, n]
    assert forward.bytes == 2 * (4096 * 1024 + 1024 * 1024 + 4096 * 1024)
    assert (on.is_weight(0), on.is_weight(1)) == (False, True)


def test_products_of_expert_layers_have_a_batch_and_weights():
    loops = (Loop("g", 16, batch=True), Loop("e", 8), Loop("c", 256), Loop("m", 512), Loop("h", 2048))
    op = Operator("expert", "contraction", "e g c m, e m h -> e g c h", ("x", "w"), loops, saves=(0, 1))
    on = local(op, {"e": 4})
    assert (on.forward().batch, on.forward().m, on.forward().n, on.forward().k) == (2, 16 * 256, 2048, 512)
    assert (on.gradient(1).batch, on.gradient(1).m, on.gradient(1).n, on.gradient(1).k) == (2, 512, 2048, 16 * 256)
    assert (on.is_weight(0), on.is_weight(1)) == (False, True)


def test_convolution_is_its_implicit_gemm():
    # 3 x 3, stride 2, 64 -> 128 channels, 56 x 56 -> 28 x 28
    loops = (
        *(Loop("b", 4, batch=True), Loop("p", 28, split="whole"), Loop("q", 28, split="whole"), Loop("o", 128)),
        *(Loop("y", 56, split="whole"), Loop("x", 56, split="whole"), Loop("c", 64)),
        *(Loop("r", 3, split="whole"), Loop("s", 3, split="whole")),
    )
    flops = 2.0 * 4 * 28 * 28 * 128 * 64 * 9
    op = Operator("conv", "convolution", "b y x c, r s c o -> b p q o", ("i", "w"), loops, "float32", flops)
    on = local(op, {})
    forward, inputs, weights = on.forward(), on.gradient(0), on.gradient(1)
    assert (forward.m, forward.n, forward.k) == (4 * 28 * 28, 128, 9 * 64)
    assert (inputs.m, inputs.n, inputs.k) == (4 * 56 * 56, 64, 9 * 128 / 4)  # every fourth position has a tap
    assert (weights.m, weights.n, weights.k) == (9 * 64, 128, 4 * 28 * 28)
    assert {forward.flops, inputs.flops, weights.flops} == {flops}


def test_a_large_product_takes_its_flops_at_the_documented_share():
    op = matmul(8, 1024, 8192, 8192)
    times = roofline(V100).times(op, {})
    best = op.flops / (V100.peak_flops * 0.92 * 0.86)
    assert best < times.forward_s < 1.15 * best  # waves, one of them not full, and their stores
    assert times.backward_input_s == pytest.approx(times.forward_s)
    assert best < times.backward_weight_s < 1.15 * best


def test_float32_on_v100_runs_without_tensor_cores():
    assert peak_flops(V100, "float32") == pytest.approx(15.7e12)
    assert peak_flops(V100, "bfloat16") == pytest.approx(15.7e12)
    assert peak_flops(device("a100-80gb"), "float32") == pytest.approx(156e12)
    assert peak_flops(device("cpu-core"), "float32") == device("cpu-core").peak_flops
    half, single = (roofline(V100).times(matmul(8, 1024, 4096, 4096, t), {}) for t in ("float16", "float32"))
    assert 6 < single.forward_s / half.forward_s < 125 / 15.7


def test_given_type_replaces_the_operators_own():
    as_single = roofline(V100, "float32").times(matmul(), {})
    assert as_single == roofline(V100).times(matmul(dtype="float32"), {})


def test_8_bits_are_a_cost_of_the_products_of_layers():
    """Large ones take 1 / (2 x 0.84) of half precision's time, and nothing else changes."""
    h100 = device("h100-80gb")
    half, eight = roofline(h100), roofline(h100, fp8=True)
    inside = replace(matmul(8, 4096, 8192, 8192, "bfloat16"), layer=0)
    ratio = half.times(inside, {}).forward_s / eight.times(inside, {}).forward_s
    assert 0.9 * 1.68 < ratio <= 1.68
    assert half.times(inside, {}).backward_weight_s > 1.4 * eight.times(inside, {}).backward_weight_s
    loops = (Loop("b", 8, batch=True), Loop("s", 2048), Loop("h", 128), Loop("n", 2048))
    scores = Operator("qk", "contraction", "b s h, b h n -> b s n", ("q", "k"), loops, "bfloat16", layer=0)
    for same in (replace(inside, layer=-1), replace(inside, dtype="float32"), scores):
        assert half.times(same, {}) == eight.times(same, {})
    with pytest.raises(InputError, match="fp8 needs 8-bit tensor cores, Hopper or later"):
        roofline(V100, fp8=True)


def test_a_thin_product_takes_its_bytes():
    op = matmul(1, 1, 8192, 8192)
    best = 2 * 8192 * 8192 / (900e9 * 0.8)
    assert roofline(V100).times(op, {}).forward_s == pytest.approx(best, rel=0.05)


def test_elementwise_counts_its_result_and_passes_gradients():
    loops = (Loop("b", 64, batch=True), Loop("h", 4096))
    size, stream = 64 * 4096 * 2, 900e9 * 0.8
    gelu = Operator("gelu", "elementwise", "b h -> b h", ("x",), loops, saves=(0,))
    add = Operator("add", "elementwise", "b h, b h -> b h", ("x", "y"), loops)
    bias = Operator("bias", "elementwise", "b h, h -> b h", ("x", "c"), loops)
    cost = roofline(V100)
    assert cost.times(gelu, {}).forward_s == pytest.approx(size / stream)
    assert cost.times(gelu, {}).backward_s == pytest.approx(2 * size / stream)
    assert cost.times(add, {}).forward_s == pytest.approx(2 * size / stream)
    assert cost.times(add, {}).backward_s == 0
    assert cost.times(bias, {}).backward_input_s == 0
    assert cost.times(bias, {}).backward_weight_s == pytest.approx(3e-6 + size / stream)
    view = Operator("view", "view", "b h -> (b h)", ("x",), loops)
    assert cost.times(view, {}).total_s == 0


@pytest.mark.parametrize("parts", [{"b": 2}, {"n": 4}, {"b": 2, "n": 2}, {"h": 8}])
def test_cutting_never_costs_more_and_never_saves_more_than_the_pieces(parts: dict[str, int]):
    cost, op = roofline(V100), matmul(16, 1024, 2048, 8192)
    whole, cut = cost.times(op, {}), cost.times(op, parts)
    pieces = math.prod(parts.values())
    for name in ("forward_s", "backward_input_s", "backward_weight_s"):
        assert getattr(whole, name) / pieces * 0.9 < getattr(cut, name) < getattr(whole, name)


def test_rates_are_those_of_the_training_estimates():
    for name in ("v100-16gb", "a100-80gb", "h100-80gb", "h200-141gb"):
        ours, theirs = rates_of(device(name)), training.rates_of(device(name))
        assert ours.multiprocessors == theirs.multiprocessors
        for field in (
            "matmul",
            "sustained",
            "wave_s",
            "kernel_s",
            "memory",
            "flash_forward",
            "flash_backward",
            "flash_half_seq",
        ):
            assert getattr(ours, field) == getattr(theirs, field), field
        assert ours.eight == 2.0 * theirs.fp8


def test_repeated_layers_are_computed_once():
    cost = roofline(V100)
    first = cost.times(matmul(), {"b": 2})
    assert cost.times(replace(matmul(), name="another", layer=7), {"b": 2, "n": 1}) is first


def test_bad_input():
    with pytest.raises(InputError, match="peak_flops > 0"):
        roofline(replace(V100, peak_flops=0.0))
    with pytest.raises(InputError, match="unknown dtype 'half'"):
        roofline(V100, "half")


def test_long_sums_of_small_results_use_the_whole_device():
    # Gradient of a small weight: [160, 25088 x 8] x [.., 160]; two tiles would keep two of 80 multiprocessors busy.
    loops = (Loop("b", 8 * 25088, batch=True), Loop("h", 160), Loop("n", 160))
    op = Operator("mm", "contraction", "b h, h n -> b n", ("x", "w"), loops, saves=(0, 1))
    times = roofline(V100).times(op, {})
    assert times.backward_weight_s < 3 * times.forward_s


def test_what_needs_no_gradient_takes_no_time():
    loops = (Loop("b", 4, batch=True), *(Loop(n, k) for n, k in (("s", 1024), ("e", 8), ("c", 256), ("h", 768))))
    both = Operator("d", "dispatch", "b s e c, b s h -> e b c h", ("mask", "x"), loops, saves=(0, 1))
    one = replace(both, saves=(0,))  # x is not kept: nothing to make the mask's gradient of
    cost = roofline(V100)
    inputs = local(one, {}).gradient(1)
    assert cost.times(one, {}).backward_input_s == cost.product_s(inputs, "float16")
    assert cost.times(both, {}).backward_input_s > cost.times(one, {}).backward_input_s


def test_tables_replace_the_tiles(kernels: Path):
    from meshwright.profiles.llm import KernelTables

    tables = KernelTables.load(kernels / "a100_sxm")
    assert tables.operators is not None
    grid = tables.operators.gemm["bfloat16"]
    m, n, k = (float(axis[len(axis) // 2]) for axis in grid.axes)
    cost = roofline(device("a100-80gb"), tables=tables)
    op = Operator(
        "mm",
        "contraction",
        "b h, h n -> b n",
        ("x", "w"),
        (Loop("b", int(m), batch=True), Loop("h", int(k)), Loop("n", int(n))),
    )
    assert cost.times(op, {}).forward_s == pytest.approx(float(grid.at(m, n, k)[0]) / cost.rates.sustained)
    assert "measured" in cost.source
    assert cost.times(replace(op, dtype="float32"), {}) == roofline(device("a100-80gb")).times(
        replace(op, dtype="float32"), {}
    )
