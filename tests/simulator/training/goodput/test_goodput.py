"""Training on machines that fail: two engines, closed forms, scripts by hand, limits, bad input."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.simulator.metrics import mean_interval
from meshwright.simulator.training.goodput import (
    Checkpoints,
    GoodputResult,
    Machines,
    Strike,
    best_interval_s,
    daly_s,
    expected,
    node_mtbf_s,
    simulate_goodput,
    young_s,
)  # fmt: skip
from meshwright.simulator.training.goodput.closed_form import waiting_share
from scipy.optimize import minimize_scalar

HOUR, DAY = 3600.0, 86_400.0


@st.composite
def worlds(draw: st.DrawFn) -> tuple[float, Machines, Checkpoints]:
    """Small runs; strikes and costs are whole seconds, so that things happen at one instant."""
    replicas = draw(st.integers(1, 4))
    nodes = replicas * draw(st.integers(1, 2))
    spares = draw(st.integers(0, 2))
    strikes = st.builds(Strike, st.integers(0, 120).map(float), st.integers(0, nodes + spares - 1))
    machines = Machines(
        nodes=nodes, spares=spares, replicas=replicas, least_replicas=draw(st.integers(1, replicas)),
        mtbf_s=draw(st.sampled_from([math.inf, 400.0, 90.0])), mttr_s=draw(st.sampled_from([0.0, 7.0, 60.0])),
        shape=draw(st.sampled_from([1.0, 0.7, 2.0])), strikes=tuple(draw(st.lists(strikes, max_size=6))),
    )  # fmt: skip
    interval = draw(st.sampled_from([4, 10, 25]))
    checkpoints = Checkpoints(
        interval, draw(st.integers(0, 3)), draw(st.sampled_from([0, 1, interval])), draw(st.integers(0, 9))
    )
    return draw(st.sampled_from([30.0, 50.0, 101.5])), machines, checkpoints


def same(a: GoodputResult, b: GoodputResult) -> None:
    for one, other in zip(a.records, b.records, strict=True):
        for name in ("wall_s", "finished", "work_s", "slower_s", "checkpoint_s", "lost_s", "waiting_s", "restart_s"):
            assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-9, abs=1e-9), name
        assert one.rows == pytest.approx(other.rows, rel=1e-9, abs=1e-9)


@given(worlds(), st.integers(0, 1000))
@settings(deadline=None)
def test_the_engines_agree_failure_by_failure(world: tuple[float, Machines, Checkpoints], seed: int) -> None:
    fast, slow = (
        simulate_goodput(*world, runs=2, seed=seed, engine=engine, most_failures=300)
        for engine in ("compiled", "simpy")
    )
    same(fast, slow)


@given(worlds(), st.integers(0, 1000))
@settings(deadline=None)
def test_all_time_goes_somewhere(world: tuple[float, Machines, Checkpoints], seed: int) -> None:
    result = simulate_goodput(*world, runs=2, seed=seed, most_failures=300)
    for r in result.records:
        parts = (r.work_s, r.slower_s, r.checkpoint_s, r.lost_s, r.waiting_s, r.restart_s)
        assert min(parts) >= 0
        assert math.fsum(parts) == pytest.approx(r.wall_s, rel=1e-9, abs=1e-9)
        assert r.work_s == pytest.approx(world[0]) if r.finished else r.work_s <= world[0] * (1 + 1e-9)
        assert (np.diff(r.rows[:, 0]) >= 0).all()
        assert (np.diff(r.rows[:, 4]) >= 0).all()
    assert sum(result.shares.values()) == pytest.approx(1)


def test_a_script_by_hand() -> None:
    """100 s of work, every 20 s a checkpoint of 2 s, restart 5 s, spares; repairs take longer than the run."""
    strikes = (Strike(10, 0), Strike(60, 1), Strike(63, 2))
    machines = Machines(nodes=2, spares=3, mttr_s=1e9, strikes=strikes)
    result = simulate_goodput(100, machines, Checkpoints(20, 2, 0, 5), runs=2)
    # 0-10 lost; restart to 15; checkpoints count at 37 and 59; 59-60 lost; restart until 63, struck; restart to 68;
    # three parts of 22 to 134.
    record = result.records[0]
    assert (record.wall_s, record.lost_s, record.restart_s, record.checkpoint_s) == (134, 11, 13, 10)
    frame = result.to_frame()
    frame = frame[frame.run == 0]
    assert list(frame.at_s) == [10, 60, 63]
    assert list(frame.phase) == ["computing", "computing", "restart"]
    assert list(frame.saved_s) == [0, 40, 40]
    same(result, simulate_goodput(100, machines, Checkpoints(20, 2, 0, 5), runs=2, engine="simpy"))


def test_a_checkpoint_in_the_background_counts_late() -> None:
    """The first checkpoint stalls from 20 to 22 and counts at 32: a failure at 31 undoes all, one at 32 does not."""
    for at, wall in ((31.0, 31 + 5 + 54), (32.0, 32 + 5 + 32)):
        machines = Machines(nodes=1, spares=1, mttr_s=1e9, strikes=(Strike(at, 0),))
        result = simulate_goodput(40, machines, Checkpoints(20, 2, 10, 5), runs=2)
        assert result.wall_s[0] == wall


def test_fewer_replicas_by_hand() -> None:
    """Two replicas of a node each, 40 s of work; node 1 fails at 25 s and never comes back: then at half the speed."""
    machines = Machines(nodes=2, replicas=2, least_replicas=1, mttr_s=1e12, strikes=(Strike(25, 1),))
    record = simulate_goodput(40, machines, Checkpoints(10, 0, 0, 5), runs=2).records[0]
    assert (record.wall_s, record.lost_s, record.slower_s) == (25 + 5 + 40, 5, 20)


@pytest.mark.parametrize("background", [0.0, 600.0])
@pytest.mark.parametrize(("spares", "mttr"), [(0, 0.0), (1, 6 * HOUR)])
def test_the_closed_form_is_the_mean(background: float, spares: int, mttr: float) -> None:
    machines = Machines(nodes=12, mtbf_s=12 * 5 * HOUR, mttr_s=mttr, spares=spares)
    checkpoints = Checkpoints(HOUR, 120.0, background, 400.0)
    work = 60 * DAY + 1000.0  # the last part is a short one
    result = simulate_goodput(work, machines, checkpoints, runs=400)
    wall = mean_interval(result.wall_s, 0.9999)
    assert wall.low < expected(work, machines, checkpoints).wall_s < wall.high
    assert wall.half_width < 0.02 * wall.mean  # or it would say nothing
    assert result.expected_goodput() == pytest.approx(result.goodput.mean(), rel=0.02)


def test_waiting_is_the_birth_death_process() -> None:
    """One node, no spare: away for MTTR / (MTBF + MTTR) of the time."""
    assert waiting_share(Machines(nodes=1, mtbf_s=90.0, mttr_s=10.0)) == pytest.approx(0.1)
    machines = Machines(nodes=8, mtbf_s=8 * 20 * HOUR, mttr_s=30 * HOUR, spares=2)
    result = simulate_goodput(100 * DAY, machines, Checkpoints(HOUR, 0.0), runs=200)
    shares = mean_interval([r.waiting_s / r.wall_s for r in result.records], 0.9999)
    # From all nodes well, waiting comes a little later than in a long run: two repairs of 250 are left to it.
    assert shares.low - 0.01 < waiting_share(machines) < shares.high + 0.01


def test_without_failures_only_checkpoints_cost() -> None:
    checkpoints = Checkpoints(100.0, 5.0)
    result = simulate_goodput(10_000.0, Machines(nodes=4), checkpoints, runs=2)
    assert result.goodput == pytest.approx([1 / 1.05] * 2)
    assert expected(10_000.0, Machines(nodes=4), checkpoints).goodput == pytest.approx(1 / 1.05)
    assert expected(10_000.0, Machines(nodes=4, mtbf_s=1e15), checkpoints).goodput == pytest.approx(1 / 1.05)


@pytest.mark.parametrize("mtbf", [100.0, HOUR, DAY, 1e9])
@pytest.mark.parametrize("stall", [0.01, 1.0, 60.0])
def test_the_best_interval(stall: float, mtbf: float) -> None:
    """Lambert's W against a search; Daly's is near it where δ << M, Young's is its limit."""
    machines = Machines(nodes=1, mtbf_s=mtbf)

    def cost(log_tau: float) -> float:
        tau = math.exp(log_tau)
        return math.log(math.expm1((tau + stall) / mtbf)) - log_tau

    best = best_interval_s(stall, mtbf)
    found = minimize_scalar(cost, bounds=(math.log(stall) - 3, math.log(mtbf) + 1), method="bounded")
    assert cost(math.log(best)) <= found.fun + 1e-12
    if stall < mtbf / 50:
        assert daly_s(stall, mtbf) == pytest.approx(best, rel=1e-3)
    if stall < mtbf / 1e5:
        assert young_s(stall, mtbf) == pytest.approx(best, rel=3e-3)
    if stall <= best:
        around = [
            expected(1000 * best, machines, Checkpoints(tau, stall, 0, 10.0)).goodput
            for tau in (best, best * 1.05, max(stall, best / 1.05))
        ]
        assert around[0] == max(around)


