"""`dozen`: a dozen apps of a few minutes, drawn so that no two things happen at the same instant by construction."""

from __future__ import annotations

from ...seeds import generator
from ...simulator.sharing.cluster import SharedCluster
from ...simulator.sharing.policy.learning import Beliefs
from ...simulator.sharing.workload.app import App, Job, Slowdown
from ...simulator.sharing.world import SharingWorld

__all__ = ["dozen"]


def dozen(
    seed: int = 0, *, apps: int = 12, machines: int = 2, gpus: int = 2, lease_s: float = 600.0,
    slowdown: Slowdown | None = None, beliefs: Beliefs | None = None,
) -> SharingWorld:  # fmt: skip
    """Make a small world: apps with one job, with several GPUs, and with successive halving, in turn.

    Times are those of Themis' testbed: leases of 10 minutes, 7.5 s for a checkpoint, 35 s for a container.

    Parameters
    ----------
    seed : int
        Seed of sizes and arrivals.
    apps : int
        How many.
    machines, gpus : int
        Machines, in racks of one, and GPUs of each: with two racks distance costs as the paper assumes.
    lease_s : float
        Seconds of a lease.
    slowdown : Slowdown, optional
        What distance costs; by default what the paper assumes.
    beliefs : Beliefs, optional
        Whether agents know that; by default they do.
    """
    slowdown, beliefs = slowdown or Slowdown(), beliefs or Beliefs()
    # Sizes are guesses: at Themis' leases an app has some, and at a hundred times real time a run takes a minute.
    random = generator(seed, "sharing dozen")
    arrivals = [0.0, *(random.exponential(300.0, apps - 1).cumsum().tolist())]
    made: list[App] = []
    for k, at in enumerate(arrivals):
        name, size_s = f"app {k}", float(random.uniform(900.0, 2400.0))
        if k % 3 == 0:
            made.append(App.single(name, at, size_s, gpus=2, slowdown=slowdown))
        elif k % 3 == 1:
            made.append(App.single(name, at, size_s, gpus=int(random.integers(1, 4)), slowdown=slowdown))
        else:
            jobs = [Job(float(s), 2) for s in random.uniform(8.0, 12.0, 4)]
            order = [int(j) for j in random.permutation(4)]
            made.append(App.halving(name, at, jobs, size_s, order=order, slowdown=slowdown))
    cluster = SharedCluster.uniform(machines, gpus, machines_per_rack=1)
    return SharingWorld(cluster, tuple(made), lease_s=lease_s, beliefs=beliefs)
