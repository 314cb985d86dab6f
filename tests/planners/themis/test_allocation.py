"""Proportionally fair allocations against brute force over every way of taking GPUs from machines, and payments."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.planners.themis import Bid, Had, Market, Place, Row, Themis, auction
from meshwright.seeds import generator
from meshwright.simulator.sharing import (
    App,
    Greedy,
    Job,
    Machine,
    SharedCluster,
    SharingWorld,
    simulate_reference,
    themis_testbed,
)

STARVED = -1e4


def log(row: Row) -> float:
    return -math.log(row.rho) if row.rho < math.inf else STARVED


def is_of(row: Row, counts: Sequence[int], rack: Sequence[int]) -> bool:
    """Whether GPUs, so many from each machine, are an allocation of the row's kind."""
    if sum(counts) != row.gpus:
        return False
    if row.gpus == 0 or row.place == Place.ANYWHERE:
        return True
    used = [m for m, n in enumerate(counts) if n]
    if row.place == Place.RACK:
        racks = {rack[m] for m in used}
        return len(racks) == 1 and (row.region < 0 or racks == {row.region})
    if row.region >= 0:
        return used == [row.region]
    rests = [n % row.group for n in counts if n % row.group]
    return rests == ([row.gpus % row.group] if row.gpus % row.group else [])


def best_by_force(cluster: SharedCluster, offered: Sequence[int], bids: Sequence[Bid]) -> float:
    free = np.bincount(cluster.machine_of[list(offered)], minlength=len(cluster.machines)).tolist()
    rack = [m.rack for m in cluster.machines]
    options: list[dict[tuple[int, ...], float]] = []
    for bid in bids:
        worth: dict[tuple[int, ...], float] = {}
        for counts in itertools.product(*(range(n + 1) for n in free)):
            values = [log(row) for row in bid.rows if is_of(row, counts, rack)]
            if values:
                worth[counts] = max(values)
        options.append(worth)

    @cache
    def go(k: int, left: tuple[int, ...]) -> float:
        if k == len(bids):
            return 0.0
        return max(
            value + go(k + 1, tuple(b - a for a, b in zip(counts, left, strict=True)))
            for counts, value in options[k].items()
            if all(a <= b for a, b in zip(counts, left, strict=True))
        )

    return go(0, tuple(free))


def drawn(seed: int) -> tuple[SharedCluster, tuple[int, ...], tuple[Bid, ...]]:
    rng = generator(seed, "auction")
    machines = [Machine(int(rng.integers(1, 4)), 1, int(rng.integers(0, 2))) for _ in range(int(rng.integers(1, 5)))]
    cluster = SharedCluster(tuple(machines))
    offered = tuple(g for g in range(cluster.n_gpus) if rng.random() < 0.85) or (0,)
    bids: list[Bid] = []
    for app in range(int(rng.integers(1, 5))):
        rows = [Row(0, math.inf if rng.random() < 0.4 else float(rng.uniform(3, 6)))]
        for _ in range(int(rng.integers(1, 7))):
            n, place, region, group = int(rng.integers(1, 6)), Place(int(rng.integers(0, 3))), -1, 0
            named = rng.random() < 0.3
            if place == Place.MACHINES:
                group = n if named else int(rng.integers(1, n + 1))
                region = int(rng.integers(0, len(machines))) if named else -1
            elif place == Place.RACK and named:
                region = int(rng.integers(0, 1 + max(m.rack for m in machines)))
            rows.append(Row(n, float(rng.uniform(0.2, 3)), place, group, region))
        bids.append(Bid(app, tuple(rows)))
    return cluster, offered, tuple(bids)


@pytest.mark.parametrize("block", range(10))
def test_allocations_are_the_best_there_are(block: int) -> None:
    for seed in range(20 * block, 20 * block + 20):
        cluster, offered, bids = drawn(seed)
        found = Market(cluster, offered, bids).best()
        assert sum(map(log, found.rows.values())) == pytest.approx(best_by_force(cluster, offered, bids), abs=1e-9)
        assert found.gap == 0


