"""Measured operators: files, shapes that are found again, what stands in for the rest, and plans that use them."""

import json
from dataclasses import replace

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.planners.stages.costs import StageCosts
from meshwright.profiles import device
from meshwright.profiles.graph import OperatorTimes, roofline, zoo_graph
from meshwright.profiles.graph.costs.measured.local_operator import LocalOperator
from meshwright.profiles.graph.costs.measured.model import MeasuredCosts
from meshwright.profiles.graph.costs.measured.profile import CollectiveCurve, MeasuredOperator, TrainingProfile
from meshwright.simulator import Cluster
from meshwright.simulator.mesh import BUCKET_BYTES, Mesh
from meshwright.worlds.training.case import TrainingCase
from meshwright.worlds.training.measured import measured_cluster

CORE = device("cpu-core")
CURVE = CollectiveCurve("all_reduce", 2, (1024, 4096), (0.5, 2.0))


def profile_of(graph, factor=lambda op: 2.0, parts=({},), kinds=None):
    """A profile in which every operator takes so many times what the roofline says."""
    plain = roofline(CORE, "float32")
    found = {}
    for op in graph.operators:
        for cut in parts:
            if kinds is None or op.kind in kinds:
                times, local = plain.times(op, cut), LocalOperator.of(op, cut, "float32")
                if local is not None:
                    passes = (times.forward_s, times.backward_input_s, times.backward_weight_s)
                    found[local.key] = MeasuredOperator(local, OperatorTimes(*(factor(op) * s for s in passes)))
    return TrainingProfile(
        CORE, "a test's core", "2026-11-28", {"torch": "2"}, 2, 3, "float32", tuple(found.values()), (CURVE,), 0.99
    )


@pytest.fixture(scope="module")
def graph():
    return zoo_graph("tiny-gpt", batch=4)


def seconds(times):
    return [times.forward_s, times.backward_input_s, times.backward_weight_s]


def test_a_file_says_what_was_saved(graph, tmp_path):
    profile = profile_of(graph)
    read = TrainingProfile.load(profile.save(tmp_path / "p.json"))
    assert read.by_key.keys() == profile.by_key.keys()
    assert {k: v.times for k, v in read.by_key.items()} == {k: v.times for k, v in profile.by_key.items()}
    assert replace(read, operators=()) == replace(profile, operators=())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d | {"kind": "x"}, "not a training profile"),
        (lambda d: d | {"version": 2}, "version: expected 1"),
        (lambda d: {k: v for k, v in d.items() if k != "machine"}, "machine: missing"),
        (lambda d: d | {"operators": 3}, "operators: expected a list"),
        (lambda d: d | {"operators": [d["operators"][0] | {"forward_s": -1}]}, r"operators\[0\]: .*seconds >= 0"),
        (lambda d: d | {"operators": [d["operators"][0] | {"kind": "wish"}]}, r"operators\[0\]: .*unknown kind"),
        (lambda d: d | {"collectives": [d["collectives"][0] | {"n_bytes": [4, 2]}]}, r"collectives\[0\]: .*rising"),
        (lambda d: d | {"device": d["device"] | {"wings": 2}}, "wings"),
        (lambda d: d | {"in_place": [1.0, 0.0]}, "in_place: expected two ratios above 0"),
        (lambda d: d | {"in_place": 1.1}, "in_place: expected a list"),
        (lambda d: d | {"update_bytes_per_s": 0}, "update_bytes_per_s: expected bytes per second above 0"),
    ],
)
def test_a_damaged_file_is_refused_in_one_line(graph, tmp_path, change, says):
    path = profile_of(graph).save(tmp_path / "p.json")
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(InputError, match=says) as told:
        TrainingProfile.load(path)
    assert str(path) in str(told.value)
    assert "\n" not in str(told.value)


def test_what_stages_take_over_their_operators_is_in_every_operator(graph, tmp_path):
    """That of cut and whole, measured and scaled ones; files from before there was such a ratio have none."""
    profile = profile_of(graph)
    path = replace(profile, in_place=(1.25, 0.5)).save(tmp_path / "p.json")
    alone, found = MeasuredCosts(profile), MeasuredCosts(TrainingProfile.load(path))
    for op in graph.operators:
        for parts in ({}, {"b": 2}):
            forward, *back = seconds(alone.times(op, parts))
            assert seconds(found.times(op, parts)) == [1.25 * forward, *(0.5 * x for x in back)]
    said = json.loads(path.read_text())
    del said["in_place"]
    path.write_text(json.dumps(said))
    assert TrainingProfile.load(path).in_place == (1.0, 1.0)


def test_half_a_file_and_none_are_refused(graph, tmp_path):
    path = profile_of(graph).save(tmp_path / "p.json")
    path.write_text(path.read_text()[:300])
    with pytest.raises(InputError, match="no JSON"):
        TrainingProfile.load(path)
    with pytest.raises(InputError, match="cannot read"):
        TrainingProfile.load(tmp_path / "none.json")


def test_equal_work_has_one_key_whatever_it_is_cut_from(graph):
    up, other = (next(op for op in graph.operators if op.name == f"layers.{k}.mlp.up") for k in (0, 1))
    assert LocalOperator.of(up, {}).key == LocalOperator.of(other, {}).key
    twice = next(op for op in graph.with_batch(8).operators if op.name == up.name)
    assert LocalOperator.of(twice, {"b": 2}).key == LocalOperator.of(up, {}).key
    assert LocalOperator.of(up, {"f": 2}).key != LocalOperator.of(up, {}).key
    assert LocalOperator.of(up, {"f": 7}) is None


