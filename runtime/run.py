"""`run`: the door to the real world."""

from __future__ import annotations

import asyncio
import importlib.util
import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from .. import profiles as profile_store
from ..errors import InputError, MeshwrightError, RunError
from ..profiles.profile import ModelProfile
from ..simulator.placement import Placement
from ..simulator.plan import Plan
from ..simulator.serving.batching import Batching
from ..simulator.serving.policy import check_dispatch
from ..simulator.serving.replay import Segment
from ..simulator.serving.tables import ServingTables, build_tables
from ..traces.trace import Trace
from .assignment import assign, device_kind
from .controller import Controller, Progress
from .dispatcher import Dispatcher
from .processes import Fleet
from .result import RunResult

__all__ = ["run"]


def run(
    plan: Plan | Placement,
    trace: Trace,
    *,
    profiles: Mapping[str, ModelProfile] | None = None,
    device: str = "auto",
    dispatch: str | None = None,
    batching: Batching | int | None = None,
    admission: bool | None = None,
    overhead: float | None = None,
    correct_clocks: bool = True,
    startup_timeout_s: float = 180.0,
    progress: Progress | None = None,
) -> RunResult:
    """Serve a trace with a placement, for real: a process per device, requests at their arrival times.

    Parameters
    ----------
    plan : Plan or Placement
        Who holds what. A plan also says how to serve; the arguments below override it.
    trace : Trace
        The requests; the run takes as long as the trace does.
    profiles : Mapping[str, ModelProfile], optional
        What dispatch and admission predict with; the set that the plan names if left out.
    device : {"auto", "cpu", "cuda"}
        What a device is: a core of this machine, or a GPU. ``auto``: by the plan's device type, else cores.
    dispatch, batching, admission
        As in `simulator.simulate`.
    overhead : float, optional
        Seconds that the controller expects on top of every prediction; the plan's or else the profile set's if left
        out. What really comes on top, comes.
    correct_clocks : bool
        Whether predictions follow real finishes (see `dispatcher.Dispatcher`).
    startup_timeout_s : float
        Longest time for the workers to build their models, and longest silence between two workers, seconds.
    progress : callable, optional
        Called about once a second with: seconds into the run, requests decided, requests in all.

    Returns
    -------
    RunResult
        Columns and metrics as simulated, measured. If a worker died, its group's requests failed and `failures` says
        why; the others were served.

    Raises
    ------
    InputError
        If torch is missing, a model cannot be built, or an argument is wrong.
    OutOfProfileError
        If a configuration or batch size was not profiled.
    RunError
        If the workers do not start, a group hangs, or the process is told to terminate.
    """
    if not isinstance(trace, Trace):
        raise InputError(f"run: trace: expected a Trace (got {type(trace).__name__})")
    if importlib.util.find_spec("torch") is None:
        raise InputError("run: torch is not installed; running needs it: pip install 'meshwright[torch]'")
    document = plan if isinstance(plan, Plan) else None
    placement = plan.placement if isinstance(plan, Plan) else plan
    if not isinstance(placement, Placement):
        raise InputError(f"run: plan: expected a Plan or a Placement (got {type(plan).__name__})")
    known = _profiles(document, profiles)
    serving = document.serving if document else None
    dispatch = dispatch or (serving.dispatch if serving else "shortest_queue")
    check_dispatch(dispatch)
    if admission is None:
        admission = serving.admission if serving else True
    expected = _overhead(document, known, overhead)
    if batching is None and serving and serving.max_batch > 1:
        batching = serving.max_batch
    if isinstance(batching, int):
        batching = Batching(batching)
    if not startup_timeout_s > 0:
        raise InputError(f"run: startup_timeout_s: expected > 0 seconds (got {startup_timeout_s})")
    max_batch = batching.max_batch if batching else 1
    tables = build_tables(placement, trace.models, known, max_batch)
    batches = tuple(int(b) for b in tables.sizes if b <= max_batch)
    tasks = assign(
        placement, trace, known, document, kind=device_kind(document, device), batches=batches,
        report_free=batching is not None, timeout_s=startup_timeout_s,
    )  # fmt: skip
    dispatcher = Dispatcher(
        trace, tables, dispatch=dispatch, admission=admission, overhead=expected, batching=batching is not None,
        correct=correct_clocks,
    )  # fmt: skip
    warm_up = [(t.group, hosted.model, batches[0]) for t in tasks if t.rank == 0 for hosted in t.models]
    with Fleet(tasks, startup_timeout_s) as fleet:
        controller = Controller(fleet, trace, dispatcher, [g.config.pp for g in placement.groups], progress)
        _drive(controller, warm_up)
        spans = fleet.collect_spans()
    rows = [(p.task.group, p.task.stage, table) for p, table in spans.items() if p.task.share == 0]
    return _result(trace, placement, tables, dispatcher, controller, rows, dispatch, expected)


