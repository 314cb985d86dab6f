"""`Session`: a placement that is up and running; traces are served by it one after another."""

from __future__ import annotations

import asyncio
import importlib.util
import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import InputError, RunError, install_hint
from ...profiles.profile import ModelProfile
from ...simulator.placement import Placement
from ...simulator.serving.plan.file import Plan
from ...simulator.serving.policy import check_dispatch
from ...simulator.serving.policy.batching import Batching
from ...simulator.serving.tables import build_tables
from ...traces.trace import Trace
from .assignment import assign, device_kind
from .controller import Controller, Decisions, Progress, Script
from .dispatcher import Dispatcher
from .measure.cores import NOT_KNOWN, CoreUse, Snapshot, snapshot, used_between
from .measure.probe import Probe, ProbeJob
from .options import RunOptions
from .processes import Fleet
from .result import RunResult, collect

__all__ = ["Served", "Session", "Spans"]

ANSWER_S, SLOWER = 30.0, 20.0
"""A group that has work hangs if it says nothing for the longer of: so many seconds; so many times its slowest job when
warmed up. Guesses: a machine that others use may be many times slower, and nobody wants to wait for minutes."""


@dataclass(frozen=True, eq=False)
class Spans:
    """What one stage of one group did in a run (its first share, where the stage has several).

    Parameters
    ----------
    group, stage : int
        Where.
    job : ndarray of int64, shape (n,)
        Job numbers, ascending.
    start, seconds, cpu : ndarray of float64, shape (n,)
        Start from the run's time zero, duration, and CPU time, seconds.
    """

    group: int
    stage: int
    job: npt.NDArray[np.int64]
    start: npt.NDArray[np.float64]
    seconds: npt.NDArray[np.float64]
    cpu: npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Served:
    """What came back from the workers: their spans, what the controller recorded, and who used the cores."""

    spans: tuple[Spans, ...]
    controller: Controller
    cores: CoreUse


