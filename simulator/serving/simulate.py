"""`simulate`: the door to the serving world."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...profiles.profile import ModelProfile
from ...traces.trace import Trace
from ..placement import Placement, PlacementSchedule
from .conditions import Conditions
from .policy import check_dispatch
from .policy.batching import Batching
from .reality import Outcome, Reality, Rules
from .replay import Segment, Visits
from .result import SimulationResult
from .tables import ServingTables, build_tables

__all__ = ["prepare", "serve_really", "simulate"]

ENGINES = ("compiled", "simpy")

Columns = tuple[npt.NDArray[Any], ...]
Requests = tuple[npt.NDArray[np.float64], npt.NDArray[np.int32], npt.NDArray[np.float64]]
"""The trace's columns that engines read: arrival, model and SLO of each request."""


def simulate(
    placement: Placement | PlacementSchedule,
    trace: Trace,
    profiles: Mapping[str, ModelProfile],
    *,
    engine: str = "compiled",
    dispatch: str = "shortest_queue",
    batching: Batching | int | None = None,
    admission: bool = True,
    overhead: float = 0.0,
    conditions: Conditions | None = None,
) -> SimulationResult:
    """Serve a trace with a placement (DESIGN §6; AlpaServe §4.3, §5).

    Parameters
    ----------
    placement : Placement or PlacementSchedule
        Who holds what; a schedule changes it over time.
    trace : Trace
        The requests. Those for a model without a replica are rejected.
    profiles : Mapping[str, ModelProfile]
        Model name -> latencies.
    engine : str
        ``"compiled"`` (numba) or ``"simpy"`` (the reference); the same answer to 1e-9.
    dispatch : str
        ``"shortest_queue"`` (the paper), ``"earliest_finish"``, or ``"earliest_free"`` (the authors' fast simulator).
    batching : Batching or int, optional
        Largest batch; none if not given.
    admission : bool
        Reject requests that would miss their deadline.
    overhead : float
        Seconds added to every finish; occupies no stage, counts in admission.
    conditions : Conditions, optional
        Times that vary (`ServingTimes`), groups that are away (`Outages`), and the rule by which groups are started
        and drained (`Scaling`). That together with batching only the reference knows: ``engine`` of the result then
        says so.

    Returns
    -------
    SimulationResult
        A row per request, and the metrics on them.

    Raises
    ------
    InputError
        On an unknown engine or dispatch policy, a negative overhead, a model without a profile, or conditions that
        do not fit the placement.
    OutOfProfileError
        If a configuration or batch size was not profiled.
    """
    schedule, tables, rules = prepare(
        placement, trace, profiles, engine, dispatch=dispatch, batching=batching, admission=admission, overhead=overhead
    )
    if conditions is not None:
        _check_conditions(conditions, schedule)
        engine = "simpy" if conditions.scaling is not None and rules.batching else engine
    return _run(schedule, tables, trace, engine, rules, conditions)


def prepare(
    placement: Placement | PlacementSchedule,
    trace: Trace,
    profiles: Mapping[str, ModelProfile],
    engine: str,
    *,
    dispatch: str = "shortest_queue",
    batching: Batching | int | None = None,
    admission: bool = True,
    overhead: float = 0.0,
) -> tuple[PlacementSchedule, list[ServingTables], Rules]:
    """Check what `simulate` is given, and lay it out for engines."""
    if engine not in ENGINES:
        raise InputError(f"engine: unknown engine {engine!r}; expected one of {', '.join(ENGINES)}")
    check_dispatch(dispatch)
    if isinstance(batching, int) and not isinstance(batching, bool):
        batching = Batching(batching)
    if not (batching is None or isinstance(batching, Batching)):
        raise InputError(f"batching: expected None, a largest batch or Batching (got {batching!r})")
    if not (math.isfinite(overhead) and overhead >= 0):
        raise InputError(f"overhead: expected finite seconds >= 0 (got {overhead})")
    if not isinstance(trace, Trace):
        raise InputError(f"trace: expected a Trace (got {type(trace).__name__})")
    if isinstance(placement, Placement):
        schedule = PlacementSchedule([0.0], [placement])
    elif isinstance(placement, PlacementSchedule):
        schedule = placement
    else:
        raise InputError(f"placement: expected a Placement or PlacementSchedule (got {type(placement).__name__})")
    if schedule.carry and batching is not None:
        raise InputError("placement: a schedule with carry=True cannot be combined with batching; set carry=False")
    max_batch = 1 if batching is None else batching.max_batch
    tables = [build_tables(p, trace.models, profiles, max_batch) for p in schedule.placements]
    return schedule, tables, Rules(dispatch, admission, float(overhead), batching is not None)


def _check_conditions(conditions: Conditions, schedule: PlacementSchedule) -> None:
    if not isinstance(conditions, Conditions):
        raise InputError(f"conditions: expected Conditions (got {type(conditions).__name__})")
    if schedule.carry:
        raise InputError("placement: a schedule with carry=True knows no conditions; set carry=False")
    if conditions.outages is not None and len(schedule.placements) > 1:
        raise InputError("conditions: outages name the groups of one placement; a schedule has several")
    if conditions.scaling is not None and len(schedule.placements) > 1:
        raise InputError("conditions: scaling is of the groups of one placement; a schedule has several")
    for placement in schedule.placements:
        conditions.check(placement)


