"""The compiled engine gives the same starts, finishes and grants as the SimPy model, on drawn worlds."""

from __future__ import annotations

import numpy as np
import pytest
from drawn_worlds import drawn, in_decimals, same
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.simulator.sharing import (
    BASELINES,
    App,
    Greedy,
    Job,
    Phase,
    SharedCluster,
    SharingWorld,
    baseline,
    simulate,
)
from meshwright.simulator.sharing.policy.nearness import PLACEMENTS, Chooser, Placement
from meshwright.simulator.sharing.policy.offers import TIES, LargestGain, Ties


@pytest.mark.parametrize("name", BASELINES)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6), placement=st.sampled_from(PLACEMENTS), ties=st.sampled_from(TIES))
def test_engines_agree(name: str, seed: int, placement: Placement, ties: Ties) -> None:
    world = drawn(seed)
    policy = baseline(name, world.lease_s, placement, seed, ties)
    try:
        readable = simulate(world, policy, engine="simpy")
    except InputError:  # a gang that no machines are left for: both must say so
        for engine in ("simpy", "compiled"):
            with pytest.raises(InputError, match="has not ended"):
                simulate(world, policy, engine=engine)  # type: ignore[arg-type]
        return
    same(readable, simulate(world, policy, engine="compiled"))


@pytest.mark.parametrize("seed", range(6))
def test_optimus_that_asks_once_agrees(seed: int) -> None:
    world = drawn(3000 + seed, failures=1)
    policy = LargestGain("optimus", chooser=Chooser(PLACEMENTS[seed % 2], seed), ties=TIES[seed // 2 % 2], once=True)
    readable = simulate(world, policy, engine="simpy")
    same(readable, simulate(world, policy, engine="compiled"))
    other = simulate(world, baseline("optimus", world.lease_s, PLACEMENTS[seed % 2], seed, TIES[seed // 2 % 2]))
    assert readable.grants != other.grants


@pytest.mark.parametrize("digits", [2, *(pytest.param(digits, marks=pytest.mark.slow) for digits in (1, 3))])
@pytest.mark.parametrize("seed", range(len(BASELINES)))
def test_engines_agree_to_the_last_bit_on_decimal_times(seed: int, digits: int) -> None:
    """Nothing happens an ulp beside its time: apps come, jobs end, leases end and machines fail at the very float."""
    world = in_decimals(drawn(2000 + seed, failures=2), digits)
    policy = baseline(BASELINES[seed], world.lease_s)
    readable = simulate(world, policy, engine="simpy")
    same(readable, simulate(world, policy, engine="compiled"))
    assert np.all(readable.start[readable.completed] >= np.array([a.arrival_s for a in world.apps])[readable.completed])


@pytest.mark.parametrize("n", [16, pytest.param(40, marks=pytest.mark.slow)])
@pytest.mark.parametrize("seed", range(6))
def test_a_long_world_agrees(seed: int, n: int) -> None:
    world = drawn(1000 + seed, n=n)
    policy = baseline(BASELINES[seed % len(BASELINES)], world.lease_s)
    same(simulate(world, policy, engine="simpy"), simulate(world, policy, engine="compiled"))


def test_gpus_are_never_shared_and_work_is_conserved() -> None:
    for seed in range(5):
        world = drawn(seed)
        result = simulate(world, baseline("tiresias"))
        n = world.cluster.n_gpus
        held: dict[int, set[int]] = {}
        for at, app, gpus in result.grants:
            held[app] = set(gpus)
            assert at <= result.finish[app]
            for other, theirs in held.items():
                if other != app and result.finish[other] > at:
                    held[other] = theirs - set(gpus)  # taken at this instant
        assert result.gpu_seconds.sum() <= n * result.makespan_s * (1 + 1e-12)
        # an app cannot do its work in less GPU time than the work is
        least = [sum(a.work_s(k) for k in range(len(a.phases))) for a in world.apps]
        done = result.completed
        assert np.all(result.gpu_seconds[done] >= np.array(least)[done] * (1 - 1e-9))


def test_a_policy_of_ones_own_runs_on_the_reference() -> None:
    own = Greedy("largest first", lambda v: -v.app.total_work_s)
    world = drawn(3)
    assert simulate(world, own).completed.any()
    with pytest.raises(InputError, match="no compiled form"):
        simulate(world, own, engine="compiled")
    with pytest.raises(InputError, match="expected 'auto'"):
        simulate(world, own, engine="numba")  # type: ignore[arg-type]


def test_scaling_time_scales_everything() -> None:
    """Work, arrivals, leases and overheads ten times as long: ends ten times as late."""
    jobs = (Job(30.0, 4), Job(50.0, 2))

    def world(k: float) -> SharingWorld:
        apps = tuple(
            App(
                f"a{i}",
                k * 100.0 * i,
                tuple(Job(k * j.iteration_s, j.gpus) for j in jobs),
                (Phase((0, 1), (40.0, 20.0)),),
            )
            for i in range(6)
        )
        cluster = SharedCluster.uniform(2, 4)
        return SharingWorld(cluster, apps, lease_s=k * 300, checkpoint_s=k * 5, container_s=k * 30)

    for name in ("fifo", "drf", "tiresias", "srtf", "optimus"):
        slow, quick = simulate(world(10.0), baseline(name)), simulate(world(1.0), baseline(name))
        np.testing.assert_allclose(slow.finish, 10 * quick.finish, rtol=1e-9)
