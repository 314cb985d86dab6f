"""Several device types in one plan."""

from __future__ import annotations

import pytest
from meshwright.errors import InfeasibleError, InputError
from meshwright.planners.alpa import plan, plan_heterogeneous
from meshwright.profiles.graph import zoo_graph
from meshwright.simulator import Cluster
from plain_prices import PlainPrices

V100, A100 = Cluster(1, 2, "v100-16gb"), Cluster(1, 2, "a100-40gb")


def made(clusters, **options):
    prices = [PlainPrices(c.device, loss=0.5) for c in clusters]
    return plan_heterogeneous(
        zoo_graph("gpt3-350m"), clusters, global_batch=32, microbatches=16, options={"n_layers": 8} | options,
        pricers=prices,
    )  # fmt: skip


def test_every_device_of_every_type_is_used():
    found = made([V100, A100])
    for c, cluster in enumerate((V100, A100)):
        ids = sorted(
            m.first_host * cluster.devices_per_node + m.first_device + d
            for s in found.stages if s.cluster == c
            for m in (s.mesh,) for d in range(m.devices)
        )  # fmt: skip
        assert ids == [0, 1]
    assert [s.first for s in found.stages[1:]] == [s.last for s in found.stages[:-1]]
    assert found.stages[-1].last == len(zoo_graph("gpt3-350m").operators)


def test_the_faster_type_gets_more_of_the_model():
    found, graph = made([V100, A100]), zoo_graph("gpt3-350m")
    share = [
        sum(op.flops for s in found.stages if s.cluster == c for op in graph.operators[s.first : s.last])
        for c in (0, 1)
    ]
    assert share[1] > 1.5 * share[0]  # 312 against 125 TFLOP/s
    assert found.seconds < made([V100, V100]).seconds


def test_one_cluster_in_two_halves_is_one_cluster():
    """Without transfers it does not matter where devices are, as long as no submesh spans both halves."""
    halves = made([V100, V100], recompute="none")
    whole = plan(
        zoo_graph("gpt3-350m"), Cluster(2, 2), global_batch=32, microbatches=16,
        options={"n_layers": 8, "recompute": "none"}, pricer=PlainPrices(loss=0.5),
    )  # fmt: skip
    assert halves.seconds >= whole.predicted["dp_seconds"] * (1 - 1e-12)
    if all(m.hosts == 1 for m in whole.meshes):
        assert halves.seconds == pytest.approx(whole.predicted["dp_seconds"], rel=1e-12)


def test_bad_input():
    with pytest.raises(InputError, match="at least one"):
        made([])
    with pytest.raises(InputError, match="several device types"):
        made([V100, A100], epsilon=1e-3)
    with pytest.raises(InfeasibleError, match="use every device"):
        made([V100, A100], memory_fraction=0.01)
