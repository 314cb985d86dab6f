"""`Runner`: points go out to an executor and come back as they finish, a bounded number in flight."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from queue import Empty, SimpleQueue

from ... import __version__
from ...errors import InputError
from ...worlds.outcome import Outcome
from ..point import Point
from ..storage.store import Row
from .executors import Crew, InProcess
from .work import Done

__all__ = ["Runner"]

BUDGET_S = 0.1
"""What a task of several points may take: short points share the cost of a task, long ones travel alone."""

MOST = 64
"""Points in a task."""

DEATHS = 2
"""So often may a point kill its worker, alone there, before it counts as failed."""

DIED = "worker process died, twice, with this point alone on it (a crash, or out of memory)"
"""The same words on every executor: what each knows of a death goes to `Runner.deaths`."""

QUIET_S = 5.0
"""Seconds without a result after which the executor is looked after."""


class Runner:
    """Evaluates points on an executor.

    A task carries as many points as take about `BUDGET_S` together. When a worker dies, the points that were sent to
    it run again, each alone, so that the one that kills workers is found and fails; the others lose nothing.
    """

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._size = 1
        self.deaths: list[str] = []
        """How workers died so far, in words."""

    def run(self, items: Iterable[Point | Row]) -> Iterator[Row]:
        """Evaluate points, in the order in which they finish; rows that are known pass through.

        Raises
        ------
        RunError
            If the executor is lost.
        InputError
            If a worker has another version of the package.
        """
        flight = _Flight(self._crew)
        deaths: Counter[int] = Counter()
        suspects: deque[Point] = deque()
        again: deque[Point] = deque()
        source = iter(items)
        more = True
        try:
            while True:
                while (more or again) and not suspects and not flight.alone and flight.room():
                    chunk: list[Point] = []
                    while len(chunk) < self._size:
                        if again:
                            chunk.append(again.popleft())
                            continue
                        item = next(source, None)
                        if item is None:
                            more = False
                            break
                        if isinstance(item, Point):
                            chunk.append(item)
                        else:
                            yield item
                    if chunk:
                        flight.send(chunk)
                while suspects and flight.only_alone() and len(flight.alone) < self._crew.alone:
                    flight.send([suspects.popleft()], alone=True)
                if not flight.flying:
                    return
                points, alone, back = flight.land()
                if isinstance(back, str):
                    which = ", ".join(str(p.index) for p in points[:3]) + (", …" if len(points) > 3 else "")
                    self.deaths.append(f"{back} with point {which}")
                    if not alone:
                        suspects.extend(points)
                        continue
                    deaths[points[0].index] += 1
                    if deaths[points[0].index] < DEATHS:
                        suspects.append(points[0])
                    else:
                        yield points[0], Outcome("failed", error=DIED)
                    continue
                if back.version != __version__:
                    raise InputError(
                        f"{self._crew.name}: a worker has meshwright {back.version}, this is {__version__}; install "
                        "the same there"
                    )
                done = len(back.outcomes)
                self._resize(len(points), done, back.seconds)
                again.extendleft(reversed(points[done:]))
                yield from zip(points, back.outcomes, strict=False)
        finally:
            flight.cancel()

    def _resize(self, sent: int, done: int, seconds: float) -> None:
        if done < sent:
            self._size = max(1, done)
        elif sent == self._size and seconds < BUDGET_S / 2 and not isinstance(self._crew.executor, InProcess):
            self._size = min(MOST, 2 * self._size)
        elif seconds > BUDGET_S:
            self._size = max(1, self._size // 2)


class _Flight:
    """Tasks that were sent and have not come back."""

    def __init__(self, crew: Crew) -> None:
        self.crew = crew
        self.flying: dict[Future[Done | None], list[Point]] = {}
        self.alone: set[Future[Done | None]] = set()
        self._landed: SimpleQueue[Future[Done | None]] = SimpleQueue()

    def room(self) -> bool:
        """Whether another task keeps workers busy without piling up: one at work and one at hand for each."""
        inline = isinstance(self.crew.executor, InProcess)
        return len(self.flying) < (1 if inline else 2 * self.crew.workers() + 1)

    def only_alone(self) -> bool:
        """Whether nothing flies but points that are tried alone."""
        return len(self.flying) == len(self.alone)

    def send(self, points: list[Point], alone: bool = False, with_data: bool = False) -> None:
        """Send a task."""
        try:
            future = self.crew.submit(points, BUDGET_S, with_data)
        except (InputError, KeyboardInterrupt):
            raise
        except Exception as error:
            raise self.crew.explain(error) from None
        self.flying[future] = points
        if alone:
            self.alone.add(future)
        future.add_done_callback(self._landed.put)

    def land(self) -> tuple[list[Point], bool, Done | str]:
        """Wait for a task: its points, whether they were tried alone, what came back or how its worker died."""
        while True:
            try:
                future = self._landed.get(timeout=QUIET_S)
            except Empty:
                self.crew.check()
                continue
            points = self.flying.pop(future)
            alone = future in self.alone
            self.alone.discard(future)
            try:
                back = future.result()
            except (Exception, SystemExit) as error:
                death = self.crew.died(future, error)
                if not death:
                    raise self.crew.explain(error) from None
                return points, alone, death
            if back is not None:
                return points, alone, back
            self.send(points, alone, with_data=True)

    def cancel(self) -> None:
        """Take back what has not begun."""
        if self.crew.recall:
            for future in self.flying:
                future.cancel()
