"""Baseline policies on markets small enough to decide by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.simulator.sharing import BASELINES, App, AppView, Job, Machine, SharedCluster, Slowdown, baseline
from meshwright.simulator.sharing.policy.offers import gain
from meshwright.simulator.sharing.policy.split import RunningJob

FLAT = Slowdown(1.0, 1.0, 1.0, 1.0)
VGG16 = Slowdown(1.0, 1.0, 103.6 / 80.4, 103.6 / 80.4)  # Table 1


def view(
    index: int, *, left_s: float = 1000.0, cap: int = 4, gang: int = 1, held: tuple[int, ...] = (),
    attained_s: float = 0.0, arrival_s: float = 0.0, slowdown: Slowdown = FLAT, now_s: float = 100.0,
) -> AppView:  # fmt: skip
    app = App.single(f"app {index}", arrival_s, 1000.0, gpus=cap, gang=gang, slowdown=slowdown)
    return AppView(index, app, now_s, 0, (RunningJob(0, left_s, cap, gang),), held, (), attained_s, 2.0, 16)


def counts(given: dict[int, int]) -> dict[int, int]:
    return {app: list(given.values()).count(app) for app in sorted(set(given.values()))}


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("fifo", {"arrival_s": 1.0}),
        ("tiresias", {"attained_s": 10.0}),
        ("tiresias-2q", {"arrival_s": 1.0, "attained_s": 3000.0}),
        ("srsf", {"left_s": 500.0}),
        ("srtf", {"left_s": 500.0}),
    ],
)
def test_who_is_first_gets_all_that_it_can_use(name: str, first: dict[str, float]) -> None:
    cluster = SharedCluster.uniform(1, 4)
    other = view(0, arrival_s=2.0, attained_s=4000.0, left_s=900.0)
    assert counts(baseline(name).assign(cluster, range(4), [other, view(1, **first)])) == {1: 4}  # type: ignore[arg-type]


def test_dominant_shares_are_evened_out() -> None:
    cluster = SharedCluster.uniform(2, 4)
    views = [view(0, held=(0, 1)), view(1), view(2)]
    assert counts(baseline("drf").assign(cluster, range(2, 8), views)) == {0: 1, 1: 3, 2: 2}  # 3, 3, 2
    assert counts(baseline("drf").assign(cluster, range(4, 8), views)) == {1: 2, 2: 2}


def test_optimus_gives_the_first_gpus_before_the_second() -> None:
    cluster = SharedCluster.uniform(2, 4)
    assert counts(baseline("optimus").assign(cluster, range(4), [view(i) for i in range(4)])) == dict.fromkeys(
        range(4), 1
    )
    # 1 -> 2 doubles the throughput, 3 -> 4 adds a third
    assert counts(baseline("optimus").assign(cluster, (4,), [view(0, held=(0, 1, 2)), view(1, held=(3,))])) == {1: 1}


def test_optimus_looks_at_where_the_next_gpu_is() -> None:
    """Two racks of two machines of two GPUs. One GPU more doubles an app's throughput only where it is near."""
    cluster = SharedCluster((Machine(2, 1, 0), Machine(2, 1, 0), Machine(2, 1, 1), Machine(2, 1, 1)))
    far = Slowdown(1.0, 1.0, 1.2, 1.6)
    next_to = [gain(cluster, view(0, held=(0,), slowdown=far), (0,), (g,)) for g in (1, 2, 4)]
    assert next_to == pytest.approx([2.0, 2 / 1.2, 2 / 1.6])
    assert gain(cluster, view(0, held=(0,), slowdown=FLAT), (0,), (4,)) == 2.0
    # App 0 has one GPU, and the one on offer is in another rack: 1.25. App 1 has two there, in its machine's rack: 1.5.
    apart, near = view(0, held=(0,), slowdown=far), view(1, held=(4, 5), slowdown=Slowdown(1.0, 1.0, 1.0, 1.6))
    for views in ([apart, near], [near, apart]):
        assert counts(baseline("optimus").assign(cluster, (6,), views)) == {1: 1}
    # Where distance costs nothing, the second GPU is worth more than the third.
    assert counts(baseline("optimus").assign(cluster, (6,), [view(0, held=(0,)), near])) == {0: 1}


