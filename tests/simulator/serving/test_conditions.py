"""What drawn times and outages mean, by hand: each example is served by both engines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.profiles import ModelProfile, ParallelConfig
from meshwright.profiles.spread import Spread, Variation
from meshwright.simulator import Group, Placement, PlacementSchedule, SimulationResult, simulate
from meshwright.simulator.draws import Draws
from meshwright.simulator.serving import Conditions, Outages, ServingTimes, draw_times
from meshwright.traces import Trace, gamma

ONE, PIPE, WIDE = ParallelConfig(1, 1), ParallelConfig(1, 2), ParallelConfig(2, 1)
PROFILES = {
    "a": ModelProfile.from_stages(
        "a", {ONE: {1: [1.0], 2: [1.5]}, PIPE: {1: [1.0, 1.0], 2: [1.5, 1.5]}, WIDE: {1: [1.0]}}, hop_s={PIPE: 0.5}
    ),
    "b": ModelProfile.from_stages("b", {ONE: {1: [1.0], 2: [1.5]}}),
}


def factors(*rows: list[float]) -> Draws:
    """A stream for each row: its factors in the course of time, one second each."""
    return Draws(1.0, np.array(rows), np.zeros(len(rows), dtype=np.uint64), np.ones(1))


def serve(groups, arrival, conditions, slo=np.inf, model=0, **options) -> SimulationResult:
    trace = Trace(arrival, np.broadcast_to(model, len(arrival)), ["a", "b"], slo)
    placement = Placement(groups)
    fast, slow = (
        simulate(placement, trace, PROFILES, engine=engine, conditions=conditions, **options)
        for engine in ("compiled", "simpy")
    )
    for column in ("finish", "start", "group", "failed", "attempts", "batch"):
        np.testing.assert_array_equal(getattr(fast, column), getattr(slow, column))
    return fast


def outages(*rows: tuple[int, float, float], in_flight="retried") -> Conditions:
    return Conditions(None, Outages(*([row[k] for row in rows] for k in range(3)), in_flight))


def test_a_visit_takes_the_factor_of_the_second_in_which_it_starts():
    times = ServingTimes(factors([1.5, 0.5, 2.0]))
    result = serve([Group(ONE, ["a"])], [0.0, 0.2, 5.0], Conditions(times))
    assert result.finish.tolist() == [1.5, 2.0, 7.0]
    assert result.visits.seconds[:, 0].tolist() == [1.5, 0.5, 2.0]
    assert result.utilization().tolist() == [4.0 / 7.0]
    assert result.timeline().start.tolist() == [0.0, 1.5, 5.0]


def test_a_stage_on_two_devices_waits_for_the_slower_one():
    result = serve([Group(WIDE, ["a"])], [0.0, 3.0], Conditions(ServingTimes(factors([1.5], [2.0]))))
    assert result.finish.tolist() == [2.0, 5.0]


def test_a_stage_that_has_rested_begins_cold():
    cold = replace(factors([1.0]), rest_s=np.array([0.5, 2.0]), rest=np.array([1.25, 1.5]))
    # The first visit has rested since the beginning; the second one came while the first ran.
    result = serve([Group(ONE, ["a"])], [0.25, 0.5, 2.75, 10.0], Conditions(ServingTimes(cold)))
    assert result.visits.seconds[:, 0].tolist() == [1.0, 1.0, 1.25, 1.5]


def test_hops_and_answers_have_factors_of_their_group():
    times = ServingTimes(factors([1.0], [1.0]), hops=factors([2.0, 3.0]), answers=factors([1.0, 1.0, 1.0, 1.0, 4.0]))
    result = serve([Group(PIPE, ["a"])], [0.0], Conditions(times), overhead=0.25)
    assert result.visits.start.tolist() == [[0.0, 2.5]]  # the hop begins at 1.0: factor 3 on half a second
    assert result.finish.tolist() == [3.5 + 0.25]  # the answer leaves at 3.5: factor 1


def test_answers_come_in_order():
    times = ServingTimes(factors([1.0]), answers=factors([1.0, 8.0, 1.0]))
    result = serve([Group(ONE, ["a"])], [0.0, 0.0], Conditions(times), overhead=0.25)
    assert result.finish.tolist() == [3.0, 3.0]  # the second would be there at 2.25


def test_predictions_are_the_profiles_until_an_answer_corrects_them():
    """The first job takes 2 s and not 1. What arrives before that is known is admitted by the profile."""
    times = ServingTimes(factors([2.0, 1.0, 1.0, 1.0, 1.0]))
    arrival = [0.0, 0.5, 1.6, 2.1]
    result = serve([Group(ONE, ["a"])], arrival, Conditions(times), slo=np.array([9.0, 1.5, 1.95, 1.85]), model=0)
    # 0.5: predicted 2.0, just in time, and is really done at 3.0. 1.6: the first one is overdue and ends at 1.6 at the
    # earliest; 3.6 is too late. 2.1: the answer came at 2.0, the next ends at 3.0, so 4.0 is too late for 3.95.
    assert result.group.tolist() == [0, 0, -1, -1]
    assert result.finish[:2].tolist() == [2.0, 3.0]
    assert result.attained.tolist() == [True, False, False, False]


def test_requests_in_flight_are_tried_anew_in_order_of_arrival():
    result = serve([Group(ONE, ["a"]), Group(ONE, ["a"])], [0.0, 0.1, 0.2, 0.3, 9.0], outages((0, 0.5, 2.0)))
    # Group 0 held 0 and 2, group 1 held 1 and 3 (until 2.1): both begin again there, and group 0 is back for the last.
    assert result.group.tolist() == [1, 1, 1, 1, 0]
    assert result.finish.tolist() == pytest.approx([3.1, 1.1, 4.1, 2.1, 10.0])
    assert result.attempts.tolist() == [2, 1, 2, 1, 1]
    assert not result.failed.any()


def test_requests_in_flight_are_lost():
    result = serve([Group(ONE, ["a"])], [0.0, 0.1, 0.6, 2.0], outages((0, 0.5, 2.0), in_flight="lost"))
    assert result.failed.tolist() == [True, True, False, False]
    assert result.group.tolist() == [-1, -1, -1, 0]  # 0.6: nobody is there; 2.0: it is back, and empty
    assert result.finish[3] == 3.0
    assert result.rejected.tolist() == [True, True, True, False]


def test_a_second_try_keeps_its_deadline():
    groups = [Group(ONE, ["a"]), Group(ONE, ["a"])]
    for slo, group in ((1.5, 1), (1.4, -1)):
        result = serve(groups, [0.0], outages((0, 0.5, np.inf)), slo=slo)
        assert (result.group.tolist(), result.failed.tolist()) == ([group], [False])


def test_an_answer_that_is_not_heard_is_lost_with_its_group():
    assert serve([Group(ONE, ["a"])], [0.0], outages((0, 1.25, 2.0), in_flight="lost"), overhead=0.25).failed[0] == 0
    assert serve([Group(ONE, ["a"])], [0.0], outages((0, 1.2, 2.0), in_flight="lost"), overhead=0.25).failed[0] == 1


def test_what_happens_at_one_instant():
    """At 1.0: 0 ends, group 1 comes back, group 0 fails, its second request is tried anew, and then 2 arrives."""
    groups = [Group(ONE, ["a"]), Group(ONE, ["a"])]
    result = serve(groups, [0.0, 0.0, 1.0], outages((1, 0.0, 1.0), (0, 1.0, 5.0)))
    assert result.finish.tolist() == [1.0, 2.0, 3.0]
    assert result.group.tolist() == [0, 1, 1]


def test_a_group_that_fails_again_and_again():
    rows = [(0, 0.5, 1.0), (1, 0.75, 1.5), (0, 1.25, 3.0)]
    result = serve([Group(ONE, ["a"]), Group(ONE, ["a"])], [0.0], outages(*rows))
    # To group 1 at 0.5; rejected at 0.75, as nobody is there: it is not kept for whoever comes back.
    assert (result.group[0], result.attempts[0], result.failed[0]) == (-1, 2, False)


def test_batches_are_tried_anew_and_wait_in_order_of_arrival():
    """Requests 1 and 2 are a batch on group 0 from 1.0 on, 3 waits. At 1.2 the batch is lost; both wait before 3."""
    groups = [Group(ONE, ["a"]), Group(ONE, ["a"])]
    result = serve(groups, [0.0, 0.1, 0.2, 0.3, 1.15], outages((0, 1.05, 9.0)), batching=2)
    # 0 on group 0 until 1.0, 1 on group 1 until 1.1; 2 and 3 as a batch on group 0 from 1.0; lost at 1.05; group 1
    # takes them at 1.1, and 4 after them at 2.6.
    assert result.batch.tolist() == [1, 1, 2, 2, 1]
    assert result.start.tolist() == pytest.approx([0.0, 0.1, 1.1, 1.1, 2.6])
    assert result.attempts.tolist() == [1, 1, 2, 2, 1]


@pytest.mark.parametrize(("in_flight", "failed"), [("lost", [True, True, False]), ("retried", [False] * 3)])
def test_waiting_requests_of_a_model_that_nobody_holds_any_more(in_flight, failed):
    result = serve([Group(ONE, ["a"])], [0.0, 0.1, 0.6], outages((0, 0.5, 2.0), in_flight=in_flight), batching=2)
    assert result.failed.tolist() == failed
    assert result.group.tolist() == [-1, -1, -1]


def test_who_comes_back_takes_what_waits():
    groups = [Group(ONE, ["a"]), Group(ONE, ["a"])]
    result = serve(groups, [0.0, 0.5, 0.6], outages((1, 0.1, 0.7)), batching=2)
    assert result.start.tolist() == [0.0, 0.7, 0.7]
    assert result.group.tolist() == [0, 1, 1]


def test_a_group_of_one_stage_is_known_to_be_free_by_its_answer():
    times = Conditions(ServingTimes(factors([1.0])))
    result = serve([Group(ONE, ["a"])], [0.0, 0.5], times, batching=2, overhead=0.25)
    assert result.start.tolist() == [0.0, 1.25]
    two = serve([Group(PIPE, ["a"])], [0.0, 0.5], Conditions(ServingTimes(factors([1.0], [1.0]))), batching=2,
                overhead=0.25)  # fmt: skip
    assert two.start.tolist() == [0.0, 1.0]


PLACEMENT = Placement([Group(ONE, ["a"]), Group(PIPE, ["a"]), Group(ONE, ["b"])])


def traffic(models=("a", "b")) -> Trace:
    return gamma(1.6, 3.0, 400.0, list(models), slo=4.0, seed=1)


@pytest.mark.parametrize("engine", ["compiled", "simpy"])
@pytest.mark.parametrize("batching", [None, 2])
def test_factors_of_one_change_nothing(engine, batching):
    options = {"engine": engine, "batching": batching, "overhead": 0.0 if batching else 0.125}
    plain = simulate(PLACEMENT, traffic(), PROFILES, **options)
    ones = Conditions(draw_times(Variation(), PLACEMENT, 400.0, 0))
    for conditions in (Conditions(), ones):
        result = simulate(PLACEMENT, traffic(), PROFILES, conditions=conditions, **options)
        np.testing.assert_allclose(result.finish, plain.finish, rtol=0, atol=1e-9)
        np.testing.assert_array_equal(result.group, plain.group)
        np.testing.assert_allclose(result.utilization(), plain.utilization(), rtol=1e-9)
        assert result.attempts.tolist() == (~plain.rejected).astype(int).tolist()


@pytest.mark.parametrize("engine", ["compiled", "simpy"])
@pytest.mark.parametrize("batching", [None, 2])
def test_an_outage_of_a_group_that_nobody_needs_changes_nothing(engine, batching):
    trace = Trace(traffic().arrival, np.zeros(len(traffic()), dtype=int), ["a", "b"], 4.0)
    options = {"engine": engine, "batching": batching, "overhead": 0.125}
    plain = simulate(PLACEMENT, trace, PROFILES, **options)
    result = simulate(PLACEMENT, trace, PROFILES, conditions=outages((2, 10.0, 50.0), (2, 60.0, np.inf)), **options)
    for column in ("finish", "start", "group"):
        np.testing.assert_array_equal(getattr(result, column), getattr(plain, column))


def test_changes_are_in_the_order_in_which_they_happen_and_overlaps_are_one():
    rows = Outages([1, 0, 1, 1], [1, 3, 3, 1.5], [3, 4, 5, 2])
    assert rows.changes() == [(1.0, True, 1), (3.0, True, 0), (4.0, False, 0), (5.0, False, 1)]
    assert rows.away_s(3, 4.5).tolist() == [1.0, 3.5, 0.0]
    assert Outages([0], [1.0], [np.inf]).changes() == [(1.0, True, 0)]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Outages([0], [1.0, 2.0], [3.0]), "three columns of one length"),
        (lambda: Outages([-1], [1.0], [3.0]), "group: expected integers >= 0"),
        (lambda: Outages([0.5], [1.0], [3.0]), "group: expected integers >= 0"),
        (lambda: Outages([0], [np.nan], [3.0]), "row 0: down_s: expected finite seconds >= 0 (got nan)"),
        (lambda: Outages([0, 0], [1.0, 5.0], [3.0, 5.0]), "row 1: up_s: expected seconds after down_s 5.0 (got 5.0)"),
        (lambda: Outages([0], [1.0], [np.nan]), "row 0: up_s"),
        (lambda: Outages([0], [1.0], [2.0], "kept"), "in_flight: expected one of retried, lost (got 'kept')"),
        (lambda: ServingTimes([1.0]), "times: stages: expected Draws (got list)"),
        (lambda: Conditions(outages=[(0, 1, 2)]), "conditions: outages: expected Outages (got list)"),
        (lambda: Conditions(times=Spread()), "conditions: times: expected ServingTimes (got Spread)"),
        (lambda: serve([Group(ONE, ["a"])], [0.0], outages((1, 0.0, 1.0))), "group 1: the placement has groups 0 to 0"),
        (lambda: serve([Group(PIPE, ["a"])], [0.0], Conditions(ServingTimes(factors([1.0])))), "each of 2 devices"),
        (lambda: scheduled(outages((0, 0.0, 1.0))), "outages name the groups of one placement"),
        (lambda: scheduled(Conditions(), carry=True), "set carry=False"),
        (lambda: serve([Group(ONE, ["a"])], [0.0], 3), "conditions: expected Conditions (got int)"),
    ],
)  # fmt: skip
def test_bad_input(make, said):
    with pytest.raises(InputError) as caught:
        make()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def scheduled(conditions: Conditions, carry: bool = False) -> SimulationResult:
    where = PlacementSchedule([0.0, 5.0], [PLACEMENT, PLACEMENT], carry=carry)
    return simulate(where, traffic(), PROFILES, conditions=conditions)
