"""What the planner contract looks at: a plan without its times, a problem down to the byte, changed problems."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, cast

import numpy as np

from ... import traces
from ...profiles.profile import ModelProfile
from ...simulator.placement import Placement, PlacementSchedule
from ...simulator.serving.plan.file import Plan
from ...traces.trace import Trace
from ..alpaserve.clockwork import ScheduledPlan
from .problem import Problem

__all__ = [
    "copied",
    "decided",
    "fingerprint",
    "future_of",
    "other_after",
    "other_order",
    "overfull",
    "renamed",
    "schedule_of",
]


def copied(problem: Problem) -> Problem:
    """An equal problem that shares no object with the first."""
    return pickle.loads(pickle.dumps(problem))


def decided(plan: Plan | ScheduledPlan) -> str:
    """A plan as text, without the seconds that planning took."""
    entry = plan.planner.model_copy(update={"seconds": 0.0})
    if isinstance(plan, Plan):
        return plan.model_copy(update={"planner": entry}).to_json()
    windows = (f"from {start!r} s: {placement}" for start, placement in schedule_of(plan))
    return "\n".join([*windows, repr(dict(sorted(plan.predicted.items()))), entry.model_dump_json()])


def schedule_of(plan: Plan | ScheduledPlan) -> list[tuple[float, Placement]]:
    """When each placement begins, seconds; boundaries at which nothing changes left out."""
    placement = plan.placement
    whole = placement if isinstance(placement, PlacementSchedule) else PlacementSchedule([0.0], [placement])
    found: list[tuple[float, Placement]] = []
    for start, one in zip(whole.starts, whole.placements, strict=True):
        if not found or found[-1][1] != one:
            found.append((start, one))
    return found


def overfull(problem: Problem, placement: Placement) -> str:
    """Which device holds more weights than it has memory for, summed device by device; empty if none."""
    used: dict[int, float] = {}
    for group in placement.groups:
        for k in range(group.config.pp):
            for device in group.stage_devices(k):
                for model in group.models:
                    weight = problem.profiles[model].weight_bytes(group.config)[k]
                    used[device] = used.get(device, 0.0) + weight
    full = problem.cluster.memory_bytes
    over = [f"device {d} holds {u / 1e9:.2f} GB of {full / 1e9:.2f}" for d, u in sorted(used.items()) if u > full]
    return "; ".join(over)


def fingerprint(problem: Problem) -> tuple[object, ...]:
    """Everything in a problem, as values that a planner cannot reach."""
    trace = problem.trace
    columns = (trace.arrival, trace.model, trace.slo, trace.prompt_tokens, trace.output_tokens, trace.prefix)
    plain = (problem.cluster, problem.models, trace.models, sorted(problem.options.items()), problem.seed)
    profiles = {name: _whole(profile) for name, profile in problem.profiles.items()}
    return (*(None if c is None else c.tobytes() for c in columns), _whole(plain), repr(sorted(profiles.items())))


def _whole(value: object) -> str:
    """All that a value holds, as text: its repr may be one line that leaves most of it out."""
    if is_dataclass(value) and not isinstance(value, type):
        return f"{type(value).__name__}({', '.join(_whole(getattr(value, f.name)) for f in fields(value))})"
    if isinstance(value, Mapping):
        entries = cast("Mapping[object, object]", value)
        return f"{{{', '.join(f'{_whole(k)}: {_whole(v)}' for k, v in entries.items())}}}"
    if isinstance(value, tuple | list):
        return f"({', '.join(_whole(x) for x in cast('Sequence[object]', value))})"
    return repr(value)


def other_order(problem: Problem) -> Problem:
    """The same problem, its mappings the other way round."""
    profiles: dict[str, ModelProfile] = {}
    for name in reversed(list(problem.profiles)):
        profile = problem.profiles[name]
        profiles[name] = replace(profile, stages=dict(reversed(list(profile.stages.items()))))
    return replace(problem, profiles=profiles, options=dict(reversed(list(problem.options.items()))))


def future_of(problem: Problem, draw: int) -> Trace:
    """Traffic that comes after the planning trace: nearly all of it for one model, another one for each draw."""
    n = len(problem.models)
    shares = [0.05] * n
    shares[draw % n] = 1.0
    rate = max(len(problem.trace), 10) / max(problem.trace.duration, 1e-3) * (1.5 + draw)
    future = traces.gamma(rate, 2.0, 200 / rate, list(problem.models), shares, seed=1000 + draw)
    return future.with_slo_scale(5.0, problem.profiles)


def other_after(problem: Problem, time: float) -> Problem:
    """The same problem up to `time` (seconds) and other traffic after it: fewer requests, for other models."""
    trace = problem.trace
    later = trace.arrival > time
    kept = ~later | (np.arange(len(trace)) % 3 == 0)
    kept[-1] = True  # as long as before
    slos = np.full(len(trace.models), np.inf)
    slos[trace.model[::-1]] = trace.slo[::-1]
    model = np.where(later, len(trace.models) - 1 - trace.model, trace.model)
    asked = np.isin(np.arange(len(trace.models)), trace.model)
    model = np.where(asked[model], model, trace.model)  # models that were silent stay so
    slo = np.where(model == trace.model, trace.slo, slos[model])
    return replace(problem, trace=Trace(trace.arrival[kept], model[kept], trace.models, slo[kept]))


def renamed(problem: Problem, names: Mapping[str, str]) -> Problem:
    """The same problem with its models called otherwise."""
    trace = problem.trace
    other: dict[str, Any] = {
        column: getattr(trace, column) for column in ("prompt_tokens", "output_tokens", "prefix")
    }  # fmt: skip
    profiles = {names.get(name, name): p.renamed(names.get(name, name)) for name, p in problem.profiles.items()}
    return replace(
        problem,
        models=tuple(names[name] for name in problem.models),
        trace=Trace(trace.arrival, trace.model, [names[name] for name in trace.models], trace.slo, **other),
        profiles=profiles,
    )
