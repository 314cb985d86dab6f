"""What the points of a serving study share: profiles, traces, plans and planners, loaded and checked once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from ... import traces
from ...errors import InputError
from ...planners import PlannerSource, Problem, ScheduledPlan
from ...profiles import ProfileSet, load, model_set
from ...profiles.hardware import device as device_by_name
from ...simulator.cluster import Cluster
from ...simulator.plan import Plan
from ...traces import GammaWindows
from ...traces.trace import Trace
from .serving_case import ServingCase

__all__ = ["ServingData", "cluster_of", "load_data"]

PLAN = "plan"
"""Name of the planner that plans nothing: the plan exists."""


@dataclass(frozen=True)
class ServingData:
    """Everything that cases name, by the name that they use."""

    profiles: Mapping[str, ProfileSet]
    traces: Mapping[str, Trace] = field(default_factory=dict[str, Trace])
    plans: Mapping[str, Plan] = field(default_factory=dict[str, Plan])
    planners: Mapping[str, PlannerSource] = field(default_factory=dict[str, PlannerSource])
    digests: Mapping[str, str] = field(default_factory=dict[str, str])

    def profiles_for(self, case: ServingCase) -> ProfileSet:
        """The models of a case, with what they cost on its devices."""
        chosen = _chosen(case, self.profiles)
        speed = case.speed.get(case.cluster.device)
        if speed is None:
            return chosen
        return replace(chosen, models={name: p.scaled(1 / speed) for name, p in chosen.models.items()}, device="")

    def latencies_for(self, case: ServingCase) -> ProfileSet:
        """What SLO scales multiply: latencies on the profile's own device, so that a faster one has the same SLO."""
        return _chosen(case, self.profiles)

    def windows_of(self, trace: str, window: float) -> GammaWindows:
        """Gamma windows fitted to a trace."""
        return _fitted(_Held(self.digests[trace], self.traces[trace]), window)

    def planner_of(self, case: ServingCase) -> Callable[[Problem], Plan | ScheduledPlan]:
        """Who plans the case."""
        if case.planner.plan is not None:
            plan = self.plans[case.planner.plan]
            return lambda problem: plan
        return self.planners[case.planner.name].plan

    def digests_of(self, case: ServingCase) -> dict[str, str]:
        """SHA-256 of all that the case reads."""
        read = [_profile_name(case), case.workload.trace, case.planner.plan, case.planner.name]
        return {name: self.digests[name] for name in read if name is not None and name in self.digests}


@dataclass(frozen=True)
class _Held:
    """A trace that is the same as another of the same digest."""

    digest: str
    trace: Trace = field(compare=False)


@lru_cache(maxsize=4)
def _fitted(held: _Held, window: float) -> GammaWindows:
    return traces.fit_gamma(held.trace, window=window)


def cluster_of(case: ServingCase) -> Cluster:
    """The cluster of a case."""
    c = case.cluster
    spec = device_by_name(c.device)
    if c.memory is not None:
        spec = replace(spec, usable_memory_bytes=c.memory, memory_bytes=max(spec.memory_bytes, c.memory))
    if c.price_per_hour is not None:
        spec = replace(spec, price_per_hour=c.price_per_hour)
    return Cluster.of(c.devices, spec if spec != device_by_name(c.device) else c.device, c.devices_per_node)


def load_data(cases: Sequence[ServingCase], folder: Path) -> ServingData:
    """Load what cases name.

    Raises
    ------
    InputError
        On what is missing, or profiles of another device type than the cluster's.
    """
    profiles: dict[str, ProfileSet] = {}
    read: dict[str, Trace] = {}
    plans: dict[str, Plan] = {}
    planners: dict[str, PlannerSource] = {}
    digests: dict[str, str] = {}
    for case in cases:
        name = _profile_name(case)
        if name not in profiles:
            profiles[name] = load(_path(name, folder))
            digests[name] = profiles[name].digest()
        chosen = _chosen(case, profiles)
        _check_device(case, chosen)
        w, p = case.workload, case.planner
        if w.trace is not None and w.trace not in read:
            read[w.trace] = traces.read(folder / w.trace)
            digests[w.trace] = _trace_digest(read[w.trace])
        if p.plan is not None:
            if p.plan not in plans:
                plans[p.plan] = Plan.load(folder / p.plan)
                digests[p.plan] = hashlib.sha256(plans[p.plan].to_json().encode()).hexdigest()
        elif p.name not in planners:
            planners[p.name] = PlannerSource.find(p.name, folder)
            if planners[p.name].digest:
                digests[p.name] = planners[p.name].digest
    return ServingData(profiles, read, plans, planners, digests)


def _profile_name(case: ServingCase) -> str:
    if isinstance(case.profile, str):
        return case.profile
    if case.cluster.device not in case.profile:
        raise InputError(
            f"profile: none for device {case.cluster.device!r}; it names one for {', '.join(case.profile)}"
        )
    return case.profile[case.cluster.device]


def _path(name: str, folder: Path) -> str:
    """A profile file is looked for beside the study; a shipped set by its name."""
    return str(folder / name) if name.endswith(".json") else name


def _chosen(case: ServingCase, profiles: Mapping[str, ProfileSet]) -> ProfileSet:
    whole = profiles[_profile_name(case)]
    wanted = case.models
    if wanted is None:
        return whole
    if isinstance(wanted, str):
        return model_set(wanted)
    if isinstance(wanted, Mapping):
        return whole.instances(wanted)
    return replace(whole, models={name: whole[name] for name in wanted}, aliases={})


def _check_device(case: ServingCase, profiles: ProfileSet) -> None:
    device = case.cluster.device
    device_by_name(device)
    if profiles.device and profiles.device != device and device not in case.speed:
        raise InputError(
            f"cluster.device: profile {profiles.name!r} holds for {profiles.device!r} (got {device!r}); name a profile "
            f"of that device under profile, or say what you assume under speed: {{{device}: FACTOR}}"
        )


def _trace_digest(trace: Trace) -> str:
    held = hashlib.sha256("\0".join(trace.models).encode())
    for column in (trace.arrival, trace.model, trace.slo):
        held.update(np.ascontiguousarray(column).tobytes())
    return held.hexdigest()
