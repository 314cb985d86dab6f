"""What Themis' figures are measured on: workloads, clusters, policies, and one simulation after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Literal

import numpy as np

from ....planners.themis import Themis
from ....simulator.sharing import (
    App,
    Beliefs,
    Policy,
    SharedCluster,
    SharingMetrics,
    SharingResult,
    SharingWorld,
    Slowdown,
    WorkloadOptions,
    baseline,
    contended,
    placement_scores,
    sharing_metrics,
    simulate,
    themis_256,
    themis_testbed,
    workload1,
    workload2,
)
from ....simulator.sharing.policy.nearness import Chooser
from ....simulator.sharing.policy.offers import LargestGain, Ties
from ....simulator.sharing.result.metrics import bootstrap
from ....simulator.sharing.workload.statistics import app_gpu_s
from ....simulator.sharing.world import LeaseEnds
from ...report import Frame, Progress
from ...style import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILLION

__all__ = [
    "COLOURS", "DEMAND", "ITERATION_SPREAD", "NOTES", "POLICIES", "Outcome", "Point", "apps_of", "frame_of", "measured",
    "competing", "costlier", "over_themis", "policy_of", "seeds_of", "shown", "world_of",
]  # fmt: skip

POLICIES = ("themis", "gandiva", "slaq", "tiresias", "srtf", "srsf", "optimus")
"""In the paper's order."""

COLOURS: Mapping[str, str] = MappingProxyType(
    dict(zip(POLICIES, (BLUE, VERMILLION, GREY, GREEN, ORANGE, PURPLE, BLACK), strict=True))
)

BLIND = ("slaq", "tiresias", "srtf", "srsf")
"""Policies that "do not account for placement preferences" (§6.2.1)."""

APPS, WORK_HOURS = 85, 1000.0
"""Apps of the trace (§2.2), and their work in GPU hours: the bars of Fig. 11 end below the axis' 1200."""

DEMAND = 2.0
"""Work that arrives, over what the cluster could do until the last arrival. With `SPREAD` it makes two figures that
§6.2.3 prints: of the median app's life under Themis in Workload 1, 35 s are 0.2 %, which is five hours, and of the
shortest ones' (the 5th percentile), 50 s are 2 %, which is 42 minutes. Measured on other seeds than the figures'."""

SPREAD = 0.5
"""How far apart apps' lengths are beside the trace's. At 1, most apps would be over in minutes, and no contention makes
the median app live for five hours on 1000 GPU hours."""

ITERATION_SPREAD = 0.06
"""Standard deviation of an iteration's time over its mean, where agents measure it. Of the same work of some ten
milliseconds on one machine of two cores 90 % took 0.95 to 1.13 times the median (November 2026): were it normal, a
standard deviation of (1.13 - 0.95)/3.29. What it is on GPUs, the paper does not say."""