class Session:
    """Worker processes that hold a placement; a context manager.

    Parameters
    ----------
    plan : Plan or Placement
        Who holds what.
    models : sequence of str
        Models as the traces to come list them.
    profiles : Mapping[str, ModelProfile], optional
        What dispatch and admission predict with; the costs that the plan carries if left out.
    device : {"auto", "cpu", "cuda"}
        What a device is: a core of this machine, or a GPU. ``auto``: by the plan's device type, else cores.
    batching : Batching or int, optional
        Largest batch that will be asked for; the plan's if left out.
    options : RunOptions, optional
        How long is waited for workers, and how the controller predicts.

    Raises
    ------
    InputError
        If torch is missing, a model cannot be built, or an argument is wrong.
    RunError
        If a worker does not start.
    """

    def __init__(
        self,
        plan: Plan | Placement,
        models: Sequence[str],
        profiles: Mapping[str, ModelProfile] | None = None,
        *,
        device: str = "auto",
        batching: Batching | int | None = None,
        options: RunOptions | None = None,
    ) -> None:
        if importlib.util.find_spec("torch") is None:
            raise InputError(f"run: torch is not installed; running needs it: {install_hint('torch')}")
        self.plan = plan if isinstance(plan, Plan) else None
        placement = plan.placement if isinstance(plan, Plan) else plan
        if not isinstance(placement, Placement):
            raise InputError(f"run: plan: expected a Plan or a Placement (got {type(plan).__name__})")
        self.options = options or RunOptions()
        self.placement, self.models = placement, tuple(models)
        self.profiles = _profiles(self.plan, profiles)
        self.batching = self._batching(batching)
        max_batch = self.batching.max_batch if self.batching else 1
        tables = build_tables(placement, self.models, self.profiles, max_batch)
        self.batches = tuple(int(b) for b in tables.sizes if b <= max_batch)
        self._pp = [group.config.pp for group in placement.groups]
        self.tasks = assign(
            placement, self.models, self.profiles, self.plan, kind=device_kind(self.plan, device),
            batches=self.batches, report_free=self.batching is not None, timeout_s=self.options.startup_timeout_s,
        )  # fmt: skip
        self._cores = sorted({task.core for task in self.tasks if task.core is not None})
        self.fleet = Fleet(self.tasks, self.options.startup_timeout_s, self.options.silence_s)

    def _batching(self, given: Batching | int | None) -> Batching | None:
        if given is None and self.plan and self.plan.serving.max_batch > 1:
            given = self.plan.serving.max_batch
        return Batching(given) if isinstance(given, int) else given

    def __enter__(self) -> Session:
        self.fleet.__enter__()
        try:
            self.warm_up()
        except BaseException:
            self.fleet.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.fleet.close()

    def warm_up(self) -> None:
        """Send one job of each model and batch size through each group, so that no request meets a cold path."""
        jobs = [
            ProbeJob(0.0, task.group, hosted.model, batch)
            for task in self.tasks
            if task.rank == 0
            for hosted in task.models
            for batch in self.batches
        ]
        if jobs:
            served = self.serve([job.at for job in jobs], Probe(jobs))
            if served.controller.failures:
                self.fleet.close()
                raise RunError(f"run: warm-up: {served.controller.failures[0]}")
            longest_s = max((float(s.seconds.max(initial=0.0)) for s in served.spans), default=0.0) * max(self._pp)
            self.fleet.answer_s = self.options.answer_s or max(ANSWER_S, SLOWER * longest_s)

    def serve(
        self,
        arrival: list[float],
        decisions: Decisions,
        progress: Progress | None = None,
        script: Script | None = None,
    ) -> Served:
        """Send requests at their arrival times (seconds, ascending) and wait for all of them."""
        controller = Controller(self.fleet, arrival, decisions, self._pp, progress, script)
        before = self._snapshot()
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            controller.run()
        else:  # a notebook's loop is running in this thread
            with ThreadPoolExecutor(1, "controller") as thread:
                thread.submit(controller.run).result()
        # Of who died nobody can tell what it used.
        cores = NOT_KNOWN if controller.failures else used_between(before, self._snapshot(), len(self._cores))
        spans = tuple(
            Spans(
                process.task.group, process.task.stage, table[:, 0].astype(np.int64), table[:, 1] - controller.t0,
                table[:, 2] - table[:, 1], table[:, 3],
            )
            for process, table in self.fleet.collect_spans().items()
            if process.task.share == 0
        )  # fmt: skip
        return Served(spans, controller, cores)

    def _snapshot(self) -> Snapshot | None:
        pids = [process.popen.pid for process in self.fleet.processes if process.alive]
        return snapshot(pids, self._cores, time.monotonic()) if self._cores else None

    def prepare(
        self,
        trace: Trace,
        *,
        profiles: Mapping[str, ModelProfile] | None = None,
        dispatch: str | None = None,
        admission: bool | None = None,
        overhead: float | None = None,
    ) -> Dispatcher:
        """Check the arguments of a run, and make what will decide in it. Needs no worker.

        `profiles` and `overhead` stand in for the session's; all else is as in `run`.
        """
        if trace.models != self.models:
            raise InputError(f"run: the trace's models are {trace.models}, the session was started for {self.models}")
        serving = self.plan.serving if self.plan else None
        dispatch = dispatch or (serving.dispatch if serving else "shortest_queue")
        check_dispatch(dispatch)
        if admission is None:
            admission = serving.admission if serving else True
        known = self.profiles if profiles is None else profiles
        overhead = self.options.overhead if overhead is None else overhead
        return Dispatcher(
            trace, build_tables(self.placement, self.models, known, self.batches[-1]), dispatch=dispatch,
            admission=admission, overhead=_overhead(self.plan, known, overhead), batching=self.batching is not None,
            correct=self.options.correct_clocks,
        )  # fmt: skip

    def run(self, trace: Trace, *, progress: Progress | None = None, **options: Any) -> RunResult:
        """Serve a trace.

        Parameters
        ----------
        trace : Trace
            Its models are the session's.
        profiles : Mapping[str, ModelProfile], optional
            Others than the session's to predict with.
        dispatch, admission, overhead, progress
            As in `meshwright.runtime.serving.run`.
        """
        return self.execute(self.prepare(trace, **options), progress)

    def execute(
        self, dispatcher: Dispatcher, progress: Progress | None = None, script: Script | None = None
    ) -> RunResult:
        """Serve the trace of a dispatcher that `prepare` made; `script` says what is broken meanwhile."""
        served = self.serve(dispatcher.trace.arrival.tolist(), dispatcher, progress, script)
        return collect(self.placement, dispatcher, served)


def _profiles(plan: Plan | None, profiles: Mapping[str, ModelProfile] | None) -> Mapping[str, ModelProfile]:
    if profiles is not None:
        return profiles
    if plan is None:
        raise InputError("run: a placement carries no costs; give the profiles that predictions are made with")
    return plan.planned_profiles()


def _overhead(plan: Plan | None, profiles: Mapping[str, ModelProfile], given: float | None) -> float:
    if given is None:
        given = (plan.serving.overhead_s if plan else 0.0) or float(getattr(profiles, "overhead_s", 0.0))
    if not (math.isfinite(given) and given >= 0):
        raise InputError(f"run: overhead: expected finite seconds >= 0 (got {given})")
    return given
