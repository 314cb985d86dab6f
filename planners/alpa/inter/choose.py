"""`choose_stages`: the stages of a plan, from what every run of layers takes on every submesh."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ....errors import InfeasibleError
from ....simulator.cluster import Cluster
from .epsilon import stage_dp_epsilon
from .table import StageConfig, StageTable

if TYPE_CHECKING:
    from ..options import AlpaOptions

__all__ = ["ChosenStage", "Choice", "choose_stages", "stages_allowed"]


@dataclass(frozen=True, slots=True)
class ChosenStage:
    """One stage.

    Parameters
    ----------
    first, last : int
        Layers, half-open.
    submesh : int
        Index into the table's submeshes.
    config : StageConfig
        How it is run.
    seconds : float
        t_intra: one microbatch, forward and backward, with its share of what happens once an iteration.
    """

    first: int
    last: int
    submesh: int
    config: StageConfig
    seconds: float


@dataclass(frozen=True, slots=True)
class Choice:
    """What the dynamic programme found: its stages, first to last, and the predicted seconds of an iteration."""

    seconds: float
    stages: tuple[ChosenStage, ...]


def choose_stages(
    table: StageTable, cluster: Cluster, microbatches: int, memory_bytes: float, options: AlpaOptions
) -> Choice:
    """Stages, submeshes and configurations with the least Σ t + (B − 1) · max t.

    Raises
    ------
    InfeasibleError
        If no plan uses every device and fits the memory.
    """
    cost = table.cost(microbatches)
    later = table.later(memory_bytes, options.schedule, microbatches)
    best: Choice | None = None
    why: InfeasibleError | None = None
    for mask in stages_allowed(table, cluster, options.stages):
        try:
            seconds, stages = stage_dp_epsilon(
                np.where(mask, cost, np.inf), later, table.submeshes, cluster.nodes, cluster.devices_per_node,
                microbatches, options.epsilon,
            )  # fmt: skip
        except InfeasibleError as error:
            why = why or error
            continue
        if best is None or seconds < best.seconds:
            found = [ChosenStage(i, j, k, table.configs[k][c], float(cost[i, j - 1, k, c])) for (i, j), k, c in stages]
            best = Choice(seconds, tuple(found))
    if best is None:
        raise why or InfeasibleError("alpa: no stages to choose from")
    return best


def stages_allowed(table: StageTable, cluster: Cluster, which: str) -> list[np.ndarray]:
    """Masks [L, L, submesh, 1] of the stages that one run of the programme may use; the best run counts."""
    n = table.n_layers
    first, last = np.indices((n, n))
    everything = np.ones((n, n, len(table.submeshes), 1), bool)
    if which == "one":
        whole = (first == 0) & (last == n - 1)
        return [everything & whole[:, :, None, None]]
    if which == "one_device":
        return [everything & (table.sizes == 1)[None, None, :, None]]
    if which == "equal_layer":
        lengths = [n // s for s in range(1, min(n, cluster.n_devices) + 1) if n % s == 0]
        even = [(last - first + 1 == length) & (first % length == 0) for length in lengths]
        return [everything & mask[:, :, None, None] for mask in even]
    return [everything]