@dataclass(frozen=True)
class Point:
    """What is varied between the simulations behind Themis' figures.

    Parameters
    ----------
    policy : str
        Name of a policy, one of `POLICIES`.
    workload : {1, 2}
        Which of the paper's two workloads runs.
    seed : int
        Seed of the workload, and of the draws by which Themis allots GPUs that nobody won.
    heterogeneous : bool
        Whether the cluster is the simulated one of mixed machines instead of the testbed.
    contention : int
        The cluster's size is divided by this number, while the workload stays.
    intensive : float, optional
        Share of network-intensive apps.
    error : float
        The agents' error X of Fig. 17.
    fairness, lease_s : float
        The fairness knob f, and the seconds for which a grant binds.
    doubling : bool
        In Workload 2, whether a job's GPUs double with each phase (§4.3.2) or are the same in all phases (§4.3.3).
    belief : {"known", "assumed", "learned"}
        Whether agents know what distance costs, go by footnote 3's start values, or measure it from there.
    excess : float
        Factor on what distance costs all models beyond nothing: Table 1 is of P100s, the testbed had K80s.
    demand : float
        Work that arrives, over what 64 GPUs could do until the last arrival.
    spread : float
        How far apart apps' lengths are beside the trace's.
    ties : {"lot", "first"}
        Who wins under other policies where apps' offers are worth the same.
    lease_ends : {"together", "apart"}
        Whether leases end together, so that all GPUs are on offer in each round: the arbiter "pools available
        resources and runs a round" (§4.2.2). Apart, one GPU is on offer in the median round, for which no agent needs
        29 ms to list its bids and no arbiter 354 ms to solve the auction (§6.2.3).
    gain_once : bool
        How Optimus is read, see `LargestGain`.
    payments : bool
        Whether winners pay under Themis.
    waiting : int
        Apps that are there when the replay begins; the others come after them as drawn. With 1 the first ones have the
        cluster to themselves, and their ρ, above 1, is the same under every policy.
    """

    policy: str
    workload: int = 2
    seed: int = 0
    heterogeneous: bool = False
    contention: int = 1
    intensive: float | None = None
    error: float = 0.0
    fairness: float = 0.8
    lease_s: float = 600.0
    doubling: bool = True
    belief: Literal["known", "assumed", "learned"] = "known"
    excess: float = 1.0
    demand: float = DEMAND
    spread: float = SPREAD
    ties: Ties = "lot"
    lease_ends: LeaseEnds = "together"
    gain_once: bool = False
    payments: bool = True
    waiting: int = 1

    @property
    def apps(self) -> tuple[App, ...]:
        """Its workload."""
        doubling = self.doubling and self.workload == 2
        drawn = WorkloadOptions(
            seed=self.seed, apps=APPS, network_intensive=self.intensive, error=self.error, doubling=doubling,
            spread=self.spread, exploring=True,
        )  # fmt: skip
        apps = apps_of(self.workload, drawn, self.excess, self.demand)
        begin_s = apps[self.waiting - 1].arrival_s
        return tuple(replace(a, arrival_s=max(0.0, a.arrival_s - begin_s)) for a in apps) if begin_s else apps


@dataclass(frozen=True)
class Crowd:
    """How many apps compete, over the time in which there are any.

    Parameters
    ----------
    apps, most : float
        Apps in the cluster, on average and at most.
    bidders : float
        Apps that may bid, on average: the share 1 − f of those that are there, at least one.
    alone : float
        Share of the time in which a single one may bid.
    """

    apps: float
    most: float
    bidders: float
    alone: float

    @classmethod
    def of(cls, result: SharingResult, fairness: float) -> Crowd:
        """Count the apps between any two instants at which one comes or goes."""
        come = np.array([a.arrival_s for a in result.world.apps])
        at = np.unique(np.concatenate((come, result.finish)))
        seconds = np.diff(at)
        there = (come[:, None] <= at[:-1]).sum(axis=0) - (result.finish[:, None] <= at[:-1]).sum(axis=0)
        seconds = seconds * (there > 0)
        bid = np.maximum(1, np.ceil((1 - fairness) * there - 1e-9))
        mean = partial(np.average, weights=seconds)
        return cls(float(mean(there)), float(there.max()), float(mean(bid)), float(mean(bid == 1)))


@dataclass(frozen=True)
class Outcome:
    """What figures need of a simulation: metrics, ρ by app, (placement score, allocations), and who competes."""

    metrics: SharingMetrics
    rho: tuple[float, ...]
    placement: tuple[tuple[float, int], ...]
    crowd: Crowd


def cluster_of(point: Point) -> SharedCluster:
    """The testbed, or a quarter of each kind of machine of the 256-GPU cluster: 4 x 8, 7 x 4, 4 x 1."""
    whole = contended(themis_256(), 4) if point.heterogeneous else themis_testbed()
    return contended(whole, point.contention) if point.contention > 1 else whole


@lru_cache(maxsize=256)
def apps_of(workload: int, drawn: WorkloadOptions, excess: float, demand: float) -> tuple[App, ...]:
    """A workload of `WORK_HOURS`, or as much of it as there are apps, its arrivals spread to make a demand."""
    make = {1: workload1, 2: workload2}[workload]
    work_s = WORK_HOURS * 3600 * drawn.apps / 85
    scale = work_s / float(app_gpu_s(make(drawn)).sum())
    apps = make(replace(drawn, scale=scale, span_s=work_s / (demand * 64)))
    return apps if excess == 1 else tuple(replace(a, slowdown=costlier(a.slowdown, excess)) for a in apps)


def costlier(slowdown: Slowdown, excess: float) -> Slowdown:
    """A slowdown whose part above 1 is so many times larger."""
    return Slowdown(*(1.0 + excess * (level - 1.0) for level in slowdown.levels))


