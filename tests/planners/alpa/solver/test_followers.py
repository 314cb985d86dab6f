"""Followers bring tensors of their own: where one of a node's tensors grows another shrinks, in another time step."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from meshwright.errors import InfeasibleError
from meshwright.planners.alpa import solve_sharding
from meshwright.seeds import generator


@pytest.mark.parametrize("seed", range(80))
def test_equals_every_choice_where_tensors_of_one_node_trade_off(seed: int) -> None:
    """No strategy is smaller in all of its tensors, and the cheap ones are large somewhere: nothing may be left out
    because it is worse in one time step only."""
    draw = generator(seed, "followers")
    leaders, each, k = int(draw.integers(1, 4)), int(draw.integers(1, 4)), int(draw.integers(2, 5))
    n = leaders * (1 + each)
    follow = [-1] * leaders + [v % leaders for v in range(n - leaders)]
    groups = [[v for v in range(n) if v == a or follow[v] == a] for a in range(leaders)]
    sizes = draw.integers(1, 30, (n, k)).astype(float)
    live = [[int(draw.choice(group)) for group in groups] for _ in range(int(draw.integers(2, 6)))]
    cost = draw.integers(0, 12, (n, k)).astype(float)
    room = float(draw.uniform(0.35, 0.8)) * 30 * leaders
    zeros = [[0.0] * k] * n
    edges = [(a, a + 1) for a in range(leaders - 1)]
    tables = [draw.integers(0, 8, k * k).astype(float).tolist() for _ in edges]
    instance = {
        "N": n, "M": room, "s_len": [k] * n, "s_follow": follow, "E": edges, "A": [], "L": live,
        "c": cost.tolist(), "d": zeros, "m": sizes.tolist(), "r": tables, "v": [],
    }  # fmt: skip
    best = math.inf
    for picked in itertools.product(range(k), repeat=leaders):
        s = [picked[v if follow[v] < 0 else follow[v]] for v in range(n)]
        if all(sum(sizes[v, s[v]] for v in nodes) <= room for nodes in live):
            crossing = sum(t[picked[a] * k + picked[b]] for (a, b), t in zip(edges, tables, strict=True))
            best = min(best, sum(cost[v, s[v]] for v in range(n)) + crossing)
    if math.isinf(best):
        with pytest.raises(InfeasibleError):
            solve_sharding(instance)
        return
    solution = solve_sharding(instance)
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(best, abs=1e-9)
    assert all(sum(sizes[v][solution.choice[v]] for v in nodes) <= room * (1 + 1e-9) for nodes in live)


def test_of_two_strategies_that_differ_in_where_they_are_large_the_one_that_fits_is_taken() -> None:
    """The first costs less and is large when another node needs the room; the second is large when nobody does."""
    cost = [[1.0, 2.0], [0.0, 0.0], [0.0, 0.0]]
    sizes = [[8.0, 1.0], [1.0, 8.0], [5.0, 5.0]]  # node 1 follows node 0
    instance = {
        "N": 3, "M": 10.0, "s_len": [2, 2, 2], "s_follow": [-1, 0, -1], "E": [], "A": [], "L": [[0, 2], [1]],
        "c": cost, "d": [[0.0] * 2] * 3, "m": sizes, "r": [], "v": [],
    }  # fmt: skip
    solution = solve_sharding(instance)
    assert solution.objective == 2.0
    assert np.array_equal(solution.choice[:2], [1, 1])