def test_the_simulated_best_is_the_closed_forms() -> None:
    """On common random numbers, over factors of the interval."""
    machines = Machines(nodes=4, mtbf_s=4 * 3 * HOUR)
    best = best_interval_s(90.0, machines.system_mtbf_s)
    wall = {
        f: simulate_goodput(30 * DAY, machines, Checkpoints(f * best, 90.0, 0, 300.0), runs=300).wall_s.mean()
        for f in (0.4, 0.7, 1.0, 1.5, 2.5)
    }
    assert min(wall, key=wall.__getitem__) == 1.0


def test_more_of_what_helps_helps() -> None:
    """Lives are common random numbers: spares, a longer life and a cheaper restart never cost anything much."""
    base: dict[str, Any] = {"nodes": 6, "mtbf_s": 6 * 8 * HOUR, "mttr_s": 20 * HOUR}
    checkpoints = Checkpoints(HOUR, 60.0, 0, 300.0)

    def goodput(checkpoints: Checkpoints = checkpoints, **changed: Any) -> float:
        return float(simulate_goodput(40 * DAY, Machines(**{**base, **changed}), checkpoints, runs=100).goodput.mean())

    alone = goodput()
    assert alone < goodput(spares=1) < goodput(spares=3) < 1
    assert alone < goodput(mtbf_s=6 * 30 * HOUR)
    assert alone < goodput(Checkpoints(HOUR, 60.0, 0, 10.0))
    assert alone < goodput(replicas=6, least_replicas=1)


