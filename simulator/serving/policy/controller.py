"""Dispatch and admission by predicted times: `Controller`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ....errors import InputError
from ..tables import ServingTables

__all__ = ["DISPATCH", "TOLERANCE_S", "Controller", "Decision", "check_dispatch"]

TOLERANCE_S = 1e-9
"""A finish within a nanosecond of its deadline is on it: sums of floats must not decide what arithmetic calls equal."""


class Decision(NamedTuple):
    """What the controller decided for one request.

    Parameters
    ----------
    group : int
        Group that serves the request, -1 if it is rejected.
    finish : float
        Predicted finish, seconds, overhead included.
    """

    group: int
    finish: float

    @property
    def admitted(self) -> bool:
        """Whether the request was taken."""
        return self.group >= 0


class Controller:
    """Dispatch and admission for one placement (AlpaServe §4.3).

    Parameters
    ----------
    tables : ServingTables
        The placement.
    dispatch : str
        A key of `DISPATCH`.
    admission : bool
        Reject requests whose predicted finish misses the deadline.
    overhead : float
        Seconds added to every finish; occupies no stage.

    Attributes
    ----------
    clock : list of list of float
        When each stage of each group will be free, seconds, as predicted from the profile.
    outstanding : list of int
        Requests dispatched to each group and not yet finished.
    """

    def __init__(
        self,
        tables: ServingTables,
        dispatch: str = "shortest_queue",
        admission: bool = True,
        overhead: float = 0.0,
    ) -> None:
        check_dispatch(dispatch)
        self.tables = tables
        self.admission = admission
        self.overhead = overhead
        self.clock = [[0.0] * int(n) for n in tables.stages]
        self.outstanding = [0] * tables.n_groups
        self._key = DISPATCH[dispatch]
        self._away: set[int] = set()
        self._held = [
            [
                (int(tables.pair_group[p]), tables.latency[p, 0].tolist(), float(tables.hop[p]))
                for p in tables.pairs_of(m)
            ]
            for m in range(tables.n_models)
        ]
        self._pairs = self._held

    def groups_of(self, model: int) -> list[int]:
        """Groups that hold `model` and are there."""
        return [pair[0] for pair in self._pairs[model]]

    def predict(self, now: float, group: int, latency: list[float], hop: float) -> list[float]:
        """When each stage of `group` would finish a request that enters at `now`, seconds."""
        ends: list[float] = []
        t = now
        # Latencies are padded to the longest pipeline of the placement; the clock has this group's stages alone.
        for free, work in zip(self.clock[group], latency, strict=False):
            t = (t if t > free else free) + work
            ends.append(t)
            t += hop
        return ends

    def arrive(self, now: float, model: int, deadline: float) -> Decision:
        """Decide on a request of `model` that arrives at `now` and must finish by `deadline`, seconds."""
        best: tuple[float, int, list[float], float] | None = None
        for group, latency, hop in self._pairs[model]:
            key = self._key(self, now, group, latency, hop)
            # Strictly smaller: groups come by their index, so that the lowest one wins a tie, in every engine.
            if best is None or key < best[0]:
                best = (key, group, latency, hop)
        if best is None:
            return Decision(-1, now)
        _, group, latency, hop = best
        ends = self.predict(now, group, latency, hop)
        finish = ends[-1] + self.overhead
        if self.admission and finish > deadline + TOLERANCE_S:
            return Decision(-1, finish)  # before the clock moves: a rejected request takes no time
        self.clock[group] = ends
        self.outstanding[group] += 1
        return Decision(group, finish)

    def finished(self, group: int) -> None:
        """A request of `group` has finished."""
        self.outstanding[group] -= 1

    def remove(self, group: int) -> list[int]:
        """Forget `group`, which went away; returns the waiting requests that no other group can serve."""
        self._away.add(group)
        self._note_away()
        self.outstanding[group] = 0
        return []

    def drain(self, group: int) -> None:
        """Send nothing to `group` any more; it ends what it has."""
        self._away.add(group)
        self._note_away()

    def resume(self, group: int) -> None:
        """Send to `group` again, which was drained and has what it has."""
        self._away.discard(group)
        self._note_away()

    def restore(self, group: int, now: float) -> None:
        """`group` is back at `now`, with nothing to do."""
        self._away.discard(group)
        self._note_away()
        self.clock[group] = [now] * len(self.clock[group])

    def _note_away(self) -> None:
        self._pairs = [[pair for pair in pairs if pair[0] not in self._away] for pairs in self._held]


Key = Callable[[Controller, float, int, list[float], float], float]


def _shortest_queue(c: Controller, now: float, group: int, latency: list[float], hop: float) -> float:
    return c.outstanding[group]  # in requests, as AlpaServe §4.3 counts a queue, and not in seconds of work


def _earliest_finish(c: Controller, now: float, group: int, latency: list[float], hop: float) -> float:
    return c.predict(now, group, latency, hop)[-1]


def _earliest_free(c: Controller, now: float, group: int, latency: list[float], hop: float) -> float:
    # The rule of the authors' fast simulator, which made their published figures: the clock of the last stage, without
    # what this request would add. Idle groups compare by how long they have been idle.
    return c.clock[group][-1]


DISPATCH: dict[str, Key] = {
    "shortest_queue": _shortest_queue,
    "earliest_finish": _earliest_finish,
    "earliest_free": _earliest_free,
}
"""Dispatch policy -> its key: the group with the smallest key gets the request, the lowest index among equals."""


def check_dispatch(dispatch: str) -> None:
    """Raise `InputError` if `dispatch` names no policy."""
    if dispatch not in DISPATCH:
        raise InputError(f"dispatch: unknown policy {dispatch!r}; expected one of {', '.join(DISPATCH)}")