@pytest.mark.parametrize("seed", range(20))
def test_farther_is_never_worth_more_to_optimus(seed: int) -> None:
    """Drawn apps and clusters: the gain of one GPU more falls, strictly where the app is slowed down, with distance."""
    rng = np.random.default_rng(seed)
    cluster = SharedCluster(tuple(Machine(2, 2, rack) for rack in (0, 0, 1)))
    slowdown = Slowdown(1.0, *np.cumprod(rng.uniform(1.01, 1.5, 3)).tolist())
    app = view(0, cap=8, held=(0,), slowdown=slowdown)
    gains = [gain(cluster, app, (0,), (g,)) for g in (2, 4, 8)]  # same machine (apps see no slots), rack, another rack
    assert gains == sorted(set(gains), reverse=True)
    have = tuple(range(int(rng.integers(1, 4))))
    nearest = gain(cluster, app, have, (3,))
    assert all(nearest >= gain(cluster, app, have, (g,)) for g in range(4, 12))


def test_gandiva_serves_who_is_well_placed_first() -> None:
    """Two GPUs of a machine and two of another: the app that distance costs nothing takes them; Figure 5's other
    app, which would lose 29 %, waits."""
    cluster = SharedCluster.uniform(2, 2)
    given = baseline("gandiva").assign(cluster, range(4), [view(0, slowdown=VGG16), view(1)])
    assert counts(given) == {1: 4}


def test_gandiva_migrates_where_others_keep_their_gpus() -> None:
    """The lease of a GPU of each of two machines is over, and both machines are free: two of one serve it better.
    Where distance costs nothing it stays, and so it does where only its own are free."""
    cluster = SharedCluster.uniform(2, 2)
    apart = replace(view(0, cap=2, slowdown=VGG16), lapsed=(0, 2))
    assert sorted(baseline("gandiva").assign(cluster, range(4), [apart])) == [0, 1]
    assert sorted(baseline("srtf").assign(cluster, range(4), [apart])) == [0, 2]
    assert sorted(baseline("gandiva").assign(cluster, (0, 2), [apart])) == [0, 2]
    alike = replace(view(0, cap=2), lapsed=(0, 2))
    assert sorted(baseline("gandiva").assign(cluster, range(4), [alike])) == [0, 2]


def test_a_word_for_ties_that_is_unknown_is_refused() -> None:
    with pytest.raises(InputError, match="ties: expected one of lot, first"):
        baseline("gandiva", ties="last")  # type: ignore[arg-type]


def test_slaq_serves_the_loss_that_falls_fastest() -> None:
    cluster = SharedCluster.uniform(1, 4)
    given = baseline("slaq").assign(cluster, range(4), [view(0, left_s=100.0), view(1, left_s=1000.0)])
    assert counts(given) == {1: 4}  # the first has most of its fall behind it


@pytest.mark.parametrize("name", BASELINES)
def test_nobody_gets_what_it_cannot_use(name: str) -> None:
    cluster = SharedCluster.uniform(2, 4)
    views = [view(0, cap=2), view(1, gang=4), view(2, cap=1, held=(0,))]
    given = baseline(name).assign(cluster, range(1, 8), views)
    got = counts(given)
    assert got.get(0, 0) <= 2
    assert got.get(1, 0) in (0, 4)
    assert 2 not in got
    # all GPUs that somebody can use are given: no policy idles
    assert sum(got.values()) == 6


def test_an_unknown_policy_is_named_with_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean 'gandiva'"):
        baseline("gandva")
    assert App("x", 0.0, (Job(1.0),), App.single("y", 0.0, 1.0).phases).total_work_s == 1
