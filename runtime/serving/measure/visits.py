"""What the stages of a placement did while it served: every visit, and the time that passed between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from ..result import RunResult

__all__ = ["Gaps", "Visits", "gaps", "visits"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

WAITED_S = 1e-3
"""A job that had been there for so long when the stage became free was taken as soon as the stage could: what passed
between the two visits is the stage's own. Longer than any message takes."""


@dataclass(frozen=True, eq=False)
class Visits:
    """Visits of jobs to stages, of several runs of one placement; columns of shape (n,), by start.

    Parameters
    ----------
    run, group, stage, device, model, batch : ndarray of int64
        Which run, where (`device` is the first of a stage), and what.
    start, seconds, cpu : ndarray of float64
        From the beginning of the first run, the runs laid end to end; how long; and of that, on its core. Seconds.
    ready : ndarray of float64
        When the job could have begun, had the stage been free: it arrived, or left the stage before. Seconds.
    arrived : ndarray of float64
        When the job's request arrived, from the beginning of its own run, seconds.
    idle : ndarray of float64
        How long the device did nothing before, seconds; infinite before the first visit of a run.
    tells : ndarray of bool
        Whether costs may be learnt from it: not from requests that a run is judged by (`SimulationResult.counted`).
    """

    run: IntArray
    group: IntArray
    stage: IntArray
    device: IntArray
    model: IntArray
    batch: IntArray
    start: FloatArray
    seconds: FloatArray
    cpu: FloatArray
    ready: FloatArray
    arrived: FloatArray
    idle: FloatArray
    tells: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        """Visits."""
        return len(self.start)

    def where(self, kept: npt.NDArray[np.bool_]) -> Visits:
        """Those of the visits alone; how long devices were idle before them stays."""
        return Visits(*(getattr(self, column.name)[kept] for column in fields(self)))

    @property
    def end(self) -> FloatArray:
        """When each visit ended, seconds."""
        return self.start + self.seconds


def visits(runs: Sequence[RunResult]) -> Visits:
    """The visits of runs of one placement.

    Raises
    ------
    InputError
        If nothing was served in any of them.
    """
    parts: list[tuple[npt.NDArray[np.generic], ...]] = []
    begun = 0.0
    for number, served in enumerate(runs):
        heads, groups = served.heads(), served.placement.groups
        for stage in range(served.stage_s.shape[1]):
            rows = heads[~np.isnan(served.stage_s[heads, stage])]
            group = served.group[rows].astype(np.int64)
            device = np.array([min(groups[g].stage_devices(stage)) for g in group.tolist()], dtype=np.int64)
            earlier = max(stage - 1, 0)
            ended = served.stage_start[rows, earlier] + served.stage_s[rows, earlier]
            before = served.trace.arrival[rows] if stage == 0 else ended
            parts.append((
                np.full(len(rows), number), group, np.full(len(rows), stage), device,
                served.trace.model[rows], served.sizes[rows], begun + served.stage_start[rows, stage],
                served.stage_s[rows, stage], served.cpu_s[rows, stage], begun + before, served.trace.arrival[rows],
                np.ones(len(rows), dtype=bool) if served.counted is None else ~served.counted[rows],
            ))  # fmt: skip
        begun += float(np.nanmax(served.finish, initial=served.trace.arrival[-1]))
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    if not len(columns[0]):
        raise InputError("calibrate: no request was served while the placement was measured")
    order = np.argsort(columns[6], kind="stable")
    run, group, stage, device, model, batch = (column[order].astype(np.int64) for column in columns[:6])
    start, seconds, cpu, ready, arrived = (column[order].astype(np.float64) for column in columns[6:11])
    idle, tells = _idle(run, device, start, start + seconds), columns[11][order].astype(np.bool_)
    return Visits(run, group, stage, device, model, batch, start, seconds, cpu, ready, arrived, idle, tells)


def _idle(run: IntArray, device: IntArray, start: FloatArray, end: FloatArray) -> FloatArray:
    out = np.full(len(start), np.inf)
    for one in np.unique(device):
        mine = np.flatnonzero(device == one)
        since = np.maximum(start[mine][1:] - end[mine][:-1], 0.0)
        out[mine[1:]] = np.where(run[mine][1:] == run[mine][:-1], since, np.inf)
    return out


@dataclass(frozen=True, eq=False)
class Gaps:
    """Time that passes between a stage's visits, and between stages.

    Parameters
    ----------
    turnaround : ndarray of float64
        From the end of a visit to the start of the next one, where the next job was waiting: the stage tells of the
        one and fetches the other, and serves nobody. Seconds.
    arrival, hop : ndarray of float64
        From a job's arrival, or from its end in the stage before, to its start, where the stage was idle. Seconds.
    answer : ndarray of float64
        From the end of the last stage to the moment when the controller has the answer, seconds.
    """

    turnaround: FloatArray
    arrival: FloatArray
    hop: FloatArray
    answer: FloatArray

    @property
    def turnaround_s(self) -> float:
        """Mean turnaround, seconds; 0 if no job ever waited."""
        return float(np.mean(self.turnaround)) if len(self.turnaround) else 0.0


def gaps(runs: Sequence[RunResult]) -> Gaps:
    """Measure what passes between visits, and before those that tell."""
    found = visits(runs)
    turnaround: list[FloatArray] = []
    idle: dict[bool, list[FloatArray]] = {True: [], False: []}
    for device in np.unique(found.device):
        for run in np.unique(found.run):
            mine = np.flatnonzero((found.device == device) & (found.run == run))
            end, start, ready = found.end[mine][:-1], found.start[mine][1:], found.ready[mine][1:]
            tells = found.tells[mine][1:]
            turnaround.append((start - end)[tells & (ready + WAITED_S <= end)])
            idle[bool(found.stage[mine[0]] == 0) if len(mine) else True].append((start - ready)[tells & (ready > end)])
    answers: list[FloatArray] = []
    for run in runs:
        heads = run.heads()
        heads = heads if run.counted is None else heads[~run.counted[heads]]
        last = np.array([group.config.pp - 1 for group in run.placement.groups])[run.group[heads]]
        late = run.finish[heads] - run.stage_start[heads, last] - run.stage_s[heads, last]
        answers.append(late[~np.isnan(late)])
    none = np.zeros(0)
    return Gaps(*(np.concatenate(part or [none]) for part in (turnaround, idle[True], idle[False], answers)))
