"""`Run`: the event loop of the compiled engine, from one decision to the next.

The loop itself is not compiled: each policy would have the whole simulator compiled once more with it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..result.grants import Grants
from ..world import SharingWorld
from .arrays import cluster_arrays, failure_events, first_state, world_arrays
from .loop import Progress, go_on
from .record import Record

__all__ = ["Run"]


class Run:
    """A world on its way, in arrays.

    Iterating gives the instant of each decision and how many apps are in the cluster (``p.present``); what is written
    into ``p.given`` until the next one is carried out.

    Parameters
    ----------
    world : SharingWorld
        What is simulated.
    preempts : bool
        Whether GPUs are leased.
    """

    def __init__(self, world: SharingWorld, preempts: bool) -> None:
        apps, gpus = len(world.apps), world.cluster.n_gpus
        self.out = np.full((apps, 9), np.nan)
        self.ended = np.zeros(apps, dtype=np.bool_)
        self.given = np.full(gpus, -1, dtype=np.int64)
        self._cursor = np.zeros(5, dtype=np.int64)
        self._spare = apps, gpus
        arrays = world_arrays(world)
        self._progress = Progress(
            preempts=bool(preempts), max_s=float(world.horizon_s), events=failure_events(world),
            out=self.out, ended=self.ended, changed=np.zeros(apps, dtype=np.bool_), cursor=self._cursor,
            instant=np.array([arrays.arrival[0] if apps else np.inf, 0.0]), offered=np.zeros(gpus, dtype=np.bool_),
            given=self.given, present=np.empty(apps, dtype=np.int64), grant_s=np.empty(1024),
            grant_app=np.empty(1024, dtype=np.int64), grant_first=np.zeros(1025, dtype=np.int64),
            grant_gpus=np.empty(8192, dtype=np.int64),
        )  # fmt: skip
        self.c, self.w, self.s = Record(cluster_arrays(world.cluster)), Record(arrays), Record(first_state(world))
        self.p = Record(self._progress)

    def __iter__(self) -> Iterator[tuple[float, int]]:
        """Until all apps have ended, nothing can happen, or the world's horizon is past."""
        count = 0
        while True:
            self._make_room()
            now, count = go_on(self.c, self.w, self.s, self.p, count)
            if count < 0:
                return
            yield now, count

    def grants(self) -> Grants:
        """All so far."""
        p, n, gpus = self._progress, int(self._cursor[2]), int(self._cursor[4])
        return Grants(p.grant_s[:n], p.grant_app[:n], p.grant_first[: n + 1], p.grant_gpus[:gpus])

    def _make_room(self) -> None:
        """So that a decision's grants can be noted down: at most one for each app, at most all GPUs."""
        apps, gpus = self._spare
        p = self._progress
        if self._cursor[2] + apps >= p.grant_s.shape[0] or self._cursor[4] + gpus > p.grant_gpus.shape[0]:
            self._progress = p = p._replace(
                grant_s=_longer(p.grant_s, apps), grant_app=_longer(p.grant_app, apps),
                grant_first=_longer(p.grant_first, apps), grant_gpus=_longer(p.grant_gpus, gpus),
            )  # fmt: skip
            self.p = Record(p)


def _longer(array: np.ndarray, least: int) -> np.ndarray:
    """Twice as long, or by `least`."""
    return np.concatenate((array, np.zeros(max(array.shape[0], least), dtype=array.dtype)))
