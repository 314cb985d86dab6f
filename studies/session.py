"""`Session`: a study under way. Run it whole, or ask and tell, so that one's own optimiser can drive it."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..errors import InputError, RunError
from ..reprs import Shown
from ..wording import nearest
from ..worlds.names import check_metrics
from ..worlds.outcome import Outcome
from .execution.executors import crew
from .execution.runner import Runner
from .execution.work import Shared
from .frame import frame_of
from .point import Point
from .progress import OnProgress, Progress
from .storage.store import Row, Store
from .storage.store_file import MEND, Identity, discard, missing
from .study import Study

if TYPE_CHECKING:
    import pandas as pd

    from .questions.answer import Answer

__all__ = ["Session", "SessionFacts"]


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """What a session did, for people; none of it is in the store.

    Parameters
    ----------
    executor : str
        Who evaluated.
    workers : int
        How many points at a time.
    kept, evaluated, failed : int
        Points that an earlier run left in the store, points that this one put there, points there that failed.
    elapsed_s : float
        Since the session was opened.
    deaths : tuple of str
        How workers died on the way, in words.
    """

    executor: str
    workers: int
    kept: int
    evaluated: int
    failed: int
    elapsed_s: float
    deaths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Said:
    """What a point comes to: the content key of its row, what it reads, and what is wrong with it."""

    key: str
    provenance: Mapping[str, str]
    error: str = ""


class Session(Shown):
    """A study, its store and who evaluates its points. Made by `Session.open`, used as a context.

    Leaving the context well seals the store: its bytes then depend on the study alone. Leaving it by an error or
    Ctrl-C keeps every point that was finished, and the same session opened again goes on from there.
    """

    def __init__(
        self, study: Study, store: Store, shared: Shared, executor: str | Executor, workers: int | None,
        retry_failed: bool, progress: OnProgress | None,
    ) -> None:  # fmt: skip
        self.study = study
        self.store = store
        self.shared = shared
        self.answers: tuple[Answer, ...] = ()
        self._progress = progress
        self._crew = crew(executor, workers, shared)
        self._runner = Runner(self._crew)
        self._began = time.monotonic()
        self._retry = set(store.indices(failed=True)) if retry_failed else set[int]()
        self._kept = len(store) - len(self._retry)
        self._design = study.points()
        self._asked: dict[str, Point] = {}
        self._free = len(study)
        self._beyond = sum(1 for _ in store.indices(start=len(study)))
        self._fresh_asked = 0
        self._folded: set[int] = set()
        self._what = ""

    def _headline(self) -> str:
        done = len(self.store)
        return f"{self.study.name or 'study'}: {done} points kept of {len(self.study)}, {len(self.answers)} answers"

    def shown_rows(self) -> Iterable[tuple[str, object]]:
        rows = [("study", self.study), ("points kept", len(self.store))]
        return [*rows, *((answer.question, answer.sentence) for answer in self.answers)]

    @classmethod
    def open(
        cls, study: Study, store: str | Path | None = None, *, executor: str | Executor = "processes",
        workers: int | None = 1, retry_failed: bool = False, progress: OnProgress | None = None,
    ) -> Session:  # fmt: skip
        """Check everything and get ready; no point is evaluated yet.

        Parameters
        ----------
        store : path, optional
            Where results are kept as they come; what is there is not evaluated again. In memory if not given.
        executor : str or concurrent.futures.Executor
            ``processes``, ``dask://HOST:PORT``, ``ray``, ``ray://HOST:PORT``, or one's own.
        workers : int, optional
            Processes; one evaluates in this process, None takes all cores. A cluster has as many as it has.
        retry_failed : bool
            Evaluate points again that failed.
        progress : callable, optional
            Called with a `Progress` for every point that comes to be known.

        Raises
        ------
        InputError
            If the store is something else or another study's, what the study names is missing, nobody answers at the
            executor, or its workers lack this version.
        """
        made = [] if store is None else missing(store)
        opened = Store(store, Identity(study.name, study.digest, study.text, __version__))
        try:
            shared = Shared(study, study.share())
            session = cls(study, opened, shared, executor, workers, retry_failed, progress)
        except BaseException:
            opened.close()
            discard(made)
            raise
        try:
            session._check_read()
        except BaseException:
            session.close(at_once=True)
            raise
        return session

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.store.seal()
        finally:
            self.close(at_once=kind is not None)

    def close(self, at_once: bool = False) -> None:
        """Hand back the executor and close the store; `at_once` ends what is still being evaluated."""
        try:
            self._crew.close(at_once)
        finally:
            self.store.close()

    @property
    def facts(self) -> SessionFacts:
        """What was done so far."""
        return SessionFacts(
            self._crew.name, self._crew.workers(), self._kept, self._known() - self._kept, self.store.failed,
            time.monotonic() - self._began, tuple(self._runner.deaths),
        )  # fmt: skip

    @property
    def progress(self) -> Progress:
        """How far the study is."""
        done = self._known() + len(self._folded)
        total = max(len(self.study) + max(self._beyond, self._fresh_asked), done)
        elapsed_s = time.monotonic() - self._began
        return Progress(done, self._kept, self.store.failed, total, elapsed_s, self._what)

    def _known(self) -> int:
        """Points in the store, those left out that are to be evaluated again."""
        return len(self.store) - len(self._retry)

    def run(self) -> None:
        """Evaluate what is missing of the design, then answer the questions, then seal the store."""
        for _ in self.evaluate(self.study.points()):
            pass
        from .questions import answers

        self._what = "; ".join(str(getattr(q, "find", "")) for q in self.study.questions)
        found = answers(self, self.study.questions)
        self._what = ""
        self.answers = found
        self.store.seal(patient=False)

    def ask(
        self, values: Mapping[str, Any] | None = None, planner: str | None = None, replication: int = 0
    ) -> Point | None:
        """A point to evaluate.

        Parameters
        ----------
        values : Mapping, optional
            Fields by path, or by their last word where that is unique; others are as in the base case. The same
            question gives the same point; a new one stands after the design, in the order of asking. If not given:
            the next point of the design that nobody asked for or told yet; None when there is none.
        planner : str, optional
            Label; the first if not given.
        replication : int
            Counts from 0.

        Raises
        ------
        InputError
            If there is no such field or planner, or the values make no valid case.
        """
        if values is None:
            return next((p for p in self._design if self._unknown(p)), None)
        label = next(iter(self.study.planners)) if planner is None else planner
        if label not in self.study.planners:
            near = nearest(label, self.study.planners)
            hint = f"did you mean {near!r}?" if near else f"there are {', '.join(self.study.planners)}"
            raise InputError(f"ask: no planner {label!r} in this study; {hint}")
        if isinstance(replication, bool) or replication < 0:
            raise InputError(f"ask: replication: expected a whole number >= 0 (got {replication!r})")
        named = self.study.values_of(values)
        said = self._said(Point(self._free, named, label, replication))
        if said.error:
            raise InputError(f"ask: {said.error}")
        row = self.store.find(said.key)
        if row is not None:
            return row[0]
        if said.key not in self._asked:
            while self.store.holds(self._free):
                self._free += 1
            self._asked[said.key] = Point(self._free, named, label, replication)
            self._free += 1
            self._fresh_asked += 1
        return self._asked[said.key]

    def _unknown(self, point: Point) -> bool:
        key = self._said(point).key
        return key not in self._asked and self.store.find(key) is None

    def evaluate(self, points: Iterable[Point]) -> Generator[Row]:
        """Evaluate the points that the store lacks; all of them, in the order in which they come to be known.

        Raises
        ------
        RunError
            If the executor or the disk is lost; what was finished is kept.
        """
        under_way: dict[int, _Said] = {}
        same: dict[str, list[Point]] = {}
        self._report()

        def missing() -> Iterator[Point | Row]:
            for point in points:
                said = self._said(point)
                row = self.store.find(said.key)
                if row is not None and row[0].index not in self._retry:
                    self._fold(point, row[0].index)
                    yield point, row[1]
                elif said.key in same:  # the design says the same thing twice: it is evaluated once
                    same[said.key].append(point)
                elif row is None and self.store.holds(point.index):
                    raise InputError(
                        f"{self.store.where}: point {point.index} is there with other inputs than now; {MEND}"
                    )
                else:
                    same[said.key] = []
                    under_way[point.index] = said
                    yield (point, Outcome("failed", error=said.error)) if said.error else point

        with closing(_generator(self._runner.run(missing()))) as rows:
            while True:
                try:
                    row = next(rows, None)
                except RunError as error:
                    if "points kept" in str(error):
                        raise
                    kept = f"{len(self.store)} points kept"
                    raise RunError(f"{error}; {kept}, the same command goes on") from None
                if row is None:
                    return
                point, outcome = row
                said = under_way.pop(point.index, None)
                if said is not None:
                    self._put(point, outcome, said)
                yield row
                for twin in same.pop(said.key, []) if said is not None else []:
                    self._fold(twin, point.index)
                    yield twin, outcome

    def _fold(self, point: Point, index: int) -> None:
        if point.index != index:
            self._folded.add(point.index)
        self._report()

    def tell(self, point: Point, outcome: Outcome) -> None:
        """Put a point's outcome into the store.

        Raises
        ------
        InputError
            If it is there already, or has a metric with the name of a field or column.
        """
        check_metrics(self.study.world, outcome.metrics)
        self._put(point, outcome, self._said(point))

    def _put(self, point: Point, outcome: Outcome, said: _Said) -> None:
        self.store.put(point, outcome, said.key, said.provenance, replace=point.index in self._retry)
        self._retry.discard(point.index)
        self._asked.pop(said.key, None)
        self._report()

    def _report(self) -> None:
        if self._progress is not None:
            self._progress(self.progress)

    def _said(self, point: Point) -> _Said:
        """What identifies a point's content: its case in full, what that reads, and the version that works it out."""
        world = self.study.world
        try:
            case = self.study.case(point)
        except InputError as error:
            seed = self.study.seed + point.replication
            wrong = [world.name, "invalid", dict(point.values), point.planner, seed, __version__]
            return _Said(_digest(wrong), {}, " ".join(str(error).split()))
        try:
            read = dict(world.digests(case, self.shared.data))
        except KeyError as error:
            raise InputError(
                f"point {point.index}: {error.args[0]!r} was not loaded; a study loads what its base and axes name"
            ) from None
        metrics = sorted(getattr(world, "metrics", ()))
        return _Said(_digest([world.name, case.identity(), read, metrics, __version__]), read)

    def _check_read(self) -> None:
        """Refuse a store whose rows read other files than there are now.

        Raises
        ------
        InputError
            Naming the first.
        """
        if not len(self.store):
            return
        now: dict[str, str] = {}
        for case in self.study.reach():
            now |= self.study.world.digests(case, self.shared.data)
        for read in self.store.provenances():
            for name, digest in read.items():
                if now.get(name, digest) != digest:
                    raise InputError(
                        f"{self.store.where}: its results read {name!r} as it was (SHA-256 {digest[:12]}…), which has "
                        f"changed since ({now[name][:12]}…); {MEND}"
                    )

    def frame(self) -> pd.DataFrame:
        """A row per point: values that vary, planner, replication, status, metrics, notes, decision, error.

        A field that varies among other points has the base case's value.
        """
        return frame_of(self.study, self.store.rows())


def _generator(rows: Iterator[Row]) -> Generator[Row]:
    yield from rows


def _digest(said: Any) -> str:
    text = json.dumps(said, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
