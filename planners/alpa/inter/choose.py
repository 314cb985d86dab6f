"""`choose_stages`: the stages of a plan, from what every run of layers takes on every submesh."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ....errors import InfeasibleError
from ....simulator.cluster import Cluster
from ..stages import Stage
from .epsilon import stage_dp_epsilon
from .interleave import interleaved_stages
from .linked import linked_stages, links_between
from .pricing.table import StageConfig, StageTable

if TYPE_CHECKING:
    from ..options import AlpaOptions

__all__ = ["ChosenStage", "Choice", "choose_stages", "stages_allowed"]


@dataclass(frozen=True, slots=True)
class ChosenStage:
    """One stage.

    Parameters
    ----------
    first, last : int
        Layers first … last − 1.
    submesh : int
        Index into the table's submeshes.
    config : StageConfig
        How the stage is run.
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
    table: StageTable,
    cluster: Cluster,
    microbatches: int,
    memory_bytes: float,
    options: AlpaOptions,
    received: npt.NDArray[np.float64] | None = None,
) -> Choice:
    """Stages, submeshes and configurations with the least Σ t + (B − 1) · max t.

    Parameters
    ----------
    table : StageTable
        What every run of layers takes on every submesh.
    cluster : Cluster
        The devices, all of which are used.
    microbatches : int
        B, microbatches of one iteration.
    memory_bytes : float
        Memory of one device.
    options : AlpaOptions
        Schedule, restrictions, ε.
    received : ndarray of float64, shape (L, L), optional
        Bytes that layers i…j receive from earlier ones and return; with it transfers count (`linked_stages`).

    Raises
    ------
    InfeasibleError
        If no plan uses every device and fits the memory.
    """
    cost = table.cost(microbatches)
    best: tuple[float, list[Stage]] | None = None
    why: InfeasibleError | None = None
    for mask, later in product(
        stages_allowed(table, cluster, options.stages), table.later(memory_bytes, options.schedule, microbatches)
    ):
        try:
            found = _solve(
                table, np.where(mask, cost, np.inf), mask, later, cluster, microbatches, memory_bytes, options, received
            )
        except InfeasibleError as error:
            why = why or error
            continue
        if best is None or found[0] < best[0]:
            best = found
    if best is None:
        raise why or InfeasibleError("alpa: no stages to choose from")
    stages = tuple(ChosenStage(i, j, k, table.configs[k][c], float(cost[i, j - 1, k, c])) for (i, j), k, c in best[1])
    return Choice(best[0], stages)


def _solve(
    table: StageTable,
    cost: npt.NDArray[np.float64],
    mask: npt.NDArray[np.bool_],
    later: npt.NDArray[np.int64],
    cluster: Cluster,
    microbatches: int,
    memory_bytes: float,
    options: AlpaOptions,
    received: npt.NDArray[np.float64] | None,
) -> tuple[float, list[Stage]]:
    if options.interleave > 1:
        return interleaved_stages(table, cluster.n_devices, microbatches, options.interleave, memory_bytes, mask)
    if received is not None:
        links = links_between(received, [(cluster, shape) for shape in table.submeshes], options.overlap)
        sizes = [(int(n),) for n in table.sizes]
        return linked_stages(cost, later, sizes, (cluster.n_devices,), microbatches, links)
    return stage_dp_epsilon(
        cost, later, table.submeshes, cluster.nodes, cluster.devices_per_node, microbatches, options.epsilon
    )


def stages_allowed(table: StageTable, cluster: Cluster, which: str) -> list[npt.NDArray[np.bool_]]:
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
