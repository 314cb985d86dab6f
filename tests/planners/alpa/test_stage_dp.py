"""Stage DP: equal to brute force over all cuts, submeshes and configurations; closed forms; bad input."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InfeasibleError, InputError
from meshwright.planners.alpa import stage_dp

MESHES = {(1, 4): [(1, 1), (1, 2), (1, 4)], (2, 2): [(1, 1), (1, 2), (2, 2)], (3, 1): [(1, 1), (2, 1), (3, 1)]}


def plan_cost(times, n_micro, objective):
    return sum(times) + (n_micro - 1) * max(times) if objective == "training" else max(times) * len(times)


def brute_force(cost, later, meshes, n_devices, n_micro, objective):
    """Every cut, every submesh and configuration of every stage."""
    n_layers, _, n_meshes, n_configs = cost.shape
    best = math.inf
    for n_stages in range(1, n_layers + 1):
        for cuts in itertools.combinations(range(1, n_layers), n_stages - 1):
            edges = (0, *cuts, n_layers)
            for chosen in itertools.product(range(n_meshes), repeat=n_stages):
                if sum(meshes[k][0] * meshes[k][1] for k in chosen) != n_devices:
                    continue
                for configs in itertools.product(range(n_configs), repeat=n_stages):
                    at = [(edges[i], edges[i + 1] - 1, chosen[i], configs[i]) for i in range(n_stages)]
                    if all(n_stages - 1 - i <= later[a] for i, a in enumerate(at)):
                        best = min(best, plan_cost([cost[a] for a in at], n_micro, objective))
    return best


def check_plan(answer, cost, later, meshes, n_devices, n_micro, objective):
    """The plan is one: contiguous, all devices, memory of every stage, and its cost is the one printed."""
    value, stages = answer
    assert [s[0][0] for s in stages] == [0, *(s[0][1] for s in stages[:-1])]
    assert stages[-1][0][1] == cost.shape[0]
    assert sum(math.prod(meshes[s[1]]) for s in stages) == n_devices
    at = [(first, last - 1, k, c) for (first, last), k, c in stages]
    assert all(len(stages) - 1 - i <= later[a] for i, a in enumerate(at))
    assert value == pytest.approx(plan_cost([cost[a] for a in at], n_micro, objective), rel=1e-12)


@given(
    seed=st.integers(0, 2**32 - 1),
    n_layers=st.integers(1, 5),
    n_configs=st.integers(1, 2),
    cluster=st.sampled_from(sorted(MESHES)),
    n_micro=st.integers(1, 9),
    objective=st.sampled_from(["training", "inference"]),
    levels=st.sampled_from([3, 1000]),
)
@settings(max_examples=examples(50, anew=150), deadline=None)
def test_equals_brute_force(seed, n_layers, n_configs, cluster, n_micro, objective, levels):
    random = np.random.default_rng(seed)
    meshes = MESHES[cluster]
    shape = (n_layers, n_layers, len(meshes), n_configs)
    cost = random.integers(0, levels, shape) / 7
    cost[random.random(shape) < 0.2] = np.inf
    later = random.integers(-1, n_layers + 1, shape)
    n_devices = math.prod(cluster)
    expected = brute_force(cost, later, meshes, n_devices, n_micro, objective)
    arguments = (cost, later, meshes, *cluster, n_micro, objective)
    if math.isinf(expected):
        with pytest.raises(InfeasibleError):
            stage_dp(*arguments)
        return
    answer = stage_dp(*arguments)
    assert answer[0] == pytest.approx(expected, rel=1e-12, abs=1e-12)
    check_plan(answer, cost, later, meshes, n_devices, n_micro, objective)


def paper_algorithm(cost, later, meshes, n_devices, n_micro):
    """Algorithm 1, lines 26–43, as printed (ε = 0): every threshold, smallest first, stop when B·t ≥ best."""
    n_layers = cost.shape[0]
    best = math.inf
    for t_max in np.unique(cost[np.isfinite(cost)]):
        if n_micro * t_max >= best:
            break
        f = np.full((n_layers + 1, n_layers + 1, n_devices + 1), np.inf)
        f[0, n_layers, 0] = 0
        for s in range(1, n_layers + 1):
            for first in range(n_layers):
                for last in range(first, n_layers):
                    for k, mesh in enumerate(meshes):
                        usable = cost[first, last, k][later[first, last, k] >= s - 1]
                        size = math.prod(mesh)
                        if size <= n_devices and usable.size and usable.min() <= t_max:
                            tail = f[s - 1, last + 1, : n_devices + 1 - size] + usable.min()
                            f[s, first, size:] = np.minimum(f[s, first, size:], tail)
        best = min(best, f[1:, 0, n_devices].min() + (n_micro - 1) * t_max)
    return best


@pytest.mark.parametrize(("seed", "n_micro"), [(0, 1), (1, 4), (2, 64)])
def test_equals_the_papers_enumeration_of_thresholds(seed, n_micro):
    random = np.random.default_rng(seed)
    meshes = [(1, 1), (1, 2), (1, 4), (2, 4)]
    n_layers, n_devices = 8, 8
    layer = random.uniform(0.5, 1.5, n_layers)
    shape = (n_layers, n_layers, 4, 2)
    total = np.array([[layer[i : j + 1].sum() for j in range(n_layers)] for i in range(n_layers)])
    speed = np.array([math.prod(m) ** -0.8 for m in meshes])
    cost = total[:, :, None, None] * speed[:, None] * random.uniform(0.9, 1.1, shape)
    cost[np.tril_indices(n_layers, -1)] = np.inf
    later = random.integers(0, 6, shape)
    value, _ = stage_dp(cost, later, meshes, 2, 4, n_micro)
    assert value == pytest.approx(paper_algorithm(cost, later, meshes, n_devices, n_micro), rel=1e-12)


def test_equal_layers_that_scale_perfectly_are_cut_or_not_for_the_same_cost_at_one_microbatch():
    """t = layers / devices: with B = 1 any even cut costs S · L / D, so one stage on everything wins, at L / D."""
    n_layers, meshes = 4, [(1, 1), (1, 2), (1, 4)]
    size = np.arange(n_layers)[None, :] - np.arange(n_layers)[:, None] + 1.0
    cost = size[:, :, None, None] / np.array([1, 2, 4.0])[:, None]
    later = np.full(cost.shape, 99)
    assert stage_dp(cost, later, meshes, 1, 4, 1) == (1.0, [((0, 4), 2, 0)])
    # Without any gain from more devices, B → ∞ is won by the pipeline: max t = 1 layer, Σ t = 4.
    flat = np.broadcast_to(size[:, :, None, None], cost.shape)
    value, stages = stage_dp(flat, later, meshes, 1, 4, 1000)
    assert value == 4 + 999
    assert [s[:2] for s in stages] == [((i, i + 1), 0) for i in range(4)]


@pytest.mark.parametrize("limit", [1, 2])
def test_memory_of_later_stages_limits_the_pipeline(limit):
    """Where two stages may follow the first, three are the longest pipeline (Eq. 5)."""
    n_layers, meshes = 3, [(1, 1), (1, 2), (1, 3)]
    size = np.arange(n_layers)[None, :] - np.arange(n_layers)[:, None] + 1.0
    cost = np.broadcast_to(size[:, :, None, None], (3, 3, 3, 1))
    value, stages = stage_dp(cost, np.full(cost.shape, limit), meshes, 1, 4, 1000)
    assert len(stages) == 1 + limit
    assert value == 3 + 999 * (3 - limit)
    with pytest.raises(InfeasibleError, match="max_n_succ_stages"):
        stage_dp(cost, np.zeros(cost.shape), meshes, 1, 4, 1000)


def test_a_dearer_configuration_is_taken_where_the_cheap_one_does_not_fit():
    cost = np.array([[[[1.0, 3.0]], [[9.0, 9.0]]], [[[0, 0]], [[1.0, 3.0]]]])
    later = np.array([[[[0, 5]], [[-1, -1]]], [[[0, 0]], [[0, 5]]]])
    assert stage_dp(cost, later, [(1, 1)], 1, 2, 1) == (4.0, [((0, 1), 0, 1), ((1, 2), 0, 0)])


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"compute_cost": np.zeros((2, 3, 1, 1))}, "expected shape"),
        ({"compute_cost": np.full((2, 2, 1, 1), np.nan)}, r"compute_cost\[0, 0, 0, 0\]"),
        ({"compute_cost": -np.ones((2, 2, 1, 1))}, "time ≥ 0"),
        ({"compute_cost": "fast"}, "numeric array"),
        ({"max_n_succ_stages": np.zeros((2, 2, 2, 1))}, "shape of compute_cost"),
        ({"max_n_succ_stages": np.full((2, 2, 1, 1), np.nan)}, "NaN"),
        ({"submesh_choices": [(1, 1), (1, 2)]}, "one cost per choice"),
        ({"submesh_choices": [(0, 1)]}, "both ≥ 1"),
        ({"submesh_choices": [1]}, "pairs"),
        ({"num_hosts": 0}, "num_hosts"),
        ({"num_micro_batches": 1.5}, "whole number"),
        ({"num_micro_batches": math.inf}, "whole number"),
        ({"objective": "latency"}, "'training' or 'inference'"),
    ],
)
def test_bad_input_is_one_line(change, match):
    good = {
        "compute_cost": np.ones((2, 2, 1, 1)),
        "max_n_succ_stages": np.ones((2, 2, 1, 1)),
        "submesh_choices": [(1, 1)],
        "num_hosts": 1,
        "devices_per_host": 2,
        "num_micro_batches": 4,
    }
    assert stage_dp(**good)[0] == 5
    with pytest.raises(InputError, match=match) as error:
        stage_dp(**(good | change))
    assert "\n" not in str(error.value)


def test_infeasible_says_what_would_help():
    with pytest.raises(InfeasibleError, match="all 4"):
        stage_dp(np.ones((2, 2, 1, 1)), np.ones((2, 2, 1, 1)), [(1, 1)], 1, 4, 1)
    cost = np.ones((2, 2, 1, 1))
    cost[:, 1] = np.inf
    with pytest.raises(InfeasibleError, match="layer 1"):
        stage_dp(cost, np.ones((2, 2, 1, 1)), [(1, 1)], 1, 2, 1)
