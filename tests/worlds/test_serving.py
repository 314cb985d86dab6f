"""The serving world of studies: what a case says is what is planned and simulated, and nothing else moves it."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright import planners, profiles, simulator, traces
from meshwright.simulator import Group, ParallelConfig, Placement, Plan
from meshwright.simulator.serving.plan.file import PlannerEntry
from meshwright.worlds.outcome import Outcome
from meshwright.worlds.serving.case import ServingCase
from meshwright.worlds.serving.data import ServingData
from meshwright.worlds.serving.solve import Solved, solve
from meshwright.worlds.serving.traffic import traffic
from meshwright.worlds.serving.world import WORLD

BASE: dict[str, Any] = {
    "cluster": {"devices": 4},
    "models": {"bert-1.3b": 6},
    "workload": {"rate": 12, "cv": 3, "duration": 60},
}


def case_of(**fields: Any) -> ServingCase:
    """The base case with other fields, given as ``workload__rate=…``."""
    said = json.loads(json.dumps(BASE))
    for name, value in fields.items():
        *inner, last = name.split("__")
        place = said
        for step in inner:
            place = place.setdefault(step, {})
        if value is None:
            place.pop(last, None)
        else:
            place[last] = value
    return ServingCase.model_validate_json(json.dumps(said))


def evaluate(case: ServingCase, folder: Path = Path()) -> Outcome:
    return WORLD.evaluate(case, WORLD.share([case], folder))


def solved(case: ServingCase, folder: Path = Path()) -> Solved:
    return solve(case, WORLD.share([case], folder))


def drawn(case: ServingCase, folder: Path = Path(), role: Any = "scored") -> traces.Trace:
    return traffic(case, WORLD.share([case], folder), role)


@pytest.fixture
def trace_file(tmp_path: Path) -> Path:
    """Ten minutes of two models whose rate changes; one SLO each."""
    names = ["bert-1.3b-0", "bert-1.3b-3"]
    trace = traces.gamma(8.0, 2.0, 600.0, names, slo=[0.7, 0.9], seed=4)
    trace.to_frame().to_csv(tmp_path / "trace.csv", index=False)
    return tmp_path


# What is evaluated


@pytest.mark.parametrize("name", ["alpaserve", "selective-replication", "clockwork++"])
def test_a_case_is_the_library_called_by_hand(name: str) -> None:
    case = case_of(
        planner__name=name, seed=3, serving__dispatch="earliest_finish", serving__overhead=0.01,
        cluster__memory="10 GiB", workload__slo_scale=4, workload__split={"power_law": 0.5}, warmup=5,
    )  # fmt: skip
    served = profiles.load("alpaserve-v100").instances({"bert-1.3b": 6})
    trace = traces.gamma(12.0, 3.0, 60.0, list(served), {"power_law": 0.5}, seed=3).with_slo_scale(4.0, served)
    spec = replace(profiles.device("v100-16gb"), usable_memory_bytes=10 * 2**30)
    how: dict[str, Any] = {"dispatch": "earliest_finish", "admission": True, "overhead": 0.01}
    plan = planners.planner(name)(simulator.Cluster.of(4, spec), list(served), trace, served, seed=3, **how)
    result = simulator.simulate(plan.placement, trace, served, **how).trim(5.0)

    outcome = evaluate(case)

    got = outcome.metrics
    assert outcome.status == "ok"
    assert got["attainment"] == result.attainment
    assert got["goodput"] == result.goodput
    assert got["mean_latency"] == result.mean_latency
    assert got["p50_latency"] == result.latency(50)
    assert got["n_requests"] == result.counted.sum()  # type: ignore[union-attr]
    assert got["rejected"] == (result.rejected & result.counted).sum()
    assert got["evaluations"] == plan.planner.evaluations
    assert got["cost_per_hour"] == pytest.approx(4 * 3.06)
    assert "p99_latency" not in got
    assert outcome.notes[0].startswith("p99_latency refused: p99 needs 10000 finished requests")


def test_p99_is_given_from_ten_thousand_finished_requests_on() -> None:
    case = case_of(workload__rate=25, workload__duration=500, planner__name="round-robin")
    full = solved(case)
    assert len(full.result.latencies) >= 10_000
    outcome = evaluate(case)
    assert outcome.metrics["p99_latency"] == full.result.latency(99)
    assert not any("refused" in note for note in outcome.notes)


def test_utilisation_weighs_groups_by_their_devices_and_counts_idle_ones(tmp_path: Path) -> None:
    """One request a second; 0.4 s on a group of op2pp1 and 2 x 0.1 s on one of op1pp2, of eight devices."""
    two, pipe = ParallelConfig(2, 1), ParallelConfig(1, 2)
    both = {two: {1: [0.4]}, pipe: {1: [0.1, 0.1]}}
    models = {m: profiles.ModelProfile.from_stages(m, both) for m in "ab"}
    measured = profiles.ProfileSet("mine", "v100-16gb", models, profiles.Provenance("by hand"))
    profiles.save(measured, tmp_path / "mine.json")
    placement = Placement([Group(two, ["a"]), Group(pipe, ["b"])])
    plan = Plan.of(simulator.Cluster.of(8), placement, measured, planner=PlannerEntry(name="by hand"))
    plan.save(tmp_path / "plan.json")
    trace = traces.Trace(np.arange(20.0), ["a", "b"] * 10, ("a", "b"), 2.0)
    trace.to_frame().to_csv(tmp_path / "t.csv", index=False)
    case = case_of(
        cluster__devices=8, models=None, profile="mine.json", workload={"trace": "t.csv"}, planner={"plan": "plan.json"}
    )
    outcome = evaluate(case, tmp_path)
    busy = 10 * 0.4 * 2 + 10 * 0.2
    assert outcome.metrics["utilization"] == pytest.approx(busy / (8 * 19.2), rel=1e-12)
    assert outcome.metrics["demand"] == pytest.approx(busy / (8 * 19.0), rel=1e-12)  # the last request arrives at 19 s
    assert outcome.metrics["attainment"] == 1
    assert "evaluations" not in outcome.metrics  # nobody planned


def test_an_unstable_case_says_so() -> None:
    outcome = evaluate(case_of(workload__rate=60, serving__admission=False, planner__name="round-robin"))
    assert outcome.metrics["offered_load"] >= 1
    assert any(note.startswith("unstable: utilisation") for note in outcome.notes)


def test_an_overloaded_case_says_so_even_where_admission_keeps_it_stable() -> None:
    calm, flooded = (evaluate(case_of(workload__rate=rate, cluster__devices=2)) for rate in (2, 60))
    assert calm.metrics["demand"] < 0.5
    assert flooded.metrics["demand"] > 1
    assert flooded.metrics["attainment"] <= 1.1 / flooded.metrics["demand"]
    assert [any(note.startswith("overloaded: ") for note in o.notes) for o in (calm, flooded)] == [False, True]


def test_nothing_to_plan_is_infeasible_and_not_an_error() -> None:
    outcome = evaluate(case_of(models=["bert-104b"], cluster__devices=8, workload__rate=1))
    assert outcome.status == "infeasible"
    assert not outcome.metrics
    assert "\n" not in outcome.error


def test_the_gap_is_to_a_bound_that_holds_for_every_planner() -> None:
    found = [evaluate(case_of(workload__rate=40, planner__name=n)).metrics for n in ("alpaserve", "round-robin")]
    assert found[0]["upper_bound"] == found[1]["upper_bound"] <= 1
    assert all(m["gap"] == m["upper_bound"] - m["attainment"] >= 0 for m in found)
    free_swaps = evaluate(case_of(workload__rate=40, planner__name="clockwork++")).metrics
    assert "gap" not in free_swaps  # its memory is not bounded by the cluster's


# Purity


def test_the_same_bytes_in_another_process_under_another_hash_seed() -> None:
    case = case_of(planner__name="alpaserve-local-search", planner__options={"local_search_iterations": 50}, seed=2)
    evaluate(case_of(seed=9))  # a warm cache here, a cold one there
    code = (
        "import sys; from pathlib import Path; from meshwright.worlds.serving.world import WORLD;"
        "case = WORLD.case.model_validate_json(sys.argv[1]);"
        "print(repr(WORLD.evaluate(case, WORLD.share([case], Path()))))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, case.model_dump_json(exclude_unset=True)],
        env=os.environ | {"PYTHONHASHSEED": "77"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert run.stdout.strip() == repr(evaluate(case))


class _Spy:
    """A planner that remembers what it was asked."""

    digest = ""

    def __init__(self) -> None:
        self.problems: list[planners.Problem] = []

    def plan(self, problem: planners.Problem, **_: Any) -> Plan:
        self.problems.append(problem)
        p = problem
        return planners.PLANNERS["round-robin"](p.cluster, p.models, p.trace, p.profiles)  # type: ignore[return-value]


def spied(case: ServingCase, seed: int, folder: Path = Path()) -> tuple[ServingData, _Spy]:
    """The case's data, with a planner that remembers; `seed` keeps its plans apart from other tests'."""
    spy = _Spy()
    spy.digest = f"spy {seed}"
    data = WORLD.share([case], folder)
    return replace(data, planners={case.planner.name: spy}), spy  # type: ignore[dict-item]


def test_points_that_a_planner_cannot_tell_apart_share_its_plan() -> None:
    data, spy = spied(case_of(), 1)
    for other in ({"warmup": 3}, {"planner__lost_groups": [0]}, {"planner__label": "x"}, {}):
        solve(case_of(**other), data)
    assert len(spy.problems) == 1
    solve(case_of(seed=1), data)
    solve(case_of(workload__slo=1.0), data)
    assert len(spy.problems) == 3


@pytest.mark.parametrize("measured", [False, True])
def test_history_is_another_draw_and_the_scored_trace_is_never_seen(measured: bool, trace_file: Path) -> None:
    source: dict[str, Any] = {"trace": "trace.csv"} if measured else BASE["workload"] | {"duration": 600}
    case = case_of(planner__plan_on="history", models=None if measured else BASE["models"], workload=source)
    data, spy = spied(case, 2 + measured, trace_file)
    scored = solve(case, data).result.trace
    seen = spy.problems[0].trace
    assert not np.isin(seen.arrival, scored.arrival).any()
    assert len(seen) == pytest.approx(len(scored), rel=0.25)  # the same process
    ticks = np.arange(0, 600, 2.0)
    if not measured:  # windows of a measured trace share its rates
        both = np.corrcoef(np.histogram(seen.arrival, ticks)[0], np.histogram(scored.arrival, ticks)[0])[0, 1]
        assert abs(both) < 4 / len(ticks) ** 0.5


# Common random numbers


def test_replications_have_the_same_traffic_for_every_planner_and_whatever_leaves_it_alone() -> None:
    base = drawn(case_of(seed=5))
    alike = [
        {"planner__name": "round-robin"}, {"cluster__devices": 16}, {"serving__max_batch": 4}, {"warmup": 4},
        {"cluster__memory": "20 GiB"}, {"serving__admission": False}, {"planner__plan_on": "history"},
    ]  # fmt: skip
    assert all(drawn(case_of(seed=5, **other)) == base for other in alike)
    for slo in ({"workload__slo": 0.3}, {"workload__slo_scale": 9}):
        other = drawn(case_of(seed=5, **slo))
        assert np.array_equal(other.arrival, base.arrival)
        assert (other.slo != base.slo).all()
    assert not np.array_equal(drawn(case_of(seed=6)).arrival[:5], base.arrival[:5])


@pytest.mark.parametrize("field", ["rate", "rate_scale"])
def test_another_rate_is_the_same_draw_stretched(field: str) -> None:
    slow = drawn(case_of(seed=1))
    fast = drawn(case_of(seed=1, **{f"workload__{field}": 24 if field == "rate" else 2}))
    n = len(slow)
    assert len(fast) > n
    assert np.allclose(fast.arrival[:n] * 2, slow.arrival, rtol=1e-12)
    assert np.array_equal(fast.model[:n], slow.model)


def test_pairs_on_common_random_numbers_vary_less() -> None:
    """The variance of a difference of two rates, 16 and 15 requests a second, falls by far more than a factor of 4."""
    plan = {"name": "selective-replication", "planned_for": {"workload.rate": 15, "seed": 0}}
    base = case_of(cluster__devices=2, planner=plan)
    data = WORLD.share([base], Path())
    rates = {
        rate: np.array([
            solve(case_of(cluster__devices=2, planner=plan, workload__rate=rate, seed=s), data).result.attainment
            for s in range(40)
        ])
        for rate in (15, 16)
    }  # fmt: skip
    independent = np.var(rates[15]) + np.var(rates[16])
    assert np.var(rates[15] - rates[16]) < independent / 4


@settings(max_examples=15, deadline=None)
@given(factor=st.floats(0.2, 5.0))
def test_a_rate_scale_squeezes_a_measured_trace(factor: float, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("t")
    trace = traces.poisson(5.0, 30.0, ["bert-1.3b"], slo=1.0, seed=1)
    trace.to_frame().to_csv(folder / "t.csv", index=False)
    scaled = drawn(case_of(models=None, workload={"trace": "t.csv", "rate_scale": factor}), folder)
    assert np.allclose(scaled.arrival, trace.arrival / factor, rtol=1e-9)
    assert np.array_equal(scaled.slo, trace.slo)


# Metamorphic: what must not matter, and what can only help


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10_000), scale=st.floats(1.0, 10.0), more=st.floats(1.0, 3.0))
def test_a_longer_slo_never_hurts_a_frozen_plan_without_admission(seed: int, scale: float, more: float) -> None:
    def attained(slo_scale: float) -> float:
        case = case_of(
            seed=seed, serving__admission=False, workload__slo_scale=slo_scale, workload__duration=30,
            planner={"name": "round-robin", "planned_for": {"workload.slo_scale": 5}},
        )  # fmt: skip
        return evaluate(case).metrics["attainment"]

    assert attained(scale * more) >= attained(scale)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10_000), speed=st.sampled_from([0.5, 2.0, 4.0]))
def test_a_faster_device_is_slower_traffic_on_the_profiled_one(seed: int, speed: float) -> None:
    """Twice the speed, twice the rate and half the SLO: every event at half the time."""
    common: dict[str, Any] = {"seed": seed, "planner__name": "selective-replication"}
    fast = case_of(
        **common, cluster__device="a100-40gb", cluster__memory="13 GiB", speed={"a100-40gb": speed},
        workload__rate=12 * speed, workload__duration=60 / speed, workload__slo=0.8 / speed,
    )  # fmt: skip
    slow, quick = evaluate(case_of(**common, workload__slo=0.8)), evaluate(fast)
    assert quick.decision == slow.decision
    assert quick.metrics["attainment"] == slow.metrics["attainment"]
    assert quick.metrics["mean_latency"] * speed == pytest.approx(slow.metrics["mean_latency"], rel=1e-9)
    assert quick.metrics["utilization"] == pytest.approx(slow.metrics["utilization"], rel=1e-9)


def test_a_faster_device_keeps_the_slos_of_the_profiled_one() -> None:
    fast = case_of(cluster__device="a100-40gb", speed={"a100-40gb": 2.5}, workload__slo_scale=3)
    assert np.array_equal(drawn(fast).slo, drawn(case_of(workload__slo_scale=3)).slo)
    hops = [g for p in solved(fast).problem.profiles.values() for g in p.stages.values()]
    assert all(np.isfinite(g.hop_s) for g in hops)


def test_models_have_no_names_but_their_own() -> None:
    """Six instances asked for by number, by name, and as instances of a shipped set's model, are alike."""
    names = [f"bert-1.3b-{i}" for i in range(6)]
    assert evaluate(case_of(models=names)) == evaluate(case_of())


