"""What a serving simulation gives: columns per request, and the metrics on them."""

from __future__ import annotations

# pandas, scipy and pyarrow bring no type stubs.
# pyright: reportMissingTypeStubs=false
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...reprs import Shown
from ...traces.trace import Trace
from ..metrics import goodput
from ..placement import Placement
from ..summary import Summary
from ..timeline import Timeline
from .policy import TOLERANCE_S
from .policy.scaling import Use
from .replay import Segment, Visits, stage_spans, stage_work

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["SimulationResult"]

Column = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class SimulationResult(Shown):
    """Outcome of every request of a trace, in trace order.

    Parameters
    ----------
    trace : Trace
        What was served.
    finish : ndarray of float64, shape (n,)
        Finish times, seconds, overhead included; NaN where rejected.
    group : ndarray of int32, shape (n,)
        Group that served each request (in the placement that held at its arrival); -1 where rejected.
    segments : tuple of Segment
        The placements that held, with their tables and the requests of each.
    overhead : float
        Seconds that were added to every finish.
    start_column, batch : ndarray, optional
        Start of stage 0 and batch size of each request, where the engine recorded them.
    engine, dispatch : str
        What made the result.
    counted : ndarray of bool, optional
        Requests that metrics count (`trim`); all if not given.
    failed : ndarray of bool, shape (n,), optional
        Requests that were lost with a group; they count as rejected (`group` -1) too. None where none can be.
    attempts : ndarray of int32, shape (n,), optional
        How often each request was sent to a group: more than once if it was tried anew after an outage.
    visits : Visits, optional
        When each stage began and what it took, where that does not follow from the profile.
    uses : tuple of Use, optional
        When each group's devices were in use, where groups are started and drained; else always.
    """

    trace: Trace
    finish: Column
    group: npt.NDArray[np.int32]
    segments: tuple[Segment, ...]
    overhead: float = 0.0
    start_column: Column | None = None
    batch: npt.NDArray[np.int32] | None = None
    engine: str = "compiled"
    dispatch: str = "shortest_queue"
    counted: npt.NDArray[np.bool_] | None = None
    failed: npt.NDArray[np.bool_] | None = None
    attempts: npt.NDArray[np.int32] | None = None
    visits: Visits | None = None
    uses: tuple[Use, ...] | None = None

    def __len__(self) -> int:
        return len(self.finish)

    def _headline(self) -> str:
        return f"{len(self)} requests, {self.attainment_text}, goodput {self.goodput:.4g}/s"

    @property
    def placement(self) -> Placement:
        """The placement (the first one of a schedule)."""
        return self.segments[0].placement

    @property
    def rejected(self) -> npt.NDArray[np.bool_]:
        """Requests that were rejected or dropped, shape (n,)."""
        return self.group < 0

    @cached_property
    def attained(self) -> npt.NDArray[np.bool_]:
        """Requests that finished within their SLO, shape (n,). Exactly on the deadline is in time.

        A request without an SLO (infinite) is attained when it is served at all.
        """
        return self.finish <= self.trace.arrival + self.trace.slo + TOLERANCE_S

    def _mask(self) -> npt.NDArray[np.bool_]:
        return np.ones(len(self), dtype=bool) if self.counted is None else self.counted

    @property
    def attainment(self) -> float:
        """Fraction of all requests, rejected ones included, that finished within their SLO.

        Those without an SLO count as attained when they are served. Where no request has one (`has_slo`), this is the
        share that was served and says nothing about latency: planners refuse such a trace, and tables say "no SLO".
        """
        return float(np.mean(self.attained if self.counted is None else self.attained[self.counted]))

    @property
    def has_slo(self) -> bool:
        """Whether any of the counted requests has an SLO."""
        return bool(np.isfinite(self.trace.slo[self._mask()]).any())

    @property
    def attainment_text(self) -> str:
        """``"attainment 99.25%"``, or ``"no SLO"`` where there is none to attain."""
        return f"attainment {self.attainment:.2%}" if self.has_slo else "no SLO"

    @property
    def goodput(self) -> float:
        """Attained requests per second of the trace's duration (after `trim`: between the counted arrivals).

        See `simulator.metrics.goodput`. Where all requests are attained, it is the trace's rate.
        """
        mask = self._mask()
        times, served = self.trace.arrival[mask], self.finish[mask & ~self.rejected]
        begin = 0.0 if self.counted is None else float(times[0])
        last = float(served.max()) if len(served) else float("nan")
        return goodput(float(self.attained[mask].sum()), begin, float(times[-1]), last)

    @cached_property
    def latencies(self) -> Column:
        """Latency of the counted requests that were served, seconds, in trace order."""
        mask = self._mask() & ~self.rejected
        return self.finish[mask] - self.trace.arrival[mask]

    @property
    def mean_latency(self) -> float:
        """Mean latency of served requests, seconds; NaN if none was served."""
        return float(self.latencies.mean()) if len(self.latencies) else float("nan")

    def latency(self, percentile: float) -> float:
        """A percentile (0 … 100) of the latency of served requests, seconds; NaN if none was served.

        Raises
        ------
        InputError
            If `percentile` is outside 0 … 100.
        """
        if not 0 <= percentile <= 100:
            raise InputError(f"latency: expected a percentile from 0 to 100 (got {percentile})")
        return float(np.percentile(self.latencies, percentile)) if len(self.latencies) else float("nan")

    @cached_property
    def start(self) -> Column:
        """When each request entered its first stage, seconds; NaN where rejected."""
        if self.start_column is not None:
            return self.start_column
        out = np.full(len(self), np.nan)
        for spans in (stage_spans(s, self) for s in self.segments):
            first = spans.stage == 0
            out[spans.request[first]] = spans.start[first]
        return out

    def trim(self, warmup_s: float = 10.0, *, by: str = "time") -> SimulationResult:
        """The same result with metrics that leave out both ends of the trace.

        Parameters
        ----------
        warmup_s : float
            Seconds to leave out at each end.
        by : str
            ``"time"``: requests that arrive in the first or last `warmup_s` seconds. ``"requests"`` (the AlpaServe
            authors' statistics): the share ``warmup_s / (last - first arrival)`` of the requests at each end.

        Raises
        ------
        InputError
            On a negative warm-up, or if nothing would be left.
        """
        if not warmup_s >= 0:
            raise InputError(f"trim: warmup_s must be >= 0 seconds (got {warmup_s})")
        arrival = self.trace.arrival
        counted = np.zeros(len(self), dtype=bool)
        if by == "requests":
            span = float(arrival[-1] - arrival[0])
            # Truncated as the authors' code does (`int(10 / (last - first) * n)`), which decides which ones count.
            skip = int(warmup_s / span * len(self)) if span > 0 else len(self)
            counted[skip : max(skip, len(self) - skip)] = True
        elif by == "time":
            counted = (arrival >= arrival[0] + warmup_s) & (arrival <= arrival[-1] - warmup_s)
        else:
            raise InputError(f"trim: by must be 'time' or 'requests' (got {by!r})")
        if not counted.any():
            raise InputError(
                f"trim: a warm-up of {warmup_s} s at each end leaves no request of a trace of {arrival[-1]:.6g} s"
            )
        return replace(self, counted=counted)

    def summary(self) -> Summary:
        """The figures that one looks at first, each with its unit."""
        from .views import summary

        return summary(self)

    def plot(self) -> Figure:
        """Latencies of each model, and how busy the devices are over time, as a matplotlib figure."""
        from .views import plot

        return plot(self)

    def shown_rows(self) -> Iterable[tuple[str, object]]:
        return self.summary().shown_rows()

    def to_frame(self) -> pd.DataFrame:
        """One row per request: arrival, model, slo, group, start, finish, latency, attained."""
        import pandas as pd

        return pd.DataFrame(
            {
                "arrival": self.trace.arrival,
                "model": np.array(self.trace.models, dtype=object)[self.trace.model],
                "slo": self.trace.slo,
                "group": self.group,
                "start": self.start,
                "finish": self.finish,
                "latency": self.finish - self.trace.arrival,
                "attained": self.attained,
            }
        )

    def per_model(self) -> pd.DataFrame:
        """Metrics per model, one row for each of the trace's models, indexed by name.

        `attainment` is NaN where no request of the trace has an SLO.
        """
        return self._by(self.trace.model, len(self.trace.models), "model", list(self.trace.models))

    def per_group(self) -> pd.DataFrame:
        """Metrics per group, over the requests that it served; with its `utilization` and `offered_load`.

        Indexed by group; under a placement schedule by (window, group), one block for each placement.
        """
        import pandas as pd

        groups = [(w, g) for w, s in enumerate(self.segments) for g in range(s.tables.n_groups)]
        frame = self._by(self._group_number(), len(groups), "group", [g for _, g in groups])
        if len(self.segments) > 1:
            frame.index = pd.MultiIndex.from_tuples(groups, names=["window", "group"])
        for name in ("rejected", "attainment"):
            del frame[name]
        where = [group for s in self.segments for group in s.placement.groups]
        frame.insert(0, "config", [str(group.config) for group in where])
        frame.insert(1, "models", [len(group.models) for group in where])
        frame["utilization"] = self.utilization()
        frame["offered_load"] = self.offered_load()
        return frame

    def _group_number(self) -> npt.NDArray[np.int32]:
        """Group of each request, counted over the placements of all segments; -1 where rejected."""
        number = self.group.copy()
        before = 0
        for segment in self.segments:
            mine = number[segment.low : segment.high]
            mine[mine >= 0] += before
            before += segment.tables.n_groups
        return number

    def _by(self, key: npt.NDArray[np.int32], n: int, label: str, names: list[str] | list[int]) -> pd.DataFrame:
        import pandas as pd

        mask = self._mask() & (key >= 0)
        k, attained, rejected = key[mask], self.attained[mask], self.rejected[mask]
        latency = np.where(rejected, 0.0, self.finish[mask] - self.trace.arrival[mask])
        count = np.bincount(k, minlength=n)
        served = np.bincount(k, weights=~rejected, minlength=n)
        good = np.bincount(k, weights=attained, minlength=n)
        with np.errstate(invalid="ignore", divide="ignore"):
            frame = pd.DataFrame(
                {
                    "requests": count,
                    "rejected": count - served.astype(np.int64),
                    "attainment": good / count if self.has_slo else np.nan,
                    "mean_latency": np.bincount(k, weights=latency, minlength=n) / served,
                },
                index=pd.Index(names, name=label),
            )
        served_k, served_latency = k[~rejected], latency[~rejected]
        order = np.argsort(served_k, kind="stable")
        parts = np.split(served_latency[order], np.cumsum(np.bincount(served_k, minlength=n))[:-1])
        frame["p99_latency"] = [float(np.percentile(part, 99)) if len(part) else np.nan for part in parts]
        return frame

    def timeline(self) -> Timeline:
        """Every stage visit, one lane per pipeline stage of each group."""
        lanes: list[str] = []
        processes: list[str] = []
        offset: list[int] = []
        for i, segment in enumerate(self.segments):
            offset.append(len(lanes))
            prefix = f"window {i}, " if len(self.segments) > 1 else ""
            for g, group in enumerate(segment.placement.groups):
                for k in range(group.config.pp):
                    devices = ",".join(str(d) for d in group.stage_devices(k))
                    lanes.append(f"stage {k} (device {devices})")
                    processes.append(f"{prefix}group {g} {group.config}")
        all_spans = [stage_spans(s, self) for s in self.segments]
        lane = np.concatenate([s.lane + o for s, o in zip(all_spans, offset, strict=True)]).astype(np.int32)
        request = np.concatenate([s.request for s in all_spans])
        return Timeline(
            lane=lane,
            start=np.concatenate([s.start for s in all_spans]),
            end=np.concatenate([s.end for s in all_spans]),
            name=self.trace.model[request],
            request=request,
            lanes=lanes,
            names=self.trace.models,
            processes=processes,
        )

    @property
    def horizon(self) -> float:
        """Last arrival or finish, seconds."""
        served = self.finish[~self.rejected]
        return float(max(self.trace.arrival[-1], served.max())) if len(served) else float(self.trace.arrival[-1])

    @property
    def device_s(self) -> float:
        """Device-seconds that groups were in use up to `horizon`: of all groups, or of those that were started."""
        end, total = self.horizon, 0.0
        if self.uses is not None:
            groups = self.placement.groups
            return sum(groups[u.group].config.n_devices * (min(u.until_s, end) - u.from_s) for u in self.uses)
        for span, segment in zip(self._spans(end), self.segments, strict=True):
            total += span * sum(group.config.n_devices for group in segment.placement.groups)
        return total

    def utilization(self, window: float | None = None) -> Column:
        """Busy fraction of the devices.

        Parameters
        ----------
        window : float, optional
            Window length, seconds.

        Returns
        -------
        ndarray of float64
            Without `window`, of each group (under a schedule, of each group of each placement in turn), shape
            ``(n_groups,)``, from the time that its placement took over until the next one did, or the last event;
            the stages of a group count equally. Work that outlives its placement (`PlacementSchedule`) is included,
            so a group of a short window can exceed 1. With `window`, of all devices together in each window, shape
            ``(n_windows,)``; a device that runs on under the old and the new placement counts twice.
        """
        if window is None:
            busy = [work.sum(axis=1) / s.tables.stages for s, work in zip(self.segments, self._work(), strict=True)]
            return np.concatenate([b / span for b, span in zip(busy, self._spans(self.horizon), strict=True)])
        placements = [s.placement for s in self.segments]
        weight = np.array([g.config.op for p in placements for g in p.groups for _ in range(g.config.pp)], dtype=float)
        per_lane = self.timeline().utilization(window, self.horizon)
        return (weight[:, None] * per_lane).sum(axis=0) / max(p.n_devices for p in placements)

    def offered_load(self) -> Column:
        """Work that each group accepted for its busiest stage, over the time in which it arrived; shape as above.

        From 1 on the queue grows as long as the trace goes on: mean latencies then say how long the trace is.
        """
        spans = self._spans(self.trace.duration)
        return np.concatenate([work.max(axis=1) / span for work, span in zip(self._work(), spans, strict=True)])

    def _work(self) -> list[Column]:
        """Busy seconds of each stage of each group, an array (n_groups, max_stages) for each segment."""
        return [stage_work(segment, self) for segment in self.segments]

    def _spans(self, until: float) -> list[float]:
        """Seconds for which each segment's placement held."""
        begins = [0.0, *(s.end for s in self.segments[:-1])]
        ends = [*(s.end for s in self.segments[:-1]), max(until, begins[-1])]
        # An empty span (all requests arrive at 0) divides as the smallest float: a huge load, and no division by zero.
        return [max(b - a, np.finfo(float).tiny) for a, b in zip(begins, ends, strict=True)]
