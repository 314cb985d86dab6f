"""Algorithm 4 against every schedule there is: least time first, then fewest in flight (Theorem 3.1)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.planners.graphpipe.schedule.greedy import greedy_schedules, order_text, passes_in_flight
from meshwright.seeds import generator


def every_order(n: int) -> list[np.ndarray]:
    """All orders of n forward and n backward passes in which each backward comes after its forward."""

    def extend(order: list[int]):
        f, b = order.count(0), order.count(1)
        if f == b == n:
            yield np.array(order, np.int8)
        if f < n:
            yield from extend([*order, 0])
        if b < f:
            yield from extend([*order, 1])

    return list(extend([]))


def finish(orders, sizes, seconds, edges) -> float:
    """When stage 0 ends, pass by pass: a slow and plain simulation."""
    done = {}
    at, clock = [0] * len(orders), [0.0] * len(orders)
    count = [[0, 0] for _ in orders]
    moved = True
    while moved:
        moved = False
        for s, order in enumerate(orders):
            while at[s] < len(order):
                op = int(order[at[s]])
                j = count[s][op]
                others = [x for x, y in edges if y == s] if op == 0 else [y for x, y in edges if x == s]
                needs = [(t, op, ((j + 1) * sizes[s] - 1) // sizes[t]) for t in others]
                if any(need not in done for need in needs) or (op == 1 and (s, 0, j) not in done):
                    break
                clock[s] = max([clock[s], *(done[need] for need in needs)]) + seconds[s][op]
                done[s, op, j] = clock[s]
                count[s][op] += 1
                at[s] += 1
                moved = True
    return clock[0] if all(at[s] == len(o) for s, o in enumerate(orders)) else np.inf


def random_dag(rng: np.random.Generator, stages: int) -> tuple[tuple[int, ...], ...]:
    """Every stage but the last has a successor."""
    found = []
    for s in range(stages):
        later = range(s + 1, stages)
        chosen = {int(t) for t in later if rng.random() < 0.5}
        if later and not chosen:
            chosen = {int(rng.choice(list(later)))}
        found.append(tuple(sorted(chosen)))
    return tuple(found)


def below(successors, s: int) -> list[int]:
    found, stack = set(), [s]
    while stack:
        t = stack.pop()
        if t not in found:
            found.add(t)
            stack += successors[t]
    return sorted(found)


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_each_stage_is_optimal_given_those_after_it(seed: int, eager: bool):
    """Over all orders of the stage: least time, then fewest microbatches in flight. Unequal microbatches, any times."""
    rng = generator(seed, "graphpipe/greedy")
    batch = 4
    stages = int(rng.integers(2, 5))
    sizes = 2 ** rng.integers(0, 3, stages)
    times = np.array([1, 2, 3]) if seed % 2 else np.array([1.0])
    seconds = np.column_stack((rng.choice(times, stages) * sizes, rng.choice(times, stages) * sizes)).astype(float)
    successors = random_dag(rng, stages)
    found = greedy_schedules(batch, sizes, seconds, successors, eager=eager)
    for s in range(stages):
        ids = below(successors, s)
        edges = [(ids.index(x), ids.index(y)) for x in ids for y in successors[x]]
        rest = [found[t] for t in ids[1:]]
        results = []
        for order in every_order(batch // int(sizes[s])):
            took = finish([order, *rest], [int(sizes[t]) for t in ids], seconds[ids], edges)
            results.append((round(took, 9), passes_in_flight(order)))
        mine = finish([found[s], *rest], [int(sizes[t]) for t in ids], seconds[ids], edges)
        assert (round(mine, 9), passes_in_flight(found[s])) == min(results)


@pytest.mark.parametrize("seed", range(4))
def test_optimal_over_all_schedules_of_all_stages_of_a_chain(seed: int):
    """Time of the first stage first, then samples in flight on every stage, among all combinations of orders."""
    rng = generator(seed, "graphpipe/greedy-chain")
    batch, stages = 4, 3
    sizes = rng.choice([1, 2], stages)
    seconds = np.column_stack((sizes, sizes * (1 + seed % 2))).astype(float)
    successors = ((1,), (2,), ())
    found = greedy_schedules(batch, sizes, seconds, successors)
    mine = finish(found, sizes.tolist(), seconds, [(0, 1), (1, 2)])
    mine_held = [passes_in_flight(o) for o in found]
    best, fewest = np.inf, [99] * stages
    for orders in itertools.product(*(every_order(batch // int(b)) for b in sizes)):
        took = finish(orders, sizes.tolist(), seconds, [(0, 1), (1, 2)])
        held = [passes_in_flight(o) for o in orders]
        if took < best - 1e-9:
            best, fewest = took, held
        elif took < best + 1e-9:
            fewest = [min(a, b) for a, b in zip(fewest, held, strict=True)]
    assert mine == pytest.approx(best)
    assert mine_held == fewest


@pytest.mark.parametrize("depth", [2, 4])
def test_uniform_chain_is_1f1b(depth: int):
    """Equal stages: as many warm-up passes as stages follow, then a backward and a forward in turn."""
    found = greedy_schedules(8, np.ones(depth, int), np.ones((depth, 2)), (*((s + 1,) for s in range(depth - 1)), ()))
    for s, order in enumerate(found):
        warm = depth - s
        assert order_text(order) == " ".join([f"{warm}F", *["1B 1F"] * (8 - warm), f"{warm}B"])


@pytest.mark.parametrize(("eager", "first"), [(False, 4), (True, 3)])
def test_figure_3_5_shows_that_the_printed_algorithm_is_not_optimal_for_all_stages_together(eager: bool, first: int):
    """Stages of 2, 1 and 2 samples: as printed S1 holds 4 microbatches; 3 take no longer, with 2F2B on S2.

    The proof of Theorem 3.1 continues by 1F1B any schedule that is as quick; after two backward passes in a row that
    puts a forward pass later than it was.
    """
    sizes, seconds = np.array([2, 1, 2]), np.array([[2.0, 2.0], [1, 1], [2, 2]])
    found = greedy_schedules(8, sizes, seconds, ((1,), (2,), ()), eager=eager)
    assert [passes_in_flight(o) for o in found] == [first, 4, 1]
    edges = [(0, 1), (1, 2)]
    every = itertools.product(every_order(4), [found[1]], every_order(4))
    least = min(finish(orders, sizes.tolist(), seconds, edges) for orders in every)
    assert finish(found, sizes.tolist(), seconds, edges) == least


def test_refusals():
    two = np.ones((2, 2))
    with pytest.raises(InputError, match="stage 0: microbatches of 3 do not divide the batch of 8"):
        greedy_schedules(8, np.array([3, 1]), two, ((1,), ()))
    with pytest.raises(InputError, match="none divides the other"):
        greedy_schedules(6, np.array([2, 3]), two, ((1,), ()))
    with pytest.raises(InputError, match="topological"):
        greedy_schedules(8, np.array([1, 1]), two, ((), (0,)))
