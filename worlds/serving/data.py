"""What the points of a serving study share: profiles, traces, plans and planners, by the names that cases use."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, cast

from ... import traces
from ...errors import InputError
from ...planners import PlannerSource
from ...profiles import ModelProfile, ProfileSet
from ...profiles.alpaserve.shipped import MODEL_SETS
from ...profiles.hardware import device as device_by_name
from ...simulator.cluster import Cluster
from ...simulator.failures import ScriptedFailure
from ...simulator.serving.plan.file import Plan
from ...traces import GammaWindows
from ...traces.trace import Trace
from ...wording import nearest
from .case import ServingCase

__all__ = ["ServingData", "cluster_of", "profile_name", "slo_profile_name", "takes_slo_scale"]


@dataclass(frozen=True)
class ServingData:
    """Everything that cases name, loaded once; travels to every worker.

    Parameters
    ----------
    profiles : Mapping[str, ProfileSet]
        By the name or file that `profile` says.
    traces : Mapping[str, Trace]
        By file; only models with requests.
    plans : Mapping[str, Plan]
        By file.
    planners : Mapping[str, PlannerSource]
        By name.
    digests : Mapping[str, str]
        SHA-256 of each profile, trace, plan, planner and failure script; what is equal in digest is equal.
    scripts : Mapping[str, tuple of ScriptedFailure]
        Failure scripts by file.
    bandwidths : Mapping[str, Mapping[str, float]]
        Measured bandwidths by file, bytes per second by the name of their field.
    """

    profiles: Mapping[str, ProfileSet]
    traces: Mapping[str, Trace] = field(default_factory=dict[str, Trace])
    plans: Mapping[str, Plan] = field(default_factory=dict[str, Plan])
    planners: Mapping[str, PlannerSource] = field(default_factory=dict[str, PlannerSource])
    digests: Mapping[str, str] = field(default_factory=dict[str, str])
    scripts: Mapping[str, tuple[ScriptedFailure, ...]] = field(default_factory=dict[str, tuple[ScriptedFailure, ...]])
    bandwidths: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])

    def told(self, case: ServingCase) -> ServingCase:
        """The case with the bandwidths that it names a file of."""
        return case.model_copy(update={"loading": case.loading.filled(self.bandwidths)})

    def profiles_for(self, case: ServingCase) -> ProfileSet:
        """The models of a case, with what they cost on its devices."""
        return self._chosen(case, profile_name(case), case.speed.get(case.cluster.device))

    def latencies_for(self, case: ServingCase) -> ProfileSet:
        """What SLO scales multiply: the case's models on one device type, as profiled, whatever the case's cluster.

        Raises
        ------
        InputError
            If the case names profiles of several device types and does not say which.
        """
        return self._chosen(case, slo_profile_name(case), None)

    def _chosen(self, case: ServingCase, profile: str, speed: float | None) -> ProfileSet:
        wanted: object = case.models
        if wanted is None and case.workload.trace is not None:
            wanted = self.traces[case.workload.trace].models
        said = json.dumps(wanted if not isinstance(wanted, Mapping) else dict(wanted))
        return _choose(_Wanted(self.digests[profile], said, speed, self.profiles[profile]))

    def costs_of(self, case: ServingCase, names: Sequence[str]) -> ProfileSet:
        """Models by name on the case's devices, whether or not the case has traffic for them.

        Raises
        ------
        InputError
            On a model that the profile does not know.
        """
        profile = profile_name(case)
        speed = case.speed.get(case.cluster.device)
        return _choose(_Wanted(self.digests[profile], json.dumps(list(names)), speed, self.profiles[profile]))

    def windows_of(self, case: ServingCase) -> GammaWindows:
        """Gamma windows fitted to the case's trace; without SLOs where the case gives its own.

        Raises
        ------
        InputError
            If requests of a model have several SLOs, and the case gives none.
        """
        w = case.workload
        trace = str(w.trace)
        own = w.slo is not None or w.slo_scale is not None
        return _fitted(_Held(self.digests[trace], own, self.traces[trace]), w.window)

    def digests_of(self, case: ServingCase) -> dict[str, str]:
        """SHA-256 of all that the case reads."""
        read = [profile_name(case), case.workload.trace]
        read += [case.planner.name] if case.planner.plan is None else [case.planner.plan]
        read += [case.failures.script] if isinstance(case.failures.script, str) else []
        read += [case.loading.measured]
        if takes_slo_scale(case, self):
            read.append(slo_profile_name(case))
        return {name: self.digests[name] for name in read if name is not None and name in self.digests}


@dataclass(frozen=True)
class _Wanted:
    """Models of a profile set; equal to another if digest, names and speed are."""

    digest: str
    models: str
    speed: float | None
    whole: ProfileSet = field(compare=False)


@lru_cache(maxsize=32)
def _choose(wanted: _Wanted) -> ProfileSet:
    whole = wanted.whole
    names: Any = json.loads(wanted.models)
    if isinstance(names, str) and names in MODEL_SETS:
        chosen = replace(whole.instances(MODEL_SETS[names]), name=f"{whole.name}/{names}")
    elif isinstance(names, str):
        if names not in whole:
            near = nearest(names, [*MODEL_SETS, *whole])
            raise InputError(
                f"{names!r} is neither a model set ({', '.join(MODEL_SETS)}) nor a model of profile {whole.name!r} "
                f"({', '.join(whole)}){f'; did you mean {near!r}?' if near else ''}"
            )
        chosen = whole.named([names])
    elif isinstance(names, dict):
        chosen = whole.instances(cast("dict[str, int]", names))
    else:
        chosen = whole if names is None else whole.named(names)
    if not chosen:
        raise InputError("expected at least one model")
    if wanted.speed is None:
        return chosen
    faster = {name: _faster(p, wanted.speed) for name, p in chosen.models.items()}
    return replace(chosen, name=f"{chosen.name} at {wanted.speed:g} x speed", models=faster, device="")


def _faster(profile: ModelProfile, speed: float) -> ModelProfile:
    """Every stage and every hop takes 1/speed of the time; weights stay."""
    shorter = profile.scaled(1 / speed)
    return replace(shorter, stages={c: replace(s, hop_s=s.hop_s / speed) for c, s in shorter.stages.items()})


@dataclass(frozen=True)
class _Held:
    """A trace to fit; equal to another of the same digest, with SLOs or without."""

    digest: str
    bare: bool
    trace: Trace = field(compare=False)


@lru_cache(maxsize=4)
def _fitted(held: _Held, window: float) -> GammaWindows:
    return traces.fit_gamma(held.trace, window=window, slo=float("inf") if held.bare else None)


def profile_name(case: ServingCase) -> str:
    """The profile set for the case's devices.

    Raises
    ------
    InputError
        If it names none for them.
    """
    device = case.cluster.device
    if isinstance(case.profile, str):
        return case.profile
    if device not in case.profile:
        raise InputError(f"profile: none for device {device!r}; it names one for {', '.join(case.profile) or 'none'}")
    return case.profile[device]


def takes_slo_scale(case: ServingCase, data: ServingData) -> bool:
    """Whether the case's SLOs are multiples of profiled latencies."""
    w = case.workload
    if w.slo is not None:
        return False
    if w.slo_scale is not None or w.trace is None:
        return True
    return not _has_slos(_Held(data.digests[w.trace], False, data.traces[w.trace]))


@lru_cache(maxsize=16)
def _has_slos(held: _Held) -> bool:
    return bool((held.trace.slo < float("inf")).any())


def slo_profile_name(case: ServingCase) -> str:
    """The profile set whose latencies an SLO scale multiplies.

    Raises
    ------
    InputError
        If there are several and the case does not say which.
    """
    device = case.workload.slo_device
    if isinstance(case.profile, str):
        return case.profile
    if device is None and len(set(case.profile.values())) == 1:
        return next(iter(case.profile.values()))
    if device is None or device not in case.profile:
        raise InputError(
            f"workload.slo_device: profile names several device types ({', '.join(case.profile)}); say whose latency "
            f"an SLO scale multiplies (got {device!r})"
        )
    return case.profile[device]


def cluster_of(case: ServingCase) -> Cluster:
    """The cluster of a case."""
    c = case.cluster
    spec = device_by_name(c.device)
    if c.memory is not None:
        spec = replace(spec, usable_memory_bytes=c.memory, memory_bytes=max(spec.memory_bytes, c.memory))
    if c.price_per_hour is not None:
        spec = replace(spec, price_per_hour=c.price_per_hour)
    return Cluster.of(c.devices, spec if spec != device_by_name(c.device) else c.device, c.devices_per_node)
