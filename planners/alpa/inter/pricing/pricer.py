"""`Pricer`: what the inter-operator pass asks of the intra-operator one; `price_stages` asks it for every submesh."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from .....profiles.graph import Graph
from .....simulator.cluster import Cluster
from .....simulator.mesh import LogicalMesh, Mesh
from .....simulator.training.plan.entries import OperatorEntry, TrafficOf
from ..clustering import Layer
from ..shapes import logical_shapes
from .table import Prices, StageConfig, StageTable
from .workers import in_processes

__all__ = ["Pricer", "Recompute", "StagePlan", "price_stages"]

Recompute = Literal["none", "selective", "full"]
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class StagePlan:
    """How one stage is run on its logical mesh, in the words of a plan's `StageEntry`.

    Parameters
    ----------
    forward_s, backward_input_s, backward_weight_s : float
        Seconds of one microbatch; the backward pass with what is recomputed.
    reduce_s, update_s : float
        Seconds, once an iteration.
    state_bytes, activation_bytes, work_bytes : float
        Bytes on one device.
    operators, parameters, optimizer_states, collectives, traffic : mapping
        As in `StageEntry`.
    inputs : mapping
        Spec in which each value from another stage arrives.
    gap : float
        How far the objective is from the proven bound, relative; 0: optimal.
    """

    forward_s: float
    backward_input_s: float
    backward_weight_s: float
    reduce_s: float
    update_s: float
    state_bytes: float
    activation_bytes: float
    work_bytes: float
    operators: Mapping[str, OperatorEntry] = field(default_factory=dict[str, OperatorEntry])
    inputs: Mapping[str, str] = field(default_factory=dict[str, str])
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    optimizer_states: Mapping[str, str] = field(default_factory=dict[str, str])
    collectives: Mapping[str, int] = field(default_factory=dict[str, int])
    traffic: Mapping[TrafficOf, tuple[float, ...]] = field(default_factory=dict[TrafficOf, tuple[float, ...]])
    gap: float = 0.0


class Pricer(Protocol):
    """Where stage costs come from: Alpa's intra-operator pass, or a fixed way of sharding."""

    @property
    def source(self) -> str:
        """Where the seconds come from."""
        ...

    def least_seconds(self, graph: Graph) -> float:
        """A lower bound of the device-seconds of one microbatch, forward and backward, whatever the plan."""
        ...

    def intervals(
        self, graph: Graph, layers: Sequence[Layer], mesh: LogicalMesh, recompute: Recompute, microbatches: int
    ) -> Prices:
        """What every run of layers takes."""
        ...

    def stage(
        self, graph: Graph, first: int, last: int, mesh: LogicalMesh, recompute: Recompute, microbatches: int,
        held: int, memory_bytes: float,
    ) -> StagePlan:  # fmt: skip
        """The best plan of operators first…last−1 that holds `held` microbatches within `memory_bytes`.

        Raises
        ------
        InfeasibleError
            If there is none.
        """
        ...


@dataclass(frozen=True, slots=True)
class Pricing:
    """Which views of a submesh are priced, and by how many processes.

    Parameters
    ----------
    logical : sequence of (int, int), optional
        Views to consider; all if not given.
    axes_alike : bool
        As in `logical_shapes`.
    workers : int
        Processes; what they find does not depend on how many there are.
    """

    logical: Sequence[tuple[int, int]] | None = None
    axes_alike: bool = True
    workers: int = 1


def price_stages(
    graph: Graph,
    layers: Sequence[Layer],
    cluster: Cluster,
    submeshes: Sequence[tuple[int, int]],
    pricer: Pricer,
    *,
    microbatches: int,
    recompute: Sequence[Recompute] = ("none",),
    how: Pricing | None = None,
    progress: Progress | None = None,
) -> StageTable:
    """Costs of every run of layers on every submesh, for each of its logical views and recomputation options.

    Parameters
    ----------
    graph : Graph
        At the size of one microbatch.
    layers : sequence of (int, int)
        The layers, as `cluster_operators` gives them.
    cluster : Cluster
        Where submeshes are cut from.
    submeshes : sequence of (int, int)
        Submesh shapes: hosts, and devices of each.
    pricer : Pricer
        Where costs come from.
    microbatches : int
        B, microbatches of one iteration.
    recompute : sequence of str
        Ways of activation recomputation to be priced.
    how : Pricing, optional
        Logical views to consider, and processes.
    progress : callable, optional
        Called with a line of text for each submesh that is priced.
    """
    chosen = how or Pricing()
    tasks: list[tuple[tuple[int, int], tuple[int, int], Recompute]] = [
        (shape, view, option)
        for shape in submeshes
        for view in logical_shapes(Mesh(cluster, *shape), chosen.logical, chosen.axes_alike)
        for option in recompute
    ]
    if progress is not None:
        progress(f"pricing {len(layers)} layers on {len(submeshes)} submeshes, {len(tasks)} views and options")

    def price(task: tuple[tuple[int, int], tuple[int, int], Recompute]) -> Prices:
        shape, view, option = task
        return pricer.intervals(graph, layers, Mesh(cluster, *shape).view(view), option, microbatches)

    found = in_processes(price, tasks, chosen.workers)
    priced: dict[tuple[int, int], list[tuple[StageConfig, Prices]]] = {}
    for (shape, view, option), prices in zip(tasks, found, strict=True):
        priced.setdefault(shape, []).append((StageConfig(view, option), prices))
    return StageTable.of(list(priced.items()))
