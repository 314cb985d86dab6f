"""Memory: closed forms of Korthikanti et al. (2022), Megatron's bytes per parameter, small numbers by hand."""

import numpy as np
import pytest
from meshwright.simulator import Cluster
from meshwright.simulator.training import CORE, MEGATRON_2022, TransformerShape, estimate
from meshwright.simulator.training.configuration.layer_costs import FULL, NONE, SELECTIVE, padded_vocab
from meshwright.simulator.training.configuration.memory import activation_bytes, device_params

GPT = TransformerShape(48, 6144, 64, vocab=51200, seq=2048)
s, b, h, a, t = 2048, 4, 6144, 64, 8


@pytest.mark.parametrize(
    ("sequence_parallel", "recompute", "tp", "expected"),
    [  # Table 2 of the paper, bytes of one layer
        (False, NONE, 1, s * b * h * (34 + 5 * a * s / h)),
        (False, NONE, t, s * b * h * (10 + 24 / t + 5 * a * s / (h * t))),
        (True, NONE, t, s * b * h * (34 / t + 5 * a * s / (h * t))),
        (False, SELECTIVE, t, s * b * h * (10 + 24 / t)),
        (True, SELECTIVE, t, s * b * h * 34 / t),
        (False, FULL, t, s * b * h * 2),
    ],
)
def test_activations_are_those_of_the_paper(sequence_parallel, recompute, tp, expected):
    ours = activation_bytes(GPT, MEGATRON_2022, tp, b, sequence_parallel, recompute, 2)
    assert float(ours) == pytest.approx(expected, rel=1e-12)


def test_both_means_together_save_a_factor_of_five():
    """The paper's abstract: "our method reduces activation memory by 5x", over its four models."""
    shares = []
    for layers, hidden, heads in ((48, 6144, 64), (96, 12288, 96), (105, 20480, 128), (128, 25600, 160)):
        shape = TransformerShape(layers, hidden, heads, vocab=51200, seq=2048)
        least = activation_bytes(shape, MEGATRON_2022, 8, 1, True, SELECTIVE, 2)
        shares.append(float(least / activation_bytes(shape, MEGATRON_2022, 8, 1, False, NONE, 2)))
    assert 1 / np.mean(shares) == pytest.approx(5, abs=0.5)


def test_llama_layer_by_hand():
    llama = TransformerShape(2, 64, 4, 2, 96, 256, 16, gated=True)
    # per token: norms' inputs and outputs 4 x 64; q and attention output 2 x 64; k, v 2 x 32; gate, up, product 3 x 96
    per_token = 2 * (4 * 64 + 2 * 64 + 2 * 32 + 3 * 96) + 4 * 4  # and fp32 log-sum-exp of four heads
    assert float(activation_bytes(llama, CORE, 1, 3, False, NONE, 2)) == 3 * 16 * per_token


@pytest.mark.parametrize(
    ("dtype", "zero", "per_param"),
    [("bf16", 0, 18), ("fp16", 0, 16), ("fp32", 0, 16), ("bf16", 1, 6 + 12 / 4), ("fp16", 1, 4 + 12 / 4),
     ("fp32", 1, 8 + 8 / 4), ("bf16", 2, 2 + 16 / 4), ("bf16", 3, 18 / 4)],
)  # fmt: skip
def test_bytes_per_parameter(dtype, zero, per_param):
    shape = TransformerShape(4, 256, 4, vocab=1024, seq=64)
    r = estimate(shape, Cluster(1, 4, "a100-80gb"), 1, 1, 4, 1, 8, zero=zero, dtype=dtype)
    m = r.breakdown.memory
    assert m.parameters + m.gradients + m.optimizer == pytest.approx(shape.params * per_param, abs=3)


@pytest.mark.parametrize(("zero", "per_param"), [(0, 20), (1, 4 + 16 / 4)])
def test_the_step_in_half_precision_is_megatrons_table(zero, per_param):
    """fp32 copies of the gradients live only in the optimizer's step, when no activation does."""
    shape = TransformerShape(4, 256, 4, vocab=1024, seq=64)
    r = estimate(shape, Cluster(1, 4, "a100-80gb"), 1, 1, 4, 1, 4, zero=zero, dtype="fp16")
    assert r.peak_bytes == pytest.approx(shape.params * per_param, abs=3)
    assert r.breakdown.memory.activations == 0
    longer = TransformerShape(4, 256, 4, vocab=1024, seq=1024)
    m = estimate(longer, Cluster(1, 4, "a100-80gb"), 1, 1, 4, 4, 16, zero=zero, dtype="fp16").breakdown.memory
    assert m.activations > 4 * longer.params  # now a backward pass is the peak
    assert m.parameters + m.gradients + m.optimizer == pytest.approx(
        longer.params * (per_param - (4 if not zero else 1))
    )