def _profiles(plan: Plan | None, profiles: Mapping[str, ModelProfile] | None) -> Mapping[str, ModelProfile]:
    if profiles is not None:
        return profiles
    if plan is None or not plan.profile:
        raise InputError("run: no profiles: give the profile set that predictions are made with")
    try:
        return profile_store.load(plan.profile)
    except MeshwrightError as error:
        raise InputError(
            f"run: the plan names profile set {plan.profile!r}, which is not shipped; give it: {error}"
        ) from None


def _overhead(plan: Plan | None, profiles: Mapping[str, ModelProfile], given: float | None) -> float:
    if given is None:
        given = (plan.serving.overhead_s if plan else 0.0) or float(getattr(profiles, "overhead_s", 0.0))
    if not (math.isfinite(given) and given >= 0):
        raise InputError(f"run: overhead: expected finite seconds >= 0 (got {given})")
    return given


def _drive(controller: Controller, warm_up: list[tuple[int, int, int]]) -> None:
    """Run the controller's event loop here, or in a thread where one is running already (notebooks)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        controller.run(warm_up)
        return
    with ThreadPoolExecutor(1, "controller") as thread:
        thread.submit(controller.run, warm_up).result()


def _result(
    trace: Trace, placement: Placement, tables: ServingTables, dispatcher: Dispatcher, controller: Controller,
    spans: list[tuple[int, int, np.ndarray]], dispatch: str, overhead: float,
) -> RunResult:  # fmt: skip
    n, width = len(trace), tables.latency.shape[2]
    start, seconds, cpu = (np.full((n, width), np.nan) for _ in range(3))
    jobs = dispatcher.jobs
    row_job = np.repeat(np.arange(len(jobs)), [len(job.requests) for job in jobs])
    row = np.array([r for job in jobs for r in job.requests], dtype=np.int64)
    kept = dispatcher.group[row] >= 0  # not those of a lost group
    row, row_job = row[kept], row_job[kept]
    for group, stage, table in spans:
        table = table[table[:, 0] >= 0]
        number = table[:, 0].astype(np.int64)
        mine = dispatcher.group[row] == group
        at = np.searchsorted(number, row_job[mine])
        start[row[mine], stage] = table[at, 1] - controller.t0
        seconds[row[mine], stage] = table[at, 2] - table[at, 1]
        cpu[row[mine], stage] = table[at, 3]
    check = np.full(n, np.nan)
    check[row] = np.array(controller.checks, dtype=float)[row_job]
    segment = Segment(placement, tables, 0, n, float(trace.arrival[-1]), np.zeros((tables.n_groups, width)))
    if len(dispatcher.finish[row]) and np.isnan(dispatcher.finish[row]).any():
        raise RunError("run: a served request has no finish; this is a defect, please report it")
    return RunResult(
        trace=trace, finish=dispatcher.finish, group=dispatcher.group, segments=(segment,), overhead=overhead,
        start_column=start[:, 0].copy(), batch=dispatcher.batch, engine="real", dispatch=dispatch,
        stage_start=start, stage_s=seconds, cpu_s=cpu, check=check, failed=dispatcher.failed,
        failures=tuple(controller.failures), lateness=np.array(controller.lateness),
    )  # fmt: skip
