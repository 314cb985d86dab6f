"""The compiled engine without batching: a column per request."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..tables import ServingTables
from .kernel import POLICY, serve

__all__ = ["POLICY", "run"]


def run(
    arrival: npt.NDArray[np.float64],
    model: npt.NDArray[np.int32],
    slo: npt.NDArray[np.float64],
    tables: ServingTables,
    dispatch: str,
    admission: bool,
    overhead: float,
    clock: npt.NDArray[np.float64] | None = None,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int32], npt.NDArray[np.float64]]:
    """Serve a trace.

    Returns
    -------
    finish : ndarray of float64, shape (n,)
        Finish of each request, seconds, overhead included; NaN where rejected.
    group : ndarray of int32, shape (n,)
        Group that served it; -1 where rejected.
    clock : ndarray of float64, shape (n_groups, max_stages)
        When each stage is free in the end, seconds.
    """
    finish = np.empty(len(arrival))
    group = np.empty(len(arrival), dtype=np.int32)
    if clock is None:
        clock = np.zeros((tables.n_groups, tables.latency.shape[2]))
    serve(
        (arrival, model, slo), None, (tables.model_start, tables.pair_group, np.arange(len(tables.pair_group))),
        np.ascontiguousarray(tables.latency[:, 0, :]), tables.hop, tables.stages, POLICY[dispatch], admission,
        overhead, 0, clock, (finish, group),
    )  # fmt: skip
    return finish, group, clock
