"""What the stages of a placement did while it served: every visit, and the time that passed between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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

    def __len__(self) -> int:
        """Visits."""
        return len(self.start)

    @property
    def end(self) -> FloatArray:
        """When each visit ended, seconds."""
        return self.start + self.seconds

    @property
    def idle(self) -> FloatArray:
        """How long each visit's device did nothing before it, seconds; infinite before the first one of a run."""
        out = np.full(len(self), np.inf)
        for device in np.unique(self.device):
            mine = np.flatnonzero(self.device == device)
            same = self.run[mine][1:] == self.run[mine][:-1]
            since = np.maximum(self.start[mine][1:] - self.end[mine][:-1], 0.0)
            out[mine[1:]] = np.where(same, since, np.inf)
        return out


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
                served.stage_s[rows, stage], served.cpu_s[rows, stage], begun + before,
            ))  # fmt: skip
        begun += float(np.nanmax(served.finish, initial=served.trace.arrival[-1]))
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    if not len(columns[0]):
        raise InputError("calibrate: no request was served while the placement was measured")
    order = np.argsort(columns[6], kind="stable")
    run, group, stage, device, model, batch = (column[order].astype(np.int64) for column in columns[:6])
    start, seconds, cpu, ready = (column[order].astype(np.float64) for column in columns[6:])
    return Visits(run, group, stage, device, model, batch, start, seconds, cpu, ready)


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
    """Measure what passes between visits."""
    found = visits(runs)
    turnaround: list[FloatArray] = []
    idle: dict[bool, list[FloatArray]] = {True: [], False: []}
    for device in np.unique(found.device):
        for run in np.unique(found.run):
            mine = np.flatnonzero((found.device == device) & (found.run == run))
            end, start, ready = found.end[mine][:-1], found.start[mine][1:], found.ready[mine][1:]
            turnaround.append((start - end)[ready + WAITED_S <= end])
            idle[bool(found.stage[mine[0]] == 0) if len(mine) else True].append((start - ready)[ready > end])
    answers: list[FloatArray] = []
    for run in runs:
        heads = run.heads()
        last = np.array([group.config.pp - 1 for group in run.placement.groups])[run.group[heads]]
        late = run.finish[heads] - run.stage_start[heads, last] - run.stage_s[heads, last]
        answers.append(late[~np.isnan(late)])
    none = np.zeros(0)
    return Gaps(*(np.concatenate(part or [none]) for part in (turnaround, idle[True], idle[False], answers)))
