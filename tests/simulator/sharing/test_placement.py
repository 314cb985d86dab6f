"""`placement`: which GPUs baselines give: the nearest, or by lot (Themis §6.2.1)."""

from __future__ import annotations

from collections import Counter

import pytest
from meshwright.errors import InputError
from meshwright.simulator.sharing import (
    BASELINES,
    App,
    AppView,
    SharedCluster,
    SharingWorld,
    Slowdown,
    baseline,
    sharing_metrics,
    simulate,
)
from meshwright.simulator.sharing.policy.lots import lot
from meshwright.simulator.sharing.policy.split import RunningJob

FLAT = Slowdown(1.0, 1.0, 1.0, 1.0)
CLUSTER = SharedCluster.uniform(4, 4, machines_per_rack=2)


def view(cap: int, held: tuple[int, ...] = (), lapsed: tuple[int, ...] = ()) -> AppView:
    app = App.single("app", 0.0, 1000.0, gpus=cap, slowdown=FLAT)
    return AppView(0, app, 100.0, 0, (RunningJob(0, 1000.0, cap, 1),), held, lapsed, 0.0, 1.0, CLUSTER.n_gpus)


@pytest.mark.parametrize("name", BASELINES)
def test_blind_gpus_are_those_with_the_lowest_lots(name: str) -> None:
    policy = baseline(name, placement="blind", seed=7)
    for decision in (1, 2):
        given = policy.assign(CLUSTER, range(4, 16), [view(6, held=(0, 1))])
        assert sorted(given) == sorted(sorted(range(4, 16), key=lambda g: lot(7, decision, g))[:4])


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize("placement", ["near", "blind"])
def test_an_app_gets_its_own_gpus_of_before_first(name: str, placement: str) -> None:
    for seed in range(5):
        policy = baseline(name, placement=placement, seed=seed)  # type: ignore[arg-type]
        assert sorted(policy.assign(CLUSTER, range(16), [view(3, lapsed=(3, 9, 14))])) == [3, 9, 14]
        assert {3, 9} <= set(policy.assign(CLUSTER, range(16), [view(4, lapsed=(3, 9))]))


def test_every_gpu_is_drawn_alike() -> None:
    policy = baseline("fifo", placement="blind", seed=1)
    drawn = Counter(g for _ in range(2000) for g in policy.assign(CLUSTER, range(16), [view(4)]))
    # 2000 · 4/16 = 500 each, standard deviation √(2000 · 1/4 · 3/4) = 19: five of them
    assert sorted(drawn) == list(range(16))
    assert all(abs(n - 500) < 97 for n in drawn.values())


def test_blind_apps_are_placed_worse() -> None:
    """Apps of four GPUs on machines of four: near, each has one of its own; blind, next to none has."""
    apps = tuple(App.single(f"a{i}", 0.0, 40_000.0, gpus=4, slowdown=Slowdown(1, 1, 1.2, 1.5)) for i in range(4))
    world = SharingWorld(CLUSTER, apps, container_s=0.0)
    near = simulate(world, baseline("fifo"))
    blind = simulate(world, baseline("fifo", placement="blind", seed=3))
    assert sharing_metrics(near).placement == 1.0
    assert near.finish.tolist() == [10_000.0] * 4
    # the split over what an app has is the same: its one job takes all four, over two racks 1.5 times as long
    assert set(blind.finish.tolist()) <= {10_000.0, 12_000.0, 15_000.0}
    assert blind.finish.max() == 15_000.0


def test_lots_go_by_the_seed_and_start_anew() -> None:
    apps = tuple(App.single(f"a{i}", 60.0 * i, 9000.0, gpus=4) for i in range(6))
    world = SharingWorld(CLUSTER, apps)
    policy = baseline("tiresias", placement="blind", seed=5)
    first, again, compiled = (simulate(world, policy, engine=e) for e in ("simpy", "simpy", "compiled"))  # type: ignore[arg-type]
    assert list(first.grants) == list(again.grants) == list(compiled.grants)
    other = simulate(world, baseline("tiresias", placement="blind", seed=6))
    assert list(first.grants) != list(other.grants)


def test_an_unknown_placement_or_a_negative_seed_is_refused() -> None:
    with pytest.raises(InputError, match="expected one of near, blind \\(got 'far'\\)"):
        baseline("fifo", placement="far")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"seed: expected an integer in \[0, 2\*\*63\) \(got -1\)"):
        baseline("fifo", placement="blind", seed=-1)
