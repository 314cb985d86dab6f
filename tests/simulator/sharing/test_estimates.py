"""Agents that err: what they believe of work and distance, in both engines; what really happens stays as it was."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.seeds import generator
from meshwright.simulator.sharing import (
    App,
    AppView,
    Job,
    Phase,
    Shape,
    SharedCluster,
    SharingWorld,
    Slowdown,
    baseline,
    simulate,
)
from meshwright.simulator.sharing.policy.split import RunningJob


def view(app: App, convention: str = "fluid") -> AppView:
    jobs = tuple(RunningJob(j, app.phases[0].iterations[j], app.jobs[j].gpus, 1) for j in app.phases[0].jobs)
    return AppView(0, app, app.arrival_s + 50.0, 0, jobs, (), (), 0.0, 3.0, 8, convention)  # type: ignore[arg-type]


@pytest.mark.parametrize("convention", ["fluid", "slowest"])
@pytest.mark.parametrize("kind", ["jobs", "curve"])
def test_an_error_scales_what_is_left_and_what_is_ideal(convention: str, kind: str) -> None:
    true = App("a", 10.0, (Job(1.0, 4), Job(1.0, 4)), (Phase((0, 1), (300.0, 500.0)),), kind, Slowdown())  # type: ignore[arg-type]
    wrong = replace(true, believed_work=1.25, believed_slowdown=Slowdown(1.0, 1.0, 1.65, 1.95))
    apart, near = Shape((2, 2, 2), 1), Shape((4,), 1)
    a, b = view(true, convention), view(wrong, convention)
    assert b.left_s == pytest.approx(1.25 * a.left_s)
    assert b.ideal_s == pytest.approx(1.25 * a.ideal_s)
    assert b.remaining_s(near) == pytest.approx(1.25 * a.remaining_s(near))
    # three GPUs for each of two jobs, two on a machine: 1.65 believed, 1.1 true
    assert b.remaining_s(apart) == pytest.approx(1.25 * 1.5 * a.remaining_s(apart))
    assert b.speed(apart) == pytest.approx(a.speed(apart) / 1.5)
    assert b.rho(near) == pytest.approx((50.0 + 1.25 * a.remaining_s(near)) / (1.25 * a.ideal_s))


def erring(seed: int) -> SharingWorld:
    rng = generator(seed, "erring world")
    apps: list[App] = []
    at = 0.0
    for i in range(10):
        at += float(rng.exponential(300.0))
        jobs = [Job(float(rng.uniform(5, 40)), int(rng.integers(1, 5))) for _ in range(int(rng.integers(1, 5)))]
        app = App.halving(f"app {i}", at, jobs, float(rng.uniform(5e3, 3e4)))
        believed = Slowdown(*np.maximum(1.0, np.array(app.slowdown.levels) * rng.uniform(0.8, 1.2)).tolist())
        apps.append(replace(app, believed_work=float(rng.uniform(0.7, 1.3)), believed_slowdown=believed))
    return SharingWorld(SharedCluster.uniform(4, 4, gpus_per_slot=2, machines_per_rack=2), tuple(apps))


@pytest.mark.parametrize("name", ["srtf", "srsf", "gandiva", "optimus", "slaq", "finish-time"])
def test_engines_agree_when_agents_err(name: str) -> None:
    for seed in range(3):
        world = erring(seed)
        policy = baseline(name, world.lease_s)
        a, b = (simulate(world, policy, engine=engine) for engine in ("simpy", "compiled"))
        np.testing.assert_allclose(a.finish, b.finish, rtol=1e-9)
        assert [(g.app, g.gpus) for g in a.grants] == [(g.app, g.gpus) for g in b.grants]


def test_errors_change_decisions_but_not_the_truth() -> None:
    world = erring(0)
    exact = replace(world, apps=tuple(replace(a, believed_work=1.0, believed_slowdown=None) for a in world.apps))
    # a policy that asks no agent is not moved
    np.testing.assert_array_equal(*(simulate(w, baseline("tiresias")).finish for w in (world, exact)))
    moved = [simulate(w, baseline("srsf")).finish for w in (world, exact)]
    assert not np.array_equal(*moved)


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), float("inf")])
def test_a_factor_must_be_positive(factor: float) -> None:
    with pytest.raises(InputError, match=r"app 'a': believed_work: expected a finite factor > 0"):
        replace(App.single("a", 0.0, 10.0), believed_work=factor)


def test_the_auction_goes_by_what_agents_believe_in_both_engines() -> None:
    from meshwright.planners.themis import Themis

    changed = 0
    for seed in range(3):
        world = erring(seed)
        a, b = (simulate(world, Themis(fairness=0.5), engine=engine) for engine in ("simpy", "compiled"))
        np.testing.assert_allclose(a.finish, b.finish, rtol=1e-9)
        assert [(g.app, g.gpus) for g in a.grants] == [(g.app, g.gpus) for g in b.grants]
        exact = replace(world, apps=tuple(replace(x, believed_work=1.0, believed_slowdown=None) for x in world.apps))
        changed += not np.array_equal(a.finish, simulate(exact, Themis(fairness=0.5)).finish)
    assert changed == 3
