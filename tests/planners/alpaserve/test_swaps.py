"""Clockwork++ where swapping costs: the bound, its sober twin, and loading by hand."""

from __future__ import annotations

import numpy as np
import pytest
from meshwright import traces
from meshwright.errors import InputError
from meshwright.planners.alpaserve import clockwork_pp
from meshwright.profiles import ModelProfile, ParallelConfig
from meshwright.simulator import Cluster, Group, Placement, PlacementSchedule, simulate
from meshwright.traces import Trace

ONE = ParallelConfig(1, 1)
PROFILES = {
    name: ModelProfile.from_stages(name, {ONE: {1: [0.1]}}, {ONE: [8 * 2**30]}) for name in ("a", "b", "c", "d")
}


def shifting() -> Trace:
    """Two of four models have traffic, others in each minute."""
    parts = [
        traces.gamma(rate=12.0, cv=2.0, duration=60.0, models=list(pair), slo=1.0, seed=k)
        for k, pair in enumerate(("ab", "cd", "ac", "bd"))
    ]
    arrival = np.concatenate([part.arrival + 60.0 * k for k, part in enumerate(parts)])
    names = [part.models[m] for part in parts for m in part.model.tolist()]
    return Trace(arrival, np.array(["abcd".index(n) for n in names]), tuple("abcd"), 1.0)


def test_loading_by_hand() -> None:
    one, two = Placement([Group(ONE, ["a"])]), Placement([Group(ONE, ["b"])])
    trace = Trace(np.array([9.95, 10.5, 12.5]), np.array([0, 1, 1]), ("a", "b", "c", "d"), 3.0)
    for engine in ("compiled", "simpy"):
        schedule = PlacementSchedule([0.0, 10.0], [one, two], carry=True, load_s=[{}, {0: 2.0}])
        result = simulate(schedule, trace, PROFILES, engine=engine)
        # The device ends its work at 10.05, loads until 12.05, and then serves what waited.
        assert result.finish.tolist() == pytest.approx([10.05, 12.15, 12.6])
        assert simulate(
            PlacementSchedule([0.0, 10.0], [one, two], carry=True), trace, PROFILES, engine=engine
        ).finish.tolist() == pytest.approx([10.05, 10.6, 12.6])


def test_the_sober_twin_lies_between_no_change_and_the_bound() -> None:
    trace, cluster = shifting(), Cluster(1, 2)
    options = {"window": 60.0, "dispatch": "earliest_finish"}
    free = clockwork_pp(cluster, None, trace, PROFILES, **options)
    attained = {
        speed: clockwork_pp(cluster, None, trace, PROFILES, loading=speed, **options).predicted["attainment"]
        for speed in (1e15, 5e9, 5e8, 1e6)
    }
    still = simulate(free.placement.placements[0], trace, PROFILES, dispatch="earliest_finish").attainment
    assert attained[1e15] == pytest.approx(free.predicted["attainment"], abs=0.01)
    assert attained[1e15] > attained[5e9] > attained[5e8] > attained[1e6] - 1e-9
    assert attained[1e6] == pytest.approx(still, abs=1e-9)  # nothing is worth hours of loading


def test_a_host_that_keeps_weights_loads_them_faster() -> None:
    trace, cluster = shifting(), Cluster(1, 2)
    given = {"disk": 5e8, "host": 2e10}
    cold = clockwork_pp(cluster, None, trace, PROFILES, loading=given, dispatch="earliest_finish")
    warm = clockwork_pp(cluster, None, trace, PROFILES, loading=given | {"cache": 2**40}, dispatch="earliest_finish")
    assert warm.predicted["attainment"] > cold.predicted["attainment"]
    assert "devices load for" in warm.explain()
    assert warm.planner.options["loading"]["disk"] == 5e8


def test_models_stay_where_they_are() -> None:
    trace = traces.gamma(rate=6.0, cv=1.0, duration=180.0, models=list("abcd"), slo=1.0, seed=1)
    found = clockwork_pp(Cluster(1, 4), None, trace, PROFILES, loading=1e9)
    for before, after, load_s in zip(
        found.placement.placements, found.placement.placements[1:], (found.placement.load_s or ())[1:], strict=False
    ):
        changed = {b.devices[0] for a, b in zip(before.groups, after.groups, strict=True) if a.models != b.models}  # type: ignore[index]
        assert set(load_s) <= changed


@pytest.mark.parametrize(
    ("loading", "said"),
    [
        (0, r"loading: disk: expected bytes per second > 0 \(got 0\)"),
        ({"disk": 1e9, "host": 0.0}, "loading: host: expected"),
        ({"dsk": 1e9}, "loading: unknown option 'dsk'; did you mean 'disk'"),
        ("fast", "loading: expected bytes per second"),
    ],
)
def test_bad_loading_is_refused(loading: object, said: str) -> None:
    with pytest.raises(InputError, match=said):
        clockwork_pp(Cluster(1, 2), None, shifting(), PROFILES, loading=loading)
    with pytest.raises(InputError, match="set carry=True"):
        PlacementSchedule([0.0], [Placement([Group(ONE, ["a"])])], load_s=[{}])
