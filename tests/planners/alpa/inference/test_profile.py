"""Profiles that are planned: what they add up to, and that the serving simulator reads them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from meshwright import profiles
from meshwright.errors import InputError, OutOfProfileError
from meshwright.planners.alpa.inference import (
    InferenceOptions,
    forward_graph,
    plan_model,
    profile_graph,
    profile_set,
    units,
)
from meshwright.profiles import ParallelConfig
from meshwright.profiles.autoparallel import partition_at
from meshwright.profiles.graph import build_graph, zoo_graph

OPTIONS = InferenceOptions(ops=(1, 2, 4), max_devices=8, batches=(1, 2))


@pytest.fixture(scope="module")
def planned():
    return plan_model(
        build_graph("bert-large", sizes={"layers": 3, "hidden": 256, "heads": 4, "seq": 128}), options=OPTIONS
    )


def test_units_have_one_heavy_operator_and_layers_begin_units():
    graph = forward_graph(zoo_graph("tiny-gpt"))
    cut = units(graph)
    assert [u.first for u in cut[1:]] == [u.last for u in cut[:-1]]
    assert (cut[0].first, cut[-1].last) == (0, len(graph.operators))
    assert {sum(op.heavy for op in graph.operators[u.first : u.last]) for u in cut} == {1}
    for i, op in enumerate(graph.operators):
        if i and op.layer != graph.operators[i - 1].layer and op.layer >= 0:
            assert i in {u.first for u in cut}


def test_a_stage_is_the_sum_of_its_units_and_what_it_sends(planned):
    config = ParallelConfig(2, 4)
    stage = planned.stage(config)
    cuts = [*(planned.units[k].first for k in stage.partition), planned.units[-1].last]
    for batch, plan in planned.plans[2].items():
        for s, (a, b) in enumerate(pairwise(cuts)):
            own = plan.computation_s[a:b].sum() + plan.collective_s[a:b].sum()
            sent = 0.0
            if s < 3:
                crossing = {n for op in plan.graph.operators[b:] for n in op.inputs} & {
                    op.name for op in plan.graph.operators[:b]
                }
                n_bytes = sum(plan.graph.bytes_of(name) for name in crossing)
                link = profiles.DEVICES["v100-16gb"].intra_node
                sent = link.latency_s + n_bytes / 2 / link.bandwidth_bytes_per_s
            assert stage.latency[batch][s] == pytest.approx(own + sent, rel=1e-9)


def test_no_cut_of_the_operators_has_a_faster_slowest_stage(planned):
    config = ParallelConfig(1, 2)
    every = [
        max(partition_at(planned.table, config, (0, k), planned.comm).stage_s) for k in range(1, len(planned.table))
    ]
    assert max(planned.stage(config).latency[1]) == pytest.approx(min(every), rel=1e-12)


def test_one_device_takes_all_operators_and_holds_all_weights(planned):
    plan = planned.plans[1][1]
    stage = planned.stage(ParallelConfig(1, 1))
    assert stage.latency[1][0] == pytest.approx(plan.seconds, rel=1e-12)
    assert plan.collective_s.sum() == 0
    # A weight that two stages read (the embedding, tied to the head) is held by both, by one device once.
    assert stage.weight_bytes == (pytest.approx(sum(x.bytes for x in plan.graph.parameters)),)
    assert sum(planned.stage(ParallelConfig(1, 2)).weight_bytes) > stage.weight_bytes[0]


def test_batches_keep_the_storage_of_weights(planned):
    for by_batch in planned.plans.values():
        assert by_batch[1].storage == by_batch[2].storage
        assert by_batch[2].seconds > by_batch[1].seconds
        assert np.allclose(by_batch[2].live_bytes.max() / by_batch[1].live_bytes.max(), 2, rtol=0.05)


def test_a_measured_single_device_scales_the_operators_alone():
    graph = zoo_graph("tiny-gpt")
    found = profile_graph(graph, options=InferenceOptions(ops=(1, 2), max_devices=2, single_s=0.5))
    assert found.latency(ParallelConfig(1, 1))[0] == pytest.approx(0.5, rel=1e-9)


def test_the_serving_simulator_reads_a_planned_set(tmp_path):
    from meshwright import planners, simulator, traces

    made = profile_set({"a": zoo_graph("tiny-gpt"), "b": zoo_graph("tiny-mlp")}, options=OPTIONS)
    path = profiles.save(made, tmp_path / "planned.json")
    read = profiles.load(path)
    assert read == made
    assert read["a"].stages[ParallelConfig(2, 2)].source == "planned"
    trace = traces.poisson(rate=20.0, duration=5.0, models=["a", "b"], seed=1).with_slo_scale(10, read)
    plan = planners.alpaserve.plan(simulator.Cluster(1, 4), None, trace, read)
    assert simulator.simulate(plan.placement, trace, read).attainment == 1.0


def test_only_what_was_planned_is_answered(planned):
    with pytest.raises(OutOfProfileError, match="no entry for intra-op degree 8"):
        planned.stage(ParallelConfig(8, 1)) if 8 in planned.plans else planned.table.latency(8, 1)
    with pytest.raises(OutOfProfileError, match="planned: op 1 batch 1"):
        planned.comm.collectives_s(planned.table, 8, 1)
    other = plan_model(zoo_graph("tiny-mlp"), options=OPTIONS)
    with pytest.raises(InputError, match="planned for"):
        other.comm.collectives_s(planned.table, 2, 1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"ops": ()}, "ops: expected different positive"),
        ({"ops": (12,)}, "no whole nodes of 8"),
        ({"batches": (0,)}, "batches: expected"),
        ({"max_devices": 0}, "max_devices: expected a positive"),
        ({"ops": (4,), "max_devices": 2}, "at least ops"),
        ({"single_s": 0.0}, "single_s: expected seconds"),
        ({"stage_overhead_s": -1.0}, "stage_overhead_s"),
        ({"partition": "even"}, "partition: expected"),
    ],
)
def test_refusals(words, message):
    with pytest.raises(InputError, match=message):
        InferenceOptions(**words)


@pytest.mark.slow  # imports torch
def test_a_traced_module_has_a_profile():
    torch = pytest.importorskip("torch")
    from meshwright.profiles.graph import from_torch

    module = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 16))
    graph = from_torch(module, [torch.randn(4, 16)], name="mlp", loss="mse", labels=torch.randn(4, 16))
    found = profile_graph(graph, options=InferenceOptions(ops=(1, 2), max_devices=4))
    assert found.latency(ParallelConfig(2, 1))[0] > 0