def _run(
    schedule: PlacementSchedule, tables: list[ServingTables], trace: Trace, engine: str, rules: Rules,
    conditions: Conditions | None,
) -> SimulationResult:  # fmt: skip
    # side="left": a request that arrives at the very boundary belongs to the new placement.
    bounds = [*np.searchsorted(trace.arrival, schedule.starts, side="left").tolist(), len(trace)]
    columns: list[Columns] = []
    outcomes: list[Outcome] = []
    segments: list[Segment] = []
    free = np.zeros(0)
    visited = np.zeros(0, dtype=np.int64)
    for s, (placement, table) in enumerate(zip(schedule.placements, tables, strict=True)):
        low, high = bounds[s], bounds[s + 1]
        clock = np.zeros((table.n_groups, table.latency.shape[2]))
        if schedule.carry:
            _carry(placement, free, clock, schedule.starts[s], {} if schedule.load_s is None else schedule.load_s[s])
        begun = clock.copy()  # engines update the clock in place; replays need where it stood
        rows = (trace.arrival[low:high], trace.model[low:high], trace.slo[low:high])
        if conditions is None:
            columns.append(_serve(rows, table, engine, rules, clock))
        else:
            reality = Reality(conditions, placement, visited)
            outcome, sent = serve_really(rows, table, engine, rules, clock, reality)
            outcomes.append(outcome)
            visited = reality.after(sent, visited)
        if schedule.carry:
            free = _device_clocks(placement, clock, free)
        end = schedule.starts[s + 1] if s + 1 < len(tables) else float(trace.arrival[-1])
        segments.append(Segment(placement, table, low, high, end, begun))
    known: dict[str, Any] = {
        "trace": trace, "segments": tuple(segments), "overhead": rules.overhead, "engine": engine,
        "dispatch": rules.dispatch,
    }  # fmt: skip
    if conditions is not None:
        all_ = Outcome.joined(outcomes)
        return SimulationResult(
            finish=all_.finish, group=all_.group, start_column=all_.start, batch=all_.batch, failed=all_.failed,
            attempts=all_.attempts, visits=Visits(all_.stage_start, all_.stage_s), uses=all_.uses, **known,
        )  # fmt: skip
    joined = [np.concatenate(parts) if len(columns) > 1 else parts[0] for parts in zip(*columns, strict=True)]
    return SimulationResult(
        finish=joined[0],
        group=joined[1],
        start_column=joined[2] if len(joined) > 2 else None,
        batch=joined[3] if len(joined) > 2 else None,
        **known,
    )


def _serve(rows: Requests, table: ServingTables, engine: str, rules: Rules, clock: npt.NDArray[np.float64]) -> Columns:
    """Columns of one segment: finish, group, and (where the engine records them) start, batch."""
    options = (rules.dispatch, rules.admission, rules.overhead)
    if engine == "simpy":
        from .reference import run_reference

        out, _ = run_reference(rows, table, rules, clock)
        return out.finish, out.group, out.start, out.batch
    if rules.batching:
        from .compiled.batching import run_batching

        finish, group, _, start, batch = run_batching(*rows, table, *options, clock=clock)
        return finish, group, start, batch
    from .compiled.engine import run

    finish, group, _ = run(*rows, table, *options, clock=clock)
    return finish, group


def serve_really(
    rows: Requests, table: ServingTables, engine: str, rules: Rules, clock: npt.NDArray[np.float64], reality: Reality,
    *, recorded: bool = True,
) -> tuple[Outcome, list[int]]:  # fmt: skip
    """What happens in one segment under conditions, and the jobs that each group was sent.

    Stage visits are recorded only if asked for, where the engine has the choice.
    """
    if engine == "simpy" or (reality.scaling is not None and rules.batching):
        from .reference import run_reference

        return run_reference(rows, table, rules, clock, reality)
    if rules.batching:
        from .compiled.real_batching import run_real_batching

        return run_real_batching(rows, table, rules, clock, reality, recorded=recorded)
    from .compiled.real import run_real

    return run_real(rows, table, rules, clock, reality, recorded=recorded)


def _device_clocks(
    placement: Placement, clock: npt.NDArray[np.float64], before: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """When each device is free after a segment, seconds."""
    # Devices that this placement leaves idle keep the time of the one before: a later placement may use them again.
    n = max(len(before), 1 + max(d for g in placement.groups for d in g.devices or ()))
    free = np.zeros(n)
    free[: len(before)] = before
    for g, group in enumerate(placement.groups):
        for k in range(group.config.pp):
            for d in group.stage_devices(k):
                free[d] = max(free[d], clock[g, k])
    return free


def _carry(
    placement: Placement, free: npt.NDArray[np.float64], clock: npt.NDArray[np.float64], start: float,
    load_s: Mapping[int, float],
) -> None:  # fmt: skip
    """Start each stage's clock at the time its devices are free, and have loaded what they lack."""
    for g, group in enumerate(placement.groups):
        for k in range(group.config.pp):
            # A stage begins when all of its devices can: tensor parallelism needs them together.
            clock[g, k] = max((_ready(d, free, start, load_s) for d in group.stage_devices(k)), default=0.0)


def _ready(device: int, free: npt.NDArray[np.float64], start: float, load_s: Mapping[int, float]) -> float:
    at = float(free[device]) if device < len(free) else 0.0
    seconds = load_s.get(device, 0.0)
    return max(at, start) + seconds if seconds else at
