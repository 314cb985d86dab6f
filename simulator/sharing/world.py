"""`SharingWorld`: the input of both engines: cluster, apps, leases, what a change of GPUs costs, what fails when."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from ...errors import InputError
from ...reprs import Shown
from .cluster import SharedCluster
from .policy.agent import Convention
from .policy.learning import Beliefs
from .varying import Speeds
from .workload.app import App

__all__ = ["SHORTEST_LEASE_S", "AppFailure", "Containers", "LeaseEnds", "MachineFailure", "SharingWorld"]

Containers = Literal["job", "app"]
LeaseEnds = Literal["apart", "together"]

SHORTEST_LEASE_S = 1e-3
"""A lease that is much shorter than what a clock of doubles tells apart would be over before time goes on."""

LATEST_S = 1e12
"""Arrivals and failures later than this (30,000 years) are too far apart for a clock of doubles to count leases."""

MOST_LEASES = 1_000_000
"""Leases one after the other; 19 years of ten minutes. A simulation of more would not end while somebody waits."""


@dataclass(frozen=True, slots=True, repr=False)
class MachineFailure(Shown):
    """A machine is gone for a while. Apps lose its GPUs, but no work that is done.

    Parameters
    ----------
    machine : int
        Number of the machine.
    at_s, repair_s : float
        Time of the failure, and seconds until the repair (infinite: never). A machine that fails again meanwhile is
        back when the last of its failures is repaired.
    """

    machine: int
    at_s: float
    repair_s: float


@dataclass(frozen=True, slots=True, repr=False)
class AppFailure(Shown):
    """An app fails: it ends before its work is done.

    Parameters
    ----------
    app : int
        Number of the app.
    at_s : float
        Time of the failure, after the app's arrival. Nothing happens if the app has ended by then.
    """

    app: int
    at_s: float


@dataclass(frozen=True, repr=False)
class SharingWorld(Shown):
    """All that is simulated, but for the policy.

    Parameters
    ----------
    cluster : SharedCluster
        The GPUs.
    apps : tuple of App
        The apps, sorted by arrival.
    lease_s : float
        Seconds of a lease, under policies that preempt.
    checkpoint_s, container_s : float
        Seconds of writing and reading a checkpoint, and of starting a container. A job whose GPUs change stands still
        for both, a job that starts only for the second (Themis §6.2.3: 5–10 s, 35 s).
    convention : {"fluid", "slowest"}
        How agents estimate phases, see `Convention`.
    machine_failures, app_failures : tuple
        Failures of machines and of apps.
    max_s : float
        Time at which an app that has not ended is called endless; see `horizon_s`.
    containers : {"job", "app"}
        What waits for containers: each job that starts or whose GPUs change (a container is a job's), or only what
        runs on GPUs that are new to its app (containers are the app's, and its jobs take turns in them, as Themis'
        agents have it: §6.2.3 speaks of changing the number of an app's containers).
    beliefs : Beliefs
        Whether agents know, assume or learn what distance costs. Those that do not know divide an app's GPUs over its
        jobs by what they believe, too; how fast jobs really are, apps say (`App.slowdown`).
    speeds : Speeds, optional
        How the GPUs vary in this run (`varying.draw_speeds`); without it every iteration takes its time. Agents and
        policies reckon without it, and see what has become of the work.
    lease_ends : {"apart", "together"}
        When leases are over. ``apart``: each so long after it was granted; what apps free in between is granted again
        at once, so that after some hours nearly every GPU is on offer by itself. ``together``: at multiples of
        `lease_s`, however late a GPU was granted, so that all of them are on offer in each round: Themis' arbiter
        "pools available resources" (§4.2.2).

    Raises
    ------
    InputError
        If apps do not stand by arrival, a gang is larger than the cluster, an app fails before it arrives, or something
        is negative or unknown.
    """

    cluster: SharedCluster
    apps: tuple[App, ...]
    # Themis: leases of 10 minutes (§6.2); §6.2.3 measured 5 to 10 s for a checkpoint (the middle of it) and 35 s in the
    # median for changing containers.
    lease_s: float = 600.0
    checkpoint_s: float = 7.5
    container_s: float = 35.0
    convention: Convention = "fluid"
    machine_failures: tuple[MachineFailure, ...] = field(default=())
    app_failures: tuple[AppFailure, ...] = field(default=())
    max_s: float = math.inf
    containers: Containers = "job"
    beliefs: Beliefs = field(default_factory=Beliefs)
    speeds: Speeds | None = None
    lease_ends: LeaseEnds = "apart"
    # runtime.sharing writes worlds as JSON, through pydantic: arrays of drawn times are let through, and never written.
    __pydantic_config__: ClassVar[dict[str, bool]] = {"arbitrary_types_allowed": True}

    def __post_init__(self) -> None:
        for name in ("apps", "machine_failures", "app_failures"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not self.lease_s >= SHORTEST_LEASE_S:
            raise InputError(f"SharingWorld.lease_s: expected seconds >= {SHORTEST_LEASE_S:g} (got {self.lease_s:g})")
        for name in ("checkpoint_s", "container_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise InputError(f"SharingWorld.{name}: expected finite seconds >= 0 (got {value})")
        if self.convention not in ("fluid", "slowest"):
            raise InputError(f"SharingWorld.convention: expected 'fluid' or 'slowest' (got {self.convention!r})")
        if self.containers not in ("job", "app"):
            raise InputError(f"SharingWorld.containers: expected 'job' or 'app' (got {self.containers!r})")
        if self.lease_ends not in ("apart", "together"):
            raise InputError(f"SharingWorld.lease_ends: expected 'apart' or 'together' (got {self.lease_ends!r})")
        if not isinstance(self.beliefs, Beliefs):
            raise InputError(f"SharingWorld.beliefs: expected Beliefs (got {self.beliefs!r})")
        if self.speeds is not None and len(self.speeds) != self.cluster.n_gpus:
            raise InputError(
                f"SharingWorld.speeds: expected those of {self.cluster.n_gpus} GPUs (got {len(self.speeds)})"
            )
        if not self.max_s > 0:
            raise InputError(f"SharingWorld.max_s: expected seconds > 0 (got {self.max_s})")
        times = [app.arrival_s for app in self.apps] + [f.at_s for f in (*self.machine_failures, *self.app_failures)]
        if LATEST_S < (latest := max(times, default=0.0)) < math.inf:  # what is not finite is told below
            raise InputError(
                f"apps, failures: the last arrival or failure is at {latest:g} s; expected at most {LATEST_S:g} s"
            )
        last = 0.0
        for i, app in enumerate(self.apps):
            if app.arrival_s < last:
                raise InputError(
                    f"apps: {app.name!r} (number {i}) arrives at {app.arrival_s:g} s, before the one ahead of it at "
                    f"{last:g} s; sort them by arrival"
                )
            last = app.arrival_s
            for j, job in enumerate(app.jobs):
                if job.gang > self.cluster.n_gpus:
                    raise InputError(
                        f"app {app.name!r}: job {j}: a gang of {job.gang} tasks is larger than the cluster of "
                        f"{self.cluster.n_gpus} GPUs; make the gang smaller or the cluster larger"
                    )
        for f in self.machine_failures:
            if not _is_number_of(f.machine, len(self.cluster.machines)):
                raise InputError(f"machine_failures: there are {len(self.cluster.machines)} machines (got {f.machine})")
            if not (math.isfinite(f.at_s) and f.at_s >= 0 and f.repair_s > 0):
                raise InputError(f"machine_failures: expected at_s >= 0 and repair_s > 0 (got {f})")
        for a in self.app_failures:
            if not _is_number_of(a.app, len(self.apps)):
                raise InputError(f"app_failures: there are {len(self.apps)} apps (got {a.app})")
            app = self.apps[a.app]
            if not (math.isfinite(a.at_s) and a.at_s > app.arrival_s):
                raise InputError(
                    f"app_failures: app {app.name!r} arrives at {app.arrival_s:g} s and can fail after that "
                    f"(got {a.at_s})"
                )

    def lease_end_s(self, now_s: float) -> float:
        """When a lease that is granted now is over."""
        if self.lease_ends == "apart":
            return now_s + self.lease_s
        number = math.floor(now_s / self.lease_s) + 1.0
        if number * self.lease_s <= now_s:  # the quotient of a multiple may be an ulp too small
            number += 1.0
        return number * self.lease_s

    def check_leases(self) -> None:
        """Refuse a world whose work, on all GPUs at once, takes more leases than can be simulated; asked before a
        policy that preempts is simulated. Others know no leases.

        Raises
        ------
        InputError
            Naming the limit.
        """
        seconds = sum(app.work_s(k) for app in self.apps for k in range(len(app.phases))) / self.cluster.n_gpus
        asked = min(seconds, self.max_s) / self.lease_s
        if asked > MOST_LEASES:
            raise InputError(
                f"lease: the apps' work takes {seconds:.3g} s on all {self.cluster.n_gpus} GPUs at once, {asked:.3g} "
                f"leases of {self.lease_s:g} s; expected at most {MOST_LEASES:,}: give longer leases or less work"
            )

    @cached_property
    def horizon_s(self) -> float:
        """Time at which an app that has not ended is called endless: `max_s`, if that is finite.

        If it is infinite, and leases are too short for a moved job to restart, apps could take turns for ever without a
        second of work. The horizon is then, after the last arrival and repair, ten times what all work and restarts
        would take one after the other, with every job spread as far as possible.
        """
        restart = self.checkpoint_s + self.container_s
        if math.isfinite(self.max_s) or not self.lease_s <= restart:
            return self.max_s
        slowest = 1.0 if self.speeds is None else max(self.speeds.largest, 1.0)
        one_by_one = sum(
            slowest * app.slowdown.cluster * app.work_s(k) + restart * len(phase.jobs)
            for app in self.apps
            for k, phase in enumerate(app.phases)
        )
        late = [app.arrival_s for app in self.apps[-1:]] + [end for *_, end in self.outages if math.isfinite(end)]
        return max(late, default=0.0) + 10.0 * one_by_one  # ten times: a guess, far from any world that ends

    @cached_property
    def outages(self) -> tuple[tuple[int, float, float], ...]:
        """Machine, first and last second of each time that one is gone: failures that overlap or touch are one."""
        made: list[tuple[int, float, float]] = []
        for f in sorted(self.machine_failures, key=lambda f: (f.machine, f.at_s)):
            end = f.at_s + f.repair_s
            if made and made[-1][0] == f.machine and f.at_s <= made[-1][2]:
                made[-1] = f.machine, made[-1][1], max(made[-1][2], end)
            else:
                made.append((f.machine, f.at_s, end))
        return tuple(made)


def _is_number_of(value: object, n: int) -> bool:
    """Whether a value is the position of one of `n` things."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and 0 <= int(value) < n
