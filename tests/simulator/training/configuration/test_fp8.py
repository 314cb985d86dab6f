"""8-bit training: products of a layer's matrices at twice the peak, all else in bf16; what casts move, what fits."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.profiles.hardware import device
from meshwright.profiles.llm import KernelTables
from meshwright.simulator import Cluster
from meshwright.simulator.training import CORE, TransformerShape, estimate, estimate_many
from meshwright.simulator.training.configuration.collectives import GroupLinks
from meshwright.simulator.training.configuration.kernels import Kernels
from meshwright.simulator.training.configuration.layer_costs import NONE, end_times, layer_times
from meshwright.simulator.training.configuration.memory import activation_bytes
from meshwright.simulator.training.configuration.rates import NEMO_2024, rates_of

H100 = device("h100-80gb")
NODE = Cluster(1, 8, H100)
SHAPE = TransformerShape(16, 8192, 64, vocab=51200, seq=2048, dropout=False)
SAID = {"tp": 8, "pp": 1, "dp": 1, "microbatch": 2, "global_batch": 8, "sequence_parallel": True}


def test_products_run_at_the_eight_bit_rate():
    rates = replace(rates_of(H100), kernel_s=0.0, wave_s=0.0)
    eight, half = Kernels(H100, rates, "fp8"), Kernels(H100, rates, "bf16")
    n = 2**14
    ratio = float(half.gemm(n, n, n)) / float(eight.gemm(n, n, n, narrow=True))
    assert ratio == pytest.approx(2 * rates.fp8)
    assert float(eight.gemm(n, n, n)) == float(half.gemm(n, n, n))  # the output layer, attention's products
    assert float(half.gemm(n, n, n, narrow=True)) == float(half.gemm(n, n, n))
    assert float(eight.flash(n, 8, 2048, 128, backward=True)) == float(half.flash(n, 8, 2048, 128, backward=True))
    assert (eight.peak, half.peak) == (1978e12, 989e12)
    row = ((n + n * n) + 2 * n) / eight.stream  # inputs of one byte, outputs of two
    assert float(eight.gemm(1, n, n, narrow=True)) == pytest.approx(row)


@pytest.mark.parametrize("gated", [False, True])
def test_casts_move_the_bytes_of_transformer_engine(gated):
    """Forward: 3 for the attention's output, and one less for what norms and the activation function write. Backward:
    four transposes of 2, three casts with transposes of 4."""
    shape = TransformerShape(4, 4096, 32, vocab=51200, seq=2048, gated=gated, dropout=False)
    rates = replace(rates_of(H100), kernel_s=0.0)
    group = GroupLinks.of(NODE, rates, [1], 1)
    times = {d: layer_times(shape, Kernels(H100, rates, d), CORE, group, [1], [False], [NONE]) for d in ("bf16", "fp8")}
    extra = [
        float((times["fp8"].element[i] - times["bf16"].element[i])[0]) * Kernels(H100, rates).stream for i in (0, 1)
    ]
    n, h, f, qkv = 2048, 4096, 16384, 3 * 4096
    assert extra[0] == pytest.approx(n * (3 * h - 2 * h - f))
    assert extra[1] == pytest.approx(n * (2 * (2 * h + h + f) + 4 * (2 * h + qkv)))
    ends = [end_times(shape, Kernels(H100, rates, d), group, [1], [False]) for d in ("bf16", "fp8")]
    assert float(ends[0].head_forward[0]) == float(ends[1].head_forward[0])


def test_an_iteration_is_faster_and_its_mfu_is_of_the_eight_bit_peak():
    eight, half = (estimate(SHAPE, NODE, dtype=dtype, **SAID) for dtype in ("fp8", "bf16"))
    assert 1.2 < half.seconds / eight.seconds < 2
    assert eight.mfu * eight.seconds == pytest.approx(half.mfu * half.seconds / 2)
    gemm = eight.breakdown.time.forward_gemm / half.breakdown.time.forward_gemm
    assert 0.5 < gemm < 0.75
    assert eight.breakdown.time.forward_attention == half.breakdown.time.forward_attention


def test_memory_keeps_two_more_bytes_per_weight_and_less_per_activation():
    parts = {dtype: estimate(SHAPE, NODE, dtype=dtype, **SAID).breakdown.memory for dtype in ("fp8", "bf16")}
    assert parts["fp8"].parameters - parts["bf16"].parameters == 2 * 16 * SHAPE.layer_matrix_params // 8
    assert parts["fp8"].optimizer == parts["bf16"].optimizer
    # per token: norms write 2 h less, the MLP keeps f less, the attention's output is kept twice
    saved = [float(activation_bytes(SHAPE, CORE, 1, 1, False, NONE, 2, narrow)) for narrow in (False, True)]
    assert saved[0] - saved[1] == 2048 * (2 * 8192 + 4 * 8192 - 8192)


def test_recipes_keep_gradients_in_half_precision_and_overlap_tensor_parallelism():
    plain = replace(NEMO_2024, gradient_bytes=0, overlap_tensor=False)
    parts = [estimate(SHAPE, NODE, dtype="fp8", stack=stack, **SAID).breakdown for stack in (plain, NEMO_2024)]
    assert parts[1].memory.gradients == pytest.approx(parts[0].memory.gradients / 2, abs=1)
    hidden = parts[1].time.tensor_parallel / parts[0].time.tensor_parallel
    assert 1 / 8 < hidden < 1  # the first of eight chunks cannot be hidden
    spread = [estimate(SHAPE, Cluster(2, 8, H100), dtype="fp8", stack=stack, zero=1, **{**SAID, "dp": 2}).seconds
              for stack in (plain, NEMO_2024)]  # fmt: skip
    assert spread[1] < spread[0]


def test_many_are_those_of_estimate():
    columns = {"tp": np.array([1, 2, 4, 8]), "pp": np.array([8, 4, 2, 1]), "dp": 1, "microbatch": 1, "global_batch": 8,
               "sequence_parallel": np.array([False, True, True, True]), "recompute": [0, 1, 2, 0]}  # fmt: skip
    many = estimate_many(SHAPE, NODE, dtype="fp8", stack=NEMO_2024, **columns)
    for row in range(4):
        said = {name: column[row] if np.ndim(column) else column for name, column in columns.items()}
        said["recompute"] = ("none", "selective", "full")[said["recompute"]]
        said["sequence_parallel"] = bool(said["sequence_parallel"])
        one = estimate(SHAPE, NODE, dtype="fp8", stack=NEMO_2024, check_memory=False, **said)
        assert many.seconds[row] == pytest.approx(one.seconds, rel=1e-12)
        assert many.mfu[row] == pytest.approx(one.mfu, rel=1e-12)
        assert many.peak_bytes[row] == one.peak_bytes


def test_volta_links_join_what_the_mesh_joins():
    """One, four and six of a V100's links inside groups of 2, 4 and 8; all six in a DGX-2."""
    for name, rates in (("v100-32gb", (25, 100, 150)), ("v100sxm3-32gb", (150, 150, 150))):
        spec = replace(device("v100-32gb"), name=name)
        found = GroupLinks.of(Cluster(1, 8, spec), rates_of(spec), [2, 4, 8], 1).reduce_rate / 1e9
        assert found == pytest.approx(0.85 * np.array(rates), rel=0.02)


@pytest.mark.parametrize("name", ["a100-80gb", "v100-32gb", "cpu-core"])
def test_devices_before_hopper(name):
    for ask in (estimate, estimate_many):
        with pytest.raises(InputError, match=f"'fp8' needs 8-bit tensor cores.*got '{name}'"):
            ask(SHAPE, Cluster(1, 8, name), dtype="fp8", **SAID)
    ada = replace(rates_of(H100), fp8=0.8)
    assert estimate(SHAPE, Cluster(1, 8, "a100-80gb"), dtype="fp8", rates=ada, check_memory=False, **SAID).seconds > 0


def test_tables_count_casts_and_are_refused():
    tables = KernelTables.load(Path(__file__).parents[3] / "samples" / "kernels" / "h100_sxm")
    with pytest.raises(InputError, match="tables: expected none with dtype 'fp8'"):
        estimate(SHAPE, NODE, dtype="fp8", tables=tables, **SAID)
