"""What Themis' figures are measured on: workloads, clusters, policies, and one simulation after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
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
    SharingWorld,
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
from ....simulator.sharing.result.metrics import bootstrap
from ....simulator.sharing.workload.statistics import app_gpu_s
from ...report import Frame, Progress
from ...style import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILLION

__all__ = [
    "COLOURS", "ITERATION_SPREAD", "NOTES", "POLICIES", "Outcome", "Point", "apps_of", "frame_of", "measured",
    "over_themis", "policy_of", "seeds_of", "shown", "world_of",
]  # fmt: skip

POLICIES = ("themis", "gandiva", "slaq", "tiresias", "srtf", "srsf", "optimus")
"""In the paper's order."""

COLOURS: Mapping[str, str] = MappingProxyType(
    dict(zip(POLICIES, (BLUE, VERMILLION, GREY, GREEN, ORANGE, PURPLE, BLACK), strict=True))
)

BLIND = ("slaq", "tiresias", "srtf", "srsf")
"""Policies that "do not account for placement preferences" (§6.2.1)."""

APPS, SCALE = 24, 1 / 4
"""A quarter of the trace's work: half of Workload 1's apps then live longer than five hours under Themis, of which the
35 s of a container are 0.2 %, as on the paper's testbed (§6.2.3). Measured on other seeds than the figures'."""

DEMAND = 50 / 64
"""Work that arrives, over what the cluster can do until the last arrival: about 50 GPUs (Fig. 1), held to 64."""

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


@dataclass(frozen=True)
class Outcome:
    """What figures need of a simulation: metrics, ρ by app, and (placement score, allocations)."""

    metrics: SharingMetrics
    rho: tuple[float, ...]
    placement: tuple[tuple[float, int], ...]


def cluster_of(point: Point) -> SharedCluster:
    """The testbed, or a quarter of each kind of machine of the 256-GPU cluster: 4 x 8, 7 x 4, 4 x 1."""
    whole = contended(themis_256(), 4) if point.heterogeneous else themis_testbed()
    return contended(whole, point.contention) if point.contention > 1 else whole


@lru_cache(maxsize=256)
def apps_of(workload: int, seed: int, intensive: float | None, error: float, doubling: bool) -> tuple[App, ...]:
    """A workload, its arrivals spread such that the demand is as in Fig. 1 (on 64 GPUs)."""
    make = {1: workload1, 2: workload2}[workload]
    options = WorkloadOptions(
        seed=seed, apps=APPS, scale=SCALE, network_intensive=intensive, error=error, doubling=doubling
    )
    work_s = float(app_gpu_s(make(options)).sum())
    return make(replace(options, span_s=work_s / (DEMAND * 64)))


def world_of(point: Point) -> SharingWorld:
    """Build the cluster with its apps that a point simulates."""
    apps = apps_of(point.workload, point.seed, point.intensive, point.error, point.doubling and point.workload == 2)
    # The middle of the paper's 5 to 10 s for a checkpoint, and its median of 35 s for a container.
    return SharingWorld(
        cluster_of(point), apps, lease_s=point.lease_s, checkpoint_s=7.5, container_s=35.0, containers="app",
        beliefs=Beliefs(point.belief, spread=ITERATION_SPREAD, seed=point.seed),
    )  # fmt: skip


def policy_of(point: Point) -> Policy:
    """Build the policy that a point runs under."""
    if point.policy == "themis":
        return Themis(fairness=point.fairness, seed=point.seed)
    return baseline(point.policy, point.lease_s, "blind" if point.policy in BLIND else "near", point.seed)


@lru_cache(maxsize=4096)
def measured(point: Point) -> Outcome:
    """Simulate a point; several figures show the same ones."""
    result = simulate(world_of(point), policy_of(point))
    scores, counts = placement_scores(result)
    rows = tuple(zip(scores.tolist(), counts.tolist(), strict=True))
    return Outcome(sharing_metrics(result), tuple(result.rho.tolist()), rows)


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


NOTES = (
    f"{APPS} apps of the drawn workloads, work divided by {1 / SCALE:g}, so that 35 s are 0.2 % of the median app's "
    "life (§6.2.3); arrivals spread such that work for about 50 of 64 GPUs arrives (Fig. 1). The trace is not public",
    "GPUs that are new to an app cost 35 s, a job that goes on elsewhere 7.5 s more; leases last 10 minutes",
    "slaq, tiresias, srtf and srsf give GPUs without regard to where they are (§6.2.1)",
    "Workload 2: a job may use 1, 2, 4 … GPUs in the phases (§4.3.2). With the same number in all phases (§4.3.3) the "
    "last phases cannot use what T_id counts on, and ρ ≤ 1 is out of reach for an app that is alone",
    "figures are medians over seeds, in brackets the 90 % bootstrap interval; all policies see the same apps",
)
