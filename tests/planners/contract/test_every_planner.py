"""What every entry of PLANNERS keeps: memory, determinism, honest predictions, clear errors."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from meshwright.errors import InfeasibleError, InputError
from meshwright.planners import PLANNERS, ScheduledPlan, alpaserve, planner
from meshwright.planners.contract.shipped import OPTIONS
from meshwright.profiles import ModelProfile
from meshwright.simulator import Cluster, Plan, simulate
from meshwright.traces import Trace
from small_problems import CONFIGS, device, problem, profile

QUICK = {"alpaserve-local-search": {"local_search_iterations": 30}}
ALL = pytest.mark.parametrize("name", PLANNERS)


def run(name, cluster, models, trace, profiles, **options):
    return PLANNERS[name](cluster, models, trace, profiles, **(QUICK.get(name, {}) | options))


def placements(plan):
    return plan.placement.placements if isinstance(plan, ScheduledPlan) else (plan.placement,)


def small():
    return problem(3, 4)


def options_for(name):
    return {"config": "op1pp2"} if name in ("round-robin", "greedy-no-partition") else {}


@ALL
def test_memory_is_never_exceeded_and_predictions_are_simulations(name):
    for seed in range(3):
        cluster, models, trace, profiles = problem(3, 4, seed=seed)
        plan = run(name, cluster, models, trace, profiles, **options_for(name))
        for placement in placements(plan):
            placement.check(cluster, profiles)
            assert placement.n_devices <= cluster.n_devices
        result = simulate(plan.placement, trace, profiles)
        assert plan.predicted["attainment"] == result.attainment
        assert plan.predicted["goodput"] == result.goodput
        assert plan.predicted["mean_latency"] == result.mean_latency
        assert 0 <= plan.predicted["gap"] == plan.predicted["upper_bound"] - result.attainment
        assert "attainment" in plan.explain()


@ALL
def test_same_arguments_same_plan(name):
    """Whether options are left out or their defaults are said: all fields of its options are known by name."""
    cluster, models, trace, profiles = small()
    defaults = {field.name: field.default for field in fields(OPTIONS[name])} | QUICK.get(name, {})
    first, second = (
        run(name, cluster, models, trace, profiles, seed=3, **said, **options_for(name)) for said in ({}, defaults)
    )
    assert first.placement == second.placement
    assert first.predicted == second.predicted
    assert first.planner.evaluations == second.planner.evaluations


@ALL
def test_serving_options_reach_the_simulation(name):
    cluster, models, trace, profiles = small()
    how = {"dispatch": "earliest_finish", "admission": False, "overhead": 0.2}
    plan = run(name, cluster, models, trace, profiles, **how, **options_for(name))
    assert plan.predicted["attainment"] == simulate(plan.placement, trace, profiles, **how).attainment
    if isinstance(plan, Plan):
        assert (plan.serving.dispatch, plan.serving.admission, plan.serving.overhead_s) == (
            "earliest_finish",
            False,
            0.2,
        )


@ALL
def test_the_max_stage_rule_of_memory_is_kept(name):
    cluster, models, trace, profiles = small()
    skewed = {
        n: ModelProfile.from_stages(
            n,
            {c: {1: p.latency(c)} for c in CONFIGS},
            {c: [40 / c.n_devices + (3 if k == i % c.pp else 0) for k in range(c.pp)] for c in CONFIGS},
        )
        for i, (n, p) in enumerate(profiles.items())
    }
    plan = run(name, cluster, models, trace, skewed, memory="max_stage", **options_for(name))
    for placement in placements(plan):
        for group in placement.groups:
            assert sum(max(skewed[m].weight_bytes(group.config)) for m in group.models) <= 100


@ALL
def test_plans_survive_a_round_trip(name, tmp_path):
    cluster, models, trace, profiles = small()
    plan = run(name, cluster, models, trace, profiles, **options_for(name))
    if isinstance(plan, Plan):
        assert Plan.load(plan.save(tmp_path / "plan.json")) == plan


@ALL
def test_a_model_without_requests_may_be_planned_for(name):
    cluster, models, trace, profiles = small()
    plan = run(name, cluster, models, trace.select(["m0", "m2"]), profiles, **options_for(name))
    assert plan.predicted["attainment"] > 0


BAD = {
    "no cluster": ({"cluster": 4}, "cluster"),
    "no trace": ({"trace": [1.0, 2.0]}, "trace"),
    "profiles of another kind": ({"profiles": ["m0"]}, "profiles"),
    "a model without profile": ({"models": ["m0", "m1", "m2", "m9"]}, "m9"),
    "a model twice": ({"models": ["m0", "m0", "m1", "m2"]}, "twice"),
    "a name for names": ({"models": "m0"}, "string"),
    "no model": ({"models": []}, "at least one"),
    "a trace for other models": ({"models": ["m0", "m1"]}, "m2"),
    "unknown dispatch": ({"dispatch": "random"}, "random"),
    "negative overhead": ({"overhead": -1.0}, "overhead"),
    "overhead not a number": ({"overhead": float("nan")}, "overhead"),
    "unknown memory rule": ({"memory": "none"}, "memory"),
}


@ALL
@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_clear_error(name, case):
    cluster, models, trace, profiles = small()
    change, word = BAD[case]
    arguments = {"cluster": cluster, "models": models, "trace": trace, "profiles": profiles} | change
    problem_of = [arguments.pop(key) for key in ("cluster", "models", "trace", "profiles")]
    with pytest.raises(InputError, match=word):
        run(name, *problem_of, **arguments, **options_for(name))


@ALL
def test_a_model_that_fits_nowhere_is_infeasible_and_says_what_would_help(name):
    cluster, _, trace, _ = small()
    huge = {n: profile(n, 1.0, weight=1000.0) for n in trace.models}
    with pytest.raises(InfeasibleError, match="it would with"):
        run(name, cluster, None, trace, huge, **options_for(name))


def test_the_smallest_change_is_named():
    trace = small()[2]
    gib = 2**30
    models = {n: profile(n, 1.0, weight=3.0 * gib) for n in trace.models}
    small_device = replace(device(gib), name="toy")
    with pytest.raises(InfeasibleError, match=r"4 devices \(as op1pp4; 2 now\)"):
        alpaserve.plan(Cluster(1, 2, small_device), None, trace, models)
    with pytest.raises(InfeasibleError, match=r"1\.50 GiB usable on each device"):
        alpaserve.plan(Cluster(1, 2, small_device), None, trace, models)
    with pytest.raises(InfeasibleError, match=r"op1pp4 allowed \(max_op >= 1, max_pp >= 4\)"):
        alpaserve.plan(Cluster(1, 4, small_device), None, trace, models, max_op=1, max_pp=2)


def test_plan_options_are_checked_before_work():
    cluster, models, trace, profiles = small()
    for options, word in [
        ({"algorithm": "magic"}, "magic"), ({"selection": "slow"}, "slow"), ({"beam": 0}, "beam"),
        ({"max_op": 0}, "max_op"), ({"max_pp": -1}, "max_pp"), ({"bucket_threshold": 2.0}, "bucket_threshold"),
        ({"bucketings": "some"}, "bucketings"), ({"remainder": "drop"}, "remainder"), ({"max_splits": 0}, "max_splits"),
        ({"local_search_iterations": -1}, "iterations"), ({"local_search_seconds": -1.0}, "seconds"),
        ({"config": "op1pp2"}, "algorithm1"), ({"polish": -1}, "polish"), ({"algorithm": "algorithm1"}, "config"),
        ({"algorithm": "algorithm1", "config": "op1pp8"}, "op1pp8"), ({"robust": 0}, "robust"),
        ({"robust": [1]}, "robust"), ({"criterion": 0.1}, "robust"), ({"robust": 2, "criterion": 2.0}, "criterion"),
        ({"seed": -1, "local_search_iterations": 5}, "seed"),
    ]:  # fmt: skip
        with pytest.raises(InputError, match=word):
            alpaserve.plan(cluster, models, trace, profiles, **options)


def test_baseline_options_are_checked():
    cluster, models, trace, profiles = small()
    for name, options, word in [
        ("clockwork++", {"window": 0.0}, "window"), ("clockwork++", {"windows": "odd"}, "windows"),
        ("round-robin", {"config": "op1pp8"}, "op1pp8"), ("round-robin", {"config": "1x2"}, "op2pp4"),
        ("selective-replication", {"selection": "slow"}, "slow"), ("greedy-no-partition", {"config": 4}, "config"),
        ("selective-replication", {"selection": "greedy", "beam": 0}, "beam"),
    ]:  # fmt: skip
        with pytest.raises(InputError, match=word):
            PLANNERS[name](
                cluster, models, trace, profiles, **({"config": "op1pp2"} | options if "config" in options else options)
            )
    with pytest.raises(InputError, match="alpaserve"):
        planner("alpa")
    with pytest.raises(InfeasibleError, match="at least 3 devices"):
        PLANNERS["dedicated"](Cluster(1, 2, device()), models, trace, profiles)


def test_more_search_never_attains_less():
    for seed in range(3):
        cluster, models, trace, profiles = problem(4, 4, seed=seed)
        fast = alpaserve.plan(cluster, models, trace, profiles)
        greedy = alpaserve.plan(cluster, models, trace, profiles, selection="greedy", fill=False)
        single = PLANNERS["selective-replication"](cluster, models, trace, profiles, fill=False)
        local = alpaserve.plan(cluster, models, trace, profiles, local_search_iterations=50)
        assert fast.predicted["attainment"] >= single.predicted["attainment"]
        assert greedy.predicted["attainment"] >= single.predicted["attainment"]
        assert local.predicted["attainment"] >= fast.predicted["attainment"]


def test_filling_spare_memory_harms_nothing_and_leaves_no_useful_room():
    cluster, models, trace, profiles = problem(2, 4, n=30, load=0.01)
    bare = alpaserve.plan(cluster, models, trace, profiles, fill=False)
    full = alpaserve.plan(cluster, models, trace, profiles)
    replicas = [sum(len(g.models) for g in p.groups) for p in (bare, full)]
    assert full.predicted["attainment"] >= bare.predicted["attainment"]
    assert replicas[1] >= replicas[0]


def test_renaming_models_changes_no_metric():
    cluster, models, trace, profiles = small()
    names = ["x", "y", "z"]
    renamed = Trace(trace.arrival, trace.model, names, trace.slo)
    other = {new: profiles[old].renamed(new) for new, old in zip(names, models, strict=True)}
    first = alpaserve.plan(cluster, models, trace, profiles)
    second = alpaserve.plan(cluster, names, renamed, other)
    assert first.predicted == second.predicted


def test_scaling_time_changes_no_attainment():
    cluster, models, trace, profiles = small()
    doubled = Trace(trace.arrival * 2, trace.model, trace.models, trace.slo * 2)
    slower = {name: p.scaled(2.0) for name, p in profiles.items()}
    first = alpaserve.plan(cluster, models, trace, profiles)
    second = alpaserve.plan(cluster, models, doubled, slower)
    assert first.placement == second.placement
    assert np.isclose(second.predicted["mean_latency"], 2 * first.predicted["mean_latency"], rtol=1e-12)