@pytest.mark.parametrize("seed", range(200, 260))
def test_what_is_given_is_of_the_kind_that_was_bid_for(seed: int) -> None:
    cluster, offered, bids = drawn(seed)
    outcome = auction(cluster, offered, bids, payments=False)
    rack = [m.rack for m in cluster.machines]
    given = [g for gpus in outcome.gpus.values() for g in gpus]
    assert len(given) == len(set(given))
    assert sorted([*given, *outcome.leftover]) == sorted(offered)
    for app, gpus in outcome.gpus.items():
        counts = np.bincount(cluster.machine_of[list(gpus)], minlength=len(rack)).tolist()
        assert is_of(outcome.allocation.rows[app], counts, rack)


@pytest.mark.parametrize("seed", range(260, 300))
def test_payments_are_what_the_others_lose(seed: int) -> None:
    cluster, offered, bids = drawn(seed)
    outcome = auction(cluster, offered, bids, rounding="floor")
    for app, row in outcome.allocation.rows.items():
        others = tuple(b for b in bids if b.app != app)
        if not row.gpus or not others:
            assert outcome.share[app] == 1
            continue
        with_app = [log(outcome.allocation.rows[b.app]) for b in others]
        if STARVED in with_app or any(b.empty_rho == math.inf for b in others):
            assert 0 < outcome.share[app] <= 1  # some run in one of the two only; see `kept_share`
            continue
        without = best_by_force(cluster, offered, others)
        assert outcome.share[app] == pytest.approx(math.exp(sum(with_app) - without), rel=1e-9)
        keeps = math.floor(outcome.share[app] * row.gpus + 1e-6)
        least = next(b.least for b in bids if b.app == app)
        assert len(outcome.gpus.get(app, ())) == (keeps if keeps >= least else 0)


def test_gpus_stay_with_whoever_had_them() -> None:
    cluster = SharedCluster.uniform(4, 4)
    rows = (Row(0, math.inf), Row(4, 1.0, Place.MACHINES, 4))
    bids = [Bid(a, rows) for a in range(4)]
    before = {0: range(8, 12), 1: range(4), 2: range(12, 16), 3: range(4, 8)}
    outcome = auction(cluster, range(16), bids, had=Had(before=before), payments=False)
    assert outcome.gpus == {app: tuple(gpus) for app, gpus in before.items()}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ((Row(1, 1.0),), "missing the empty allocation"),
        ((Row(0, math.inf), Row(1, math.nan)), "expected a positive number"),
        ((Row(0, math.inf), Row(1, -1.0)), "expected a positive number"),
        ((Row(0, math.inf), Row(2, 1.0, Place.MACHINES, 3)), "expected 1 … 2 GPUs on a machine"),
    ],
)
def test_bad_bids_are_refused(rows: tuple[Row, ...], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Bid(7, rows)


@pytest.mark.parametrize("f", [-0.1, 1.1, math.nan])
def test_fairness_is_a_share(f: float) -> None:
    with pytest.raises(InputError, match=r"in \[0, 1\]"):
        Themis(fairness=f)


def test_apps_under_themis_all_end_and_starve_less_than_first_come_first_served() -> None:
    rng = generator(0, "themis world")
    apps: list[App] = []
    at = 0.0
    for i in range(10):
        at += float(rng.exponential(200))
        jobs = [Job(float(rng.uniform(20, 60)), 4) for _ in range(int(rng.integers(1, 6)))]
        apps.append(App.halving(f"app {i}", at, jobs, float(rng.uniform(5e4, 2e5))))
    world = SharingWorld(themis_testbed(), tuple(apps))
    fair = simulate_reference(world, Themis())
    fifo = simulate_reference(world, Greedy("fifo", lambda v: v.app.arrival_s, preempts=False))
    assert fair.completed.all()
    assert fair.rho.max() < fifo.rho.max()
