"""Every bad input of the serving world: one clear error each, before any work starts."""

import numpy as np
import pytest
from meshwright.errors import InfeasibleError, InputError, MeshwrightError, OutOfProfileError
from meshwright.profiles import DeviceSpec, ModelProfile, ParallelConfig, device
from meshwright.simulator import Batching, Cluster, Group, Placement, PlacementSchedule, simulate
from meshwright.traces import Trace

ONE, PIPE2 = ParallelConfig(1, 1), ParallelConfig(1, 2)
GIB = 2**30
PROFILES = {
    n: ModelProfile.from_stages(
        n, {ONE: {1: [0.4], 2: [0.6]}, PIPE2: {1: [0.2, 0.2]}}, {ONE: [10 * GIB], PIPE2: [5 * GIB, 5 * GIB]}
    )
    for n in ("a", "b")
}
PLACEMENT = Placement([Group(ONE, ["a"])])
TRACE = Trace([0.0, 1.0], [0, 0], ("a",), 1.0)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"engine": "fast"}, r"engine: .*'fast'.*compiled, simpy"),
        ({"dispatch": "random"}, r"dispatch: .*'random'.*shortest_queue, earliest_finish, earliest_free"),
        ({"overhead": -0.1}, r"overhead: .*-0.1"),
        ({"overhead": float("nan")}, r"overhead: .*nan"),
        ({"overhead": float("inf")}, r"overhead: .*inf"),
        ({"batching": 0}, r"max_batch: .*0"),
        ({"batching": True}, r"batching: .*True"),
        ({"batching": "two"}, r"batching: .*'two'"),
    ],
    ids=str,
)
def test_options(options, says):
    with pytest.raises(InputError, match=says):
        simulate(PLACEMENT, TRACE, PROFILES, **options)


def test_a_trace_that_is_none():
    with pytest.raises(InputError, match=r"trace: expected a Trace \(got list\)"):
        simulate(PLACEMENT, [0.0, 1.0], PROFILES)


def test_a_placement_that_is_none():
    with pytest.raises(InputError, match=r"placement: expected a Placement .*\(got dict\)"):
        simulate({}, TRACE, PROFILES)


def test_a_model_without_profile_is_named_with_those_that_have_one():
    with pytest.raises(InputError, match=r"'c'.*a, b"):
        simulate(Placement([Group(ONE, ["c"])]), Trace([0.0], [0], ("c",)), PROFILES)


def test_a_profile_without_the_configuration_names_the_nearest():
    with pytest.raises(OutOfProfileError, match=r"op2pp1.*nearest profiled: op1pp1"):
        simulate(Placement([Group(ParallelConfig(2, 1), ["a"])]), TRACE, PROFILES)


def test_a_profile_without_the_batch_names_those_that_it_has():
    with pytest.raises(OutOfProfileError, match=r"'a', op1pp1.*batch 8.*1, 2"):
        simulate(PLACEMENT, TRACE, PROFILES, batching=8)


def test_a_schedule_cannot_both_carry_and_batch():
    with pytest.raises(InputError, match="carry"):
        simulate(PlacementSchedule([0, 1], [PLACEMENT] * 2, carry=True), TRACE, PROFILES, batching=2)


@pytest.mark.parametrize("value", [0, -1, 1.5, True])
def test_batching_wants_a_positive_integer(value):
    with pytest.raises(InputError, match="max_batch"):
        Batching(value)


@pytest.mark.parametrize(
    ("arrival", "says"),
    [
        ([1.0, 0.5], "must not decrease"),
        ([-1.0, 0.5], "-1"),
        ([float("nan"), 0.5], "nan"),
        ([0.5, float("inf")], "inf"),
        ([], "empty|no request|at least one"),
    ],
    ids=str,
)
def test_times_that_no_simulation_should_see(arrival, says):
    with pytest.raises(InputError, match=f"(?i){says}"):
        Trace(arrival, np.zeros(len(arrival), int), ("a",))


