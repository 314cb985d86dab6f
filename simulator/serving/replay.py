"""Stage visits recovered from decisions: who ran where is known, and when each stage began and ended follows.

The engines keep only what planners need. Timelines and utilization ask for the rest, and it is computed here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..placement import Placement
from .tables import ServingTables

if TYPE_CHECKING:
    from .result import SimulationResult

__all__ = ["Segment", "StageSpans", "Visits", "stage_spans", "stage_work"]


@dataclass(frozen=True, eq=False)
class Segment:
    """A stretch of the trace served by one placement.

    Parameters
    ----------
    placement : Placement
        The placement that served the requests.
    tables : ServingTables
        The same placement as arrays.
    low, high : int
        Requests ``low`` … ``high - 1`` of the trace.
    end : float
        When the next placement took over, or the last event, seconds.
    clock : ndarray of float64, shape (n_groups, max_stages)
        When each stage was free at the beginning, seconds.
    """

    placement: Placement
    tables: ServingTables
    low: int
    high: int
    end: float
    clock: npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class StageSpans:
    """Stage visits as columns; a batch is one visit, under its first request.

    ``lane`` counts pipeline stages over the placement's groups in order.
    """

    lane: npt.NDArray[np.int64]
    stage: npt.NDArray[np.int64]
    start: npt.NDArray[np.float64]
    end: npt.NDArray[np.float64]
    request: npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Visits:
    """Stage visits as an engine recorded them; requests of a batch share theirs.

    Parameters
    ----------
    start, seconds : ndarray of float64, shape (n, max_stages)
        When each stage of each request began, and what it took; NaN where it was not served.
    """

    start: npt.NDArray[np.float64]
    seconds: npt.NDArray[np.float64]


def _heads(segment: Segment, result: SimulationResult) -> npt.NDArray[np.int64]:
    """One request of each job of a segment that was answered, as rows of the trace in order of start."""
    served = segment.low + np.flatnonzero(result.group[segment.low : segment.high] >= 0)
    served = served[np.lexsort((served, result.group[served], result.start[served]))]
    same = (np.diff(result.start[served]) == 0) & (np.diff(result.group[served]) == 0)
    if result.batch is not None:
        same &= result.batch[served][1:] > 1
    return served[np.concatenate(([True], ~same))[: len(served)]]


def _recorded(segment: Segment, result: SimulationResult, visits: Visits) -> StageSpans:
    heads = _heads(segment, result)
    stages = segment.tables.stages[result.group[heads]].astype(np.int64)
    request, n = np.repeat(heads, stages), int(stages.sum())
    stage = np.arange(n) - np.repeat(np.cumsum(stages) - stages, stages)
    lane0 = np.concatenate(([0], np.cumsum(segment.tables.stages)))
    start = visits.start[request, stage]
    return StageSpans(
        lane0[result.group[request]] + stage, stage, start, start + visits.seconds[request, stage], request
    )


def stage_spans(segment: Segment, result: SimulationResult) -> StageSpans:
    """Every stage visit of one segment, requests numbered as in the trace."""
    if result.visits is not None:
        return _recorded(segment, result, result.visits)
    from .compiled.visits import replay  # late: whoever only reads a result's options need not load numba

    tables = segment.tables
    rows = slice(segment.low, segment.high)
    group, model = result.group[rows], result.trace.model[rows]
    served = np.flatnonzero(group >= 0)
    enter = result.trace.arrival[rows]
    column = np.zeros(len(group), dtype=np.int64)
    if result.start_column is not None and result.batch is not None:
        # Batches enter in order of their start; the members of one share group, start and model.
        enter = result.start_column[rows]
        # By start, then group, then request: members of one batch stand together, its first request in front.
        served = served[np.lexsort((served, group[served], enter[served]))]
        first = np.ones(len(served), dtype=bool)
        same = (np.diff(enter[served]) == 0) & (np.diff(group[served]) == 0) & (result.batch[rows][served][1:] > 1)
        first[1:] = ~same
        served = served[first]
        column[served] = np.searchsorted(tables.sizes, result.batch[rows][served])
    pair = np.full(len(group), -1, dtype=np.int64)
    lookup = np.full((tables.n_models, tables.n_groups), -1, dtype=np.int64)
    for m in range(tables.n_models):
        for p in tables.pairs_of(m):
            lookup[m, tables.pair_group[p]] = p
    pair[served] = lookup[model[served], group[served]]
    n = int(tables.stages[group[served]].sum())
    lane, stage, request = (np.empty(n, dtype=np.int64) for _ in range(3))
    start, end = np.empty(n), np.empty(n)
    lane0 = np.concatenate(([0], np.cumsum(tables.stages)))[:-1].astype(np.int64)
    replay(
        served, enter, group, pair, column, tables.latency, tables.hop, tables.stages, lane0, segment.clock.copy(),
        lane, stage, start, end, request,
    )  # fmt: skip
    return StageSpans(lane, stage, start, end, request + segment.low)


def stage_work(segment: Segment, result: SimulationResult) -> npt.NDArray[np.float64]:
    """Busy seconds of each stage of each group in one segment, shape (n_groups, max_stages)."""
    tables = segment.tables
    if result.visits is not None:
        heads = _heads(segment, result)
        work = np.zeros((tables.n_groups, tables.latency.shape[2]))
        np.add.at(work, result.group[heads], np.nan_to_num(result.visits.seconds[heads, : work.shape[1]]))
        return work
    rows = slice(segment.low, segment.high)
    served = result.group[rows] >= 0
    group, model = result.group[rows][served].astype(np.int64), result.trace.model[rows][served]
    batch = np.ones(len(group), dtype=np.int64) if result.batch is None else result.batch[rows][served]
    n_groups, n_sizes = tables.n_groups, len(tables.sizes)
    column = np.searchsorted(tables.sizes, batch)
    cell = (model * n_groups + group) * n_sizes + column
    requests = np.bincount(cell, minlength=tables.n_models * n_groups * n_sizes)
    batches = requests.reshape(tables.n_models, n_groups, n_sizes) / tables.sizes
    work = np.zeros((n_groups, tables.latency.shape[2]))
    for m in range(tables.n_models):
        for p in tables.pairs_of(m):
            g = tables.pair_group[p]
            work[g] += np.nansum(batches[m, g][:, None] * tables.latency[p], axis=0)
    return work
