"""Agents that learn what distance costs: the learner by itself, in worlds worked by hand, and in both engines."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from drawn_worlds import drawn, same
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.planners.themis import Themis
from meshwright.planners.themis.bidding import bid_of
from meshwright.simulator.sharing import (
    App,
    AppView,
    Beliefs,
    SharedCluster,
    SharingWorld,
    Slowdown,
    SlowdownLearner,
    baseline,
    simulate,
)
from meshwright.simulator.sharing.policy.agent import Shape
from meshwright.simulator.sharing.policy.learning import NORMAL
from meshwright.simulator.sharing.policy.split import RunningJob

LEARN = Beliefs("learned")
VGG = Slowdown(1.0, 1.0, 1.3, 1.8)


def test_a_start_value_is_given_up_after_enough_iterations() -> None:
    agent = SlowdownLearner(LEARN)
    assert agent.slowdown == Slowdown(1.0, 1.0, 1.1, 1.3)
    agent.observe(3, 1.8, 19)
    assert agent.slowdown.cluster == 1.3  # one too few
    agent.observe(3, 1.8, 1)
    assert agent.slowdown == Slowdown(1.0, 1.0, 1.1, 1.8)
    assert agent.learned(3).iterations == 20
    assert agent.learned(3).half_width < 1e-12
    assert agent.learned(2).iterations == 0
    assert math.isnan(agent.learned(2).mean)
    assert "cluster 1.800" in str(agent)
    assert str(SlowdownLearner(LEARN)) == "nothing measured yet"


def test_noise_moves_no_belief() -> None:
    """400 agents whose true slowdown is the start value, measured with a spread of 20 %: few give it up, though each
    looks ten times; and those that do, by little."""
    rng = np.random.default_rng(0)
    moved: list[float] = []
    for _ in range(400):
        agent = SlowdownLearner(LEARN)
        for _ in range(10):
            times = 1.3 * (1 + 0.2 * rng.standard_normal(30))
            agent.observe(3, float(times.mean()), 30, float(times.std(ddof=1)))
        moved.append(agent.slowdown.cluster - 1.3)
    # ten looks at one mean, and two estimates of its error, the larger of which counts: less than one in five
    assert np.mean(np.array(moved) != 0.0) < 0.2
    assert np.abs(moved).max() < 0.15


def test_the_interval_covers_the_truth_also_when_slow_iterations_come_in_a_row() -> None:
    """Batches share a factor (2 %) that no iteration within one shows: 95 % intervals by 30 batches still cover."""
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(400):
        agent = SlowdownLearner(LEARN)
        for _ in range(30):
            times = 1.5 * (1 + 0.02 * rng.standard_normal()) * (1 + 0.03 * rng.standard_normal(50))
            agent.observe(2, float(times.mean()), 50, float(times.std(ddof=1)))
        found = agent.learned(2)
        covered += abs(found.mean - 1.5) <= found.half_width
    assert covered >= 0.9 * 400


def test_levels_stay_in_order() -> None:
    agent = SlowdownLearner(LEARN)
    agent.observe(1, 1.6, 100)  # across machines and racks it cannot be less
    assert agent.slowdown == Slowdown(1.0, 1.6, 1.6, 1.6)
    agent.observe(3, 1.2, 300)  # two that were measured are averaged by their iterations
    assert agent.slowdown.levels == pytest.approx((1.0, 1.3, 1.3, 1.3))
    fast = SlowdownLearner(LEARN)
    fast.observe(3, 0.9, 100)
    assert fast.slowdown == Slowdown(1.0, 1.0, 1.0, 1.0)


def across_racks() -> SharedCluster:
    """Two machines of one GPU, each in a rack of its own."""
    return SharedCluster.uniform(2, 1, machines_per_rack=1)


class Watch:
    """Gives everything to whoever comes first, and keeps what each agent believed and bid at each decision."""

    name, preempts = "watch", True

    def __init__(self) -> None:
        self.seen: list[tuple[float, float, float]] = []

    def assign(self, cluster: SharedCluster, offered: Any, apps: Any) -> dict[int, int]:
        view: AppView = apps[0]
        rows = bid_of(cluster, offered, view).rows
        self.seen.append((view.now_s, view.slowdown.cluster, min(row.rho for row in rows if row.gpus == 2)))
        return dict.fromkeys(offered, view.index)


def test_a_wrong_start_value_is_mended_after_the_first_lease_by_hand() -> None:
    """An app like VGG on two GPUs across racks: assumed 1.0, truly 1.8. 3600 GPU seconds, leases of 600 s, no restarts.

    It bids (0 + 3600/2 · 1)/(3600/2) = 1 at first. In 600 s it does 600 · 2/1.8 = 666.7 GPU seconds, iterations of one
    second in 0.9 s each: 666 are timed, S = 0.9 · 2 / 1 = 1.8. Then it bids (600 + (3600 − 666.7)/2 · 1.8)/1800 = 1.8,
    which is what it comes to: its end is at 3600 · 1.8/2 = 3240 s.
    """
    app = App.single("vgg", 0.0, 3600.0, gpus=2, slowdown=VGG)
    start = Beliefs("learned", start=Slowdown(1.0, 1.0, 1.0, 1.0))
    world = SharingWorld(across_racks(), (app,), lease_s=600.0, checkpoint_s=0.0, container_s=0.0, beliefs=start)
    watch = Watch()
    result = simulate(world, watch, engine="simpy")
    assert watch.seen[0] == (0.0, 1.0, 1.0)
    now, believed, rho = watch.seen[1]
    assert (now, believed) == (600.0, 1.8)
    assert rho == pytest.approx(1.8, rel=1e-12)
    assert result.finish[0] == pytest.approx(3240.0)
    for beliefs, expected in ((Beliefs("assumed", start=start.start), 1.0), (Beliefs(), 1.8)):
        watch = Watch()
        simulate(replace(world, beliefs=beliefs), watch, engine="simpy")
        assert {believed for _, believed, _ in watch.seen} == {expected}


def test_what_is_believed_is_what_bids_and_speeds_reckon_with() -> None:
    app = App.single("a", 0.0, 1000.0, gpus=4, slowdown=VGG)
    view = AppView(0, app, 0.0, 0, (RunningJob(0, 1000.0, 4, 1),), (), (), 0.0, 1.0, 4)
    learned = replace(view, believed=Slowdown(1.0, 1.0, 1.5, 1.5))
    spread = Shape((1, 1, 1, 1), 2)
    assert view.rho(spread) == pytest.approx(1.8)
    assert learned.rho(spread) == pytest.approx(1.5)
    assert learned.speed(spread) == pytest.approx(4 / 1.5)


@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    belief=st.sampled_from(("assumed", "learned", "learned")),
    spread=st.sampled_from((0.0, 0.1, 0.5)),
    least=st.sampled_from((1, 5, 20)),
    name=st.sampled_from(("themis", "themis", "optimus", "srtf", "gandiva")),
)
def test_engines_agree(seed: int, belief: Any, spread: float, least: int, name: str) -> None:
    world = replace(drawn(seed), beliefs=Beliefs(belief, least=least, spread=spread, seed=seed % 7))
    policy = Themis(fairness=0.5, seed=seed) if name == "themis" else baseline(name, world.lease_s)
    try:
        readable = simulate(world, policy, engine="simpy")
    except InputError:
        with pytest.raises(InputError, match="has not ended"):
            simulate(world, policy, engine="compiled")
        return
    same(readable, simulate(world, policy, engine="compiled"))


def test_learning_what_is_so_changes_nothing() -> None:
    """Start values that are right, measured without noise: the world of agents that know."""
    world = drawn(4)
    apps = tuple(replace(a, slowdown=Slowdown(1, 1.2, 1.4, 1.7), believed_slowdown=None) for a in world.apps)
    world = replace(world, apps=apps)
    start = Slowdown(1, 1.2, 1.4, 1.7)
    known = simulate(world, Themis())
    same(known, simulate(replace(world, beliefs=Beliefs("assumed", start=start)), Themis()))


def test_lots_of_measurements_are_normal() -> None:
    assert np.mean(NORMAL) == pytest.approx(0.0, abs=1e-12)
    assert np.std(NORMAL) == pytest.approx(1.0, abs=2e-3)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: Beliefs("guessed"), "Beliefs.slowdown: expected known, assumed or learned (got 'guessed')"),  # type: ignore[arg-type]
        (lambda: Beliefs(start=1.3), "Beliefs.start: expected a Slowdown (got 1.3)"),  # type: ignore[arg-type]
        (lambda: Beliefs(least=0), "Beliefs.least: expected a number of iterations >= 1 (got 0)"),
        (lambda: Beliefs(spread=1.0), "Beliefs.spread: expected a share of the mean in [0, 1) (got 1.0)"),
        (lambda: Beliefs(seed=-1), "Beliefs.seed: expected an integer in 0 … 2^63 - 1 (got -1)"),
        (lambda: SlowdownLearner(LEARN).observe(4, 1.0, 1), "level: expected 0 … 3 (got 4)"),
        (lambda: SlowdownLearner(LEARN).observe(1, math.nan, 1), "expected a finite slowdown > 0"),
        (lambda: SlowdownLearner(LEARN).observe(1, 1.0, 0), "iterations: expected 1 or more (got 0)"),
        (
            lambda: SharingWorld(across_racks(), (), beliefs="learned"),  # type: ignore[arg-type]
            "SharingWorld.beliefs: expected Beliefs (got 'learned')",
        ),
    ],
)
def test_bad_input_in_a_line(made: Any, said: str) -> None:
    with pytest.raises(InputError) as caught:
        made()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
