"""What ran where and when: spans on devices, as Chrome-trace JSON (Perfetto) or a matplotlib picture."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..files import write_text
from ..reprs import Shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Timeline"]


@dataclass(frozen=True, repr=False)
class Timeline(Shown):
    """What ran where and when, as columns with a row per span. Spans of one lane never overlap.

    Parameters
    ----------
    lane : ndarray of int32, shape (n,)
        Lane (a device stage) of each span.
    start, end : ndarray of float64, shape (n,)
        Seconds.
    name : ndarray of int32, shape (n,)
        Index into `names`.
    request : ndarray of int64, shape (n,)
        What the span worked on.
    lanes, names : sequence of str
        Labels.
    processes : sequence of str
        Process label (a group) of each lane.
    """

    lane: npt.NDArray[np.int32]
    start: npt.NDArray[np.float64]
    end: npt.NDArray[np.float64]
    name: npt.NDArray[np.int32]
    request: npt.NDArray[np.int64]
    lanes: Sequence[str]
    names: Sequence[str]
    processes: Sequence[str]

    def __len__(self) -> int:
        return len(self.lane)

    def _headline(self) -> str:
        last = float(self.end.max()) if len(self) else 0.0
        return f"{len(self)} spans in {len(self.lanes)} lanes until {last:.6g} s"

    def busy(self) -> npt.NDArray[np.float64]:
        """Busy seconds of each lane, shape ``(len(lanes),)``."""
        work = np.bincount(self.lane, weights=self.end - self.start, minlength=len(self.lanes))
        return work.astype(np.float64)

    def utilization(self, window: float, until: float) -> npt.NDArray[np.float64]:
        """Busy fraction of each lane in each window of `window` seconds, shape ``(len(lanes), n_windows)``."""
        if not window > 0:
            raise InputError(f"Timeline.utilization: window must be > 0 seconds (got {window})")
        edges = np.arange(0.0, until + window, window)
        out = np.zeros((len(self.lanes), len(edges) - 1))
        for lane in range(len(self.lanes)):
            mine = self.lane == lane
            start, end = np.sort(self.start[mine]), np.sort(self.end[mine])
            # Busy time up to t: starts before t have run to t, less what has not run of those that ended.
            done = [np.concatenate(([0.0], np.cumsum(x))) for x in (start, end)]
            k0, k1 = np.searchsorted(start, edges), np.searchsorted(end, edges)
            upto = (edges * k0 - done[0][k0]) - (edges * k1 - done[1][k1])
            out[lane] = np.diff(upto) / window
        return out

    def to_events(self) -> list[dict[str, Any]]:
        """Chrome-trace events: complete (``X``) events in microseconds, one tid per lane."""
        labels = list(dict.fromkeys(self.processes))
        pid = {label: i for i, label in enumerate(labels)}
        events: list[dict[str, Any]] = [
            {"ph": "M", "name": "process_name", "pid": i, "tid": 0, "args": {"name": label}}
            for i, label in enumerate(labels)
        ]
        for tid, (lane, process) in enumerate(zip(self.lanes, self.processes, strict=True)):
            where = {"pid": pid[process], "tid": tid}
            events.append({"ph": "M", "name": "thread_name", **where, "args": {"name": lane}})
            events.append({"ph": "M", "name": "thread_sort_index", **where, "args": {"sort_index": tid}})
        order = np.lexsort((self.start, self.lane))
        for i in order.tolist():
            lane = int(self.lane[i])
            events.append(
                {
                    "ph": "X",
                    "name": self.names[int(self.name[i])],
                    "pid": pid[self.processes[lane]],
                    "tid": lane,
                    "ts": float(self.start[i]) * 1e6,
                    "dur": float(self.end[i] - self.start[i]) * 1e6,
                    "args": {"request": int(self.request[i])},
                }
            )
        return events

    def to_chrome(self, path: str | Path) -> Path:
        """Write Chrome-trace JSON that Perfetto and chrome://tracing open."""
        return write_text(path, json.dumps({"displayTimeUnit": "ms", "traceEvents": self.to_events()}))

    def plot(self, ax: Axes | None = None, *, start: float = 0.0, stop: float = float("inf")) -> Axes:
        """Draw the spans between `start` and `stop` seconds; returns the axes."""
        import matplotlib.pyplot as plt

        if ax is None:
            _, ax = plt.subplots(figsize=(9, 0.45 * len(self.lanes) + 1.2), layout="constrained")
        axes: Any = ax
        seen = (self.end > start) & (self.start < stop)
        colours = plt.get_cmap("tab20")(np.arange(len(self.names)) % 20)
        for lane in range(len(self.lanes)):
            mine = seen & (self.lane == lane)
            spans = np.column_stack((self.start[mine], self.end[mine] - self.start[mine]))
            axes.broken_barh(spans.tolist(), (lane - 0.4, 0.8), facecolors=colours[self.name[mine]])
        axes.set_yticks(range(len(self.lanes)), [f"{p} · {s}" for p, s in zip(self.processes, self.lanes, strict=True)])
        ax.invert_yaxis()
        axes.set_xlabel("time (s)")
        return ax
