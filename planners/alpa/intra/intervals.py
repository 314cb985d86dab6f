"""`interval_costs`: what every run of layers takes on one logical mesh, for several prices of memory, at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ....errors import InfeasibleError, InputError
from ....profiles.graph import CostModel, Graph
from ....simulator.mesh import LogicalMesh
from ..problem import Floats
from .analysis import Analysis
from .options import IntraOptions
from .solve import solve_stage

__all__ = ["IntervalTable", "interval_costs"]


@dataclass(frozen=True, eq=False, slots=True)
class IntervalTable:
    """What runs of layers take on one logical mesh. Arrays are [L, L, configuration]: layers i … j inclusive.

    Parameters
    ----------
    seconds : ndarray
        Forward and backward of one microbatch; inf: impossible, or j < i.
    iteration_s : ndarray
        Gradient reduction and update, once an iteration.
    state_bytes, activation_bytes, work_bytes : ndarray
        On one device: weights, gradients, optimiser states; kept for one microbatch; temporaries.
    """

    seconds: Floats
    iteration_s: Floats
    state_bytes: Floats
    activation_bytes: Floats
    work_bytes: Floats


def interval_costs(
    graph: Graph,
    layers: Sequence[tuple[int, int]],
    mesh: LogicalMesh,
    costs: CostModel,
    options: IntraOptions | None = None,
    *,
    analysis: Analysis | None = None,
) -> IntervalTable:
    """What every run of layers takes on one logical mesh."""
    options = options or IntraOptions()
    n = len(layers)
    shared = analysis or Analysis(graph)
    columns = np.full((5, n, n, 1), np.inf)
    for i in range(n):
        for j in range(i, n):
            plan = solve_stage(graph, layers[i][0], layers[j][1], mesh, costs, options, analysis=shared)
            columns[:, i, j, 0] = (
                plan.seconds, plan.reduce_s + plan.update_s, plan.state_bytes, plan.activation_bytes, plan.work_bytes,
            )  # fmt: skip
    return IntervalTable(*columns)
