"""`Probe`: jobs in a fixed order, without a policy. It warms up and calibrates a session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..dispatcher import Job

__all__ = ["Probe", "ProbeJob"]


@dataclass(frozen=True, slots=True)
class ProbeJob:
    """A job to send at a given time.

    Parameters
    ----------
    at : float
        Seconds.
    group, model, batch : int
        Where, what, how many requests.
    """

    at: float
    group: int
    model: int
    batch: int = 1


class Probe:
    """Decisions that are made already (see `controller.Decisions`).

    Parameters
    ----------
    jobs : sequence of ProbeJob
        In order of time.

    Attributes
    ----------
    end, finish : ndarray of float64, shape (n,)
        When each job left its last stage, and when its answer was there, seconds.
    """

    def __init__(self, jobs: Sequence[ProbeJob]) -> None:
        self.probes = tuple(jobs)
        self.undecided = len(self.probes)
        self.end = np.full(len(self.probes), np.nan)
        self.finish = np.full(len(self.probes), np.nan)
        self._lost: set[int] = set()
        self._under_way: set[int] = set()

    def arrive(self, now: float, request: int) -> Job | None:
        """Send the job, unless its group is gone."""
        probe = self.probes[request]
        if probe.group in self._lost:
            self.undecided -= 1
            return None
        self._under_way.add(request)
        return Job(request, probe.group, probe.model, (request,) * probe.batch, now)

    def freed(self, now: float, group: int) -> Job | None:
        """Nothing waits here."""
        return None

    def finished(self, number: int, end: float, finish: float) -> None:
        """Note when."""
        self.end[number], self.finish[number] = end, finish
        self._under_way.remove(number)
        self.undecided -= 1

    def lost(self, group: int) -> list[int]:
        """The group's jobs that have not finished."""
        self._lost.add(group)
        gone = [number for number in self._under_way if self.probes[number].group == group]
        self._under_way.difference_update(gone)
        self.undecided -= len(gone)
        return gone

    def again(self, now: float, request: int) -> Job | None:
        """Nothing is tried anew."""
        return None

    def restored(self, now: float, group: int) -> Job | None:
        """Nothing is broken on purpose."""
        return None