def test_a_node_fails_as_often_as_all_that_is_in_it() -> None:
    assert node_mtbf_s(8, 80 * DAY, 10 * DAY) == pytest.approx(5 * DAY)
    assert node_mtbf_s(8, None) == math.inf
    with pytest.raises(InputError, match=r"^failures: mtbf: expected seconds > 0 \(got 0\)$"):
        node_mtbf_s(8, 0)


def test_a_run_that_does_not_come_forward_is_given_up() -> None:
    result = simulate_goodput(DAY, Machines(nodes=100, mtbf_s=HOUR), Checkpoints(HOUR, 60.0), runs=2, most_failures=50)
    assert not result.finished.any()
    assert result.goodput.max() == 0
    assert "2 given up" in repr(result)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Machines(nodes=1, mtbf_s=0), "machines: mtbf_s: expected seconds > 0 (got 0)"),
        (lambda: Machines(nodes=1, mtbf_s=math.nan), "machines: mtbf_s: expected seconds > 0 (got nan)"),
        (lambda: Machines(nodes=1, mttr_s=-1), "machines: mttr_s: expected finite seconds >= 0 (got -1)"),
        (lambda: Machines(nodes=0), "machines: nodes: expected an integer from 1 to 1000000 (got 0)"),
        (lambda: Machines(nodes=5, replicas=2), "machines: replicas: 2 do not divide 5 nodes"),
        (lambda: Machines(nodes=2, strikes=(Strike(1.0, 2),)),
         "machines: strikes: there is no node 2; those of 2 + 0 spare are 0 to 1"),
        (lambda: Strike(-1.0, 0), "strike: at_s: expected finite seconds >= 0 (got -1.0)"),
        (lambda: Checkpoints(0, 1), "checkpoint: interval_s: expected finite seconds > 0 (got 0)"),
        (lambda: Checkpoints(10, 11), "checkpoint: stall_s: a checkpoint of 11 s is longer than its interval of 10 s; "
         "write fewer, or faster"),
        (lambda: simulate_goodput(1.0, Machines(nodes=1), Checkpoints(1, 0), runs=1),
         "goodput: runs: expected 2 to 100000 of them, for an interval (got 1)"),
        (lambda: expected(1.0, Machines(nodes=1, shape=2.0), Checkpoints(1, 0)),
         "goodput: no closed form of Weibull lives, strikes, or runs that go on with fewer replicas; simulate them"),
        (lambda: best_interval_s(0.0, 1.0),
         "best interval: a checkpoint that costs nothing has none; expected seconds > 0 (got 0.0)"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(make: Any, said: str) -> None:
    with pytest.raises(InputError) as caught:
        make()
    assert str(caught.value) == said
