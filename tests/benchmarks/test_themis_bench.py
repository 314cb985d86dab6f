"""Milliseconds of an auction with payments against one bare solve of the mixed-integer programme; only printed."""

import time

import numpy as np
import pytest
from market_milp import best_by_milp
from markets import market
from meshwright.planners.themis import Themis, auction
from meshwright.seeds import generator
from meshwright.simulator.sharing import App, Job, SharingWorld, simulate, themis_256, themis_testbed


@pytest.mark.parametrize(("name", "most"), [("64", 32), ("256", 32), ("256", 64)])
def test_an_auction(name, most, benchmark):
    cluster, steps, runs = themis_testbed() if name == "64" else themis_256(), 2_000_000, 40
    offered = tuple(range(cluster.n_gpus))
    auction(cluster, offered, market(cluster, 10**6))
    seconds, gaps, bare = [], [], []
    for seed in range(runs):
        bids = market(cluster, seed, most=most)
        begin = time.thread_time()
        outcome = auction(cluster, offered, bids, steps=steps)
        seconds.append(time.thread_time() - begin)
        gaps.append(outcome.gap)
        if seed < 3 and name == "64":
            begin = time.thread_time()
            best_by_milp(cluster, offered, bids)
            bare.append(time.thread_time() - begin)
    ms = 1e3 * np.percentile(seconds, [50, 95, 100])
    print(
        f"\n{name} GPUs, 12 apps of up to {most}: with payments {ms[0]:.1f} ms median, {ms[1]:.1f} ms p95, "
        f"{ms[2]:.1f} ms at most of {runs}; {sum(g > 0 for g in gaps)} not proven (gap at most {max(gaps):.2g})"
    )
    if bare:
        print(f"one solve by scipy.milp, without payments: {1e3 * np.median(bare):.0f} ms median of {len(bare)}")
    benchmark.pedantic(lambda: auction(cluster, offered, bids, steps=steps), rounds=2)


def test_a_simulation(benchmark):
    rng = generator(0, "themis speed")
    at, apps = 0.0, []
    for i in range(200):
        at += float(rng.exponential(1200))
        jobs = [Job(float(rng.uniform(20, 60)), int(rng.choice([1, 2, 4]))) for _ in range(int(rng.integers(1, 33)))]
        apps.append(App.halving(f"app {i}", at, jobs, float(rng.lognormal(12, 1))))
    world = SharingWorld(themis_testbed(), tuple(apps))
    simulate(SharingWorld(themis_testbed(), tuple(apps[:2])), Themis())
    policy, begin = Themis(), time.thread_time()
    result = simulate(world, policy)
    seconds, jobs = time.thread_time() - begin, sum(len(a.jobs) for a in apps)
    print(
        f"\n64 GPUs, 200 apps, {jobs} jobs, {policy.auctions} auctions: {seconds:.2f} s, {jobs / seconds:.0f} jobs per "
        f"CPU second, max rho {result.rho.max():.2f}"
    )
    benchmark.pedantic(lambda: simulate(world, Themis()), rounds=1)