# Plans made for something else, and what fails


def test_a_plan_for_one_variant_is_scored_on_another() -> None:
    planned = solved(case_of(workload__rate=30, seed=1)).plan
    other = solved(case_of(seed=1, planner={"planned_for": {"workload.rate": 30}}))
    assert other.plan.placement == planned.placement  # type: ignore[union-attr]
    assert other.result.trace == drawn(case_of(seed=1))
    again = solved(case_of(seed=2, planner={"planned_for": {"workload.rate": 30, "seed": 1}}))
    assert again.plan.placement == planned.placement  # type: ignore[union-attr]


def test_a_plan_for_more_devices_has_no_place_on_fewer() -> None:
    outcome = evaluate(case_of(planner={"planned_for": {"cluster.devices": 8}}))
    assert outcome.status == "infeasible"
    assert outcome.error == "the plan uses 8 devices, the cluster has 4"


@pytest.mark.parametrize("name", ["alpaserve", "clockwork++"])
def test_a_lost_group_serves_nothing_and_the_worst_one_hurts_most(name: str) -> None:
    each = [evaluate(case_of(planner={"name": name, "lost_groups": [g]})).metrics["attainment"] for g in range(4)]
    whole = evaluate(case_of(planner__name=name)).metrics["attainment"]
    worst = evaluate(case_of(planner={"name": name, "lost_groups": "worst"}))
    assert worst.metrics["attainment"] == min(each) < whole
    assert worst.notes[-1] == f"lost: group {each.index(min(each))}"
    lost = solved(case_of(planner={"name": name, "lost_groups": [2]}))
    assert not (lost.result.group == 2).any()


