"""`estimate`: parts add up, every means acts as it must, bad input is refused in one line."""

from dataclasses import fields, replace

import numpy as np
import pytest
from meshwright.errors import InfeasibleError, InputError
from meshwright.profiles.hardware import LinkSpec, device
from meshwright.simulator import Cluster
from meshwright.simulator.training import CORE, MEGATRON_2022, TimeParts, TransformerShape, estimate
from meshwright.simulator.training.configuration.collectives import GroupLinks
from meshwright.simulator.training.configuration.kernels import Kernels
from meshwright.simulator.training.configuration.rates import rates_of

SHAPE = TransformerShape(16, 2048, 16, vocab=51200, seq=2048)
CLUSTER = Cluster(2, 8, "a100-80gb")
BASE = {"tp": 4, "pp": 2, "dp": 2, "microbatch": 2, "global_batch": 64}


def ask(**change):
    cluster = change.pop("cluster", CLUSTER)
    return estimate(change.pop("model", SHAPE), cluster, **{**BASE, **change})


@pytest.mark.parametrize(
    "change",
    [
        {}, {"interleave": 4}, {"recompute": "full"}, {"recompute": "selective", "sequence_parallel": True},
        {"zero": 1}, {"zero": 2}, {"zero": 3}, {"dtype": "fp16"}, {"dtype": "fp32"}, {"tp": 1, "pp": 1, "dp": 16},
        {"tp": 16, "pp": 1, "dp": 1}, {"tp": 1, "pp": 16, "dp": 1},
    ],
)  # fmt: skip
def test_parts_add_up(change):
    r = ask(**change)
    b = r.breakdown
    assert b.time.total == pytest.approx(r.seconds, rel=1e-12)
    assert all(getattr(b.time, f.name) >= -1e-12 for f in fields(TimeParts))
    m = b.memory
    assert r.peak_bytes == m.parameters + m.gradients + m.optimizer + m.activations + m.ends + m.workspace
    assert m.device == r.peak_bytes + m.outside
    peak = 312e12 * (0.5 if change.get("dtype") == "fp32" else 1)
    assert r.mfu == pytest.approx(b.model_flops / (r.seconds * 16 * peak), rel=1e-12)
    assert 0 < r.mfu <= r.hfu < 1
    assert r.fits
    assert "iteration" in r.explain()
    assert f"{m.total / 2**30:.2f} GiB" in r.explain()


def test_full_recomputation_is_one_more_forward_pass():
    for stack in (CORE, MEGATRON_2022):
        none, full = (ask(recompute=word, stack=stack).breakdown.time for word in ("none", "full"))
        forward = none.forward_gemm + none.forward_attention + none.forward_element
        assert full.recompute - none.recompute >= forward  # and its communication
        assert full.forward_gemm == none.forward_gemm
    alone = {"tp": 1, "pp": 1, "dp": 16}
    none, full = (ask(recompute=word, stack=CORE, **alone).breakdown.time for word in ("none", "full"))
    assert full.recompute == pytest.approx(none.forward_gemm + none.forward_attention + none.forward_element)


def test_bubble_of_even_stages_is_the_closed_form():
    t = ask().breakdown.time
    work = t.forward_gemm + t.forward_attention + t.forward_element
    work += t.backward_gemm + t.backward_attention + t.backward_element + t.tensor_parallel + t.launch
    embedding = t.bubble * 16 - work  # the other stage's one microbatch: a layer share and the embedding
    assert 0 <= embedding / 16 < 0.05 * t.bubble


def test_products_take_no_less_than_their_flops():
    r = ask(tp=1, pp=1, dp=16)
    t = r.breakdown.time
    per_device = 6 * SHAPE.layers * SHAPE.layer_matrix_params * 64 * SHAPE.seq / 16
    assert t.forward_gemm + t.backward_gemm > per_device / 312e12
    assert t.forward_gemm + t.backward_gemm < 1.5 * per_device / 312e12


