"""What a report draws of a serving case: the worst burst by brute force, every device once, shares that add up."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cases_to_report import study_of
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright import simulator, traces
from meshwright.profiles import ModelProfile
from meshwright.simulator import Group, ParallelConfig, Placement, PlacementSchedule, SimulationResult
from meshwright.worlds.serving import burst as serving_burst
from meshwright.worlds.serving.burst import worst_burst
from meshwright.worlds.serving.map import alike, device_use
from meshwright.worlds.serving.panels import burst_html, panels
from meshwright.worlds.serving.solve import Solved, solve

PIPE, ONE = ParallelConfig(1, 2), ParallelConfig(1, 1)
PROFILES = {
    name: ModelProfile.from_stages(
        name,
        {ONE: {1: [t], 2: [1.5 * t], 4: [2.5 * t]}, PIPE: {1: [0.7 * t, 0.4 * t], 2: [t, 0.6 * t], 4: [1.8 * t, t]}},
        weight_bytes={ONE: [1e9], PIPE: [5e8, 5e8]},
    )
    for name, t in (("a", 0.2), ("b", 0.35))
}
PLACEMENT = Placement([Group(PIPE, ["a", "b"]), Group(ONE, ["a"]), Group(ONE, ["b"])])
SCHEDULE = PlacementSchedule(
    [0.0, 15.0], [PLACEMENT, Placement([Group(ONE, ["b"]), Group(ONE, ["a"]), Group(PIPE, ["a"])])]
)


def served(
    placement: Placement | PlacementSchedule = PLACEMENT, *, rate: float = 9.0, seed: int = 0, slo: float = 0.9,
    **how: object,
) -> SimulationResult:  # fmt: skip
    trace = traces.gamma(rate=rate, cv=4, duration=40, models=["a", "b"], slo=slo, seed=seed)
    return simulator.simulate(placement, trace, PROFILES, **how)  # type: ignore[arg-type]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), rate=st.sampled_from([2.0, 6.0, 12.0]), admission=st.booleans())
def test_no_window_of_that_length_has_more_misses(seed: int, rate: float, admission: bool) -> None:
    result = served(rate=rate, seed=seed, admission=admission)
    burst = worst_burst(result)
    arrival, missed = result.trace.arrival, ~result.attained
    times = arrival[missed] if missed.any() else arrival

    def inside(begin: float, end: float) -> int:
        return int(((times >= begin) & (times < end)).sum())

    length = burst.end - burst.begin
    most = max(inside(t, t + 0.85 * length) for t in times)
    assert inside(burst.begin, burst.end) >= most
    assert burst.count("rejected") + burst.count("late") + burst.count("in time") == len(burst.requests)
    assert burst.count("rejected") == int(result.rejected[(arrival >= burst.begin) & (arrival < burst.end)].sum())


@pytest.mark.parametrize("placement", [PLACEMENT, SCHEDULE], ids=["plan", "schedule"])
@pytest.mark.parametrize("how", [{}, {"batching": 4}, {"admission": False}], ids=["alone", "batches", "no admission"])
@pytest.mark.parametrize("chunk", [7, 1_000_000])
def test_spans_of_the_burst_are_those_of_the_timeline(
    placement: Placement | PlacementSchedule, how: dict[str, object], chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cutting the trace into pieces changes nothing, and nothing of the window is missing."""
    monkeypatch.setattr(serving_burst, "CHUNK", chunk)
    result = served(placement, **how)
    burst, whole = worst_burst(result), result.timeline()
    seen = (whole.end > burst.begin) & (whole.start < burst.end)
    expected = sorted(zip(whole.start[seen], whole.end[seen], whole.request[seen], strict=True))
    found = sorted(zip(burst.spans["start"], burst.spans["end"], burst.spans["request"], strict=True))
    assert len(found) > 10
    np.testing.assert_allclose(np.array(found, dtype=float), np.array(expected, dtype=float), rtol=1e-12)


def test_use_of_devices_adds_up_to_all_work() -> None:
    for result in (served(), served(SCHEDULE), served(batching=2)):
        use = device_use(result, 6)
        assert use.sum() * result.horizon == pytest.approx(float(result.timeline().busy().sum()))
        assert (use[4:] == 0).all()


CASES: dict[str, Callable[[str], str]] = {
    "plan": lambda planner: f"planners: [{planner}]",
    "schedule": lambda planner: "planners: [{name: clockwork++, options: {window: 10}}]",
    "lost": lambda planner: f"planners: [{{name: {planner}, lost_groups: [1]}}]",
}

TEXT = """
study: 1
name: drawn
cluster: {devices: 16, devices_per_node: 8}
models: {bert-1.3b: 6, bert-2.6b: 3}
workload: {rate: 25, cv: 4, duration: 30, slo_scale: 3}
"""


@pytest.mark.parametrize("kind", CASES)
def test_every_device_is_drawn_once_with_its_group(kind: str, tmp_path: Path) -> None:
    study = study_of(tmp_path, TEXT + CASES[kind]("round-robin"))
    solved = solve(study.case(next(study.points())), study.share())
    drawn = {p.title: p for p in panels(solved)}
    assert list(drawn) == ["Placement", "Worst burst", "Utilisation"]
    placement = drawn["Placement"].body
    cells = re.findall(r'<li class="dev [^"]*" title="device (\d+): (?:group (\d+)|unused)', placement)
    assert sorted(int(d) for d, _ in cells) == list(range(16))
    held = _held(solved)
    expected = {d: str(g) for g, group in enumerate(held.groups) for d in group.devices or ()}
    assert {int(d): g for d, g in cells if g} == expected
    assert placement.count('class="node"') == 2
    assert ("window" in drawn["Placement"].caption) == (kind == "schedule")
    assert ("lost" in placement) == (kind == "lost")
    assert sum(len(k.numbers) for k in alike(held)) == len(held.groups)
    use = [float(u) for u in re.findall(r'title="device \d+: busy ([\d.]+)%', drawn["Utilisation"].body)]
    assert np.mean(use) == pytest.approx(100 * device_use(solved.result, 16).mean(), abs=0.06)


def _held(solved: Solved) -> Placement:
    """The placement in the worst burst."""
    burst = worst_burst(solved.result)
    if len(solved.result.segments) == 1:
        return solved.result.placement
    starts = solved.plan.placement.starts  # type: ignore[union-attr]
    return solved.result.segments[max(0, int(np.searchsorted(starts, burst.begin, side="right")) - 1)].placement


def test_a_burst_without_any_service_is_drawn() -> None:
    """Every request is rejected: the timeline has no lane, the losses are there."""
    burst = worst_burst(served(slo=0.01))
    assert burst.count("rejected") == len(burst.requests) > 0
    assert 'class="rejected"' in burst_html(burst)


def test_many_requests_make_no_endless_drawing() -> None:
    burst = worst_burst(served(rate=4000.0))
    assert len(burst.requests) <= serving_burst.MOST
    assert len(burst_html(burst)) < 300_000
