"""Published Megatron-LM measurements (published.py); nothing is fitted to them. Narayanan et al. 2021, Table 1, does
not print microbatch sizes."""

import numpy as np
import pytest
from meshwright.profiles.hardware import device
from meshwright.simulator import Cluster
from meshwright.simulator.training import MEGATRON_2022, TransformerShape, estimate
from meshwright.simulator.training.configuration.collectives import GroupLinks
from meshwright.simulator.training.configuration.kernels import Kernels
from meshwright.simulator.training.configuration.layer_costs import FULL, NONE, SELECTIVE, layer_times
from meshwright.simulator.training.configuration.rates import rates_of
from published import points

MOST = {  # source: median and largest error of time, median and largest of memory
    "Korthikanti 2022, Table 5": (0.05, 0.10, None, None),
    "Megatron-LM functional tests": (0.05, 0.10, 0.03, 0.05),
    "Nemotron-4 340B, Table 2": (0.10, 0.10, None, None),
    "Yeung 2024, Table 5": (0.10, 0.20, 0.03, 0.05),  # attention kernels of the first generation at 4,096 tokens
    "Qi 2024, Table 4": (0.10, 0.15, 0.05, 0.10),
    "Jiang 2024, Tables 2 and 3": (0.10, 0.15, None, None),
}


@pytest.mark.parametrize("source", MOST)
def test_published_runs(source):
    errors = [point.errors() for point in points() if point.source == source]
    times = np.abs([time for time, _ in errors if time is not None])
    bytes_ = np.abs([held for _, held in errors if held is not None])
    median, largest, median_memory, largest_memory = MOST[source]
    assert np.median(times) < median
    assert np.max(times) < largest
    assert (len(bytes_) > 0) == (median_memory is not None)
    if median_memory is not None:
        assert np.median(bytes_) < median_memory
        assert np.max(bytes_) < largest_memory


def test_what_ran_fits():
    for point in points():
        r = estimate(point.shape, point.cluster, stack=point.stack, check_memory=False, **point.settings)
        assert r.fits, point.name


@pytest.mark.parametrize(
    ("sequence_parallel", "recompute", "forward_ms", "backward_ms"),
    [(False, NONE, 7.7, 11.9), (True, NONE, 7.2, 11.8), (False, FULL, 7.7, 19.5), (False, SELECTIVE, 7.7, 13.2),
     (True, SELECTIVE, 7.2, 13.1)],
)  # fmt: skip
def test_one_layer_of_the_22b_model(sequence_parallel, recompute, forward_ms, backward_ms):
    spec = device("a100-80gb")
    kernels = Kernels(spec, rates_of(spec), "fp16")
    group = GroupLinks.of(Cluster(1, 8, spec), kernels.rates, [8], 1)
    shape = TransformerShape(48, 6144, 64, vocab=51200, seq=2048)
    t = layer_times(shape, kernels, MEGATRON_2022, group, [4], [sequence_parallel], [recompute])
    assert t.forward[0] * 1e3 == pytest.approx(forward_ms, rel=0.03)
    assert t.backward[0] * 1e3 == pytest.approx(backward_ms, rel=0.07)


NARAYANAN = [  # layers, hidden, heads, tp, pp, devices, batch, achieved TFLOP/s per device
    (24, 2304, 24, 1, 1, 32, 512, 137), (30, 3072, 32, 2, 1, 64, 512, 138), (36, 4096, 32, 4, 1, 128, 512, 142),
    (40, 6144, 48, 8, 1, 256, 1024, 135), (48, 8192, 64, 8, 2, 512, 1536, 138), (60, 10240, 80, 8, 4, 1024, 1792, 140),
    (80, 12288, 96, 8, 8, 1536, 2304, 148), (96, 16384, 128, 8, 16, 1920, 2160, 155),
    (105, 20480, 128, 8, 35, 2520, 2520, 163), (128, 25600, 160, 8, 64, 3072, 3072, 163),
]  # fmt: skip


def test_throughput_of_narayanan():
    """The microbatch is not printed: the median over those that fit is held against the table."""
    errors = []
    for layers, hidden, heads, tp, pp, devices, batch, published in NARAYANAN:
        shape = TransformerShape(layers, hidden, heads, vocab=51200, seq=2048)
        cluster, dp, found = Cluster(devices // 8, 8, "a100-80gb"), devices // tp // pp, []
        flops = 96 * batch * 2048 * layers * hidden**2 * (1 + 2048 / (6 * hidden) + 51200 / (16 * layers * hidden))
        for b in (1, 2, 4, 8):
            if batch % (dp * b):
                continue
            ours = estimate(shape, cluster, tp, pp, dp, b, batch, 1, "full", dtype="fp16", check_memory=False)
            if ours.fits:
                found.append(flops / ours.seconds / devices / 1e12)
        errors.append(np.median(found) / published - 1)
    assert np.median(np.abs(errors)) < 0.10
