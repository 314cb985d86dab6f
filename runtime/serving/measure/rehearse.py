"""`rehearse`: other requests of the same kind, served to learn what serving costs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....profiles.profile_set import ProfileSet
from ....seeds import generator
from ....traces.trace import Trace
from ..result import RunResult
from ..session import Session

__all__ = ["other_requests", "rehearse"]


def other_requests(trace: Trace, seed: int, seconds: float | None = None) -> Trace:
    """Requests with the same bursts at other times and for other models: never those of the trace itself.

    The trace is begun at a random place (its end follows on its beginning), and models change places.

    Parameters
    ----------
    trace : Trace
        What is to be served afterwards.
    seed : int
        Of the place, and of the models' order.
    seconds : float, optional
        Length; that of the trace if left out. What is longer goes round again.
    """
    rng = generator(seed, "rehearsal")
    span = max(float(trace.duration), 1e-6)
    length = span if seconds is None else seconds
    rounds = int(np.ceil(length / span)) + 1
    shifted = trace.arrival + rng.uniform(0.0, span)
    arrival = np.concatenate([shifted + k * span for k in range(-1, rounds)])
    order = np.argsort(arrival, kind="stable")
    kept = order[(arrival[order] >= 0) & (arrival[order] < length)]
    if not len(kept):  # a trace of next to no requests: the first one will do
        kept, arrival = order[:1], np.zeros_like(arrival)
    rows = kept % len(trace)
    model = rng.permutation(len(trace.models)).astype(np.int32)[trace.model[rows]]
    # A model's SLO is that of its first request, or of any where it has none.
    known, first = np.unique(trace.model, return_index=True)
    slo = np.full(len(trace.models), trace.slo[0])
    slo[known] = trace.slo[first]
    return Trace(arrival=arrival[kept], model=model, models=trace.models, slo=slo[model])


def rehearse(
    session: Session, trace: Trace, known: ProfileSet, seed: int, *, seconds: float | None = None, **serving: Any
) -> RunResult:
    """Serve `other_requests` on a session, with the predictions of `known`.

    Raises
    ------
    RunError
        If a group is lost.
    """
    result = session.run(other_requests(trace, seed, seconds), profiles=known, **serving)
    result.raise_failures()
    return result
