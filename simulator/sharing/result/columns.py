"""`SharingResult`: what came out of sharing a cluster: a row per app, and the metrics on them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from ....reprs import Shown
from ...metrics import goodput
from ...summary import Summary
from ..world import SharingWorld
from .grants import Grant, Grants

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["AppRecord", "Grant", "SharingResult", "Spell"]

Floats = npt.NDArray[np.float64]

FAIR = 1.0 + 1e-9
"""The largest ρ that counts as 1. Finish times are differences of large numbers, whose last digits are rounding."""


class AppRecord(NamedTuple):
    """Outcome of one app. Times in seconds; `contention` is the mean number of apps in the cluster during its life."""

    app: int
    start_s: float
    finish_s: float
    completed: bool
    gpu_s: float
    contention: float
    placed: tuple[int, ...] = (0, 0, 0, 0)  # allocations of its jobs, by `Level`


class Spell(NamedTuple):
    """A job with the same GPUs all the while: it stands still until `resumes_s`, then works."""

    app: int
    phase: int
    job: int
    start_s: float
    resumes_s: float
    end_s: float
    gpus: tuple[int, ...]


@dataclass(frozen=True, eq=False, repr=False)
class SharingResult(Shown):
    """Outcome of every app, as columns in the order of the world's apps.

    Parameters
    ----------
    world : SharingWorld
        The simulated world.
    policy : str
        Name of the policy.
    start, finish, gpu_seconds, contention : ndarray, shape (n_apps,)
        When each app first had a GPU and when it ended, seconds; GPU seconds that it held; N_avg.
    completed : ndarray of bool, shape (n_apps,)
        Whether its work was done; if not, it failed.
    grants : sequence of Grant
        The policy's decisions, in order of time.
    placed : ndarray of int, shape (n_apps, 4)
        How often jobs of an app got other GPUs than before, by how far apart these are (`Level`).
    spells : tuple of Spell
        Which GPUs each job had from when to when, sorted by the end; only the SimPy reference records them.
    """

    world: SharingWorld
    policy: str
    start: Floats
    finish: Floats
    gpu_seconds: Floats
    contention: Floats
    completed: npt.NDArray[np.bool_]
    grants: Sequence[Grant]
    placed: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 4), dtype=np.int64))
    spells: tuple[Spell, ...] = ()

    @classmethod
    def of(
        cls, world: SharingWorld, policy: str, records: Mapping[int, AppRecord], grants: Sequence[Grant],
        spells: Sequence[Spell] = (),
    ) -> SharingResult:  # fmt: skip
        """Put records together.

        Raises
        ------
        InputError
            If an app never ended.
        """
        endless = [i for i in range(len(world.apps)) if i not in records]
        if endless:
            others = f", nor have {len(endless) - 1} others" if len(endless) > 1 else ""
            end = world.horizon_s
            by = f"by {end:g} s" if math.isfinite(end) else "when nothing can happen any more"
            if end != world.max_s:
                others += f" (a lease of {world.lease_s:g} s is over before a job that moved has restarted)"
            raise InputError(
                f"app {world.apps[endless[0]].name!r}: has not ended {by} under {policy}{others}; raise max_s, or look "
                "for work that no GPUs are given to"
            )
        known = grants if isinstance(grants, Grants) else tuple(grants)
        rows = [records[i] for i in range(len(world.apps))]
        start, finish, gpu, contention = (
            np.array([getattr(r, name) for r in rows], dtype=np.float64)
            for name in ("start_s", "finish_s", "gpu_s", "contention")
        )
        completed = np.array([r.completed for r in rows], bool)
        placed = np.array([r.placed for r in rows], dtype=np.int64).reshape(-1, 4)
        return cls(world, policy, start, finish, gpu, contention, completed, known, placed, tuple(spells))

    @property
    def completion_s(self) -> Floats:
        """Seconds from arrival to end: T_sh."""
        return self.finish - np.array([a.arrival_s for a in self.world.apps])

    @property
    def rho(self) -> Floats:
        """Finish-time fairness of each app: T_sh/T_id; NaN of those that failed."""
        n = self.world.cluster.n_gpus
        ideal = self.contention * np.array([a.total_work_s / min(n, a.max_gpus) for a in self.world.apps])
        return np.where(self.completed, self.completion_s / ideal, np.nan)

    @property
    def makespan_s(self) -> float:
        """When the last app ended."""
        return float(self.finish.max(initial=0.0))

    @property
    def attained(self) -> npt.NDArray[np.bool_]:
        """Apps whose ρ is at most 1, shape (n_apps,): they ended no later than with a share 1/N of their own."""
        return self.completed & (self.rho <= FAIR)

    @property
    def attainment(self) -> float:
        """Share of all apps, failed ones included, with ρ at most 1: for whom sharing paid (Themis §3).

        An app has no deadline; finish-time fairness is what a cluster promises to it. NaN without apps.
        """
        return float(self.attained.mean()) if len(self.finish) else math.nan

    @property
    def goodput(self) -> float:
        """Apps with ρ of at most 1, per second of the time over which apps arrived; see `simulator.metrics.goodput`."""
        arrivals = [a.arrival_s for a in self.world.apps]
        if not arrivals:
            return math.nan
        return goodput(float(self.attained.sum()), min(arrivals), max(arrivals), self.makespan_s)

    def summary(self) -> Summary:
        """The figures that one looks at first, each with its unit."""
        from .views import summary

        return summary(self)

    def to_frame(self) -> pd.DataFrame:
        """One row per app: times (seconds), GPU seconds, contention, ρ, and how it fared."""
        from .views import to_frame

        return to_frame(self)

    def plot(self) -> Figure:
        """Finish-time fairness of all apps, and how many run and wait over time, as a matplotlib figure."""
        from .views import plot

        return plot(self)

    def __len__(self) -> int:
        return len(self.finish)

    def _headline(self) -> str:
        rho = self.rho[self.completed]
        fair = f"ρ max {rho.max():.4g}, median {np.median(rho):.4g}" if len(rho) else "none completed"
        gpus = self.world.cluster.n_gpus
        done = f"{int(self.completed.sum())} of {len(self)} apps completed"
        return f"{self.policy} on {gpus} GPUs: {done}, {fair}, makespan {self.makespan_s / 3600:.4g} h"

    def shown_rows(self) -> Iterable[tuple[str, object]]:
        return self.summary().shown_rows()
