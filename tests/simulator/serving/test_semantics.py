"""Small worlds worked out by hand, under both engines (DESIGN §6)."""

import numpy as np
import pytest
from meshwright.profiles import ModelProfile, ParallelConfig
from meshwright.simulator import Group, Placement, PlacementSchedule, simulate
from meshwright.traces import Trace

ONE, PIPE2 = ParallelConfig(1, 1), ParallelConfig(1, 2)
pytestmark = pytest.mark.parametrize("engine", ["compiled", "simpy"])


def model(name="a", one=(1.0,), pipe=(0.5, 0.5), hop=0.0):
    return ModelProfile.from_stages(name, {ONE: {1: one}, PIPE2: {1: pipe}}, hop_s={PIPE2: hop})


def serve(engine, groups, arrival, slo=np.inf, profiles=None, which=None, names=("a",), **options):
    trace = Trace(arrival, np.zeros(len(arrival), int) if which is None else which, names, slo)
    return simulate(Placement(groups), trace, profiles or {"a": model()}, engine=engine, **options)


def test_figure_1_burst_of_four(engine):
    """The paper's toy: 2.5 y on one device, 1.85 y on a two-stage pipeline that costs 10 % more (y = 1 s)."""
    profiles = {"a": model(pipe=(0.5, 0.6))}  # 1.1 y in all; a new request leaves every 0.5 y
    simple = serve(engine, [Group(ONE, ["a"])], [0, 0, 0, 0], profiles=profiles)
    assert simple.finish.tolist() == [1, 2, 3, 4]
    assert simple.mean_latency == 2.5
    profiles = {"a": model(pipe=(0.5, 0.5), hop=0.1)}
    pipelined = serve(engine, [Group(PIPE2, ["a"])], [0, 0, 0, 0], profiles=profiles)
    np.testing.assert_allclose(pipelined.finish, [1.1, 1.6, 2.1, 2.6], rtol=1e-12)
    assert pipelined.mean_latency == pytest.approx(1.85, rel=1e-12)


def test_exactly_on_the_deadline_is_in_time(engine):
    result = serve(engine, [Group(ONE, ["a"])], [0, 0.25, 0.5], slo=np.array([1.0, 1.75, 2.5 - 1e-6]))
    assert result.group.tolist() == [0, 0, -1]
    assert result.attained.tolist() == [True, True, False]


def test_sums_of_floats_do_not_turn_a_finish_on_the_deadline_into_a_miss(engine):
    profiles = {"a": model(one=(0.1,))}
    result = serve(engine, [Group(ONE, ["a"])], [0.0, 0.0, 0.0], slo=0.3, profiles=profiles)
    assert result.finish[2] > 0.3  # 0.1 + 0.1 + 0.1
    assert result.attainment == 1.0


def test_a_rejected_request_takes_no_time(engine):
    result = serve(engine, [Group(ONE, ["a"])], [0, 0, 1], slo=1.5)
    assert result.finish[[0, 2]].tolist() == [1, 2]
    assert np.isnan(result.finish[1])
    assert np.isnan(result.start[1])


def test_without_admission_everything_is_served_and_late_ones_do_not_attain(engine):
    result = serve(engine, [Group(ONE, ["a"])], [0, 0, 1], slo=1.5, admission=False)
    assert result.finish.tolist() == [1, 2, 3]
    assert result.attained.tolist() == [True, False, False]


def test_completions_come_before_arrivals(engine):
    """At t = 1 group 0 is empty again, so the tie goes to the lowest index."""
    result = serve(engine, [Group(ONE, ["a"]), Group(ONE, ["a"])], [0, 1], dispatch="shortest_queue")
    assert result.group.tolist() == [0, 0]
    result = serve(engine, [Group(ONE, ["a"]), Group(ONE, ["a"])], [0, 1 - 2**-20], dispatch="shortest_queue")
    assert result.group.tolist() == [0, 1]


def test_what_each_policy_looks_at(engine):
    """Group 0 is slow; after one request on each, shortest_queue ties, earliest_finish looks at the request's finish,
    earliest_free at the group's last stage."""
    profiles = {"a": ModelProfile.from_stages("a", {ONE: {1: [4.0]}, PIPE2: {1: [0.5, 0.5]}})}
    groups = [Group(ONE, ["a"]), Group(PIPE2, ["a"])]
    arrival = [0.0, 0.0, 0.25, 6.0]
    by = {
        d: serve(engine, groups, arrival, profiles=profiles, dispatch=d).group.tolist()
        for d in ("shortest_queue", "earliest_finish", "earliest_free")
    }
    assert by["shortest_queue"] == [0, 1, 0, 1]  # at 6 group 0 still works on its second
    assert by["earliest_finish"] == [1, 1, 1, 1]
    assert by["earliest_free"] == [0, 1, 1, 1]


