"""The upper bound is one: never below the best placement that exhaustion finds, and its parts equal linear programs."""

from __future__ import annotations

import numpy as np
import pytest
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.planners.alpaserve.bound import _most_work, attainable, upper_bound
from meshwright.planners.alpaserve.evaluator import Evaluator
from meshwright.planners.alpaserve.instance import build_instance
from meshwright.profiles import ModelProfile, ParallelConfig
from meshwright.simulator import Cluster
from meshwright.traces import Trace
from small_problems import CONFIGS, all_groups, best_selection, device, instances, problem


@pytest.mark.parametrize("dispatch", ["shortest_queue", "earliest_finish"])
@pytest.mark.parametrize("scale", [1.0, 2.0, 5.0])
def test_no_placement_of_any_shape_exceeds_the_bound(scale, dispatch):
    for seed in range(3):
        cluster, names, trace, profiles = problem(2, 4, n=80, seed=seed, scale=scale, load=4.0)
        instance = build_instance(cluster, names, trace, profiles, dispatch=dispatch)
        evaluator = Evaluator(instance)
        least = min(best_selection(evaluator, groups) for groups in all_groups(instance, 4) if groups)
        assert (instance.n_requests - least) / instance.n_requests <= upper_bound(instance)
        assert upper_bound(instance) < 1  # it says something here


@settings(max_examples=examples(15, anew=40), deadline=None)
@given(instances(), st.integers(0, 2**4 - 1), st.data())
def test_attainable_bounds_every_state(instance, bucket, data):
    everything = (1 << instance.n_models) - 1
    groups = data.draw(st.sampled_from([g for g in all_groups(instance, instance.n_devices) if g]))
    masks = [data.draw(st.integers(0, everything)) & bucket for _ in groups]
    masks = [sum(1 << m for m in range(instance.n_models) if mask >> m & 1 and instance.fits[c, m])
             for c, mask in zip(groups, masks, strict=True)]  # fmt: skip
    used = [instance.weight[c, [m for m in range(instance.n_models) if mask >> m & 1]].sum(axis=0).max(initial=0)
            for c, mask in zip(groups, masks, strict=True)]  # fmt: skip
    if max(used) > instance.memory_bytes:
        return
    state = tuple(sorted(zip(groups, masks, strict=True)))
    attained = instance.n_requests - Evaluator(instance).total(state)
    assert attained <= attainable(instance, bucket & everything, groups, instance.n_devices)


def linear_program(arrival, deadline, work, devices):
    """Most work by a linear program over the intervals between events."""
    from scipy.optimize import linprog

    edges = np.unique(np.concatenate((arrival, deadline)))
    cells = [
        (i, k) for i in range(len(work)) for k in range(len(edges) - 1)
        if arrival[i] <= edges[k] and edges[k + 1] <= deadline[i]
    ]  # fmt: skip
    if not cells:
        return 0.0
    rows = np.zeros((len(work) + len(edges) - 1, len(cells)))
    for j, (i, k) in enumerate(cells):
        rows[i, j] = rows[len(work) + k, j] = 1
    limits = np.concatenate((work, devices * np.diff(edges)))
    return -linprog(-np.ones(len(cells)), A_ub=rows, b_ub=limits).fun


@settings(max_examples=examples(15, anew=40), deadline=None)
@given(st.integers(1, 12), st.integers(0, 2**20), st.sampled_from([1.0, 2.0, 3.5]))
def test_the_sweep_finds_the_maximum_flow(n, seed, devices):
    random = np.random.default_rng(seed)
    arrival = np.sort(random.uniform(0, 5, n))
    deadline = arrival + random.uniform(-0.2, 3, n)
    work = random.uniform(0.1, 3, n)
    expected = linear_program(arrival, deadline, work, devices)
    assert np.isclose(_most_work(arrival, deadline, work, devices), expected, rtol=1e-7, atol=1e-9)


def test_requests_that_no_configuration_can_serve_in_time_are_lost():
    cluster, names, trace, profiles = problem(2, 4, n=40)
    instance = build_instance(cluster, names, trace.with_slo({"m0": 1e-6, "m1": 1e6}), profiles)
    assert upper_bound(instance) == instance.counts[1] / 40


def test_models_that_find_no_memory_are_lost():
    cluster, names, trace, profiles = problem(6, 1, n=60, load=0.01)  # 6 × 40 bytes, 100 bytes of memory
    instance = build_instance(cluster, names, trace.with_slo(1e9), profiles)
    top = np.sort(instance.counts)[::-1]
    assert upper_bound(instance) == np.floor(top[0] + top[1] + top[2] / 2) / 60


def larger_than_a_device(n_models, arrival, slo):
    """Models of 130 bytes on four devices of 100: only groups of several hold one, pipelines with less than others."""
    names = [f"m{i}" for i in range(n_models)]
    configs = {c: {1: [(0.9 if c.op == 2 else 1.0) / c.pp] * c.pp} for c in CONFIGS}  # op=2 keeps both devices busy
    sizes = {c: [130.0 / c.pp * (0.75 if c.op == 2 else 1.0)] * c.pp for c in CONFIGS}
    profiles = {name: ModelProfile.from_stages(name, configs, sizes) for name in names}
    trace = Trace(np.asarray(arrival), np.arange(len(arrival)) % n_models, names, slo)
    return build_instance(Cluster(1, 4, device(100)), names, trace, profiles)


@pytest.mark.parametrize("n_models", [1, 2, 3])
def test_a_pipeline_that_attains_all_is_not_above_the_bound(n_models):
    """n requests at once through four stages of a quarter second: the last one is done at 1 + (n − 1)/4 seconds. A
    bound that had a request keep all its devices, or counted replicas at their largest, would be below."""
    n = 12
    instance = larger_than_a_device(n_models, np.zeros(n), 1 + (n - 1) / 4)
    c = instance.configs.index(ParallelConfig(1, 4))
    assert Evaluator(instance).total(((c, 2**n_models - 1),)) == 0
    assert upper_bound(instance) == 1
    late = larger_than_a_device(n_models, np.zeros(n), 1 + (n - 1) / 4 - 1e-6)
    assert Evaluator(late).total(((c, 2**n_models - 1),)) == 1


@pytest.mark.parametrize("seed", range(4))
def test_no_placement_exceeds_the_bound_where_models_are_larger_than_a_device(seed):
    random = np.random.default_rng(seed)
    n_models = int(random.integers(1, 4))
    slo = random.uniform(0.3, 3.0, 40)
    instance = larger_than_a_device(n_models, np.cumsum(random.exponential(0.2, 40)), slo)
    evaluator = Evaluator(instance)
    least = min(best_selection(evaluator, groups) for groups in all_groups(instance, 4) if groups)
    assert (instance.n_requests - least) / instance.n_requests <= upper_bound(instance) + 1e-12
