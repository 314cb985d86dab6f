"""GPUs that vary: order statistics, the law of large numbers, integrals over windows, and two engines that agree."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from drawn_worlds import drawn, same
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.planners.themis import Themis
from meshwright.profiles.spread import CONSTANT, Spread
from meshwright.simulator.draws import Draws
from meshwright.simulator.sharing import (
    App,
    Beliefs,
    SharedCluster,
    SharingWorld,
    Slowdown,
    Speeds,
    baseline,
    draw_speeds,
    simulate,
)

Engine = Literal["simpy", "compiled"]
ENGINES: tuple[Engine, ...] = ("simpy", "compiled")
FLAT = Slowdown(1.0, 1.0, 1.0, 1.0)
UNIFORM = tuple((0.8 + 0.4 * (np.arange(200) + 0.5) / 200).tolist())
"""Quantiles of a factor that is uniform from 0.8 to 1.2, but for the 1/400 at each end."""


def one_job(gpus: int, work_s: float, spread: Spread, seed: int = 0, **more: float) -> SharingWorld:
    """A job alone on as many GPUs as it can use."""
    cluster = SharedCluster.uniform(1, gpus)
    apps = (App.single("a", 0.0, work_s, gpus=gpus, slowdown=FLAT),)
    options = {"checkpoint_s": 0.0, "container_s": 0.0, **more}
    return SharingWorld(cluster, apps, speeds=draw_speeds(spread, cluster, apps, seed), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("n", [1, 2, 8])
def test_a_gang_goes_by_the_mean_of_the_largest(engine: Engine, n: int) -> None:
    """Of n numbers that are uniform on [a, b] the largest is a + (b − a)·n/(n + 1) in the mean."""
    result = simulate(one_job(n, 1000.0 * n, Spread(visits=UNIFORM)), baseline("fifo"), engine=engine)
    assert result.finish[0] == pytest.approx(1000.0 * (0.8 + 0.4 * n / (n + 1)), rel=1e-4)


@pytest.mark.parametrize("visits", [(0.5, 1.5), (0.9, 0.95, 1.0, 1.5), (1.0, 1.0, 1.0, 2.0)])
def test_iterations_that_are_drawn_one_by_one_take_as_long(visits: tuple[float, ...]) -> None:
    """Law of large numbers: the sum over iterations of the largest s·V of unlike GPUs."""
    slow = np.array([[1.0], [1.1], [0.8], [1.25]])
    draws = Draws(1.0, slow, np.arange(4, dtype=np.uint64), np.array(visits))
    n = 20_000
    took = np.array([max(draws.ratio(g, 0.0, k) for g in range(4)) for k in range(n)])
    factor = Speeds(draws).factor(range(4), 0)
    assert abs(took.mean() - factor) < 4 * took.std() / np.sqrt(n) + 1e-4


def test_the_mean_lies_between_its_bounds_and_grows_with_the_gang() -> None:
    """Jensen: no less than the slowest GPU's mean; no more than the largest slowness times the mean largest draw."""
    cluster = SharedCluster.uniform(2, 4)
    spread = Spread(visits=(0.9, 1.0, 1.2), runs=(0.8, 1.0, 1.4), correlation_s=100.0)
    apps = (App.single("a", 0.0, 8000.0, gpus=8),)
    speeds = draw_speeds(spread, cluster, apps, 3)
    alike = Speeds(replace(speeds.draws, slow=np.ones((8, 1))))
    for window in range(0, 40, 7):
        factors = [speeds.factor(range(n), window) for n in range(1, 9)]
        assert factors == sorted(factors)
        for n, factor in enumerate(factors, 1):
            top = speeds.draws.slow[:n, window].max()
            assert top * alike.factor([0], 0) <= factor * (1 + 1e-9)
            assert factor <= top * alike.factor(range(n), 0) * (1 + 1e-3)  # cells are those of the slowest


@pytest.mark.parametrize("engine", ENGINES)
def test_work_is_the_integral_of_the_speed(engine: Engine) -> None:
    """A job is done when ∫ dt / max factor has reached its work over its GPUs, counted window by window."""
    spread = Spread(runs=(0.7, 1.0, 1.1, 2.0), correlation_s=200.0)
    world = one_job(3, 9000.0, spread, seed=5, container_s=35.0)
    slow = world.speeds.draws.slow.max(axis=0)  # type: ignore[union-attr]
    edges = 20.0 * np.arange(len(slow) + 1)
    done = np.cumsum(np.clip(edges[1:] - np.maximum(edges[:-1], 35.0), 0.0, None) / slow)
    last = int(np.searchsorted(done, 3000.0))
    expected = edges[last + 1] - (done[last] - 3000.0) * slow[last]
    assert simulate(world, baseline("fifo"), engine=engine).finish[0] == pytest.approx(expected, rel=1e-12)


