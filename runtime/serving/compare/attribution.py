"""Why a real run and its simulation differ: the run is simulated again with the stage times that it measured."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ....profiles.profile import ModelProfile
from ....simulator.serving.simulate import simulate
from ....simulator.serving.tables import ServingTables
from ..dispatcher import Dispatcher, Job
from ..result import RunResult

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Attribution", "attribute", "replay", "stage_ratios"]

PERCENTILES = (50, 90, 99)


@dataclass(frozen=True)
class Attribution:
    """Real minus simulated attainment, as a sum of three parts (fractions).

    Parameters
    ----------
    simulated, real : float
        Attainment.
    profile : float
        What simulation with the run's median stage latencies changes: the profile was off.
    jitter : float
        What replaying each request's own stage times changes on top: stages do not always take their median.
    rest : float
        What is left: lateness of the controller, hops and answers beyond their median.
    """

    simulated: float
    real: float
    profile: float
    jitter: float
    rest: float

    @property
    def difference(self) -> float:
        """Real minus simulated."""
        return self.real - self.simulated


def _measured_tables(result: RunResult) -> ServingTables:
    """The run's tables with the median of the measured stage latencies where there are any."""
    tables = result.segments[0].tables
    latency = tables.latency.copy()
    for model in range(tables.n_models):
        for pair in tables.pairs_of(model):
            group = int(tables.pair_group[pair])
            for column, batch in enumerate(tables.sizes):
                rows = (result.trace.model == model) & (result.group == group) & (result.sizes == batch)
                if rows.any():
                    stages = int(tables.stages[group])
                    latency[pair, column, :stages] = np.nanmedian(result.stage_s[rows, :stages], axis=0)
    return replace(tables, latency=latency)


def replay(
    result: RunResult, *, admission: bool = True, batching: bool = False, jitter: bool = True
) -> npt.NDArray[np.float64]:
    """Serve the trace of a real run again, in simulation, with the stage times that it measured.

    The decisions are those of the run's own `Dispatcher`: predictions by profile, corrected by finishes.

    Parameters
    ----------
    result : RunResult
        The run.
    admission, batching : bool
        As it was run.
    jitter : bool
        True: a request takes what it took; one that the run had not served so takes the median of its kind.
        False: all take the median.

    Returns
    -------
    ndarray of float64, shape (n,)
        Finishes, seconds; NaN where rejected.
    """
    tables = result.segments[0].tables
    medians = _measured_tables(result)
    dispatcher = Dispatcher(
        result.trace, tables, dispatch=result.dispatch, admission=admission, overhead=result.overhead, batching=batching
    )
    free = [[0.0] * int(n) for n in tables.stages]
    # When; 0: a job ends, 1: a first stage is free; which. So at one instant jobs end first, and a stage that becomes
    # free decides with the corrected clocks.
    events: list[tuple[float, int, int]] = []

    def launch(now: float, job: Job) -> None:
        first, group, pair = job.requests[0], job.group, tables.pair(job.model, job.group)
        column = int(np.searchsorted(tables.sizes, len(job.requests)))
        same = jitter and result.group[first] == group and result.sizes[first] == len(job.requests)
        took = result.stage_s[first] if same else medians.latency[pair, column]
        t, hop, stages = now, float(tables.hop[pair]), free[group]
        for k in range(len(stages)):
            t = max(t, stages[k]) + float(took[k])
            stages[k] = t
            if k == 0:
                heapq.heappush(events, (t, 1, group))
            t += hop
        heapq.heappush(events, (stages[-1], 0, job.number))

    def settle(until: float) -> None:
        while events and events[0][0] <= until:
            now, freed, number = heapq.heappop(events)
            if not freed:
                dispatcher.finished(number, now, now + result.overhead)
            elif (job := dispatcher.freed(now, number)) is not None:
                launch(now, job)

    for request, at in enumerate(result.trace.arrival.tolist()):
        settle(at)
        job = dispatcher.arrive(at, request)
        if job is not None:
            launch(at, job)
    settle(float("inf"))
    return dispatcher.finish


def attribute(
    result: RunResult, profiles: Mapping[str, ModelProfile], *, admission: bool = True, max_batch: int = 1
) -> Attribution:
    """Say what the difference between a run and its simulation is made of.

    Parameters
    ----------
    result : RunResult
        The run.
    profiles : Mapping[str, ModelProfile]
        What is simulated with.
    admission, max_batch
        As it was run.
    """
    batching = max_batch > 1
    simulated = simulate(
        result.placement, result.trace, profiles, dispatch=result.dispatch, admission=admission,
        batching=max_batch if batching else None, overhead=result.overhead,
    ).attainment  # fmt: skip
    deadline = result.trace.arrival + result.trace.slo + 1e-9  # the simulator's TOLERANCE_S
    options = {"admission": admission, "batching": batching}
    median = float(np.mean(replay(result, **options, jitter=False) <= deadline))
    each = float(np.mean(replay(result, **options) <= deadline))
    return Attribution(simulated, result.attainment, median - simulated, each - median, result.attainment - each)


def stage_ratios(result: RunResult) -> pd.DataFrame:
    """Measured stage times as multiples of the profile's, per group and stage.

    Returns
    -------
    DataFrame
        Columns ``group``, ``stage``, ``jobs``, ``p50``, ``p90``, ``p99`` (ratios), and ``cpu``: the share of the
        stages' time in which their thread had its core (on a CPU; the rest went to others on the machine).
    """
    import pandas as pd

    tables = result.segments[0].tables
    heads = result.heads()
    rows = []
    for g, group in enumerate(result.placement.groups):
        mine = heads[result.group[heads] == g]
        if not len(mine):
            continue
        pair = np.array([tables.pair(int(m), g) for m in result.trace.model[mine]])
        column = np.searchsorted(tables.sizes, result.sizes[mine])
        for k in range(group.config.pp):
            took = result.stage_s[mine, k]
            ratio = np.percentile(took / tables.latency[pair, column, k], PERCENTILES)
            cpu = float(result.cpu_s[mine, k].sum() / took.sum())
            rows.append((g, k, len(mine), *ratio, cpu))
    return pd.DataFrame(rows, columns=["group", "stage", "jobs", *(f"p{p}" for p in PERCENTILES), "cpu"])
