"""Counting what a placement would attain, without a column per request. Planners call this in their inner loop.

`count` is the compiled engine (`kernel.serve`) with counters in place of columns. It may serve a subset of the requests
and may stop early. A placement is described by *rows* of one latency table that is built once per search, so that a
candidate costs a few short integer arrays and no copies of latencies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from ....jit import kernel
from ..policy import check_dispatch
from ..tables import ServingTables
from .kernel import POLICY, serve

__all__ = ["Counts", "count", "count_served", "rows_of"]


@dataclass(frozen=True, eq=False, slots=True)
class Counts:
    """What a placement attains on a set of requests.

    Parameters
    ----------
    attained : int
        Requests finished within their SLO.
    attained_per_model : ndarray of int64, shape (n_models,)
        The same for each model of the trace.
    dispatched : ndarray of int64, shape (n_groups,)
        Requests sent to each group, those that it then rejected included.
    busy : ndarray of float64, shape (n_groups,)
        Seconds of stage time that each group worked, summed over its stages.
    latency : float
        Sum of the latencies of the served requests, seconds.
    seen : int
        Requests looked at.
    complete : bool
        False if counting stopped early because more than `limit` requests had missed their SLO; the other fields then
        cover the first `seen` requests only.
    """

    attained: int
    attained_per_model: npt.NDArray[np.int64]
    dispatched: npt.NDArray[np.int64]
    busy: npt.NDArray[np.float64]
    latency: float
    seen: int
    complete: bool


@kernel
def _tally(model_start, pair_group, pair_row, latency, stages, sent, served, in_time, attained, dispatched, busy):
    """From counts per pair to counts per model and group; returns the requests attained."""
    for m in range(model_start.shape[0] - 1):
        for p in range(model_start[m], model_start[m + 1]):
            g = pair_group[p]
            attained[m] += in_time[p]
            dispatched[g] += sent[p]
            for k in range(stages[g]):
                busy[g] += served[p] * latency[pair_row[p], k]
    good = 0
    for p in range(in_time.shape[0]):
        good += in_time[p]
    return good


def count(arrival, model, slo, rows, model_start, pair_group, pair_row, latency, hop, stages, policy, admission,
          overhead, limit, attained, dispatched, busy) -> tuple[int, int, float]:  # fmt: skip
    """Serve the requests `rows` (ascending) and add to `attained`, `dispatched`, `busy`; see `Counts`.

    Stops after the request that makes more than `limit` miss their SLO.

    Shapes: arrival, model, slo (n,); rows (r,) integer; model_start (models + 1,); pair_group, pair_row (pairs,);
    latency (table rows, stages) and hop (table rows,), where ``pair_row[p]`` is the row of pair p; stages (groups,);
    attained (models,), dispatched and busy (groups,).

    Returns
    -------
    tuple of (int, int, float)
        Requests attained, requests seen, and the sum of the latencies of served requests, seconds.
    """
    sent, served, in_time = np.zeros((3, len(pair_group)), dtype=np.int64)
    seen, seconds = serve(
        (arrival, model, slo), rows, (model_start, pair_group, pair_row), latency, hop, stages, policy, admission,
        overhead, limit, np.zeros((len(stages), latency.shape[1])), (sent, served, in_time),
    )  # fmt: skip
    good = _tally(model_start, pair_group, pair_row, latency, stages, sent, served, in_time, attained, dispatched, busy)
    return good, seen, seconds


def rows_of(model: npt.NDArray[np.int32], models: npt.ArrayLike, n_models: int) -> npt.NDArray[np.int64]:
    """Rows of the requests that ask for one of `models` (indices), ascending."""
    wanted = np.zeros(n_models, dtype=bool)
    wanted[np.asarray(models)] = True
    return np.flatnonzero(wanted[model])


def count_served(
    arrival: npt.NDArray[np.float64],
    model: npt.NDArray[np.int32],
    slo: npt.NDArray[np.float64],
    tables: ServingTables,
    *,
    dispatch: str = "shortest_queue",
    admission: bool = True,
    overhead: float = 0.0,
    rows: npt.NDArray[np.int64] | None = None,
    limit: int | None = None,
) -> Counts:
    """Count what a placement attains, as `simulate` would, without a column per request.

    Parameters
    ----------
    arrival, model, slo : ndarray, shape (n,)
        Columns of a trace.
    tables : ServingTables
        The placement.
    dispatch, admission, overhead
        As in `simulate`.
    rows : ndarray of int, optional
        The requests to serve, ascending (`rows_of`); all if not given.
    limit : int, optional
        Give up once more than this many requests missed their SLO.

    Raises
    ------
    InputError
        On an unknown dispatch policy or a negative limit.
    """
    check_dispatch(dispatch)
    if limit is not None and limit < 0:
        raise InputError(f"limit: expected a count >= 0 or None (got {limit})")
    chosen = np.arange(len(arrival)) if rows is None else rows
    attained = np.zeros(tables.n_models, dtype=np.int64)
    dispatched = np.zeros(tables.n_groups, dtype=np.int64)
    busy = np.zeros(tables.n_groups)
    good, seen, total = count(
        arrival, model, slo, chosen, tables.model_start, tables.pair_group,
        np.arange(len(tables.pair_group), dtype=np.int32), np.ascontiguousarray(tables.latency[:, 0, :]),
        tables.hop, tables.stages, POLICY[dispatch], admission, overhead,
        len(chosen) if limit is None else limit, attained, dispatched, busy,
    )  # fmt: skip
    return Counts(good, attained, dispatched, busy, total, seen, limit is None or seen - good <= limit)
