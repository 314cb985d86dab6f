"""`solve_sharding` on drawn instances of every kind: the optimum of brute force and of HiGHS, whichever part solves it;
and bounds that are bounds, part by part."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from meshwright.errors import InfeasibleError
from meshwright.planners.alpa import ShardingProblem, solve_sharding
from meshwright.planners.alpa.solver import sharding
from meshwright.planners.alpa.solver.ascent import ascend, simple_bound
from meshwright.planners.alpa.solver.elimination import Elimination, elimination_order
from meshwright.planners.alpa.solver.memory_rows import MemoryRows
from meshwright.planners.alpa.solver.milp import solve_milp
from meshwright.planners.alpa.solver.model import build_model
from meshwright.planners.alpa.solver.multipliers import best_prices
from meshwright.planners.alpa.solver.presolve import presolve
from meshwright.planners.alpa.solver.search import Incumbent
from sharding_instances import Kind, brute_force, by_highs, draw_instance, draw_kind, draw_tight_kind

TABLES = (10**6, 0, 20, 60, 200)
"""Table entries that elimination may use: all of these instances, none, and some only after they were thinned."""
LATER_S = 600.0


def check(i: dict, expected: float, entries: int, rel: float = 1e-8) -> None:
    """The optimum, proven, with a choice that has it; or no solution where there is none."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sharding, "TABLE_ENTRIES", entries)
        if math.isinf(expected):
            with pytest.raises(InfeasibleError):
                solve_sharding(i)
            return
        s = solve_sharding(i)
    problem = ShardingProblem.of(i)
    assert problem.violation(s.choice) is None
    assert problem.value(s.choice) == pytest.approx(s.objective, rel=1e-12, abs=1e-12)
    assert s.status == "optimal"
    assert s.objective == pytest.approx(expected, rel=rel, abs=1e-9)
    assert s.bound <= s.objective


def check_by_brute_force(seeds: range) -> None:
    for seed in seeds:
        random = np.random.default_rng([15, seed])
        i = draw_instance(random, draw_kind(random))
        expected = brute_force(i)
        for entries in (10**6, 0, int(random.choice(TABLES[2:]))):
            check(i, expected, entries)


def test_equals_brute_force():
    check_by_brute_force(range(100))


@pytest.mark.slow
def test_equals_brute_force_on_thousands():
    check_by_brute_force(range(10_000, 14_000))


GUESSED = 965
"""A price's bound rises here above twice its first value, which was taken for a ceiling: "infeasible" it said."""


@pytest.mark.parametrize(
    "seeds",
    [[GUESSED], range(60), pytest.param(range(10_000, 14_000), marks=pytest.mark.slow)],
    ids=["guess", "", "many"],
)
def test_equals_brute_force_where_hardly_anything_fits(seeds):
    for seed in seeds:
        random = np.random.default_rng([19, seed])
        i = draw_instance(random, draw_tight_kind(random))
        expected = brute_force(i)
        assert math.isfinite(expected)
        for entries in (10**6, int(random.choice(TABLES[1:]))):
            check(i, expected, entries)


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(s, marks=pytest.mark.slow) for s in range(100, 400))])
def test_equals_an_integer_program_in_the_papers_form(seed: int):
    """Larger ones than can be enumerated; costs within what an integer program's tolerances tell apart."""
    random = np.random.default_rng([16, seed])
    kind = draw_kind(random, nodes=int(random.integers(10, 16)), dear=False)
    i = draw_instance(random, kind)
    expected = by_highs(i)
    for entries in (10**6, int(random.choice(TABLES))):
        check(i, expected, entries, rel=1e-6)


def test_no_part_proves_too_much():
    """The bound of each part, on instances that have a solution, is at most the optimum: a guess never gets in."""
    bounded = 0
    for seed in range(250):
        random = np.random.default_rng([17, seed])
        kind = Kind(
            nodes=int(random.integers(3, 8)), density=float(random.choice([1.0, 3.0])), planted=True,
            memory=float(random.choice([0.2, 0.5, 0.7])), levels=int(random.choice([3, 1000])),
            aliases=float(random.choice([0.0, 1.0])), lowest=int(random.choice([0, -500])),
        )  # fmt: skip
        i = draw_instance(random, kind)
        problem, optimum = ShardingProblem.of(i), brute_force(i)
        slack = 1e-9 * (abs(optimum) + sum(float(np.abs(c).max()) for c in problem.cost))
        for part in ("prices", "ascent", "milp"):
            rows, incumbent, model = MemoryRows(problem), Incumbent(problem), build_model(problem)
            rows.trim(model)
            presolve(model)
            deadline = time.monotonic() + LATER_S
            if part == "prices":
                order = elimination_order(model, 10**6)
                assert order is not None
                bound = best_prices(model, rows, Elimination(model, order), incumbent, deadline).bound
                bounded += len(model.room) > 0
            elif part == "ascent":
                bound = ascend(model, rows, incumbent, deadline)
                assert simple_bound(model) <= bound + slack
            else:
                bound, _ = solve_milp(model, rows, incumbent, deadline)
            # where the part has met a solution, its bound is that of the better ones
            assert min(bound, incumbent.value) <= optimum + slack, (seed, part)
    assert bounded > 50  # where memory binds, that is


def test_costs_of_nothing_and_memory_without_room():
    """All costs are 0 and memory holds one choice exactly: rounding is not taken for a proof that nothing fits."""
    size = [[0.1, 0.7], [0.2, 0.9], [0.3, 0.8]]
    i = {
        "N": 3, "M": 0.1 + 0.2 + 0.3, "s_len": [2, 2, 2], "s_follow": [-1] * 3, "E": [(0, 1), (1, 2)], "A": [],
        "L": [[0, 1, 2], [2, 1, 0], [0, 2]], "c": [[0.0, 0.0]] * 3, "d": [[0.0, 0.0]] * 3, "m": size,
        "r": [[0.0] * 4] * 2, "v": [],
    }  # fmt: skip
    for entries in TABLES:
        check(i, 0.0, entries)
        assert math.isinf(brute_force(i | {"M": 0.59}))
        check(i | {"M": 0.59}, math.inf, entries)


@pytest.mark.parametrize("entries", TABLES)
def test_what_is_written_as_1e13_hides_no_small_difference(entries: int):
    """Alpa's compiler writes 1e13 for what it does not want. Beside it, 1e-3 still decides."""
    dear = 1e13
    i = {
        "N": 3, "M": 10.0, "s_len": [2, 3, 2], "s_follow": [-1] * 3, "E": [(0, 1), (1, 2), (0, 2)], "A": [],
        "L": [[0, 1, 2]], "c": [[0.003, 0.002], [0.001, 0.002, dear], [0.002, 0.001]],
        "d": [[0.0] * 2, [0.0] * 3, [0.0] * 2], "m": [[3.0, 4.0], [3.0, 4.0, 1.0], [3.0, 4.0]],
        "r": [[dear, 0.0, dear, 0.0, 0.001, 0.0], [dear, 0.0, 0.001, 0.0, dear, 0.0], [0.0, dear, 0.001, 0.0]],
        "v": [],
    }  # fmt: skip
    expected = brute_force(i)
    assert 0 < expected < 0.1
    check(i, expected, entries)
