"""Why a real run and its simulation differ: the run is simulated again with the stage times that it measured."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ....profiles.profile import ModelProfile
from ....simulator.serving.policy import TOLERANCE_S
from ....simulator.serving.tables import ServingTables
from ..dispatcher import Dispatcher, Job
from ..measure.visits import gaps, visits
from ..result import RunResult

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Attribution", "attribute", "own_level", "replay", "stage_ratios"]

PERCENTILES = (50, 90, 99)


@dataclass(frozen=True)
class Attribution:
    """Real minus expected attainment, as a sum of three parts (fractions).

    Parameters
    ----------
    simulated, real : float
        Attainment, expected and measured.
    level : float
        What it changes to simulate with the run's own mean level of stage times: the machine was faster or slower than
        when it was measured.
    jitter : float
        What replaying each request's own stage times changes on top: slow moments came when they came.
    rest : float
        What is left: lateness of the controller, hops and answers.
    """

    simulated: float
    real: float
    level: float
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
    turnaround_s = gaps([result]).turnaround_s if result.stage_start.size and len(result.heads()) else 0.0
    dispatcher = Dispatcher(
        result.trace, tables, dispatch=result.dispatch, admission=admission, overhead=result.overhead, batching=batching
    )
    free = [[0.0] * int(n) for n in tables.stages]
    # When the controller hears it; 0: an answer, 1: a first stage is free; which job or group; when it ended. So at one
    # instant answers come first, and a stage that becomes free decides with the corrected clocks. With batching a group
    # of one stage waits for its answer to be heard: what is measured as its turnaround holds that already.
    events: list[tuple[float, int, int, float]] = []

    def launch(now: float, job: Job) -> None:
        first, group, pair = job.requests[0], job.group, tables.pair(job.model, job.group)
        column = int(np.searchsorted(tables.sizes, len(job.requests)))
        same = jitter and result.group[first] == group and result.sizes[first] == len(job.requests)
        took = result.stage_s[first] if same else medians.latency[pair, column]
        t, hop, stages = now, float(tables.hop[pair]), free[group]
        for k in range(len(stages)):
            t = max(t, stages[k]) + float(took[k]) + turnaround_s
            stages[k] = t
            if k == 0:
                heapq.heappush(events, (t, 1, group, t))
            t += hop
        late = 0.0 if batching and len(stages) == 1 else result.overhead
        heapq.heappush(events, (stages[-1] + late, 0, job.number, stages[-1]))

    def settle(until: float) -> None:
        while events and events[0][0] <= until:
            now, freed, number, end = heapq.heappop(events)
            if not freed:
                dispatcher.finished(number, end, end + result.overhead)
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
    result: RunResult, expected: float, at_own_level: float, *, admission: bool = True, max_batch: int = 1
) -> Attribution:  # fmt: skip
    """Say what the difference between a run and what was expected of it is made of.

    Parameters
    ----------
    result : RunResult
        The run.
    expected, at_own_level : float
        Attainment that was expected; and with stage times at the run's own mean level.
    admission, max_batch
        As it was run.
    """
    deadline = result.trace.arrival + result.trace.slo + TOLERANCE_S
    in_time = replay(result, admission=admission, batching=max_batch > 1) <= deadline
    each = float(np.mean(in_time if result.counted is None else in_time[result.counted]))
    return Attribution(
        expected, result.attainment, at_own_level - expected, each - at_own_level, result.attainment - each
    )


def own_level(result: RunResult, profiles: Mapping[str, ModelProfile]) -> float:
    """Mean factor of the run's stage times, each with the turnaround after it, on the profile's; 1 if nothing ran.

    Of a run that is judged by some of its requests, of these.
    """
    if not len(result.heads()):
        return 1.0
    found, between = visits([result]), gaps([result])
    found = found if result.counted is None else found.where(~found.tells)
    if not len(found):
        return 1.0
    names, groups = result.trace.models, result.placement.groups
    keys = zip(found.group.tolist(), found.stage.tolist(), found.model.tolist(), found.batch.tolist(), strict=True)
    expected = [profiles[names[m]].latency(groups[g].config, batch)[k] for g, k, m, batch in keys]
    return float(np.mean((found.seconds + between.turnaround_s) / np.array(expected)))


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
