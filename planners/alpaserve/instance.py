"""`Instance`: one planning problem, checked once at the door and laid out as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import InfeasibleError, InputError, OutOfProfileError
from ...profiles.config import ParallelConfig
from ...profiles.profile import ModelProfile
from ...reprs import Shown
from ...simulator.cluster import Cluster
from ...traces.trace import Trace
from ..contract.problem_checks import check_slo
from .options import InstanceOptions

__all__ = ["Instance", "build_instance", "no_room"]


@dataclass(frozen=True, eq=False, repr=False)
class Instance(Shown):
    """A cluster, models and traffic to plan for.

    Models are numbered as in `models`, parallel configurations as in `configs`.

    Parameters
    ----------
    cluster : Cluster
        Where to place.
    models : tuple of str
        What to place.
    trace : Trace
        The traffic planned for.
    profiles : Mapping[str, ModelProfile]
        What models cost.
    dispatch, admission, overhead
        How the plan will be served (`meshwright.simulator.simulate`).
    memory : str
        A rule of `options.MEMORY_RULES`.
    configs : tuple of ParallelConfig
        Configurations that the planner may use, ascending; none larger than the cluster.
    latency : ndarray of float64, shape (n_configs, n_models, max_stages)
        Stage latencies at batch 1, seconds; NaN where not profiled, 0 past the last stage.
    hop : ndarray of float64, shape (n_configs, n_models)
        Seconds between two stages.
    weight : ndarray of float64, shape (n_configs, n_models, max_stages)
        Weights on each device of each stage, whole bytes (rounded up, so that sums are exact); inf where not profiled.
        Under ``max_stage`` every stage counts as the fullest one.
    fits : ndarray of bool, shape (n_configs, n_models)
        Whether a model is profiled under a configuration and fits a group of its own.
    stages : ndarray of int32, shape (n_configs,)
        Pipeline stages of each configuration.
    arrival, slo : ndarray of float64, shape (n,)
        The requests, seconds.
    model : ndarray of int32, shape (n,)
        Model of each request, numbered as in `models`.
    counts : ndarray of int64, shape (n_models,)
        Requests of each model.
    """

    cluster: Cluster
    models: tuple[str, ...]
    trace: Trace
    profiles: Mapping[str, ModelProfile]
    dispatch: str
    admission: bool
    overhead: float
    memory: str
    configs: tuple[ParallelConfig, ...]
    latency: npt.NDArray[np.float64]
    hop: npt.NDArray[np.float64]
    weight: npt.NDArray[np.float64]
    fits: npt.NDArray[np.bool_]
    stages: npt.NDArray[np.int32]
    arrival: npt.NDArray[np.float64]
    slo: npt.NDArray[np.float64]
    model: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int64]

    @property
    def n_models(self) -> int:
        """Number of models."""
        return len(self.models)

    @property
    def n_devices(self) -> int:
        """Number of devices."""
        return self.cluster.n_devices

    @property
    def memory_bytes(self) -> float:
        """Usable memory of each device, bytes."""
        return float(self.cluster.memory_bytes)

    @property
    def n_requests(self) -> int:
        """Number of requests."""
        return len(self.arrival)

    def index(self, config: ParallelConfig) -> int:
        """The number of a configuration.

        Raises
        ------
        InputError
            If the planner may not use it.
        """
        try:
            return self.configs.index(config)
        except ValueError:
            raise InputError(
                f"config: {config} is not available; available: {', '.join(map(str, self.configs))}"
            ) from None

    def total_latency(self) -> npt.NDArray[np.float64]:
        """End-to-end latency of a request that never waits, seconds, shape (n_configs, n_models); inf if unprofiled."""
        total = np.nansum(self.latency, axis=2) + self.hop * (self.stages[:, None] - 1) + self.overhead
        return np.where(np.isnan(self.latency[:, :, 0]), np.inf, total)


def build_instance(
    cluster: Cluster,
    models: Iterable[str] | None,
    trace: Trace,
    profiles: Mapping[str, ModelProfile],
    options: InstanceOptions | None = None,
    *,
    require: str = "all",
    **named: Any,
) -> Instance:
    """Check a planning problem and lay it out.

    Parameters
    ----------
    cluster, models, trace, profiles
        The problem; `models` left out are the trace's.
    options : InstanceOptions, optional
        How the plan will be served, and which configurations it may have.
    require : str
        ``"all"``: every model must fit somewhere alone. ``"any"``: at least one (baselines that cannot split models).
    **named
        Fields of `options`, by name.

    Raises
    ------
    InputError
        On anything wrong with the arguments.
    OutOfProfileError
        If a model was profiled at no batch of 1.
    InfeasibleError
        If a model fits nowhere; the message names the smallest change that makes it fit.
    """
    if not isinstance(cluster, Cluster):
        raise InputError(f"cluster: expected a Cluster (got {type(cluster).__name__})")
    if not isinstance(trace, Trace):
        raise InputError(f"trace: expected a Trace (got {type(trace).__name__})")
    if not isinstance(profiles, Mapping):
        raise InputError(
            f"profiles: expected a mapping from model name to ModelProfile (got {type(profiles).__name__})"
        )
    o = replace(options or InstanceOptions(), **named)
    overhead = getattr(profiles, "overhead_s", 0.0) if o.overhead is None else o.overhead
    names = _names(models, trace, profiles)
    check_slo(trace)
    configs = sorted(
        {
            c
            for name in names
            for c in profiles[name].configs
            if c.n_devices <= cluster.n_devices
            and (o.max_op is None or c.op <= o.max_op)
            and (o.max_pp is None or c.pp <= o.max_pp)
            and 1 in profiles[name].stages[c].latency
        }
    )
    arrays = _tables(names, configs, profiles, float(cluster.memory_bytes), o.memory)
    fits = arrays[3]
    lost = [m for m in range(len(names)) if not fits[:, m].any()]
    if lost and (require == "all" or len(lost) == len(names)):
        raise InfeasibleError(no_room([names[m] for m in lost], cluster, profiles, o))
    number = {name: m for m, name in enumerate(names)}
    model = np.array([number.get(name, -1) for name in trace.models], dtype=np.int32)[trace.model]
    return Instance(
        cluster, names, trace, profiles, o.dispatch, bool(o.admission), float(overhead), o.memory, tuple(configs),
        *arrays,
        stages=np.array([c.pp for c in configs], dtype=np.int32),
        arrival=trace.arrival,
        slo=trace.slo,
        model=model,
        counts=np.bincount(model, minlength=len(names)),
    )  # fmt: skip


def _names(models: Iterable[str] | None, trace: Trace, profiles: Mapping[str, ModelProfile]) -> tuple[str, ...]:
    if isinstance(models, str):
        raise InputError(f"models: expected a sequence of names (got the string {models!r})")
    names = tuple(trace.models if models is None else models)
    if not names:
        raise InputError("models: expected at least one model")
    for name in names:
        if not isinstance(name, str):
            raise InputError(f"models: expected names (got {name!r})")
        if names.count(name) > 1:
            raise InputError(f"models: {name!r} is listed twice")
        if name not in profiles:
            raise InputError(f"models: no profile for {name!r}; profiled: {', '.join(list(profiles)[:10])}")
        batches = sorted({b for stage in profiles[name].stages.values() for b in stage.latency})
        if 1 not in batches:
            raise OutOfProfileError(
                f"profile {name!r}: no entry for batch 1 in any configuration; profiled batches: "
                f"{', '.join(map(str, batches))}"
            )
    counts = trace.counts()
    foreign = [n for n, c in zip(trace.models, counts, strict=True) if c and n not in names]
    if foreign:
        raise InputError(
            f"trace: asks for {foreign[0]!r}, which is not among the models to place ({', '.join(names[:10])}); "
            "add it to models, or keep only their requests with trace.select(models)"
        )
    return names


def _tables(
    names: Sequence[str], configs: Sequence[ParallelConfig], profiles: Mapping[str, ModelProfile],
    memory_bytes: float, memory: str,
) -> tuple[npt.NDArray, npt.NDArray, npt.NDArray, npt.NDArray]:  # fmt: skip
    depth = max((c.pp for c in configs), default=1)
    latency = np.full((len(configs), len(names), depth), np.nan)
    hop = np.zeros((len(configs), len(names)))
    weight = np.full((len(configs), len(names), depth), np.inf)
    for c, config in enumerate(configs):
        for m, name in enumerate(names):
            stage = profiles[name].stages.get(config)
            if stage is None or 1 not in stage.latency:
                continue
            latency[c, m] = 0.0
            latency[c, m, : config.pp] = stage.latency[1]
            hop[c, m] = stage.hop_s
            weight[c, m] = 0.0
            weight[c, m, : config.pp] = np.ceil(stage.weight_bytes)
            if memory == "max_stage":
                weight[c, m, : config.pp] = weight[c, m].max()
    return latency, hop, weight, np.all(weight <= memory_bytes, axis=2)


def no_room(
    lost: Sequence[str], cluster: Cluster, profiles: Mapping[str, ModelProfile], options: InstanceOptions
) -> str:
    """Say for the first model that fits nowhere which smallest change makes it fit."""
    name = lost[0]
    entries = profiles[name].stages
    need = {c: max(s.weight_bytes) for c, s in entries.items()}
    allowed = [
        c
        for c in entries
        if c.n_devices <= cluster.n_devices and c.op <= (options.max_op or c.op) and c.pp <= (options.max_pp or c.pp)
    ]
    gib = 2**30
    ways = []
    if allowed:
        best = min(allowed, key=lambda c: (need[c], c))
        ways.append(
            f"{need[best] / gib:.2f} GiB usable on each device (as {best}; {cluster.memory_bytes / gib:.2f} GiB now)"
        )
    fitting = [c for c in entries if need[c] <= cluster.memory_bytes]
    inside = [c for c in fitting if c.n_devices <= cluster.n_devices]
    if inside:
        best = min(inside, key=lambda c: (c.n_devices, c))
        ways.append(f"{best} allowed (max_op >= {best.op}, max_pp >= {best.pp})")
    elif fitting:
        best = min(fitting, key=lambda c: (c.n_devices, c))
        ways.append(f"{best.n_devices} devices (as {best}; {cluster.n_devices} now)")
    if not ways:
        ways.append(
            f"a profile of {name!r} for a configuration of at most {cluster.n_devices} devices "
            f"(profiled: {', '.join(map(str, profiles[name].configs))})"
        )
    others = f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""
    return f"model {name!r}{others} fits no group of this cluster; it would with " + ", or with ".join(ways)
