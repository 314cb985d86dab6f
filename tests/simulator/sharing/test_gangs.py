"""Gangs: no policy gives an app GPUs that its gangs leave over while another could use them; both engines alike."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.seeds import generator
from meshwright.simulator.sharing import (
    BASELINES,
    App,
    AppView,
    Job,
    Phase,
    SharedCluster,
    SharingWorld,
    Slowdown,
    baseline,
    simulate,
)
from meshwright.simulator.sharing.policy.split import RunningJob, split

FLAT = Slowdown(1.0, 1.0, 1.0, 1.0)
SIX = SharedCluster.uniform(1, 6)


def pairs(n: int, jobs: int = 2) -> tuple[App, ...]:
    """Apps of jobs of 200 GPU seconds that need two GPUs each."""
    phase = Phase(tuple(range(jobs)), (200.0,) * jobs)
    return tuple(App(f"a{k}", 0.0, (Job(1.0, 2, 2),) * jobs, (phase,), "jobs", FLAT) for k in range(n))


@pytest.mark.parametrize("engine", ["simpy", "compiled"])
@pytest.mark.parametrize("name", BASELINES)
def test_six_gpus_hold_three_pairs(name: str, engine: str) -> None:
    """Two apps of two pairs each: three run at once and then the fourth, whatever the order of service; three GPUs for
    each app would leave two of the six idle."""
    world = SharingWorld(SIX, pairs(2), checkpoint_s=0.0, container_s=0.0, lease_s=1e6)
    result = simulate(world, baseline(name), engine=engine)  # type: ignore[arg-type]
    assert sorted(result.finish.tolist()) == [100.0, 200.0]
    assert Counter(len(g.gpus) for g in result.grants if g.at_s == 0) == {4: 1, 2: 1}


@pytest.mark.parametrize("engine", ["simpy", "compiled"])
def test_what_a_gang_leaves_over_goes_to_the_next(engine: str) -> None:
    """Five GPUs: the first app's pairs take four, and the next app, which makes do with one, has the fifth at once."""
    last = App.single("one", 0.0, 50.0, slowdown=FLAT)
    world = SharingWorld(SharedCluster.uniform(1, 5), (*pairs(1, 3), last), checkpoint_s=0.0, container_s=0.0)
    for name in ("fifo", "tiresias", "gandiva"):
        result = simulate(world, baseline(name), engine=engine)  # type: ignore[arg-type]
        assert result.start.tolist() == [0.0, 0.0]
        assert result.finish[1] == 50.0


def view(jobs: list[RunningJob], held: int) -> AppView:
    made = tuple(Job(1.0, j.cap, j.gang) for j in jobs)
    app = App("a", 0.0, made, (Phase(tuple(range(len(jobs))), tuple(j.left_s for j in jobs)),), "jobs", FLAT)
    return AppView(0, app, 0.0, 0, tuple(jobs), tuple(range(held)), (), 0.0, 1.0, 64)


@settings(max_examples=examples(50, anew=200), deadline=None)
@given(
    shapes=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3), st.floats(1.0, 100.0)), min_size=1, max_size=6),
    n=st.integers(1, 30),
)
def test_what_an_app_can_use_is_what_it_divides(shapes: list[tuple[int, int, float]], n: int) -> None:
    """Of n GPUs jobs that wait take exactly as many as the agent says."""
    jobs = [RunningJob(k, left, gang + more, gang) for k, (gang, more, left) in enumerate(shapes)]
    used = sum(map(len, split(SharedCluster.uniform(1, n), range(n), jobs, FLAT).values()))
    assert view(jobs, 0).usable(n) == used


def rigid(seed: int) -> SharingWorld:
    """Apps whose jobs need all of their one to four GPUs at once, of different sizes in an app."""
    rng = generator(seed, "rigid world")
    apps: list[App] = []
    at = 0.0
    for i in range(8):
        at += float(rng.exponential(150.0))
        sizes = rng.integers(1, 5, int(rng.integers(1, 6))).tolist()
        more = rng.integers(0, 2, len(sizes)).tolist()
        phase = Phase(tuple(range(len(sizes))), tuple(rng.uniform(50, 3000, len(sizes)).tolist()))
        jobs = tuple(Job(1.0, n + m, n) for n, m in zip(sizes, more, strict=True))
        apps.append(App(f"a{i}", at, jobs, (phase,), "jobs"))
    return SharingWorld(SharedCluster.uniform(3, 3, machines_per_rack=2), tuple(apps), lease_s=200.0)


@pytest.mark.parametrize("name", BASELINES)
def test_engines_agree_on_gangs(name: str) -> None:
    for seed in range(5):
        world = rigid(seed)
        a, b = (simulate(world, baseline(name, 200.0), engine=e) for e in ("simpy", "compiled"))  # type: ignore[arg-type]
        np.testing.assert_allclose(a.finish, b.finish, rtol=1e-9)
        assert [(g.app, g.gpus) for g in a.grants] == [(g.app, g.gpus) for g in b.grants]
