"""`RunResult`: the outcome of a real run, with the columns and metrics of a simulated one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...errors import RunError
from ...simulator.placement import Placement
from ...simulator.serving.replay import Segment
from ...simulator.serving.result import SimulationResult
from ...simulator.timeline import Timeline
from .breaks import Comeback
from .controller import Failure
from .dispatcher import Dispatcher
from .measure.cores import NOT_KNOWN, CoreUse

if TYPE_CHECKING:
    from .session import Served

__all__ = ["RunResult", "collect"]

Column = npt.NDArray[np.float64]


def _empty() -> Column:
    return np.zeros((0, 0))


@dataclass(frozen=True, eq=False, repr=False)
class RunResult(SimulationResult):
    """Outcome of every request of a trace that really ran; all metrics of `SimulationResult`, measured.

    ``finish`` is when the controller had the answer, ``start`` when stage 0 began, both in seconds from the run's
    beginning. Requests that failed with a worker count as rejected (``group`` -1) and are marked in `failed`.

    Parameters
    ----------
    stage_start, stage_s : ndarray of float64, shape (n, max_stages)
        When each stage of each request began and how long it computed, seconds; NaN where it did not run.
    cpu_s : ndarray of float64, shape (n, max_stages)
        CPU time of the stage's thread, seconds; where it is much below `stage_s`, others had the core. On a GPU it
        equals `stage_s`.
    check : ndarray of float64, shape (n,)
        First number of each answer: equal for equal models, whatever the placement. NaN where there is no answer.
    failed : ndarray of bool, shape (n,)
        Requests that failed with a worker.
    failures : tuple of Failure
        Groups that were lost.
    comebacks : tuple of Comeback
        Groups that came back.
    lateness : ndarray of float64, shape (n,)
        Seconds by which the controller handled each request after its arrival time.
    cores : CoreUse
        Who used the cores meanwhile.
    """

    stage_start: Column = field(default_factory=_empty)
    stage_s: Column = field(default_factory=_empty)
    cpu_s: Column = field(default_factory=_empty)
    check: Column = field(default_factory=_empty)
    failed: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))
    failures: tuple[Failure, ...] = ()
    comebacks: tuple[Comeback, ...] = ()
    lateness: Column = field(default_factory=_empty)
    cores: CoreUse = NOT_KNOWN

    def _headline(self) -> str:
        lost = f", {len(self.failures)} groups lost" if self.failures else ""
        return f"{super()._headline()}{lost}"

    def raise_failures(self) -> None:
        """Raise `RunError` with the reasons if a group was lost that was not to be."""
        if self.unplanned:
            raise RunError("run: " + "; ".join(map(str, self.unplanned)))

    @property
    def unplanned(self) -> tuple[Failure, ...]:
        """Groups that were lost and not broken on purpose."""
        return tuple(failure for failure in self.failures if not failure.planned)

    @property
    def sizes(self) -> npt.NDArray[np.int32]:
        """Batch size of each request, shape (n,); 0 where rejected."""
        return np.zeros(len(self), dtype=np.int32) if self.batch is None else self.batch

    def heads(self) -> npt.NDArray[np.int64]:
        """Row of one request of each finished job, ascending; requests of a batch share all times."""
        served = np.flatnonzero(self.group >= 0)
        key = np.stack((self.group[served], self.finish[served]))
        _, first = np.unique(key, axis=1, return_index=True)
        return np.sort(served[first])

    def timeline(self) -> Timeline:
        """Every stage visit as measured, one lane per pipeline stage of each group, as in a simulated timeline."""
        groups = self.placement.groups
        heads = self.heads()
        lanes: list[str] = []
        processes: list[str] = []
        parts: list[tuple[npt.NDArray[Any], ...]] = []
        for g, group in enumerate(groups):
            mine = heads[self.group[heads] == g]
            for k in range(group.config.pp):
                parts.append((np.full(len(mine), len(lanes)), self.stage_start[mine, k], self.stage_s[mine, k], mine))
                devices = ",".join(str(d) for d in group.stage_devices(k))
                lanes.append(f"stage {k} (device {devices})")
                processes.append(f"group {g} {group.config}")
        lane, start, length, request = (np.concatenate(column) for column in zip(*parts, strict=True))
        known = ~np.isnan(start)  # a worker that died took the spans of its earlier stages along
        lane, start, length, request = lane[known], start[known], length[known], request[known]
        return Timeline(
            lane=lane.astype(np.int32),
            start=start,
            end=start + length,
            name=self.trace.model[request],
            request=request,
            lanes=lanes,
            names=self.trace.models,
            processes=processes,
        )


def collect(placement: Placement, dispatcher: Dispatcher, served: Served) -> RunResult:
    """Put together what the dispatcher decided and what the workers measured."""
    trace, tables = dispatcher.trace, dispatcher.policy.tables
    n, width = len(trace), tables.latency.shape[2]
    start, seconds, cpu = (np.full((n, width), np.nan) for _ in range(3))
    jobs, controller = dispatcher.jobs, served.controller
    row = np.array([r for job in jobs for r in job.requests], dtype=np.int64)
    number = np.repeat(np.arange(len(jobs)), [len(job.requests) for job in jobs])
    kept = np.isin(number, list(controller.answers))  # not those of a lost group
    kept &= dispatcher.group[row] >= 0
    row, number = row[kept], number[kept]
    for spans in served.spans:
        mine = dispatcher.group[row] == spans.group
        if not len(spans.job):
            continue
        at = np.minimum(np.searchsorted(spans.job, number[mine]), len(spans.job) - 1)
        own = spans.job[at] == number[mine]  # the rest ran before the worker was started again
        where, at = row[mine][own], at[own]
        start[where, spans.stage] = spans.start[at]
        seconds[where, spans.stage] = spans.seconds[at]
        cpu[where, spans.stage] = spans.cpu[at]
    check = np.full(n, np.nan)
    if len(row):
        answers = np.array([controller.answers[job] for job in number.tolist()])
        check[row] = answers[:, 3]
        last = tables.stages[dispatcher.group[row]] - 1
        lost = np.isnan(start[row, last])  # a worker that died took its spans along, but not its answers
        where = row[lost], last[lost]
        start[where] = answers[lost, 0] - controller.t0
        seconds[where] = answers[lost, 1] - answers[lost, 0]
        cpu[where] = answers[lost, 2]
    segment = Segment(placement, tables, 0, n, float(trace.arrival[-1]), np.zeros((tables.n_groups, width)))
    return RunResult(
        trace=trace, finish=dispatcher.finish, group=dispatcher.group, segments=(segment,),
        overhead=dispatcher.policy.overhead,
        start_column=start[:, 0].copy(), batch=dispatcher.batch, engine="real", dispatch=dispatcher.dispatch,
        stage_start=start, stage_s=seconds, cpu_s=cpu, check=check, failed=dispatcher.failed,
        failures=tuple(controller.failures), comebacks=tuple(controller.comebacks), attempts=dispatcher.attempts,
        lateness=np.array(controller.lateness), cores=served.cores,
    )  # fmt: skip