def test_a_cut_statistic_is_other_work_than_a_smaller_one(graph):
    norm = next(op for op in graph.operators if op.kind == "norm")
    statistic = next(x.name for x in norm.loops if x.split == "statistic")
    small = replace(norm, loops=tuple(replace(x, size=x.size // 2) if x.name == statistic else x for x in norm.loops))
    assert LocalOperator.of(norm, {statistic: 2}).key != LocalOperator.of(small, {}).key


def test_measured_operators_take_what_was_measured(graph):
    costs, plain = MeasuredCosts(profile_of(graph, lambda op: 3.0)), roofline(CORE, "float32")
    for op in graph.operators:
        assert costs.origin(op, {}) == "measured"
        assert seconds(costs.times(op, {})) == pytest.approx([3 * s for s in seconds(plain.times(op, {}))])


def test_others_are_scaled_by_their_kind_and_pass(graph):
    costs = MeasuredCosts(profile_of(graph, lambda op: 5.0 if op.kind == "contraction" else 2.0))
    plain = roofline(CORE, "float32")
    for kind, factor in (("contraction", 5.0), ("elementwise", 2.0)):
        op = next(op for op in graph.operators if op.kind == kind)
        assert costs.origin(op, {"b": 2}) == "scaled"
        want = [factor * s for s in seconds(plain.times(op, {"b": 2}))]
        assert seconds(costs.times(op, {"b": 2})) == pytest.approx(want)


def test_without_any_of_its_kind_the_ratio_of_all_kinds_holds(graph):
    costs = MeasuredCosts(profile_of(graph, lambda op: 4.0, kinds={"contraction"}))
    norm = next(op for op in graph.operators if op.kind == "norm")
    want = [4.0 * s for s in seconds(roofline(CORE, "float32").times(norm, {}))]
    assert seconds(costs.times(norm, {})) == pytest.approx(want)


def test_collectives_count_as_measured_on_every_mesh_of_the_cluster(graph):
    case = TrainingCase.model_validate(
        {"cluster": {"devices": 2, "device": "cpu-core"}, "workload": {"global_batch": 8}}
    )
    cluster = measured_cluster(Cluster(1, 2, "cpu-core"), case, profile_of(graph))
    view = Mesh(cluster, 1, 2).view((1, 2))
    assert view.seconds("all_reduce", 2560, (1,)) == pytest.approx(1.25)
    assert view.seconds("all_gather", 2560, (1,)) < 0.1  # not measured: messages over the link
    plain = Mesh(Cluster(1, 2, "cpu-core"), 1, 2).view((1, 2))
    assert plain.seconds("all_reduce", 2560, (1,)) < 0.1


def test_gradients_take_their_share_of_a_measured_bucket(graph):
    """Without tables a share is the bytes over the bandwidth, without the fixed cost of a message."""
    case = TrainingCase.model_validate(
        {"cluster": {"devices": 2, "device": "cpu-core"}, "workload": {"global_batch": 8}}
    )
    measured = Mesh(measured_cluster(Cluster(1, 2, "cpu-core"), case, profile_of(graph)), 1, 2).view((1, 2))
    bucket = measured.seconds("all_reduce", BUCKET_BYTES, (1,))
    assert measured.shared_seconds("all_reduce", BUCKET_BYTES / 100, (1,)) == pytest.approx(bucket / 100)
    plain = Mesh(Cluster(1, 2, "cpu-core"), 1, 2).view((1, 2))
    for view, kind in ((measured, "all_gather"), (plain, "all_reduce")):
        fixed = view.seconds(kind, 1e-9, (1,))
        assert view.shared_seconds(kind, 5000, (1,)) == pytest.approx(view.seconds(kind, 5000, (1,)) - fixed)
    assert measured.shared_seconds("all_reduce", 0, (1,)) == measured.shared_seconds("all_reduce", 9, ()) == 0.0


def test_optimizer_steps_move_memory_as_they_were_measured_to(graph):
    case = TrainingCase.model_validate(
        {"cluster": {"devices": 2, "device": "cpu-core"}, "workload": {"global_batch": 8}}
    )
    rates = [
        measured_cluster(Cluster(1, 2, "cpu-core"), case, profile).spec.memory_bandwidth_bytes_per_s
        for profile in (profile_of(graph), replace(profile_of(graph), update_bytes_per_s=3e9))
    ]
    assert rates == [CORE.memory_bandwidth_bytes_per_s, 3e9]


def test_planners_of_stages_sum_gradients_as_measured(graph):
    case = TrainingCase.model_validate(
        {"cluster": {"devices": 2, "device": "cpu-core"}, "workload": {"global_batch": 8}}
    )
    cluster = measured_cluster(Cluster(1, 2, "cpu-core"), case, profile_of(graph))
    costs = StageCosts.of(graph, cluster, global_batch=8, microbatches=[4], devices=[1, 2])
    sets = costs.of_sets(np.ones((1, costs.n_units), dtype=bool))
    (reduce_s,), _ = costs.iteration_s(sets, 2)
    assert reduce_s == pytest.approx(2.0 * sets.gradient_bytes[0] / 4096)  # beyond the largest size: at its rate
    assert costs.iteration_s(sets, 1)[0] == 0
