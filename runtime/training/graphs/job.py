"""What a rank sets up where stages have microbatches of different sizes: inputs, stage runners and the executor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ....errors import InputError
from ....profiles.graph import Graph
from ....simulator.training.plan.file import TrainingPlan
from ....simulator.training.program.actions import Action
from ..optimizer import Stepping
from ..single import make_input
from ..stage.layout import StageLayout
from ..stage.recompute import redone
from ..stage.runner import StageRunner
from ..wires.comm import MeshComm
from ..wires.edges import edges_of, signals_of, tied_edges
from .executor import GraphExecutor
from .microbatch_parts import unit_samples
from .parcel import GraphMailbox

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["SampleInputs", "graph_executor", "graph_stages", "stage_graphs"]


def stage_graphs(plan: TrainingPlan, graph: Graph) -> list[Graph]:
    """For each stage, the graph with the stage's microbatch as its batch size."""
    made = {b: graph.with_batch(b) for b in {plan.microbatch_of(s) for s in range(len(plan.stages))}}
    return [made[plan.microbatch_of(s)] for s in range(len(plan.stages))]


class SizedInputs(Protocol):
    """Inputs in microbatches of several sizes: drawn ones, or rows of the user's batches."""

    def of(self, size: int) -> Callable[[str, int], Tensor]:
        """(name, microbatch) -> the input, for a stage of this size."""
        ...


class SampleInputs:
    """Inputs of one iteration at a time, in microbatches of several sizes, made before the iteration starts.

    Samples are drawn in pieces of the size that divides every stage's microbatch, and joined. All stages, and the
    reference on a single device, so see the same samples.

    Parameters
    ----------
    plan, graph : TrainingPlan, Graph
        What is run.
    seed, dtype
        As in `single.make_input`.
    sizes : sequence of int
        Samples of a microbatch of each stage of this rank.
    """

    def __init__(self, plan: TrainingPlan, graph: Graph, seed: int, dtype: str, sizes: Sequence[int]) -> None:
        self.unit = graph.with_batch(unit_samples(plan))
        self.count = plan.global_batch // self.unit.batch
        self.seed, self.dtype, self.sizes = seed, dtype, sorted(set(sizes))
        self._made: dict[tuple[str, int, int], Tensor] = {}

    def prepare(self, iteration: int, names: set[str]) -> None:
        """Make the named inputs for an iteration, in all sizes of this rank.

        Raises
        ------
        InputError
            If an input does not grow with the samples in exactly one dimension.
        """
        import torch

        self._made = {}
        for name in names:
            dims = self.unit.tensors[name].batch_dims
            if len(dims) != 1:
                raise InputError(f"run: input {name!r} does not grow with the samples in one dimension")
            drawn = [make_input(self.unit, name, self.seed, iteration, m, self.dtype) for m in range(self.count)]
            for size in self.sizes:
                n = size // self.unit.batch
                for m in range(self.count // n):
                    self._made[name, size, m] = torch.cat(drawn[m * n : (m + 1) * n], dims[0])

    def begun(self, iteration: int) -> None:
        """All ranks have theirs: there is nothing to make room for."""

    def of(self, size: int) -> Callable[[str, int], Tensor]:
        """(name, microbatch) -> the input, for a stage of this size."""
        return lambda name, microbatch: self._made[name, size, microbatch]


def graph_stages(
    plan: TrainingPlan, graph: Graph, comms: Mapping[int, MeshComm], *, inputs: SizedInputs,
    parameter: Callable[[str], Tensor], optimizer: Stepping,
) -> dict[int, StageRunner]:  # fmt: skip
    """Make the runners of this rank's stages.

    Parameters
    ----------
    plan, graph : TrainingPlan, Graph
        What is run.
    comms : mapping
        Stage of this rank -> the collectives of its mesh.
    inputs, parameter, optimizer
        As in `StageRunner`.
    """
    graphs = stage_graphs(plan, graph)
    made: dict[int, StageRunner] = {}
    for number, comm in comms.items():
        layout = StageLayout.of(plan, graphs[number], number, comm)
        made[number] = StageRunner(
            layout, comm, inputs=inputs.of(graphs[number].batch), parameter=parameter, optimizer=optimizer,
            microbatches=plan.microbatches_of[number], loss=graph.operators[-1].name,
            redo=redone(layout, plan.stages[number].recompute),
        )  # fmt: skip
    return made


def graph_executor(
    plan: TrainingPlan, graph: Graph, runners: Mapping[int, StageRunner], actions: Sequence[Action], rank: int,
    dtype: Any,
) -> GraphExecutor:  # fmt: skip
    """Make the executor that runs this rank's actions on those runners."""
    edges = [*edges_of(plan, graph), *signals_of(plan, graph)]
    mailbox = GraphMailbox(dtype, max(plan.microbatches_of))
    return GraphExecutor(
        runners, actions, edges, tied_edges(plan, graph), plan, rank, mailbox, dtype.itemsize, stage_graphs(plan, graph)
    )