def test_more_bandwidth_never_hurts():
    spec = device("a100-80gb")

    def seconds(intra, inter, **change):
        links = replace(spec, intra_node=LinkSpec(intra, 1e-5), inter_node=LinkSpec(inter, 3e-5))
        return ask(cluster=Cluster(2, 8, links), **change).seconds

    for change in (
        {},
        {"tp": 16, "pp": 1, "dp": 1},
        {"tp": 2, "pp": 1, "dp": 8, "zero": 3},
        {"sequence_parallel": True},
    ):
        by_intra = [seconds(rate, 25e9, **change) for rate in (50e9, 150e9, 300e9, 600e9)]
        by_inter = [seconds(300e9, rate, **change) for rate in (1e9, 5e9, 25e9, 100e9)]
        assert by_intra == sorted(by_intra, reverse=True)
        assert by_inter == sorted(by_inter, reverse=True)
    assert seconds(50e9, 25e9) > seconds(600e9, 25e9)
    assert seconds(300e9, 1e9) > seconds(300e9, 100e9)


def test_faster_devices_and_more_work():
    assert ask(cluster=Cluster(2, 8, "h100-80gb"), stack=CORE).seconds < ask(stack=CORE).seconds
    by_batch = [ask(global_batch=n).seconds for n in (16, 32, 64, 128)]
    assert by_batch == sorted(by_batch)
    by_mfu = [ask(global_batch=n).mfu for n in (16, 32, 64, 128)]  # smaller bubble, same fixed costs
    assert by_mfu == sorted(by_mfu)
    by_chunks = ask(interleave=4).breakdown.time.bubble / ask().breakdown.time.bubble
    assert 1 / 4 <= by_chunks < 1.05 / 4  # the embedding is in one chunk


def test_overlap_hides_data_parallel_communication():
    change = {"tp": 1, "pp": 1, "dp": 16}
    shown = ask(stack=replace(CORE, overlap_data=False), **change).breakdown.time.data_parallel
    hidden = ask(**change).breakdown.time.data_parallel
    params, rate = SHAPE.params, 12.5e9 * 0.9 * 8  # eight network cards of a node carry one ring
    assert shown == pytest.approx(2 * 15 / 16 * 4 * params / rate, rel=0.01)
    assert hidden < shown / 2


def test_collectives_by_hand():
    cluster, rates = Cluster(2, 8, "a100-80gb"), rates_of(device("a100-80gb"))
    inside = GroupLinks.of(cluster, rates, [1, 2, 8], 1)
    assert inside.all_reduce(8e9)[0] == 0
    assert inside.all_reduce(8e9)[2] == pytest.approx(6e-5 + 2 * 7 / 8 * 8e9 / (300e9 * rates.all_reduce[2]))
    assert inside.half(8e9)[1] == pytest.approx(1e-5 + 4e9 / (300e9 * rates.half[0]))
    across = GroupLinks.of(cluster, rates, [2, 4], [8, 4])  # a member per node; two members per node
    far = 12.5e9 * rates.network
    # a ring of two nodes: one message between them, and in the group of four two inside, at NCCL's own latencies
    assert across.half(8e9) == pytest.approx([14e-6 + 4e9 / far, 14e-6 + 6.8e-6 + 6e9 / (2 * far)], rel=1e-9)
    assert across.half(8e9, messages=7) == pytest.approx([7 * 14e-6 + 4e9 / far, 7 * 20.8e-6 + 6e9 / (2 * far)])
    assert across.all_reduce(8e9)[1] == pytest.approx(12e-5 + 12e9 / (2 * far))  # a tree of two levels, up and down
    assert list(across.send(1e9, cluster, rates)) == pytest.approx([3e-5 + 1e9 / far] * 2)
    assert inside.send(1e9, cluster, rates)[1] == pytest.approx(1e-5 + 1e9 / (300e9 * rates.half[0]))


