"""What the verbs that plan and simulate share: the cluster, the models with their profiles, and the traffic."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ..errors import InputError
from .trace_io import MAX_MODELS, read_trace, split_of

if TYPE_CHECKING:
    from ..profiles import ModelProfile, ParallelConfig, ProfileSet
    from ..simulator import Cluster
    from ..traces import Trace

__all__ = [
    "DEFAULT_PROFILE",
    "check_device",
    "check_models",
    "cluster_from",
    "profiles_for",
    "profiles_from",
    "trace_from",
    "warn_of_hopeless",
]

DEFAULT_PROFILE = "alpaserve-v100"
SLO_SCALE = 5.0


def cluster_from(cluster: str | None, devices: int | None, device: str | None, default_device: str) -> Cluster:
    """The cluster of ``--cluster NODESxDEVICES[:DEVICE]``, or of ``--devices N`` and ``--device NAME``.

    Raises
    ------
    InputError
        If both or neither are given, or one is malformed.
    """
    from ..simulator import Cluster

    if (cluster is None) == (devices is None):
        raise InputError("--cluster, --devices: give one of the two, such as --cluster 8x8:v100-16gb or --devices 16")
    if devices is not None:
        return Cluster.of(devices, device or default_device) if devices > 0 else Cluster(1, devices)
    match = re.fullmatch(r"(\d+)x(\d+)(?::(.+))?", (cluster or "").strip())
    if match is None:
        raise InputError(f"--cluster: expected NODESxDEVICES or NODESxDEVICES:DEVICE (got {cluster!r})")
    if device is not None and match[3] is not None:
        raise InputError(f"--device: the cluster {cluster!r} names its device already")
    return Cluster(int(match[1]), int(match[2]), match[3] or device or default_device)


def profiles_from(models: str | None, profile: str | None) -> ProfileSet:
    """The models to serve, with their profiles.

    Parameters
    ----------
    models : str, optional
        A model set of the paper (``S1`` … ``S4``), or names of the profile set with commas, each with a count if
        wanted: ``bert-1.3b=8,moe-2.4b``. All models of the set if not given.
    profile : str, optional
        A shipped set or a file; the shipped V100 profiles if not given.
    """
    from ..profiles import load
    from ..profiles.alpaserve.shipped import MODEL_SETS, model_set

    if models in MODEL_SETS:
        if profile not in (None, DEFAULT_PROFILE):
            raise InputError(f"--models: {models} is a set of {DEFAULT_PROFILE!r} (got --profile {profile!r})")
        return model_set(models)
    loaded = load(profile or DEFAULT_PROFILE)
    if models is None:
        return loaded
    chosen = {}
    for word in models.split(","):
        name, _, count = word.strip().partition("=")
        if name in chosen:
            raise InputError(f"--models: {name!r} is named twice")
        if not count:
            chosen[name] = loaded[name].renamed(name)
        elif count.isdecimal() and len(count) < 9 and 0 < int(count) <= MAX_MODELS:
            chosen.update(loaded.instances({name: int(count)}))
        else:
            raise InputError(f"--models: expected NAME or NAME=COUNT, COUNT 1 … {MAX_MODELS} (got {word.strip()!r})")
    return replace(loaded, models=chosen, aliases={})


def profiles_for(names: Iterable[str], profile: str) -> ProfileSet:
    """Profiles of models by name from a set that holds them or what they are instances of (``bert-1.3b-7``)."""
    from ..profiles import load

    loaded = load(profile)
    try:
        return loaded.named(names)
    except InputError as error:
        raise InputError(f"--profile: {error}") from None


def check_device(profiles: ProfileSet, device: str) -> None:
    """Refuse profiles that were taken on another device type than the cluster's.

    Raises
    ------
    InputError
        Naming both.
    """
    if profiles.device and profiles.device != device:
        raise InputError(
            f"--profile: {profiles.name!r} holds for {profiles.device!r} (got a cluster of {device!r}); take the "
            "cluster's own profile, or plan for the profile's device"
        )


def check_models(trace: Trace, models: Sequence[str], where: str) -> None:
    """Refuse requests of models that a plan does not serve.

    Raises
    ------
    InputError
        Naming the first such model, and those that the plan serves.
    """
    from ..traces.columns import unknown_model

    for name, count in zip(trace.models, trace.counts(), strict=True):
        if count and name not in models:
            raise InputError(
                f"{where}: {unknown_model(name, models)}; keep only theirs with "
                "`meshwright trace convert --models … --ignore-unknown`"
            )


def warn_of_hopeless(
    trace: Trace, profiles: Mapping[str, ModelProfile], configs: Mapping[str, Sequence[ParallelConfig]], where: str = ""
) -> None:
    """Say on standard error which models cannot attain any SLO of the trace, even on idle devices.

    `configs` are the parallel configurations that each model may run under; a model without one is left out.
    """
    import numpy as np

    longest = np.full(len(trace.models), -np.inf)
    np.maximum.at(longest, trace.model, trace.slo)
    worst: list[tuple[str, float, float]] = []
    for name, slo in zip(trace.models, longest.tolist(), strict=True):
        stages = [profiles[name].stages[c] for c in configs.get(name, ())]
        totals = [sum(s.latency[1]) + s.hop_s * (len(s.latency[1]) - 1) for s in stages if 1 in s.latency]
        if totals and 0 < slo < min(totals):
            worst.append((name, slo, min(totals)))
    if worst:
        name, slo, best = worst[0]
        more = f" (and {len(worst) - 1} more models)" if len(worst) > 1 else ""
        typer.echo(
            f"warning: {where}SLO {slo:.4g} s of {name!r} is below its best latency, {best:.4g} s: no request of it "
            f"can be in time{more}",
            err=True,
        )


def trace_from(
    file: Path | None,
    profiles: ProfileSet | None,
    names: Iterable[str],
    *,
    rate: float | None,
    cv: float | None,
    duration: float | None,
    split: str | None,
    seed: int,
    slo_scale: float | None,
    slo: float | None,
    default_scale: float | None = SLO_SCALE,
) -> tuple[Trace, str]:
    """The traffic, read or made, and a line that says where it comes from.

    `slo_scale` multiplies the single-device latencies of `profiles`; generated traffic without an SLO gets
    `default_scale`.

    Raises
    ------
    InputError
        If a file and a rate are given, or neither.
    """
    from .. import traces

    if (file is None) == (rate is None):
        raise InputError("--trace, --rate: give one of the two: a file, or requests per second of generated traffic")
    if slo is not None and slo_scale is not None:
        raise InputError("--slo, --slo-scale: give one of the two: seconds, or a multiple of single-device latency")
    if file is not None:
        extra = {"--cv": cv, "--duration": duration, "--split": split}
        given = [option for option, value in extra.items() if value is not None]
        if given:
            raise InputError(f"{given[0]}: shapes generated traffic, but --trace {file} is read")
        trace = read_trace([file], None)
        source = str(file)
    else:
        cv, duration = 1.0 if cv is None else cv, 300.0 if duration is None else duration
        trace = traces.gamma(float(rate or 0), cv, duration, list(names), split_of(split or "uniform"), seed=seed)
        source = f"gamma rate={rate:g} cv={cv:g} duration={duration:g} split={split or 'uniform'} seed={seed}"
        slo_scale = default_scale if slo_scale is None and slo is None else slo_scale
    if slo is not None:
        return trace.with_slo(slo), f"{source}, SLO {slo:g} s"
    if slo_scale is not None and profiles is not None:
        return trace.with_slo_scale(slo_scale, profiles), f"{source}, SLO scale {slo_scale:g}"
    return trace, source