@pytest.mark.parametrize("stage", [0.0, -1.0, float("nan"), float("inf")])
def test_latencies_that_no_simulation_should_see(stage):
    with pytest.raises(InputError, match="latency must be positive and finite"):
        ModelProfile.from_stages("a", {ONE: {1: [stage]}})


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Cluster(nodes=0), r"Cluster.nodes: .*0"),
        (lambda: Cluster(devices_per_node=-8), r"Cluster.devices_per_node: .*-8"),
        (lambda: Cluster(nodes=1.5), r"Cluster.nodes: .*1.5"),
        (lambda: Cluster(nodes=True), r"Cluster.nodes: .*True"),
        (lambda: Cluster(device="v999"), r"v999"),
        (lambda: Cluster(device=16), r"Cluster.device: .*int"),
        (lambda: Cluster.of(0), r"devices_per_node: .*0"),
        (lambda: ParallelConfig(0, 1), r"op"),
        (lambda: ParallelConfig(1, -1), r"pp"),
        (lambda: Group((1, 1), ["a"]), r"Group.config"),
        (lambda: Group(ONE, "ab"), r"Group.models: .*'ab'"),
        (lambda: Group(ONE, ["a", "a"]), r"'a' twice"),
        (lambda: Group(PIPE2, ["a"], [0]), r"needs 2 distinct devices"),
        (lambda: Group(PIPE2, ["a"], [3, 3]), r"needs 2 distinct devices"),
        (lambda: Group(PIPE2, ["a"]).stage_devices(0), r"no devices yet"),
        (lambda: Placement([]), r"at least one group"),
        (lambda: Placement([Group(ONE, [], [1]), Group(PIPE2, [], [0, 1])]), r"groups\[1\]: device 1 "),
        (lambda: Placement(["g"]), r"groups\[0\]: .*str"),
        (lambda: PlacementSchedule([], []), r"one start for each"),
        (lambda: PlacementSchedule([0, 1], [PLACEMENT]), r"2 and 1"),
        (lambda: PlacementSchedule([1], [PLACEMENT]), r"0 = t0"),
        (lambda: PlacementSchedule([0, 0], [PLACEMENT] * 2), r"0 = t0"),
        (lambda: PlacementSchedule([0, float("nan")], [PLACEMENT] * 2), r"0 = t0"),
        (lambda: PlacementSchedule([0], ["p"]), r"placements\[0\]: .*str"),
    ],
)
def test_clusters_and_placements(make, says):
    with pytest.raises(InputError, match=says):
        make()


def test_a_model_that_fits_nowhere_is_infeasible_and_says_by_how_much():
    with pytest.raises(InfeasibleError, match=r"group 0, stage 0: .*20.00 GiB.*13.00 GiB"):
        Placement([Group(ONE, ["a", "b"])]).check(Cluster(), PROFILES)
    Placement([Group(PIPE2, ["a", "b"])]).check(Cluster(), PROFILES)


def test_a_placement_for_another_cluster():
    with pytest.raises(InputError, match=r"groups\[0\]: device 9 does not exist; the cluster has 8"):
        Placement([Group(ONE, ["a"], [9])]).check(Cluster(), PROFILES)
    with pytest.raises(InputError, match="device -1"):
        Placement([Group(ONE, ["a"], [-1])]).check(Cluster(), PROFILES)


def test_checking_a_placement_of_unknown_models_or_configurations():
    with pytest.raises(InputError, match="'c'"):
        Placement([Group(ONE, ["c"])]).check(Cluster(), PROFILES)
    with pytest.raises(OutOfProfileError):
        Placement([Group(ParallelConfig(4, 2), ["a"])]).check(Cluster(), PROFILES)


def test_every_error_has_the_one_root():
    assert all(issubclass(e, MeshwrightError) for e in (InputError, InfeasibleError, OutOfProfileError))


def test_a_cluster_takes_a_device_specification():
    spec = device("v100-16gb")
    assert isinstance(spec, DeviceSpec)
    assert Cluster(2, 4, spec).memory_bytes == Cluster(2, 4).memory_bytes == 13 * GIB