@pytest.mark.parametrize(("name", "published"), [("a100-80gb", 258e12), ("h100-80gb", 716e12)])
def test_gemm_reaches_the_published_rate(name, published):
    """He 2024 and Shankhdhar 2024: cuBLAS on random normal matrices of 8192, without the level of training runs."""
    rates = rates_of(device(name))
    kernels = Kernels(device(name), replace(rates, level=1.0))
    assert 2 * 8192**3 / float(kernels.gemm(8192, 8192, 8192)) == pytest.approx(published, rel=0.002)


def test_the_level_slows_products_and_attention_only():
    spec = device("h100-80gb")
    rates = rates_of(spec)
    assert rates.level < 1
    assert rates.fitted_to
    bare = Kernels(spec, replace(rates, level=1.0, kernel_s=0.0, wave_s=0.0))
    level = Kernels(spec, replace(rates, kernel_s=0.0, wave_s=0.0))
    large = (8192, 8192, 8192)
    assert level.gemm(*large) == pytest.approx(bare.gemm(*large) / rates.level, rel=1e-12)
    core = [k.flash(8192, 32, 4096, 128, backward=True) for k in (bare, level)]
    assert core[1] == pytest.approx(core[0] / rates.level, rel=1e-12)
    assert level.streaming(1e9) == bare.streaming(1e9)
    assert "level 0.93: fitted to 32 runs" in ask(cluster=Cluster(2, 8, spec)).explain()
    assert "level" not in ask(cluster=Cluster(2, 8, spec), rates=replace(rates, level=1.0, fitted_to="")).explain()
    assert rates_of(device("a100-80gb")).level == 1  # by the same rule
    with pytest.raises(InputError, match="fitted to"):
        replace(rates, fitted_to="")
    with pytest.raises(InputError, match="above 0"):
        replace(rates, level=0)


def test_single_kernels_of_pytorch_by_hand():
    """What `Stack.eager` adds to a Llama layer, in bytes counted here once more; nothing to a GPT's."""
    llama = TransformerShape(2, 1024, 16, 4, 2816, 32000, 2048, True)
    cluster, n = Cluster(1, 8, "a100-80gb"), 4 * 2048
    said = {"tp": 1, "pp": 1, "dp": 8, "microbatch": 4, "global_batch": 32, "stack": CORE}
    kv, h, q, ffn = 256, 1024, 1024, 2816
    forward = 2 * 32 * h + 12 * (q + kv) + 4 * q + 4 * ffn
    backward = 2 * 84 * h + 12 * h + 12 * (q + kv) + 4 * q + 8 * ffn + 6 * h
    stream = Kernels(cluster.spec, rates_of(cluster.spec)).stream
    fused, single = (estimate(llama, cluster, **{**said, "stack": replace(CORE, eager=e, op_s=0.0)}) for e in (0, 1))
    a, b = fused.breakdown.time, single.breakdown.time
    launches = 2 * 2e-6  # of a layer's two parts
    assert b.forward_element - a.forward_element == pytest.approx(2 * (n * forward / stream + 10 * launches), rel=1e-9)
    assert b.backward_element - a.backward_element == pytest.approx(
        2 * (n * backward / stream + 20 * launches), rel=1e-9
    )
    gpt = replace(llama, gated=False, tied=None, kv_heads=16)
    assert estimate(gpt, cluster, **{**said, "stack": replace(CORE, eager=True)}).seconds == pytest.approx(
        estimate(gpt, cluster, **said).seconds
    )


def test_all_wait_for_the_slowest_device():
    """Expected largest of n normal values: tables of order statistics say 0.564 for 2, 1.424 for 8, 2.508 for 100."""
    spec = device("a100-80gb")
    rates = rates_of(spec)
    for n, largest in ((1, 0.0), (2, 0.564), (8, 1.424), (100, 2.508)):
        pace = Kernels(spec, rates, devices=n).pace
        assert pace == pytest.approx(1 - rates.spread * largest, abs=0.05 * rates.spread)
    one, many = (Kernels(spec, rates, devices=n) for n in (1, 512))
    assert many.gemm(8192, 8192, 8192) == pytest.approx(one.gemm(8192, 8192, 8192) / many.pace, rel=0.01)
    assert many.streaming(1e9) == one.streaming(1e9)  # memory clocks are the same everywhere