def test_the_gradient_of_a_large_embedding_is_the_peak_of_the_first_stage():
    """It is dense: 2 V h bytes, when one microbatch of the stage has been freed."""
    shape = TransformerShape(8, 512, 8, vocab=262144, seq=64, tied=False)
    r = estimate(shape, Cluster(1, 4, "a100-80gb"), 1, 4, 1, 1, 8, stack=CORE)
    m = r.breakdown.memory
    layer = float(activation_bytes(shape, CORE, 1, 1, False, NONE, 2))
    assert m.activations == pytest.approx(3 * 2 * layer)
    assert m.workspace == 2 * 262144 * 512 + 2 * 64 * 512


def test_uneven_stages_are_those_of_layers_plus_two():
    """22 layers in 8 stages: 2 at both ends, 3 between; the second stage is the fullest (small vocabulary)."""
    shape = TransformerShape(22, 2304, 24, vocab=1024, seq=1024)
    cluster = Cluster(1, 8, "a100-80gb")
    m = estimate(shape, cluster, 1, 8, 1, 6, 144, stack=MEGATRON_2022, dtype="fp16").breakdown.memory
    layer = float(activation_bytes(shape, MEGATRON_2022, 1, 6, False, NONE, 2))
    assert m.activations == pytest.approx(7 * 3 * layer)
    assert m.parameters == pytest.approx(2 * 3 * (shape.layer_matrix_params + shape.layer_vector_params))
    first, last = device_params(shape, 1, 8)
    middle = 3 * (shape.layer_matrix_params + shape.layer_vector_params)
    held = float(first) + float(last) + 6 * middle
    assert held == shape.params + shape.embedding_params  # tied: the embedding is on both ends


def test_parameters_of_a_device_by_hand():
    shape = TransformerShape(4, 64, 4, vocab=1024, seq=32)
    first, last = device_params(shape, 2, 2)
    layer = (12 * 64 * 64) / 2 + (3 * 64 + 256) / 2 + 64 + 64 + 4 * 64
    assert float(first) == 2 * layer + 1024 * 64 / 2 + 32 * 64
    assert float(last) == 2 * layer + 1024 * 64 / 2 + 2 * 64
    assert float(padded_vocab(TransformerShape(1, 64, 1, vocab=50257, seq=8), 8)) == 51200
    alone, _ = device_params(shape, 1, 1)
    assert float(alone) == shape.params


def test_all_devices_together_hold_the_model():
    shape = TransformerShape(8, 128, 8, vocab=2048, seq=32, gated=True)
    vectors = 2 * 128 * 8 + 128
    for tp, pp in ((1, 2), (2, 2), (4, 2), (8, 2)):
        first, last = device_params(shape, tp, pp)
        held = tp * (float(first) + float(last))
        copies = (tp - 1) * vectors  # norms are on every rank
        assert held == pytest.approx(shape.params + copies)


def test_first_stage_holds_the_interleaved_layers_of_the_paper():
    """L (1 + (p - 1) / (p v)) layers, section 4.2.3."""
    shape = TransformerShape(96, 12288, 96, vocab=51200, seq=2048)
    r = estimate(
        shape, Cluster(8, 8, "a100-80gb"), 8, 8, 1, 1, 64, 3, "selective", True, dtype="fp16", check_memory=False
    )
    layers = 96 * (1 + 7 / 24)
    assert r.breakdown.memory.activations == pytest.approx(layers * 2048 * 12288 * 34 / 8, rel=1e-9)


def test_memory_falls_with_every_means():
    shape = TransformerShape(8, 1024, 16, vocab=8192, seq=1024)
    cluster = Cluster(1, 8, "a100-80gb")

    def peak(**change: object) -> int:
        said = {"tp": 2, "pp": 1, "dp": 4, "microbatch": 4, "global_batch": 32, "stack": MEGATRON_2022, **change}
        return estimate(shape, cluster, **said).peak_bytes  # type: ignore[arg-type]

    by_recompute = [peak(recompute=word) for word in ("none", "selective", "full")]
    assert by_recompute == sorted(by_recompute, reverse=True)
    assert len(set(by_recompute)) == 3
    by_zero = [peak(zero=z) for z in range(4)]
    assert by_zero[0] > by_zero[1]
    assert by_zero[2] > by_zero[3]
    assert peak(sequence_parallel=True) < peak()
    assert peak(microbatch=2) < peak()
    assert peak(stack=CORE) < peak()
    assert np.all(np.diff([peak(microbatch=n) for n in (1, 2, 4, 8)]) > 0)
