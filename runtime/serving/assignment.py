"""What each worker of a plan is to hold: model architectures, stage boundaries, device, core."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from ...errors import InputError
from ...kernels.specs import SPECS, ModelSpec
from ...profiles.profile import ModelProfile
from ...simulator.placement import Group, Placement
from ...simulator.serving.plan.file import Plan
from .protocol import Assignment, Hosted

__all__ = ["assign", "boundaries", "device_kind", "model_spec", "usable_cores"]


def usable_cores() -> tuple[int, ...]:
    """The cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def model_spec(name: str, plan: Plan | None, profiles: Mapping[str, ModelProfile]) -> tuple[ModelSpec, int]:
    """Architecture and weight seed of a model.

    The architecture is what the plan says, else what the profile says, else the shipped spec that the name is an
    instance of (``cpu-bert-s-3`` of ``cpu-bert-s``). The seed is the plan's, else 0.

    Raises
    ------
    InputError
        If none is known.
    """
    entry = next((m for m in plan.models if m.name == name), None) if plan else None
    profile = profiles.get(name)
    candidates = [
        entry.architecture if entry else "",
        profile.architecture if profile else "",
        name,
        re.sub(r"-\d+$", "", name),
    ]
    for candidate in candidates:
        if candidate in SPECS:
            return SPECS[candidate].renamed(name), entry.seed if entry else 0
    said = next((c for c in candidates[:2] if c), "")
    raise InputError(
        f"run: model {name!r}: cannot be built, its architecture {said!r} is not shipped; set models[].architecture in "
        f"the plan to one of {', '.join(SPECS)}"
    )


def boundaries(spec: ModelSpec, group: Group, starts: tuple[int, ...]) -> tuple[int, ...]:
    """Layer boundaries of the stages, length ``pp + 1``: the given first layers, or equally many layers each.

    Raises
    ------
    InputError
        If the model cannot be cut so.
    """
    pp = group.config.pp
    if pp > spec.n_layers:
        raise InputError(f"run: model {spec.name!r} has {spec.n_layers} layers and cannot be cut into {pp} stages")
    starts = starts or tuple(k * spec.n_layers // pp for k in range(pp))
    if len(starts) != pp or starts[0] != 0 or starts[-1] >= spec.n_layers:
        raise InputError(
            f"run: model {spec.name!r}: partition {starts} does not cut its {spec.n_layers} layers into {pp} stages; "
            "plan again with the profile of this architecture"
        )
    return (*starts, spec.n_layers)


def device_kind(plan: Plan | None, device: str) -> str:
    """``cpu`` or ``cuda``: as asked, or (``auto``) by the device type that the plan was made for.

    Raises
    ------
    InputError
        On any other word.
    """
    if device not in ("auto", "cpu", "cuda"):
        raise InputError(f"run: device must be 'auto', 'cpu' or 'cuda' (got {device!r})")
    if device != "auto":
        return device
    return "cpu" if plan is None or plan.cluster.device.name.startswith("cpu") else "cuda"


def assign(
    placement: Placement,
    models: Sequence[str],
    profiles: Mapping[str, ModelProfile],
    plan: Plan | None,
    *,
    kind: str,
    batches: tuple[int, ...],
    report_free: bool,
    timeout_s: float,
) -> list[Assignment]:
    """One assignment per device of each group, group by group, stage by stage.

    Raises
    ------
    InputError
        If a model cannot be built or cut as its group wants.
    """
    cores = usable_cores()
    if kind == "cpu" and placement.n_devices > len(cores):
        warnings.warn(
            f"run: {placement.n_devices} devices share {len(cores)} cores: answers are right, times are not",
            stacklevel=3,
        )
    index = {name: m for m, name in enumerate(models)}
    tasks: list[Assignment] = []
    for g, group in enumerate(placement.groups):
        op, pp = group.config.op, group.config.pp
        stages: list[list[Hosted]] = [[] for _ in range(pp)]
        for name in group.models:
            if name not in index:
                continue
            spec, seed = model_spec(name, plan, profiles)
            _check_op(spec, op)
            cuts = boundaries(spec, group, _starts(plan, profiles, g, name, group))
            for k in range(pp):
                stages[k].append(Hosted(index[name], asdict(spec), seed, cuts[k], cuts[k + 1]))
        for rank, number in enumerate(group.devices or ()):
            tasks.append(
                Assignment(
                    group=g, rank=rank, op=op, pp=pp,
                    torch_device="cpu" if kind == "cpu" else f"cuda:{number}",
                    core=cores[number % len(cores)] if kind == "cpu" else None,
                    store=f"store-{g}", batches=batches, models=tuple(stages[rank // op]),
                    report_free=report_free and pp > 1, timeout_s=timeout_s,
                )
            )  # fmt: skip
    return tasks


def _starts(
    plan: Plan | None, profiles: Mapping[str, ModelProfile], g: int, name: str, group: Group
) -> tuple[int, ...]:
    if plan is not None and name in plan.groups[g].partition:
        return plan.groups[g].partition[name]
    profile = profiles.get(name)
    return profile.stage(group.config).partition if profile is not None else ()


def _check_op(spec: ModelSpec, op: int) -> None:
    try:
        spec.check_op(op)
    except ValueError as error:
        raise InputError(f"run: model {spec.name!r}: {error}") from None
