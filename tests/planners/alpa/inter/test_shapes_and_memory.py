"""Submesh shapes, logical views, Eq. 5, and Theorem 1 for whatever the shapes allow."""

from __future__ import annotations

import math

import numpy as np
import pytest
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.planners.alpa import place_submeshes, stage_dp
from meshwright.planners.alpa.inter import logical_shapes, submesh_shapes
from meshwright.planners.alpa.inter.epsilon import stage_dp_epsilon
from meshwright.planners.alpa.inter.memory import in_flight, later_stages
from meshwright.simulator import Cluster
from meshwright.simulator.mesh import Mesh
from meshwright.simulator.training import make_program
from meshwright.simulator.training.result.memory_timeline import in_flight as program_in_flight


def test_the_papers_shapes():
    """§5.2: (1, 1), (1, 2), (1, 4) … (1, 2^m) and (2, M), (3, M) … (N, M)."""
    assert submesh_shapes(Cluster(4, 8)) == ((1, 1), (1, 2), (1, 4), (1, 8), (2, 8), (3, 8), (4, 8))
    assert submesh_shapes(Cluster(8, 8), "power_of_two") == ((1, 1), (1, 2), (1, 4), (1, 8), (2, 8), (4, 8), (8, 8))
    assert submesh_shapes(Cluster(6, 4), "power_of_two")[-1] == (6, 4)
    assert submesh_shapes(Cluster(2, 6)) == ((1, 6), (2, 6))
    with pytest.raises(InputError, match="power_of_two"):
        submesh_shapes(Cluster(2, 8), "some")


@given(st.integers(1, 6), st.integers(0, 4), st.data())
@settings(max_examples=examples(40, anew=100), deadline=None)
def test_theorem_1(nodes, log_width, data):
    """Whatever shapes add up to the cluster's devices cover it."""
    cluster = Cluster(nodes, 2**log_width)
    shapes = submesh_shapes(cluster)
    left, chosen = cluster.n_devices, []
    while left:
        fits = [s for s in shapes if s[0] * s[1] <= left]
        chosen.append(data.draw(st.sampled_from(fits)))
        left -= math.prod(chosen[-1])
    placed = place_submeshes(chosen, cluster.nodes, cluster.devices_per_node)
    ids = [d for p in placed for d in p.device_ids(cluster.devices_per_node)]
    assert sorted(ids) == list(range(cluster.n_devices))
    assert [(p.hosts, p.devices) for p in placed] == chosen


def test_two_nodes_of_eight_have_the_papers_five_views():
    """§4.1: 2×8, 1×16, 4×4, 8×2 or 16×1; the last is 1×16 with its axes renamed."""
    assert set(logical_shapes(Mesh(Cluster(2, 8), 2, 8))) == {(2, 8), (1, 16), (4, 4), (8, 2)}


def test_views_left_out_are_another_with_its_axes_renamed():
    for hosts, devices in [(1, 8), (2, 8), (3, 4), (4, 1)]:
        mesh = Mesh(Cluster(4, devices), hosts, devices)
        kept = logical_shapes(mesh)
        for shape in set(mesh.logical_shapes) - set(kept):
            one, other = mesh.view(shape), mesh.view(shape[::-1])
            assert shape[::-1] in kept
            assert (one.link((0,)), one.link((1,))) == (other.link((1,)), other.link((0,)))


@given(
    st.floats(0, 100), st.floats(0, 20), st.floats(0, 20), st.floats(1, 200), st.integers(1, 20),
    st.sampled_from(["1f1b", "gpipe", "zb_h1"]),
)  # fmt: skip
@settings(max_examples=examples(100, anew=300), deadline=None)
def test_later_stages_is_the_most_that_eq_5_allows(state, activation, work, memory, microbatches, schedule):
    layers = 25
    one = [np.full(layers, x) for x in (state, activation, work)]
    found = later_stages(*one, memory, schedule, microbatches)
    assert all(np.all(most == most[0]) for most in found)
    for n_stages in range(1, layers + 1):
        for stage in {0, n_stages // 2, n_stages - 1}:
            used = state + in_flight(schedule, stage, n_stages, microbatches) * activation + work
            fits = any(n_stages - 1 - stage <= most[0] for most in found)
            # ZB-H1's first stage is the one that says how many there may be; the others hold as much as it does.
            fits = fits if stage == 0 or schedule != "zb_h1" else used <= memory
            if abs(used - memory) > 1e-6 * memory:
                assert fits == (used <= memory), (stage, n_stages)


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "zb_h1"])
@pytest.mark.parametrize(("p", "m"), [(1, 1), (2, 1), (2, 6), (4, 3), (4, 4), (4, 9), (6, 12)])
def test_what_a_stage_holds_is_what_the_programs_of_the_schedules_hold(schedule, p, m):
    held = program_in_flight(make_program(schedule, p, m)).tolist()
    assert held == [in_flight(schedule, stage, p, m) for stage in range(p)]


def random_problem(seed):
    random = np.random.default_rng(seed)
    n, shapes = int(random.integers(3, 8)), [(1, 1), (1, 2), (1, 4), (2, 4)]
    cost = random.uniform(0.1, 2.0, (n, n, 4, 2)) * random.choice([1e-3, 1.0])
    later = random.integers(-1, 6, cost.shape)
    later[:, :, 3] = 9
    return cost, later, shapes, 2, 4, int(random.integers(1, 40))


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("share", [1e-4, 0.05, 0.5])
def test_epsilon_costs_at_most_b_epsilon(seed, share):
    problem = random_problem(seed)
    exact, _ = stage_dp(*problem)
    epsilon = share * float(problem[0].max())
    value, stages = stage_dp_epsilon(*problem, epsilon)
    assert exact * (1 - 1e-12) <= value <= exact + problem[-1] * epsilon
    times = [problem[0][i, j - 1, k, c] for (i, j), k, c in stages]
    assert value == pytest.approx(sum(times) + (problem[-1] - 1) * max(times))
    assert all(len(stages) - 1 - s <= problem[1][i, j - 1, k, c] for s, ((i, j), k, c) in enumerate(stages))


def test_no_epsilon_is_exact_and_a_negative_one_refused():
    problem = random_problem(1)
    assert stage_dp_epsilon(*problem, 0.0) == stage_dp(*problem)
    with pytest.raises(InputError, match="epsilon"):
        stage_dp_epsilon(*problem, -1.0)
