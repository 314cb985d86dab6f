"""Dynamic batching, clock-free (AlpaServe §6.5): per-model queues, and idle groups that take the oldest head."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
from collections import deque
from dataclasses import dataclass

from ....errors import InputError
from ....reprs import Shown
from ..tables import ServingTables
from .controller import TOLERANCE_S, Controller

__all__ = ["Batch", "Batching", "BatchingController"]


@dataclass(frozen=True, slots=True, repr=False)
class Batching(Shown):
    """Options of dynamic batching.

    Parameters
    ----------
    max_batch : int
        Largest batch. Only batch sizes that the profile holds are formed.
    """

    max_batch: int = 8

    def __post_init__(self) -> None:
        if isinstance(self.max_batch, bool) or not isinstance(self.max_batch, int) or self.max_batch < 1:
            raise InputError(f"Batching.max_batch: expected a positive integer (got {self.max_batch!r})")


@dataclass(frozen=True, slots=True)
class Batch:
    """Requests that enter a group together.

    Parameters
    ----------
    group : int
        The group.
    model : int
        The model.
    requests : tuple of int
        The requests, in order of arrival.
    latency : list of float
        Stage latencies at this batch size, seconds.
    hop : float
        Seconds between two stages.
    finish : float
        Predicted finish time, seconds, overhead included.
    """

    group: int
    model: int
    requests: tuple[int, ...]
    latency: list[float]
    hop: float
    finish: float


class BatchingController(Controller):
    """Dispatch, admission and batching for one placement.

    A group is idle while its first stage is free. A request runs at once, alone, if a group that holds its model is
    idle (the dispatch policy chooses among idle ones); else it waits in its model's queue. A group that becomes idle
    takes the model whose head arrived first and batches as many of its requests as finish in time; heads that could
    not even alone are dropped.
    """

    def __init__(
        self,
        tables: ServingTables,
        dispatch: str = "shortest_queue",
        admission: bool = True,
        overhead: float = 0.0,
    ) -> None:
        super().__init__(tables, dispatch, admission, overhead)
        self.idle = [True] * tables.n_groups
        self.queues: list[deque[tuple[int, float]]] = [deque() for _ in range(tables.n_models)]
        self._hosted: list[list[int]] = [[] for _ in range(tables.n_groups)]
        self._sizes = [int(b) for b in tables.sizes]  # ascending, as `stage_free` needs them
        for m in range(tables.n_models):
            for p in tables.pairs_of(m):
                self._hosted[int(tables.pair_group[p])].append(m)

    def _fits(self, now: float, group: int, pair: int, column: int, deadline: float) -> Batch | None:
        """The predicted batch of ``sizes[column]`` requests on an idle group; None if it would miss `deadline`.

        The caller fills in the model and the requests.
        """
        latency = self.tables.latency[pair, column].tolist()
        hop = float(self.tables.hop[pair])
        if latency[0] != latency[0]:  # this size was not profiled
            return None
        finish = self.predict(now, group, latency, hop)[-1] + self.overhead
        if self.admission and finish > deadline + TOLERANCE_S:
            return None
        return Batch(group, -1, (), latency, hop, finish)

    def _launch(self, now: float, model: int, plan: Batch, requests: tuple[int, ...]) -> Batch:
        self.clock[plan.group] = self.predict(now, plan.group, plan.latency, plan.hop)
        self.outstanding[plan.group] += len(requests)
        self.idle[plan.group] = False
        return Batch(plan.group, model, requests, plan.latency, plan.hop, plan.finish)

    def offer(self, now: float, request: int, model: int, deadline: float) -> tuple[Batch | None, bool]:
        """A request arrives. Returns ``(batch, waiting)``: a batch to run now, or whether it waits (else dropped)."""
        best: tuple[float, int] | None = None
        for group, latency, hop in self._pairs[model]:
            if self.idle[group]:
                key = self._key(self, now, group, latency, hop)
                if best is None or key < best[0]:  # strictly: the lowest index wins a tie, as in `Controller.arrive`
                    best = (key, group)
        if best is None:
            if not self._pairs[model]:
                return None, False
            self._enqueue(request, model, deadline)
            return None, True
        group = best[1]
        # Alone (column 0 is batch 1): where a group is idle nothing of its models waits that could be batched.
        plan = self._fits(now, group, self.tables.pair(model, group), 0, deadline)
        if plan is None:
            return None, False
        return self._launch(now, model, plan, (request,)), False

    def _enqueue(self, request: int, model: int, deadline: float) -> None:
        queue = self.queues[model]
        place = len(queue)
        while place and queue[place - 1][0] > request:  # one that was sent before, and lost with its group
            place -= 1
        queue.insert(place, (request, deadline))

    def remove(self, group: int) -> list[int]:
        """`group` is gone; returns the requests that waited for a model that no other group holds."""
        super().remove(group)
        self.idle[group] = False  # what is gone must never be chosen as idle
        orphans: list[int] = []
        for model in self._hosted[group]:
            if not self._pairs[model]:
                orphans += [request for request, _ in self.queues[model]]
                self.queues[model].clear()
        return orphans

    def restore(self, group: int, now: float) -> None:
        """`group` is back at `now`, idle; `stage_free` gives it work."""
        super().restore(group, now)
        self.idle[group] = True

    def stage_free(self, now: float, group: int) -> tuple[Batch | None, list[int]]:
        """The first stage of `group` is free. Returns the batch that it takes, and the requests dropped meanwhile."""
        self.idle[group] = True
        dropped: list[int] = []
        while True:
            waiting = [m for m in self._hosted[group] if self.queues[m]]
            if not waiting:
                return None, dropped
            # Requests are numbered by arrival, so the smallest number is the oldest head; no two are equal.
            model = min(waiting, key=lambda m: self.queues[m][0][0])
            queue = self.queues[model]
            pair = self.tables.pair(model, group)
            plan = self._fits(now, group, pair, 0, queue[0][1])
            if plan is None:
                dropped.append(queue.popleft()[0])
                continue
            # The tightest deadline of all members bounds a batch, and not only the first one's (as in the authors'
            # code): admission promises every member its SLO. A size that misses it, or was not profiled, does not end
            # the search, because profiled latencies need not grow with the batch.
            size, tightest, members = 1, queue[0][1], 1
            for column in range(1, len(self._sizes)):
                batch = self._sizes[column]
                if batch > len(queue):
                    break
                while members < batch:
                    tightest = min(tightest, queue[members][1])
                    members += 1
                larger = self._fits(now, group, pair, column, tightest)
                if larger is not None:
                    plan, size = larger, batch
            return self._launch(now, model, plan, tuple(queue.popleft()[0] for _ in range(size))), dropped