def test_gemm_in_waves_by_hand():
    spec = device("a100-80gb")
    r = replace(rates_of(spec), matmul=1.0, sustained=1.0, wave_s=1e-6, kernel_s=2e-6)
    for waves in (1, 2):  # 108 tiles of 128 x 256, or twice as many, on 108 multiprocessors
        seconds = float(Kernels(spec, r).gemm(waves * 12 * 128, 9 * 256, 8192))
        assert seconds == pytest.approx(2e-6 + waves * (2 * 128 * 256 * 8192 * 108 / 312e12 + 1e-6))
        added = float(Kernels(spec, r).gemm(waves * 12 * 128, 9 * 256, 8192, output_bytes=8))
        assert added - seconds == pytest.approx(waves * 3e-6)  # a store of four times the bytes
    more = float(Kernels(spec, r).gemm(12 * 128 + 1, 9 * 256, 8192))
    assert more > 1.2 * float(Kernels(spec, r).gemm(12 * 128, 9 * 256, 8192))  # one row more, one wave more
    thin = float(Kernels(spec, r).gemm(1, 65536, 65536))  # bound by memory
    assert thin == pytest.approx(2e-6 + 2 * (65536**2 + 2 * 65536) / (2039e9 * 0.8), rel=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dp": 3}, r"tp x pp x dp: expected the number of devices of the cluster, 16 \(got tp 4, pp 2, dp 3"),
        ({"tp": 16, "pp": 1, "dp": 1, "model": replace(SHAPE, heads=8, kv_heads=8, head_dim=256)}, "of heads 8"),
        ({"model": replace(SHAPE, kv_heads=2)}, "tp: expected a divisor of kv_heads 2"),
        ({"pp": 4, "dp": 1, "interleave": 3}, "pp x interleave: expected a divisor of layers 16"),
        ({"tp": 8, "pp": 1, "interleave": 2}, "interleave: more than 1 needs pp > 1.*set interleave=1"),
        ({"global_batch": 63}, "global_batch: expected a multiple of dp x microbatch.*change the batch"),
        ({"interleave": 2, "global_batch": 12}, "interleave: needs a number of microbatches that pp divides"),
        ({"model": replace(SHAPE, seq=2047), "sequence_parallel": True}, "expected a seq that tp divides"),
        ({"zero": 4}, "zero: expected 0, 1, 2 or 3"),
        ({"microbatch": 0}, "expected positive integers"),
        ({"microbatch": 1.5}, r"microbatch: expected an integer \(got 1.5\)"),
        ({"tp": True}, "tp: expected an integer"),
        ({"tp": [4]}, "tp: expected an integer"),
        ({"recompute": "some"}, r"recompute: expected one of none, selective, full, chosen \(got 'some'\)"),
        ({"sequence_parallel": 1}, "sequence_parallel: expected True or False"),
        ({"dtype": "int8"}, "dtype: expected one of bf16, fp16, fp32, fp8"),
        ({"dtype": "fp8"}, "dtype: 'fp8' needs 8-bit tensor cores, Hopper or later .got 'a100-80gb'.; use 'bf16'"),
        ({"cluster": "a100"}, "cluster: expected a simulator.Cluster"),
    ],
)  # fmt: skip
def test_bad_configurations(change, message):
    with pytest.raises(InputError, match=message) as caught:
        ask(**change)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["peak_flops", "memory_bandwidth_bytes_per_s"])
def test_devices_without_rates(name):
    with pytest.raises(InputError, match=f"{name} > 0"):
        ask(cluster=Cluster(2, 8, replace(device("a100-80gb"), **{name: 0.0})))


