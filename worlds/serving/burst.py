"""The worst burst of a serving case: when it was, how its requests fared, and what ran where."""

from __future__ import annotations

# pandas brings no type stubs.
# pyright: reportMissingTypeStubs=false
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ...simulator.serving import SimulationResult
from ...simulator.serving.replay import Segment, StageSpans, stage_spans

__all__ = ["Burst", "worst_burst"]

Frame = Any
"""A pandas frame. Untyped, for pandas' annotations make a union of half the library of every cell."""

SLOS, FEWEST, MOST, LEAD = 10.0, 60, 1_200, 0.15
CHUNK = 1_000_000


@dataclass(frozen=True, eq=False)
class Burst:
    """A window of the traffic.

    Parameters
    ----------
    begin, end : float
        Seconds.
    requests : DataFrame
        Arrivals in it: arrival, model, fate ("in time", "late" or "rejected").
    spans : DataFrame
        What ran in it: window (placement of a schedule), group, stage, model, request, start, end.
    """

    begin: float
    end: float
    requests: Frame
    spans: Frame

    def count(self, fate: str) -> int:
        """Arrivals with this fate."""
        return int((self.requests["fate"] == fate).sum())


def worst_burst(result: SimulationResult) -> Burst:
    """The window in which most requests missed their SLO; the one with most arrivals if none did.

    It is ten SLOs long, or longer where that shows too few arrivals, or shorter where it shows too many.
    """
    import pandas as pd

    begin, end = worst_window(result)
    trace = result.trace
    low, high = np.searchsorted(trace.arrival, (begin, end))
    rows = slice(int(low), int(high))
    fate = np.where(result.rejected[rows], "rejected", np.where(result.attained[rows], "in time", "late"))
    names = np.array(trace.models, dtype=object)
    requests = pd.DataFrame({"arrival": trace.arrival[rows], "model": names[trace.model[rows]], "fate": fate})
    parts = [
        pd.DataFrame(
            {
                "window": w,
                "group": _group_of_lane(result.segments[w])[s.lane[seen]],
                "stage": s.stage[seen],
                "model": names[trace.model[s.request[seen]]],
                "request": s.request[seen],
                "start": s.start[seen],
                "end": s.end[seen],
            }
        )
        for w, s in _spans(result, begin, end)
        if (seen := (s.end > begin) & (s.start < end)).any()
    ]
    empty = pd.DataFrame(columns=["window", "group", "stage", "model", "request", "start", "end"])
    return Burst(begin, end, requests, pd.concat(parts, ignore_index=True) if parts else empty)


def worst_window(result: SimulationResult) -> tuple[float, float]:
    """Begin and end of the worst window, seconds."""
    trace = result.trace
    counted = np.ones(len(result), dtype=bool) if result.counted is None else result.counted
    arrival = trace.arrival[counted]
    first, last = float(arrival[0]), float(arrival[-1])
    finite = trace.slo[np.isfinite(trace.slo)]
    rate = len(arrival) / max(last - first, 1e-9)
    length = max(SLOS * float(np.median(finite)) if len(finite) else 0.0, FEWEST / rate)
    lost = trace.arrival[counted & ~result.attained]
    times = lost if len(lost) else arrival
    while True:
        lead = LEAD * length
        inside = np.searchsorted(times, times + length - lead) - np.arange(len(times))
        # The lead shows what the burst ran into; a window never begins before the traffic.
        begin = max(0.0, float(times[int(np.argmax(inside))]) - lead)
        end = begin + length
        if np.diff(np.searchsorted(trace.arrival, (begin, end)))[0] <= MOST:
            return begin, min(end, max(result.horizon, begin + 1e-9))
        length *= 0.7


def _group_of_lane(segment: Segment) -> npt.NDArray[np.int64]:
    return np.repeat(np.arange(segment.tables.n_groups), segment.tables.stages)


def _spans(result: SimulationResult, begin: float, end: float) -> Iterator[tuple[int, StageSpans]]:
    """Stage visits that may touch the window, a million requests at a time: memory does not grow with the trace."""
    arrival = result.trace.arrival
    for w, segment in enumerate(result.segments):
        if segment.low == segment.high or arrival[segment.low] >= end:
            continue
        low = segment.low
        if result.start_column is not None:
            # Batches say when they began, so that those long before the window need not be replayed. The chunk is
            # not cut: batches of one chunk may begin after those of the next.
            longest = float(result.latencies.max()) if len(result.latencies) else 0.0
            low = max(low, int(np.searchsorted(arrival, begin - 20 * longest)))
            high = min(segment.high, int(np.searchsorted(arrival, end)))
            if low < high:
                yield w, stage_spans(replace(segment, low=low, high=high), result)
            continue
        clock, group = segment.clock.copy(), _group_of_lane(segment)
        for start in range(low, segment.high, CHUNK):
            if arrival[start] >= end:
                break
            part = replace(segment, low=start, high=min(start + CHUNK, segment.high), clock=clock)
            spans = stage_spans(part, result)
            np.maximum.at(clock, (group[spans.lane], spans.stage), spans.end)
            yield w, spans
