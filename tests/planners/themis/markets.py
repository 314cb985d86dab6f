"""Auctions of a whole cluster: apps of one job each or of several, as agents bid."""

from __future__ import annotations

from meshwright.planners.themis import Bid, bid_of
from meshwright.seeds import generator
from meshwright.simulator.sharing import AppView, Job, SharedCluster, Slowdown
from meshwright.simulator.sharing.policy.split import RunningJob
from meshwright.simulator.sharing.workload.app import App, Phase


def market(cluster: SharedCluster, seed: int, n: int = 12, most: int = 32) -> tuple[Bid, ...]:
    """`n` apps that have nothing and could use 2 to `most` GPUs each; two thirds of them mind distance."""
    rng = generator(seed, "themis market")
    offered = tuple(range(cluster.n_gpus))
    bids: list[Bid] = []
    for a in range(n):
        demand, each = int(rng.integers(2, most + 1)), int(rng.choice([1, 2, 4, 8]))
        count = max(1, demand // each)
        jobs = tuple(Job(1.0, each) for _ in range(count))
        works = tuple((rng.uniform(0.5, 20, count) * 3600).tolist())
        far = Slowdown(1.0, 1.0, *sorted(rng.uniform(1.02, 1.6, 2).tolist())) if rng.random() < 0.67 else Slowdown()
        app = App(f"app {a}", 0.0, jobs, (Phase(tuple(range(count)), works),), "jobs", far)
        running = tuple(RunningJob(j, w, each, 1) for j, w in enumerate(works))
        now = float(rng.uniform(0, 4e4))
        view = AppView(a, app, now, 0, running, (), (), 0.0, float(rng.uniform(2, 30)), cluster.n_gpus)
        bids.append(bid_of(cluster, offered, view))
    return tuple(bids)
