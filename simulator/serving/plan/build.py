"""From a placement and its models to the entries of a plan, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ....errors import InputError
from ....profiles.profile import ModelProfile, Provenance, StageProfile
from ....traces.trace import Trace
from ...placement import Group, ParallelConfig, Placement
from ...plan.entries import GroupEntry, ModelEntry, StageEntry, Workload

__all__ = ["group_entries", "model_entries", "profiles_of", "workload_entry"]


def model_entries(
    placement: Placement, profiles: Mapping[str, ModelProfile], trace: Trace | None, max_batch: int
) -> tuple[ModelEntry, ...]:
    """The models of the trace and of the placement, with what they cost where they are placed."""
    asked = trace.models if trace is not None else ()
    slos = {} if trace is None else {name: _common_slo(trace, m) for m, name in enumerate(trace.models)}
    entries: list[ModelEntry] = []
    for seed, name in enumerate(dict.fromkeys([*asked, *placement.models])):
        configs = sorted({group.config for group in placement.groups if name in group.models})
        entries.append(
            ModelEntry(
                name=name,
                architecture=profiles[name].architecture if name in profiles else "",
                seed=seed,
                slo_s=slos.get(name),
                stages={str(c): _stage_entry(profiles[name].stage(c), max_batch) for c in configs},
            )
        )
    return tuple(entries)


def _common_slo(trace: Trace, model: int) -> float | None:
    """The SLO of all requests of a model, seconds; None if they have none, or several."""
    mine = trace.slo[trace.model == model]
    return float(mine[0]) if len(mine) and np.isfinite(mine[0]) and (mine == mine[0]).all() else None


def _stage_entry(stage: StageProfile, max_batch: int) -> StageEntry:
    latency = {b: tuple(map(float, row)) for b, row in sorted(stage.latency.items()) if b <= max_batch}
    return StageEntry(
        latency_s=latency or {b: tuple(map(float, row)) for b, row in sorted(stage.latency.items())},
        weight_bytes=tuple(map(float, stage.weight_bytes)),
        hop_s=float(stage.hop_s),
    )


def group_entries(placement: Placement, profiles: Mapping[str, ModelProfile]) -> tuple[GroupEntry, ...]:
    """The groups, with the partition of each model where its profile knows it."""
    return tuple(
        GroupEntry(
            op=group.config.op,
            pp=group.config.pp,
            devices=group.devices or (),
            models=group.models,
            partition={name: starts for name in group.models if (starts := _partition(profiles, name, group))},
        )
        for group in placement.groups
    )


def _partition(profiles: Mapping[str, ModelProfile], name: str, group: Group) -> tuple[int, ...]:
    return tuple(int(layer) for layer in profiles[name].stage(group.config).partition)


def workload_entry(trace: Trace, source: str) -> Workload:
    """What a trace asks for, summed up."""
    seconds = trace.duration if trace.duration > 0 else np.inf  # all arrive at once: no rate, and JSON knows no inf
    rates = {name: int(n) / seconds for name, n in zip(trace.models, trace.counts(), strict=True)}
    return Workload(requests=len(trace), duration_s=float(trace.duration), rate_per_s=rates, source=source)


def profiles_of(models: Sequence[ModelEntry], groups: Sequence[GroupEntry], source: str) -> dict[str, ModelProfile]:
    """The profiles that a plan carries: of each placed model, the configurations that it is placed under.

    Raises
    ------
    InputError
        If the plan lacks a placed model's stages.
    """
    starts = {(name, group.config): group.partition.get(name, ()) for group in groups for name in group.models}
    profiles: dict[str, ModelProfile] = {}
    for model in models:
        stages = {
            config: StageProfile(
                latency=entry.latency_s,
                weight_bytes=entry.weight_bytes,
                hop_s=entry.hop_s,
                partition=starts.get((model.name, config), ()),
            )
            for config, entry in ((ParallelConfig.parse(key), entry) for key, entry in model.stages.items())
        }
        lost = [str(config) for name, config in starts if name == model.name and config not in stages]
        if lost:
            raise InputError(
                f"plan: models: {model.name!r} has no stage latencies for {lost[0]}, under which it is placed; "
                "give a profile"
            )
        if stages:
            profiles[model.name] = ModelProfile(model.name, stages, Provenance(source), model.architecture)
    return profiles