def world_of(point: Point) -> SharingWorld:
    """Build the cluster with its apps that a point simulates."""
    # The middle of the paper's 5 to 10 s for a checkpoint, and its median of 35 s for a container.
    return SharingWorld(
        cluster_of(point), point.apps, lease_s=point.lease_s, checkpoint_s=7.5, container_s=35.0, containers="app",
        beliefs=Beliefs(point.belief, spread=ITERATION_SPREAD, seed=point.seed), lease_ends=point.lease_ends,
    )  # fmt: skip


def policy_of(point: Point) -> Policy:
    """Build the policy that a point runs under."""
    if point.policy == "themis":
        return Themis(fairness=point.fairness, payments=point.payments, seed=point.seed)
    if point.policy == "optimus" and point.gain_once:
        return LargestGain("optimus", chooser=Chooser("near", point.seed), ties=point.ties, once=True)
    return baseline(point.policy, point.lease_s, "blind" if point.policy in BLIND else "near", point.seed, point.ties)


@lru_cache(maxsize=4096)
def measured(point: Point) -> Outcome:
    """Simulate a point; several figures show the same ones."""
    result = simulate(world_of(point), policy_of(point))
    scores, counts = placement_scores(result)
    rows = tuple(zip(scores.tolist(), counts.tolist(), strict=True))
    return Outcome(sharing_metrics(result), tuple(result.rho.tolist()), rows, Crowd.of(result, point.fairness))


def seeds_of(seed: int, n: int) -> tuple[int, ...]:
    """Workload seeds of a run."""
    return tuple(range(1000 * seed, 1000 * seed + n))


def frame_of(points: Sequence[Point], progress: Progress) -> Frame:
    """A row per point: what it is, and its metrics."""
    import pandas as pd

    rows: list[dict[str, object]] = []
    for k, p in enumerate(points):
        progress(k, len(points), f"{p.policy}, workload {p.workload}, seed {p.seed}")
        m = measured(p).metrics
        rows.append(vars(p) | {name: getattr(m, name) for name in m.__slots__})
    progress(len(points), len(points), "")
    return pd.DataFrame(rows)


def over_themis(frame: Frame, column: str) -> Mapping[str, tuple[float, ...]]:
    """Divide other policies' figure by Themis', seed by seed (all policies see the same apps)."""
    wide = frame.pivot(index="seed", columns="policy", values=column)
    return {p: tuple((wide[p] / wide["themis"]).tolist()) for p in POLICIES if p != "themis" and p in wide}


def shown(values: Sequence[float], form: str = "{:.2f}") -> str:
    """The median over seeds with its bootstrap interval."""
    i = bootstrap(np.asarray(values))
    return f"{form.format(i.value)} [{form.format(i.low)}, {form.format(i.high)}]"


def competing(points: Sequence[Point]) -> str:
    """How many apps compete, and bid, under Themis at these points: a note."""
    crowds = [measured(p).crowd for p in points if p.policy == "themis"]

    def middle(name: str) -> float:
        return float(np.median([getattr(c, name) for c in crowds]))

    return (
        f"under Themis {middle('apps'):.0f} apps compete on average, {middle('most'):.0f} at most; "
        f"{middle('bidders'):.1f} may bid in a round, a single one {middle('alone'):.0%} of the time (medians of draws)"
    )


NOTES = (
    f"{APPS} apps (§2.2) of {WORK_HOURS:.0f} GPU hours (Fig. 11) that explore hyper-parameters (§6.1), drawn: the "
    f"trace is not public. Until the last arrival they bring {DEMAND:g} times what 64 GPUs can do, and their lengths "
    f"are {SPREAD:g} as far apart as the trace's (logarithms), so that 35 s are 0.2 % of the median app's life, and "
    "50 s are 2 % of the shortest ones' (§6.2.3)",
    "GPUs that are new to an app cost 35 s, a job that goes on elsewhere 7.5 s more; leases last 10 minutes",
    "slaq, tiresias, srtf and srsf give GPUs without regard to where they are (§6.2.1)",
    "Workload 2: a job may use 1, 2, 4 … GPUs in the phases (§4.3.2). With the same number in all phases (§4.3.3) the "
    "last phases cannot use what T_id counts on, and ρ ≤ 1 is out of reach for an app that is alone",
    "figures are medians over seeds, in brackets the 90 % bootstrap interval; all policies see the same apps",
)
