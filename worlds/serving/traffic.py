"""The traffic of a serving case: drawn from a seed, read, or resampled from what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

import numpy as np

from ... import traces
from ...seeds import seed_sequence
from ...traces.trace import Trace
from .case import ServingCase
from .data import ServingData, takes_slo_scale

__all__ = ["DEFAULT_SLO_SCALE", "Role", "span_s", "traffic"]

DEFAULT_SLO_SCALE = 5.0
"""SLO scale of traffic that has no SLO of its own."""

Role = Literal["scored", "history"]
"""Two independent draws of the same process: what a plan is scored on, and what an honest planner has seen."""


def traffic(case: ServingCase, data: ServingData, role: Role = "scored") -> Trace:
    """The requests of a case.

    Common random numbers: the arrivals depend on the seed and on what `workload` and `models` say. Another rate
    stretches the very same draw in time (in a fixed duration more of it is seen), SLOs are put on top.

    Parameters
    ----------
    case : ServingCase
        What to draw or read.
    data : ServingData
        Traces that were read, and the profiles that SLO scales multiply.
    role : {"scored", "history"}
        A measured trace that is not resampled is its own scored traffic; its history is resampled from it.
    """
    w = case.workload
    slos: dict[str, float] = {}
    if takes_slo_scale(case, data):
        scale = w.slo_scale or DEFAULT_SLO_SCALE
        slos = {name: scale * p.single_device_latency() for name, p in data.latencies_for(case).items()}
    read = "" if w.trace is None else data.digests[w.trace]
    models = tuple(data.profiles_for(case))
    said = (w.model_dump_json(exclude={"slo_scale", "slo_device"}), read, models, tuple(slos.items()), case.seed, role)
    return _draw(_Asked(said, case, data, slos))


@dataclass(frozen=True)
class _Asked:
    """Traffic to draw; equal to another if all that decides it is."""

    said: tuple[object, ...]
    case: ServingCase = field(compare=False)
    data: ServingData = field(compare=False)
    slos: Mapping[str, float] = field(compare=False)


@lru_cache(maxsize=2)  # what one point plans on and what it is scored on
def _draw(asked: _Asked) -> Trace:
    case, data, role = asked.case, asked.data, asked.said[-1]
    w = case.workload
    seed = case.seed
    if role == "history":
        seed = int(seed_sequence(case.seed, "history").generate_state(1, np.uint64)[0])
    if w.trace is None:
        split = None if w.split == "uniform" else w.split
        models = list(data.profiles_for(case))
        trace = traces.gamma(float(w.rate or 0) * w.rate_scale, w.cv * w.cv_scale, w.duration, models, split, seed=seed)
    elif w.resample or role == "history":
        trace = data.windows_of(case).scale(w.rate_scale, w.cv_scale).resample(seed)
    else:
        measured = data.traces[w.trace]
        trace = Trace(measured.arrival / w.rate_scale, measured.model, measured.models, measured.slo)
    if w.slo is not None:
        return trace.with_slo(w.slo)
    return trace.with_slo({name: asked.slos[name] for name in trace.models}) if asked.slos else trace


def span_s(case: ServingCase, data: ServingData) -> float:
    """Seconds that the traffic lasts, about: what a warm-up must leave something of."""
    w = case.workload
    if w.trace is None:
        return w.duration
    measured = data.traces[w.trace]
    if w.resample:
        return measured.duration
    return float(measured.arrival[-1] - measured.arrival[0]) / w.rate_scale
