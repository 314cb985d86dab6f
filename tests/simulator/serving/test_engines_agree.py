"""Reference = compiled, request by request, on drawn cases: exactly on a binary grid, to 1e-9 on raw floats."""

from dataclasses import dataclass

import numpy as np
import pytest
from how_many import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from meshwright.profiles import ModelProfile, ParallelConfig
from meshwright.simulator import Batching, Group, Placement, PlacementSchedule, SimulationResult, simulate
from meshwright.traces import Trace

CONFIGS = (ParallelConfig(1, 1), ParallelConfig(1, 2), ParallelConfig(2, 1), ParallelConfig(1, 4), ParallelConfig(2, 3))
DISPATCH = ("shortest_queue", "earliest_finish", "earliest_free")
GRID = 2.0**-20  # seconds; sums of its multiples are exact in float64
SLOW = settings(
    max_examples=examples(50, anew=150),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@dataclass
class Case:
    placement: Placement | PlacementSchedule
    trace: Trace
    profiles: dict[str, ModelProfile]
    options: dict


@st.composite
def cases(draw, unit: float = 2.0**-4, scheduled: bool = False):
    """Small worlds with many ties: every time is a small multiple of `unit` seconds."""
    n_models = draw(st.integers(1, 4))
    names = tuple(f"m{i}" for i in range(n_models))
    ticks = st.integers(1, 12).map(lambda k: k * unit)
    batches = draw(st.sampled_from([(1,), (1, 2), (1, 2, 4), (1, 3)]))
    profiles = {}
    for name in names:
        latency = {}
        for config in CONFIGS:
            rows = [[draw(ticks) for _ in range(config.pp)] for _ in batches]
            latency[config] = dict(zip(batches, rows, strict=True))
        hops = {c: draw(st.integers(0, 2)) * unit for c in CONFIGS}
        profiles[name] = ModelProfile.from_stages(name, latency, hop_s=hops)

    def placement():
        return Placement(
            [
                Group(draw(st.sampled_from(CONFIGS)), draw(st.lists(st.sampled_from(names), unique=True)))
                for _ in range(draw(st.integers(1, 5)))
            ]
        )

    n = draw(st.integers(1, 40))
    gaps = draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))  # gap 0: simultaneous arrivals
    arrival = np.cumsum(gaps) * unit
    model = draw(st.lists(st.integers(0, n_models - 1), min_size=n, max_size=n))
    slos = st.one_of(st.just(np.inf), st.integers(1, 60).map(lambda k: k * unit))
    slo = draw(st.lists(slos, min_size=n, max_size=n))
    options = {
        "dispatch": draw(st.sampled_from(DISPATCH)),
        "admission": draw(st.booleans()),
        "overhead": draw(st.integers(0, 3)) * unit,
    }
    where = placement()
    if scheduled:
        steps = sorted(draw(st.sets(st.integers(1, 60), min_size=1, max_size=3)))
        starts = [0.0, *(k * unit for k in steps)]
        where = PlacementSchedule(starts, [where, *(placement() for _ in steps)], carry=draw(st.booleans()))
    largest = draw(st.sampled_from([None, *batches]))
    carries = isinstance(where, PlacementSchedule) and where.carry
    options["batching"] = None if largest is None or carries else Batching(largest)
    return Case(where, Trace(arrival, model, names, np.array(slo)), profiles, options)


def both(case: Case) -> tuple[SimulationResult, SimulationResult]:
    made = [
        simulate(case.placement, case.trace, case.profiles, engine=engine, **case.options)
        for engine in ("compiled", "simpy")
    ]
    return made[0], made[1]


def assert_same(fast: SimulationResult, slow: SimulationResult, exact: bool) -> None:
    np.testing.assert_array_equal(fast.group, slow.group)
    for name in ("finish", "start"):
        a, b = getattr(fast, name), getattr(slow, name)
        if exact:
            np.testing.assert_array_equal(a, b, err_msg=name)
        else:
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=0, equal_nan=True, err_msg=name)
    assert fast.attainment == slow.attainment


@SLOW
@given(cases())
def test_engines_agree_bit_by_bit_where_ties_abound(case: Case):
    assert_same(*both(case), exact=True)


@SLOW
@given(cases(unit=GRID))
def test_engines_agree_bit_by_bit_on_the_finest_grid(case: Case):
    assert_same(*both(case), exact=True)


@SLOW
@given(cases(scheduled=True))
def test_engines_agree_when_placements_change(case: Case):
    assert_same(*both(case), exact=True)


@pytest.mark.parametrize("dispatch", DISPATCH)
@pytest.mark.parametrize("max_batch", [None, 4])
@pytest.mark.parametrize("slo", [0.4, 1.5, np.inf])
def test_engines_agree_on_raw_floats(dispatch: str, max_batch: int | None, slo: float):
    """Long queues (the ring of finishes must grow), heterogeneous groups, times that are not on any grid."""
    rng = np.random.default_rng(7)
    names = tuple(f"m{i}" for i in range(6))
    shapes = (ParallelConfig(1, 1), ParallelConfig(1, 3), ParallelConfig(2, 8))
    profiles = {
        name: ModelProfile.from_stages(
            name,
            {c: {b: rng.uniform(0.02, 0.1, c.pp) * (1 + 0.6 * (b - 1)) for b in (1, 2, 4)} for c in shapes},
            hop_s=0.003,
        )
        for name in names
    }
    placement = Placement([Group(shapes[0], names[:4]), Group(shapes[1], names[1:5]), Group(shapes[2], names[2:])])
    trace = Trace(np.cumsum(rng.gamma(1 / 16, 16 / 60, 1200)), rng.integers(0, 6, 1200), names, slo)
    for admission in (True, False):
        options = {"dispatch": dispatch, "batching": max_batch, "admission": admission, "overhead": 0.011}
        fast, slow = both(Case(placement, trace, profiles, options))
        assert_same(fast, slow, exact=False)
