"""What Alpa's figures assume beside the planner: convolutions by shape, and what DeepSpeed does."""

from __future__ import annotations

import pytest
from meshwright.errors import InputError
from meshwright.planners.alpa import AlpaOptions
from meshwright.profiles.graph import roofline
from meshwright.profiles.graph.zoo import zoo_graph
from meshwright.profiles.hardware import device
from meshwright.reproduce.alpa.convolutions import DEEPBENCH, Shares, convolution_costs
from meshwright.reproduce.alpa.deepspeed import DeepSpeed
from meshwright.simulator.cluster import Cluster

V100 = device("v100-16gb")


def test_shares_are_what_was_timed():
    face, vision, small = DEEPBENCH
    # 2 x 8 x 54^2 x 64 x 64 x 9 = 1.72 GFLOP, three times in 0.55 ms: 9.4 of 15.7 TFLOP/s
    assert face.share == pytest.approx(3 * 1.7199e9 / 0.55e-3 / 15.7e12, rel=1e-4)
    assert [round(x.share, 2) for x in (face, vision, small)] == [0.60, 0.79, 0.72]


def test_shares_between_the_measured_sides():
    shares = Shares(large=0.5, middle=0.8, small=0.6)
    assert [shares.at(side) for side in (1, 7, 28, 54, 224)] == [0.6, 0.6, 0.8, 0.5, 0.5]
    assert shares.at(14) == pytest.approx(0.7)  # half of the way from 7 to 28
    with pytest.raises(InputError, match=r"small: expected in \(0, 2.25\] \(got 0\)"):
        Shares(small=0)


def test_only_large_filters_are_priced_anew():
    graph, shares = zoo_graph("wide-resnet-250m", 8), Shares(large=0.25, middle=0.5, small=1.0)
    plain, scaled = roofline(V100), convolution_costs(V100, shares)
    full = 0.92 * 0.86  # of the peak, in the roofline's full tiles
    ratios: dict[str, float] = {}
    for op in graph.operators:
        if op.name in ("stages.0.0.conv1", "stages.0.0.conv2", "stages.3.1.conv2", "stages.0.0.conv2.norm"):
            ratios[op.name] = scaled.times(op, {}).total_s / plain.times(op, {}).total_s
    assert ratios == pytest.approx(
        {
            "stages.0.0.conv1": 1.0,  # 1 x 1
            "stages.0.0.conv2": full / 0.25,  # 3 x 3, side 56
            "stages.0.0.conv2.norm": 1.0,
            "stages.3.1.conv2": full / 1.0,  # side 7
        }
    )
    norm = next(op for op in graph.operators if op.name == "stages.0.0.conv2.norm")
    once, twice = (model.times(norm, {}).forward_s for model in (plain, convolution_costs(V100, None, 0.4)))
    assert twice - 6e-6 == pytest.approx(2 * (once - 6e-6))  # two launches, and bytes at half of the rate
    assert type(convolution_costs(V100, None)) is type(plain)


def seconds(baseline: DeepSpeed) -> float:
    graph, cluster = zoo_graph("tiny-moe", 8), Cluster(2, 2, "v100-16gb")
    options = AlpaOptions(optimizer="adafactor")
    plan = baseline.plan(graph, cluster, 32, 4, options, roofline(cluster.spec))
    return plan.predicted["seconds"]


def test_what_deepspeed_does_is_charged():
    as_said = seconds(DeepSpeed())
    assert seconds(DeepSpeed(every_microbatch=False)) < as_said
    assert seconds(DeepSpeed(kernels=2.0)) > as_said
    half, third = (seconds(DeepSpeed(all_to_all=1 / n)) for n in (2, 3))
    assert half > as_said
    assert third - half == pytest.approx(half - as_said)  # as many seconds again for each
    with pytest.raises(InputError, match=r"all_to_all in \(0, 1\]"):
        DeepSpeed(all_to_all=0.0)