def test_earliest_free_compares_idle_groups_by_their_old_clocks(engine):
    groups = [Group(ONE, ["a"]), Group(ONE, ["a"])]
    result = serve(engine, groups, [0, 0.5, 10, 10], dispatch="earliest_free")
    assert result.group.tolist() == [0, 1, 0, 1]
    result = serve(engine, groups, [0, 10, 20], dispatch="earliest_free")
    assert result.group.tolist() == [0, 1, 0]  # shortest_queue would stay with group 0


def test_overhead_delays_every_finish_and_occupies_no_stage(engine):
    result = serve(engine, [Group(ONE, ["a"])], [0, 0], overhead=0.25)
    assert result.finish.tolist() == [1.25, 2.25]
    result = serve(engine, [Group(ONE, ["a"])], [0, 0], slo=2.0, overhead=0.25)
    assert result.group.tolist() == [0, -1]  # it counts in admission


def test_overhead_keeps_a_request_in_its_queue(engine):
    """Shortest queue counts requests until they have finished, overhead included."""
    result = serve(engine, [Group(ONE, ["a"])] * 2, [0, 1.125], overhead=0.25)
    assert result.group.tolist() == [0, 1]


def test_a_hop_delays_but_occupies_nothing(engine):
    profiles = {"a": model(pipe=(0.5, 0.25), hop=0.125)}
    result = serve(engine, [Group(PIPE2, ["a"])], [0, 0], profiles=profiles)
    assert result.finish.tolist() == [0.875, 1.375]


def test_stages_differ_between_models_and_order_is_kept(engine):
    profiles = {"a": model("a", pipe=(1.0, 0.25)), "b": model("b", pipe=(0.25, 2.0))}
    result = serve(engine, [Group(PIPE2, ["a", "b"])], [0, 0, 0], profiles=profiles, which=[1, 0, 1], names=("a", "b"))
    # b: 0-.25, .25-2.25; a: .25-1.25, 2.25-2.5; b: 1.25-1.5, 2.5-4.5
    assert result.finish.tolist() == [2.25, 2.5, 4.5]
    assert result.start.tolist() == [0, 0.25, 1.25]


def test_a_model_without_replica_is_rejected(engine):
    profiles = {"a": model("a"), "b": model("b")}
    result = serve(engine, [Group(ONE, ["a"])], [0, 0], profiles=profiles, which=[0, 1], names=("a", "b"))
    assert result.group.tolist() == [0, -1]
    assert result.attainment == 0.5


def test_batches_form_of_what_waited(engine):
    latency = {ONE: {1: [1.0], 2: [1.5], 4: [2.0]}}
    profiles = {n: ModelProfile.from_stages(n, latency) for n in ("a", "b")}
    which = [0, 0, 1, 0, 0, 0]
    result = serve(
        engine, [Group(ONE, ["a", "b"])], [0, 0.1, 0.2, 0.3, 0.4, 0.5], profiles=profiles, which=which,
        names=("a", "b"), batching=4,
    )  # fmt: skip
    # The first runs alone; at t=1 the oldest head is a's, with four waiting; b's head then is alone.
    assert result.finish.tolist() == [1, 3, 4, 3, 3, 3]
    assert result.batch.tolist() == [1, 4, 1, 4, 4, 4]


def test_a_batch_grows_only_as_far_as_its_deadlines_allow(engine):
    profiles = {"a": ModelProfile.from_stages("a", {ONE: {1: [1.0], 2: [1.5]}})}
    arrival = [0, 0.5, 0.5]
    tight = serve(engine, [Group(ONE, ["a"])], arrival, slo=1.75, profiles=profiles, batching=2)
    assert tight.batch.tolist() == [1, 1, 0]  # a batch of two would end at 2.5; alone the third ends at 3
    loose = serve(engine, [Group(ONE, ["a"])], arrival, slo=2.0, profiles=profiles, batching=2)
    assert loose.finish.tolist() == [1, 2.5, 2.5]


def test_a_schedule_frees_every_device_at_a_boundary_unless_it_carries(engine):
    profiles = {"a": model()}
    placement = Placement([Group(ONE, ["a"])])
    trace = Trace([0, 0, 0.5], [0, 0, 0], ("a",))
    fresh = simulate(PlacementSchedule([0, 0.5], [placement] * 2), trace, profiles, engine=engine)
    carried = simulate(PlacementSchedule([0, 0.5], [placement] * 2, carry=True), trace, profiles, engine=engine)
    assert fresh.finish.tolist() == [1, 2, 1.5]
    assert carried.finish.tolist() == [1, 2, 3]
