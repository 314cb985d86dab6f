"""The lying app (Themis §6.3, Figure 18): one of eight apps claims that distance slows it down more than it does.

The cluster has 64 GPUs: one machine of 8 and 28 machines of 2. The eight apps are alike; each has one job. The paper
gives neither their slowdown, nor their length, nor how many GPUs they can use, nor how c·n GPUs are rounded. These are
parameters here, and their defaults are guesses, but for one thing: what the liar loses goes "to other apps", so that
eight apps must be able to use more than the 64 GPUs. Sixteen each is the least power of two with which they can.

A liar that claims a slowdown of S·(1 + X) prefers the 8 GPUs of the large machine to 16 that are apart as soon as
S·(1 + X) > 2. From there on it bids for less than it could use: it tips at X = 2/S - 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...errors import InputError
from ...reprs import Shown
from ...simulator.sharing.cluster import Machine, SharedCluster
from ...simulator.sharing.simulate import simulate
from ...simulator.sharing.workload.app import App, Slowdown
from ...simulator.sharing.world import SharingWorld
from .policy import Themis

__all__ = ["Lie", "lying_cluster", "lying_world", "lying_experiment", "tipping_point"]


@dataclass(frozen=True, slots=True, repr=False)
class Lie(Shown):
    """One lie, and its outcome.

    Parameters
    ----------
    percent : float
        X: how much the slowdown across machines is overstated, in percent.
    liar_s, others_s : float
        Completion time of the liar, and the mean of the truthful apps, in seconds; means over seeds.
    liar_gpu_s : float
        GPU-seconds that the liar had; mean over seeds.
    """

    percent: float
    liar_s: float
    others_s: float
    liar_gpu_s: float


def lying_cluster() -> SharedCluster:
    """One machine of 8 GPUs and 28 of 2 in one rack."""
    return SharedCluster((Machine(8), *(Machine(2) for _ in range(28))))


def lying_world(
    percent: float, *, slowdown: float = 1.3, hours: float = 40.0, lease_s: float = 600.0, gpus: int = 16
) -> SharingWorld:
    """Eight apps that arrive at once; the first overstates its slowdown across machines by `percent`.

    Parameters
    ----------
    percent : float
        X ≥ 0, by how many percent the liar overstates.
    slowdown : float
        True slowdown across machines.
    hours : float
        GPU-hours of each app.
    lease_s : float
        Length of a lease in seconds; 10 minutes is the paper's default.
    gpus : int
        GPUs that each app's job can use. With 8 all have what they can use, and only its place is contended for.

    Raises
    ------
    InputError
        If X is negative.
    """
    if not percent >= 0:
        raise InputError(f"lying_world: percent: expected a number >= 0 (got {percent})")
    true = Slowdown(1.0, 1.0, slowdown, slowdown)
    said = slowdown * (1 + percent / 100)
    apps = [App.single(f"app {i}", 0.0, hours * 3600, gpus=gpus, slowdown=true) for i in range(8)]
    apps[0] = replace(apps[0], believed_slowdown=Slowdown(1.0, 1.0, said, said))
    return SharingWorld(lying_cluster(), tuple(apps), lease_s=lease_s)


def lying_experiment(
    percents: Sequence[float] = tuple(range(0, 101, 5)), *, policy: Themis | None = None, seeds: int = 10,
    slowdown: float = 1.3, hours: float = 40.0, lease_s: float = 600.0, gpus: int = 16,
) -> tuple[Lie, ...]:  # fmt: skip
    """Completion times of the liar and of the truthful apps, for each X.

    Parameters
    ----------
    percents : sequence of float
        Values of X.
    policy : Themis, optional
        Settings of the policy. By default all apps take part (f = 0) and payments stay idle, so that paying hurts: if
        participants got the leftovers, the payer could receive its own GPUs back.
    seeds : int
        Number of seeds of the policy (for leftovers and for the lots of payments) over which means are taken.
    slowdown, hours, lease_s, gpus : float
        See `lying_world`.

    Raises
    ------
    InputError
        If there are no seeds, or `lying_world` refuses.
    """
    if seeds < 1:
        raise InputError(f"lying_experiment: seeds: expected an integer >= 1 (got {seeds})")
    policy = policy or Themis(fairness=0.0, leftovers="idle")
    found: list[Lie] = []
    for percent in percents:
        world = lying_world(percent, slowdown=slowdown, hours=hours, lease_s=lease_s, gpus=gpus)
        rows: list[tuple[float, float, float]] = []
        for seed in range(seeds):
            result = simulate(world, replace(policy, seed=seed))
            ends = result.completion_s
            rows.append((float(ends[0]), float(ends[1:].mean()), float(result.gpu_seconds[0])))
        liar, others, gpu = np.mean(rows, axis=0).tolist()
        found.append(Lie(percent, liar, others, gpu))
    return tuple(found)


def tipping_point(lies: Sequence[Lie], loss: float = 0.05) -> float | None:
    """The least X from which on lying costs: the liar ends later than with the truth by more than the share `loss`.

    None if there is no such X. The default of 5 % is a guess that stands above the noise of ten seeds.
    """
    if not lies:
        return None
    truth = lies[0].liar_s
    for k in range(len(lies)):
        if all(lie.liar_s > truth * (1 + loss) for lie in lies[k:]):
            return lies[k].percent
    return None
