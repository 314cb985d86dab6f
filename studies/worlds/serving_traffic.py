"""The traffic of a serving case: drawn from a seed, read, or resampled from what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ... import traces
from ...profiles.profile_set import ProfileSet
from ...traces.trace import Trace
from .serving_case import ServingCase

if TYPE_CHECKING:
    from .serving_data import ServingData

__all__ = ["HISTORY", "traffic"]

DEFAULT_SLO_SCALE = 5.0
HISTORY = 1_000_003
"""Added to the seed of traffic that is planned on but not scored: the two never share a draw."""


def traffic(case: ServingCase, data: ServingData, profiles: ProfileSet, seed: int, role: str) -> Trace:
    """The requests of a case.

    Parameters
    ----------
    case : ServingCase
        What to draw or read.
    data : ServingData
        Traces that were read, and what was fitted to them.
    profiles : ProfileSet
        The case's models; SLO scales multiply their latencies.
    seed : int
        The same seed gives the same arrivals whatever else the case says: rates stretch time, SLOs are put on top.
    role : {"scored", "history"}
        Two independent draws of the same process.
    """
    w = case.workload
    drawn = seed + (HISTORY if role == "history" else 0)
    if w.trace is None:
        split = None if w.split == "uniform" else w.split
        trace = traces.gamma(
            float(w.rate or 0) * w.rate_scale, w.cv * w.cv_scale, w.duration, list(profiles), split, seed=drawn
        )
    elif w.resample or role == "history":
        trace = data.windows_of(w.trace, w.window).scale(w.rate_scale, w.cv_scale).resample(drawn)
    else:
        measured = data.traces[w.trace]
        trace = Trace(measured.arrival / w.rate_scale, measured.model, measured.models, measured.slo)
    if w.slo is not None:
        return trace.with_slo(w.slo)
    if w.slo_scale is not None or bool(np.isinf(trace.slo).all()):
        return trace.with_slo_scale(w.slo_scale or DEFAULT_SLO_SCALE, data.latencies_for(case))
    return trace