def test_zero_link_bandwidth():
    with pytest.raises(InputError, match="bandwidth_bytes_per_s: expected > 0"):
        ask(cluster=Cluster(2, 8, replace(device("a100-80gb"), inter_node=LinkSpec(0.0, 1e-5))))


def test_a_model_that_cannot_fit_is_refused_with_a_way_out():
    gpt3 = TransformerShape(96, 12288, 96, vocab=51200, seq=2048)
    said = {"model": gpt3, "cluster": Cluster(1, 8, "a100-80gb"), "tp": 8, "pp": 1, "dp": 1, "global_batch": 8}
    with pytest.raises(InfeasibleError, match=r"174\.6 B parameters do not fit: .* try larger tp or pp") as caught:
        ask(**said)
    assert "\n" not in str(caught.value)
    r = ask(**said, check_memory=False)
    assert not r.fits
    assert "does NOT fit" in r.explain()
    much = {"model": replace(SHAPE, seq=65536), "tp": 8, "pp": 2, "dp": 1, "microbatch": 16, "global_batch": 64}
    with pytest.raises(InfeasibleError, match="microbatch=1 or recompute='full'"):
        ask(**much)


def test_unknown_devices_have_round_rates():
    r = ask(cluster=Cluster(2, 8, replace(device("a100-80gb"), name="mystery")))
    assert r.seconds > 0
    assert "round figures" in r.explain()
    assert np.isfinite(r.mfu)


def test_measured_gemms_replace_the_tiles():
    from meshwright.profiles.llm import KernelTables
    from meshwright.profiles.llm.tables.grid import Grid
    from meshwright.profiles.llm.tables.kernels import Operators, Peaks
    from meshwright.profiles.llm.tables.operators import gemm_ideal

    spec = device("a100-80gb")
    peaks = Peaks.of(spec)
    sizes = np.array(np.meshgrid(*[[256.0, 2048.0, 16384.0, 65536.0]] * 3)).reshape(3, -1)
    half = 2 * sizes.prod(axis=0) / (0.5 * spec.peak_flops)  # half the peak everywhere
    grid = Grid.build(("m", "n", "k"), tuple(sizes), half, gemm_ideal(peaks, "bfloat16"))
    tables = KernelTables("made up", peaks, Operators({"bfloat16": grid}), source="a test")
    alone = {"tp": 1, "pp": 1, "dp": 16}
    r = ask(tables=tables, **alone)
    t = r.breakdown.time
    flops = 6 * SHAPE.layers * SHAPE.layer_matrix_params * 64 * SHAPE.seq / 16
    expected = flops / (
        0.5 * spec.peak_flops * rates_of(spec).sustained * Kernels(spec, rates_of(spec), devices=16).pace
    )
    assert t.forward_gemm + t.backward_gemm == pytest.approx(expected, rel=0.02)
    assert "a test" in r.explain()
    with pytest.raises(InputError, match="expected GEMMs of float32"):
        ask(tables=tables, dtype="fp32")


@pytest.mark.parametrize(
    ("change", "said", "stack"),
    [
        ({}, "full", MEGATRON_2022), ({}, "selective", MEGATRON_2022), ({}, "none", CORE),
        ({"seq": 1024}, "none", MEGATRON_2022),
        ({"gated": True, "tied": None}, "full", CORE), ({"kv_heads": 4}, "full", CORE), ({"seq": 4096}, "full", CORE),
    ],
)  # fmt: skip
def test_software_of_the_time(change, said, stack):
    assert ask(model=replace(SHAPE, **change), recompute=said).breakdown.stack == stack.name
    assert ask(cluster=Cluster(2, 8, "h100-80gb"), recompute=said).breakdown.stack == CORE.name


def test_sequence_parallelism_of_one_device_is_nothing():
    alone = {"tp": 1, "pp": 1, "dp": 16}
    with_it, without = ask(sequence_parallel=True, **alone), ask(**alone)
    assert with_it.seconds == pytest.approx(without.seconds, rel=1e-12)
    assert with_it.peak_bytes == without.peak_bytes
