"""Conditions as engines read them: the factor of any visit of one placement, and the columns that come of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from ..draws import Draws
from ..placement import Placement
from .conditions import Conditions
from .outages import Change
from .policy.scaling import Use
from .times import devices_of

__all__ = ["Outcome", "Reality", "Rules"]


@dataclass(frozen=True, slots=True)
class Rules:
    """How a placement is served; fields as in `simulate`, `batching` whether there is any."""

    dispatch: str
    admission: bool
    overhead: float
    batching: bool = False


class Reality:
    """What visits of one placement take, and when its groups are away.

    Parameters
    ----------
    conditions : Conditions
        What happens.
    placement : Placement
        To whom.
    visited : ndarray of int64, shape (devices,)
        Visits that each device has made under earlier placements.

    Attributes
    ----------
    varies : bool
        Whether times are drawn, and predictions corrected by answers.
    stages, hops, answers : Draws
        Factors; of 1 where none were given.
    devices : tuple of tuple of tuple of int
        Devices of each stage of each group.
    changes : list of Change
        Groups that go away and come back, in order.
    retried : bool
        Whether requests in flight are sent anew, and not lost.
    scaling : Scaling or None
        The rule by which groups are started and drained.
    """

    def __init__(
        self, conditions: Conditions, placement: Placement, visited: npt.NDArray[np.int64] | None = None
    ) -> None:
        times, outages = conditions.times, conditions.outages
        groups, n = len(placement.groups), devices_of(placement)
        self.varies = times is not None
        self.stages = _ones(n) if times is None else times.stages
        self.hops = _ones(groups) if times is None or times.hops is None else times.hops
        self.answers = _ones(groups) if times is None or times.answers is None else times.answers
        self.devices = tuple(tuple(g.stage_devices(k) for k in range(g.config.pp)) for g in placement.groups)
        self.changes: list[Change] = [] if outages is None else outages.changes()
        self.retried = outages is not None and outages.in_flight == "retried"
        self.scaling = conditions.scaling
        self.visited = np.zeros(n, dtype=np.int64)
        if visited is not None:
            self.visited[: len(visited)] = visited[:n]

    def stage(self, group: int, k: int, at_s: float, job: int, idle_s: float) -> float:
        """Factor of the visit that the `job`-th job of a group makes to stage `k`, starting at `at_s` after a rest."""
        slowest = max(self.stages.ratio(d, at_s, int(self.visited[d]) + job) for d in self.devices[group][k])
        return slowest * self.stages.rested(idle_s)

    def after(self, jobs: Sequence[int], visited: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Visits of each device (those of `visited` and more) after each group was sent so many jobs."""
        total = np.zeros(max(len(visited), len(self.visited)), dtype=np.int64)
        total[: len(visited)] = visited
        for stages, sent in zip(self.devices, jobs, strict=True):
            for d in (d for stage in stages for d in stage):
                total[d] += sent
        return total


def _ones(streams: int) -> Draws:
    return Draws(1.0, np.ones((streams, 1)), np.zeros(streams, dtype=np.uint64), np.ones(1))


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """A row per request of what happened under conditions.

    Parameters
    ----------
    finish, start : ndarray of float64, shape (n,)
        Seconds; NaN where it was not served.
    group, batch, attempts : ndarray of int32, shape (n,)
        Group (-1), batch size (0), and how often it was sent to a group.
    failed : ndarray of bool, shape (n,)
        Lost with a group.
    stage_start, stage_s : ndarray of float64, shape (n, max_stages)
        When each stage began and how long it took, seconds; NaN where there was none. No columns if not asked for.
    uses : tuple of Use, optional
        When each group's devices were in use, where groups are started and drained.
    """

    finish: npt.NDArray[np.float64]
    start: npt.NDArray[np.float64]
    group: npt.NDArray[np.int32]
    batch: npt.NDArray[np.int32]
    attempts: npt.NDArray[np.int32]
    failed: npt.NDArray[np.bool_]
    stage_start: npt.NDArray[np.float64]
    stage_s: npt.NDArray[np.float64]
    uses: tuple[Use, ...] | None = None

    @classmethod
    def empty(cls, n: int, stages: int) -> Outcome:
        """Nothing has happened yet."""
        return cls(
            np.full(n, np.nan), np.full(n, np.nan), np.full(n, -1, dtype=np.int32), np.zeros(n, dtype=np.int32),
            np.zeros(n, dtype=np.int32), np.zeros(n, dtype=bool), np.full((n, stages), np.nan),
            np.full((n, stages), np.nan),
        )  # fmt: skip

    @classmethod
    def joined(cls, parts: Sequence[Outcome]) -> Outcome:
        """Rows of several segments, one after the other."""
        if len(parts) == 1:
            return parts[0]
        width = max(part.stage_s.shape[1] for part in parts)

        def column(name: str) -> npt.NDArray[np.generic]:
            found = [getattr(part, name) for part in parts]
            if found[0].ndim == 2:
                found = [np.pad(a, ((0, 0), (0, width - a.shape[1])), constant_values=np.nan) for a in found]
            return np.concatenate(found)

        return cls(*(column(f.name) for f in fields(cls) if f.name != "uses"))  # type: ignore[arg-type]
