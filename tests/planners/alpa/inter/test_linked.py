"""The stage programme with transfers and kinds of devices: every plan of small problems, and `stage_dp`."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from meshwright.errors import InfeasibleError
from meshwright.planners.alpa import stage_dp
from meshwright.planners.alpa.inter.linked import Links, linked_stages, links_between, submesh_link
from meshwright.simulator import Cluster


def problem(seed, kinds):
    random = np.random.default_rng([seed, kinds])
    n = int(random.integers(2, 6))
    devices = [(1,), (2,), (4,)] if kinds == 1 else [(1, 0), (2, 0), (0, 1), (0, 2)]
    totals = (4,) if kinds == 1 else (2, 2)
    k = len(devices)
    cost = random.uniform(0.1, 2.0, (n, n, k, 2))
    later = random.integers(-1, 5, cost.shape)
    n_bytes = random.integers(0, 4, (n, n)).astype(float)
    n_bytes[0] = 0
    links = Links(n_bytes, random.uniform(0, 0.5, (k, k)), random.uniform(0, 0.1, (k, k)), bool(random.integers(2)))
    return cost, later, devices, totals, int(random.integers(1, 12)), links


def every_plan(cost, later, devices, totals, microbatches, links):
    n, best = len(cost), math.inf
    for count in range(1, n + 1):
        for cut in itertools.combinations(range(1, n), count - 1):
            ends = [0, *cut, n]
            for meshes in itertools.product(range(len(devices)), repeat=count):
                if tuple(np.sum([devices[m] for m in meshes], axis=0)) != tuple(totals):
                    continue
                times = []
                for s, m in enumerate(meshes):
                    i, j = ends[s], ends[s + 1] - 1
                    fits = [cost[i, j, m, c] for c in range(2) if later[i, j, m, c] >= count - 1 - s]
                    t = min(fits, default=math.inf)
                    x = links.seconds(i, j, meshes[s - 1], m) if s else 0.0
                    times.append(max(t, x) if links.overlap else t + x)
                best = min(best, sum(times) + (microbatches - 1) * max(times))
    return best


@pytest.mark.parametrize("kinds", [1, 2])
@pytest.mark.parametrize("seed", range(40))
def test_equals_the_best_of_all_plans(seed, kinds):
    given = problem(seed, kinds)
    expected = every_plan(*given)
    if math.isinf(expected):
        with pytest.raises(InfeasibleError):
            linked_stages(*given)
        return
    cost, stages = linked_stages(*given)
    assert cost == pytest.approx(expected, rel=1e-12)
    assert [i for (i, _), _, _ in stages] == [0, *(j for (_, j), _, _ in stages[:-1])]
    assert tuple(np.sum([given[2][m] for _, m, _ in stages], axis=0)) == given[3]


@pytest.mark.parametrize("seed", range(20))
def test_free_links_change_nothing(seed):
    cost, later, devices, totals, microbatches, links = problem(seed, 1)
    free = Links(links.n_bytes, links.per_byte * 0, links.latency_s * 0)
    later = np.abs(later) + 3
    shapes = [(1, d[0]) for d in devices]
    plain, _ = stage_dp(cost, later, shapes, 1, 4, microbatches)
    assert linked_stages(cost, later, devices, totals, microbatches, free)[0] == pytest.approx(plain, rel=1e-12)


def test_a_slow_network_makes_fewer_cuts():
    """Two stages in half the time each, or one: what decides is the transfer, by hand."""
    cost = np.full((2, 2, 2, 1), np.inf)
    cost[0, 0, 0], cost[1, 1, 0], cost[0, 1, 1] = 1.0, 1.0, 1.2  # two stages of 1 s on one device; one of 1.2 s on two
    later = np.full(cost.shape, 9)
    n_bytes = np.array([[0.0, 0.0], [0.0, 1.0]])
    for x, stages in [(0.1, 2), (0.3, 1)]:
        links = Links(n_bytes, np.full((2, 2), x), np.zeros((2, 2)))
        value, chosen = linked_stages(cost, later, [(1,), (2,)], (2,), 100, links)
        assert len(chosen) == stages
        assert value == pytest.approx(min(1.0 + (1.0 + x) + 99 * (1.0 + x), 1.2 * 100))


def test_links_between_submeshes():
    cluster = Cluster(4, 8)
    near, far = cluster.spec.intra_node, cluster.spec.inter_node
    assert submesh_link((cluster, (1, 2)), (cluster, (1, 2))) == (2 * near.bandwidth_bytes_per_s, near.latency_s)
    assert submesh_link((cluster, (1, 8)), (cluster, (1, 8))) == (far.bandwidth_bytes_per_s, far.latency_s)
    assert submesh_link((cluster, (2, 8)), (cluster, (3, 8))) == (2 * far.bandwidth_bytes_per_s, far.latency_s)
    other = Cluster(1, 8, "a100-80gb")
    assert submesh_link((other, (1, 8)), (cluster, (1, 8))) == (far.bandwidth_bytes_per_s, far.latency_s)
    links = links_between(np.array([[0.0, 0.0], [0.0, 8.0]]), [(cluster, (1, 8)), (cluster, (2, 8))])
    assert links.seconds(1, 1, 0, 1) == pytest.approx(far.latency_s + 8 / far.bandwidth_bytes_per_s)
    assert links.seconds(0, 1, 0, 1) == 0.0
