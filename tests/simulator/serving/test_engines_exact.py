"""Both engines decide and time requests alike to the last bit on times as people write them: 3.1, 0.25, 0.125.

Sums of such times are rounded. An engine that schedules by ``time - now`` comes out an ulp beside the time itself, and
then decides otherwise wherever two times are equal.
"""

from __future__ import annotations

import numpy as np
import pytest
from meshwright.profiles import ModelProfile, ParallelConfig
from meshwright.simulator import Batching, Group, Placement, PlacementSchedule, SimulationResult, simulate
from meshwright.traces import Trace

ONE = ParallelConfig(1, 1)
CONFIGS = (ONE, ParallelConfig(1, 2), ParallelConfig(1, 3))
DISPATCH = ("shortest_queue", "earliest_finish", "earliest_free")
DIGITS = (1, 2, 3)


def decimals(rng: np.random.Generator, low: int, high: int, size: int | None, digits: int):
    """What reading ``0.1``, ``0.02`` or ``0.003`` from a file gives: the float nearest to a decimal."""
    drawn = rng.integers(low, high, size) / 10**digits
    return float(drawn) if size is None else drawn


def draw(seed: int, n: int):
    """A small world with all its times in decimals; a queue now and then, as many ties as there can be."""
    rng = np.random.default_rng([31, seed])
    digits = int(rng.choice(DIGITS))
    names = tuple(f"m{i}" for i in range(int(rng.integers(1, 4))))
    batches = ((1,), (1, 2, 4))[int(rng.integers(0, 2))]
    profiles = {
        name: ModelProfile.from_stages(
            name,
            {c: {b: decimals(rng, 1, 13, c.pp, digits).tolist() for b in batches} for c in CONFIGS},
            hop_s={c: decimals(rng, 0, 3, None, digits) for c in CONFIGS},
        )
        for name in names
    }

    def placement() -> Placement:
        hosted = [[m for m in names if rng.random() < 0.7] or [names[0]] for _ in range(int(rng.integers(1, 5)))]
        return Placement([Group(CONFIGS[int(rng.integers(0, 3))], models) for models in hosted])

    where: Placement | PlacementSchedule = placement()
    largest = int(rng.choice(batches)) if rng.random() < 0.4 else None
    if rng.random() < 0.25:
        where = PlacementSchedule([0.0, decimals(rng, 5, 9 * n, None, digits)], [where, placement()], carry=not largest)
    arrival = np.sort(decimals(rng, 0, max(5 * n, 2), n, digits))
    slo = np.where(rng.random(n) < 0.3, np.inf, decimals(rng, 1, 60, n, digits))
    trace = Trace(arrival, rng.integers(0, len(names), n), names, slo)
    options = {
        "dispatch": DISPATCH[int(rng.integers(0, 3))],
        "admission": bool(rng.random() < 0.5),
        "overhead": decimals(rng, 0, 4, None, digits),
        "batching": None if largest is None else Batching(largest),
    }
    return where, trace, profiles, options


def check(where, trace: Trace, profiles, options) -> SimulationResult:
    fast, slow = (simulate(where, trace, profiles, engine=e, **options) for e in ("compiled", "simpy"))
    for column in ("group", "start", "finish"):
        np.testing.assert_array_equal(getattr(fast, column), getattr(slow, column), err_msg=column)
    assert (fast.attainment, fast.goodput) == (slow.attainment, slow.goodput)
    served = fast.group >= 0
    assert np.all(fast.start[served] >= trace.arrival[served])
    return fast


def check_many(seeds: range, n: int) -> None:
    for seed in seeds:
        check(*draw(seed, n))


def test_engines_are_equal_on_decimal_times():
    check_many(range(150), 40)


@pytest.mark.slow
def test_engines_are_equal_on_decimal_times_half_a_million_requests():
    check_many(range(1000, 3000), 100)
    check_many(range(3000, 3100), 3000)


@pytest.mark.parametrize("digits", DIGITS)
def test_a_request_takes_exactly_its_latency(digits: int):
    """One model, one stage each: finish == start + latency, and the next begins at that very time."""
    rng = np.random.default_rng(digits)
    latency = decimals(rng, 1, 9, None, digits)
    profiles = {"m": ModelProfile.from_stages("m", {ONE: {1: [latency]}})}
    arrival = np.sort(decimals(rng, 0, 4000, 1000, digits))
    trace = Trace(arrival, np.zeros(1000, int), ("m",), np.inf)
    placement = Placement([Group(ONE, ["m"])])
    result = check(placement, trace, profiles, {"admission": False})
    np.testing.assert_array_equal(result.finish, result.start + latency)
    np.testing.assert_array_equal(result.start[1:], np.maximum(arrival[1:], result.finish[:-1]))
    assert result.start[0] == arrival[0]


def test_the_case_that_was_decided_otherwise():
    """0.6 + 1.1 is an ulp above 1.7, so the first request is still there at 1.7. It is not at 0.6 + (1.7 − 0.6)."""
    assert 1.7 < 0.6 + 1.1 == 0.6 + (1.7 - 0.6)
    profiles = {"m": ModelProfile.from_stages("m", {ONE: {1: [1.1]}})}
    placement = Placement([Group(ONE, ["m"]), Group(ONE, ["m"])])
    trace = Trace(np.array([0.6, 1.7, 1.7]), np.zeros(3, int), ("m",), np.inf)
    for dispatch in DISPATCH:
        result = check(placement, trace, profiles, {"dispatch": dispatch})
        assert result.group.tolist() == [0, 1, 0]
        assert result.start.tolist() == [0.6, 1.7, 0.6 + 1.1]