def test_all_groups_lost_attain_nothing() -> None:
    outcome = evaluate(case_of(planner={"name": "round-robin", "lost_groups": [0]}))
    assert outcome.metrics["attainment"] == 0
    assert outcome.metrics["utilization"] == 0


def test_a_trace_brings_its_instances_and_its_slos(trace_file: Path) -> None:
    case = case_of(models=None, workload={"trace": "trace.csv"})
    full = solved(case, trace_file)
    assert full.problem.models == ("bert-1.3b-0", "bert-1.3b-3")
    assert set(full.result.trace.slo) == {0.7, 0.9}
    again = drawn(case_of(models=None, seed=8, workload={"trace": "trace.csv", "resample": True}), trace_file)
    assert set(again.slo) == {0.7, 0.9}
    assert len(again) == pytest.approx(len(full.result.trace), rel=0.2)


def test_batches_are_served_and_help() -> None:
    one, many = (
        evaluate(case_of(cluster__devices=1, models={"bert-1.3b": 2}, serving__max_batch=b)).metrics for b in (1, 8)
    )
    assert many["attainment"] > one["attainment"]
    assert "upper_bound" not in many  # it holds without batches
    windows = evaluate(case_of(serving__max_batch=4, planner={"name": "clockwork++", "options": {"window": 20}}))
    assert windows.status == "ok"


def test_the_order_of_models_is_part_of_what_a_case_is() -> None:
    """The first model is the busiest under a power law, so a store may not mistake one order for the other."""
    several = ({"bert-1.3b": 1, "moe-1.3b": 1}, {"moe-1.3b": 1, "bert-1.3b": 1})
    one, other = (case_of(models=m, workload__split={"power_law": 1.0}) for m in several)
    busiest = [t.models[int(np.argmax(t.counts()))] for t in (drawn(one), drawn(other))]
    assert busiest == ["bert-1.3b-0", "moe-1.3b-0"]
    assert json.dumps(one.identity(), sort_keys=True) != json.dumps(other.identity(), sort_keys=True)
