"""Policies of one's own: their rule counts and not their name; what they answer is checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.simulator.sharing import (
    BASELINES,
    App,
    AppView,
    Greedy,
    Job,
    LossCurve,
    Phase,
    SharedCluster,
    SharingWorld,
    baseline,
    simulate,
)
from meshwright.simulator.sharing.compiled.engine import has_compiled

CLUSTER = SharedCluster.uniform(1, 4)


def three(lease_s: float = 100.0) -> SharingWorld:
    """Three apps that each want the machine, of different lengths and losses."""
    made = [(900.0, 1.0), (2500.0, 6.0), (700.0, 3.0)]
    apps = tuple(
        App(f"a{k}", 0.0, (Job(1.0, 4, 1, LossCurve(rate=rate)),), (Phase((0,), (work,)),))
        for k, (work, rate) in enumerate(made)
    )
    return SharingWorld(CLUSTER, apps, lease_s=lease_s)


def test_a_rule_of_ones_own_runs_under_the_name_of_a_baseline() -> None:
    """The most attained service first: whoever runs goes on to its end, one after the other."""
    own = Greedy("tiresias", lambda v: -v.attained_s)
    assert not has_compiled(own)
    expected = np.cumsum([35.0 + 900 / 4, 35.0 + 2500 / 4, 35.0 + 700 / 4])
    assert simulate(three(), own).finish == pytest.approx(expected)
    with pytest.raises(InputError, match="no compiled form"):
        simulate(three(), own, engine="compiled")
    shipped = baseline("fifo")
    assert isinstance(shipped, Greedy)
    assert not has_compiled(replace(shipped, preempts=True))


@pytest.mark.parametrize("name", BASELINES)
def test_every_baseline_is_known_as_one(name: str) -> None:
    for policy in (baseline(name), baseline(name, 60.0), baseline(name, placement="blind", seed=3)):
        assert has_compiled(policy)


@pytest.mark.parametrize("window_s", [10.0, 100.0, 600.0, float("inf")])
def test_slaq_looks_as_far_as_it_says_in_both_engines(window_s: float) -> None:
    """However long the world's leases are."""
    ends = [simulate(three(), baseline("slaq", window_s), engine=e).finish for e in ("simpy", "compiled")]  # type: ignore[arg-type]
    np.testing.assert_allclose(*ends)


def test_slaqs_window_decides() -> None:
    """Within a lease of 10 s the curve that falls fastest per second is ahead; a window without end sees whole curves,
    and of those all fall by nearly 1, but the flat one by 1 − 1/e."""
    short, long = (simulate(three(), baseline("slaq", x)).finish for x in (10.0, 1e9))
    assert not np.array_equal(short, long)
    with pytest.raises(InputError, match=r"policy: lease_s: expected seconds > 0 \(got nan\)"):
        baseline("slaq", float("nan"))


@dataclass
class Careless:
    """Gives what it is told to, to whom it is told to."""

    gives: Mapping[int, int]
    name: str = "careless"
    preempts: bool = True

    def assign(self, cluster: SharedCluster, offered: Sequence[int], apps: Sequence[AppView]) -> Mapping[int, int]:
        return self.gives


@pytest.mark.parametrize(
    ("gives", "says"),
    [
        ({7: 0}, r"policy 'careless': gives GPU 7, which is not on offer \(on offer: \[0, 1, 2, 3\]\)"),
        ({0: 5}, r"policy 'careless': gives GPUs to app 5, which is not in the cluster \(it has \[0, 1, 2\]\)"),
        ({-1: 0}, "gives GPU -1"),
        ({}, "app 'a0': has not ended"),
    ],
)
def test_what_a_policy_answers_is_checked(gives: Mapping[int, int], says: str) -> None:
    with pytest.raises(InputError, match=says):
        simulate(three(), Careless(gives))


def test_gpus_that_an_app_keeps_are_not_given_to_another() -> None:
    """The first app keeps GPU 0 for a lease; a second that arrives meanwhile is given it all the same: refused."""
    apps = (App.single("a", 0.0, 900.0), App.single("b", 10.0, 900.0))

    class Grabs(Careless):
        def assign(self, cluster: SharedCluster, offered: Sequence[int], apps: Sequence[AppView]) -> Mapping[int, int]:
            return {0: apps[-1].index}

    with pytest.raises(InputError, match="gives GPU 0, which is not on offer"):
        simulate(SharingWorld(CLUSTER, apps), Grabs({}))