def test_the_longer_a_job_the_surer_its_time() -> None:
    """Slow windows average out: over T seconds of a factor whose correlation is exp(−t/c), of variance σ², the mean has
    the variance 2σ²c/T, about, for T far above c. A uniform path is no Gaussian one: its correlation falls a little
    faster, by 6/π · asin(ρ/2) instead of ρ, which is within 5 %."""
    spread = Spread(runs=UNIFORM, correlation_s=50.0)
    variance = 0.4**2 / 12
    for work in (5_000.0, 20_000.0):
        ends = [one_job(1, work, spread, seed).speeds.finish(work, 0.0, 1.0, [0]) for seed in range(400)]  # type: ignore[union-attr]
        # Work is done at the speed 1/f, whose mean over a uniform f from 0.8 to 1.2 is ln(1.2/0.8) / 0.4.
        assert np.mean(ends) / work == pytest.approx(0.4 / np.log(1.5), abs=0.003)
        # 400 draws know a standard deviation to 3.5 %
        assert np.std(ends) / work == pytest.approx(np.sqrt(2 * variance * 50.0 / work), rel=0.12)


def test_what_does_not_vary_is_as_it_was() -> None:
    for seed in range(2):
        world = drawn(seed)
        steady = replace(world, speeds=draw_speeds(CONSTANT, world.cluster, world.apps, seed))
        for engine in ENGINES:
            before = simulate(world, baseline("tiresias", world.lease_s), engine=engine)
            same(before, simulate(steady, baseline("tiresias", world.lease_s), engine=engine))


SPREADS = (
    Spread(visits=(0.8, 1.0, 1.3)),
    Spread(runs=(0.7, 1.0, 1.5), correlation_s=300.0),
    Spread(visits=(0.9, 1.1), runs=(0.8, 1.0, 1.6), correlation_s=1000.0, level_sd=0.1),
)


@settings(max_examples=6, deadline=None)
@given(
    seed=st.integers(0, 10**6), spread=st.sampled_from(SPREADS), learns=st.booleans(),
    name=st.sampled_from(("themis", "tiresias", "fifo", "optimus", "gandiva", "srtf")),
)  # fmt: skip
def test_engines_agree_to_the_last_bit(seed: int, spread: Spread, learns: bool, name: str) -> None:
    world = drawn(seed, 5)
    beliefs = Beliefs("learned", spread=0.1) if learns else Beliefs()
    world = replace(world, beliefs=beliefs, speeds=draw_speeds(spread, world.cluster, world.apps, seed))
    policy = Themis() if name == "themis" else baseline(name, world.lease_s)
    try:
        readable = simulate(world, policy, engine="simpy")
    except InputError:  # a gang that no machines are left for
        with pytest.raises(InputError, match="has not ended"):
            simulate(world, policy, engine="compiled")
        return
    same(readable, simulate(world, policy, engine="compiled"))


def test_a_seed_and_a_run_have_their_own_slow_windows() -> None:
    spread = Spread(runs=(0.7, 1.0, 1.5), correlation_s=300.0)
    cluster, apps = SharedCluster.uniform(1, 4), (App.single("a", 0.0, 40_000.0, gpus=4),)
    slow = draw_speeds(spread, cluster, apps, 7, 0).draws.slow
    np.testing.assert_array_equal(slow, draw_speeds(spread, cluster, apps, 7, 0).draws.slow)
    for seed, run in ((7, 1), (8, 0)):
        assert not np.array_equal(slow, draw_speeds(spread, cluster, apps, seed, run).draws.slow)
    assert len(np.unique(slow[:, 5])) == 4


def test_an_agent_that_learns_measures_its_stragglers() -> None:
    """Three GPUs on a machine that should cost nothing: the mean of the largest of three draws is what it learns."""
    from meshwright.simulator.sharing.reference.engine import _Simulation

    world = one_job(3, 30_000.0, Spread(visits=UNIFORM))
    world = replace(world, beliefs=Beliefs("learned"), lease_s=600.0)
    seen: list[float] = []

    class Watched(_Simulation):
        def leave(self, app, now, *, completed):  # type: ignore[no-untyped-def]
            seen.append(app.learner.learned(1).mean)
            super().leave(app, now, completed=completed)

    simulation = Watched(world, baseline("tiresias"))
    simulation.env.process(simulation.arrivals())
    while not simulation.records:
        simulation.env.step()
    assert seen == [pytest.approx(0.8 + 0.4 * 3 / 4, rel=1e-4)]


def test_bad_input() -> None:
    cluster, apps = SharedCluster.uniform(1, 2), (App.single("a", 0.0, 1e9, gpus=2),)
    with pytest.raises(InputError, match=r"spread: correlation: 1 s are too short for"):
        draw_speeds(Spread(runs=(0.9, 1.1), correlation_s=1.0), cluster, apps, 0)
    speeds = draw_speeds(CONSTANT, SharedCluster.uniform(1, 3), apps, 0)
    with pytest.raises(InputError, match=r"speeds: expected those of 2 GPUs \(got 3\)"):
        SharingWorld(cluster, apps, speeds=speeds)
    with pytest.raises(InputError, match="positive finite factors"):
        Speeds(Draws(1.0, np.array([[np.nan]]), np.zeros(1, dtype=np.uint64), np.ones(1)))
