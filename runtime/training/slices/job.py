"""What a rank of a sliced plan sets up: the runners of its stages, which work slice by slice, and their executor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ....profiles.graph import Graph
from ....simulator.training.plan.file import TrainingPlan
from ....simulator.training.program.actions import Action
from ..optimizer import Stepping
from ..stage.recompute import redone
from ..wires.comm import MeshComm
from ..wires.edges import mesh_ranks
from .executor import SliceExecutor
from .layout import SliceLayout
from .stage import SliceStage
from .turns import checked_tokens, microbatch_samples, turns_of

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["check_sliced", "slice_executor", "slice_stages"]


def check_sliced(plan: TrainingPlan, graph: Graph) -> None:
    """Refuse a sliced plan that cannot be run, before any process starts.

    Raises
    ------
    InputError
        If the graph cannot be run by slices, or not on the plan's meshes.
    """
    tokens, ranks = checked_tokens(plan, graph), mesh_ranks(plan)
    for number, stage in enumerate(plan.stages):
        mine = ranks[stage.mesh]
        SliceLayout.of(plan, graph, number, MeshComm(mine, stage.logical, mine[0]), tokens, microbatch_samples(plan))


def slice_stages(
    plan: TrainingPlan, graph: Graph, comms: Mapping[int, MeshComm], *, inputs: Callable[[str, int], Tensor],
    parameter: Callable[[str], Tensor], optimizer: Stepping,
) -> dict[int, SliceStage]:  # fmt: skip
    """Make the runners of this rank's stages.

    Parameters
    ----------
    plan, graph : TrainingPlan, Graph
        What is run.
    comms : mapping
        Stage of this rank -> the collectives of its mesh.
    inputs, parameter, optimizer
        As in `SliceStage`.

    Raises
    ------
    InputError
        If the graph cannot be run by slices, or not on these meshes.
    """
    tokens, turns = checked_tokens(plan, graph), turns_of(plan)
    made: dict[int, SliceStage] = {}
    for number, comm in comms.items():
        layout = SliceLayout.of(plan, graph, number, comm, tokens, microbatch_samples(plan))
        made[number] = SliceStage(
            layout, turns, comm, inputs=inputs, parameter=parameter, optimizer=optimizer,
            loss=graph.operators[-1].name, redo=redone(layout.any, plan.stages[number].recompute),
        )  # fmt: skip
    return made


def slice_executor(
    plan: TrainingPlan, graph: Graph, runners: Mapping[int, SliceStage], actions: Sequence[Action], rank: int,
    dtype: Any,
) -> SliceExecutor:  # fmt: skip
    """Make the executor that runs this rank's actions on those runners."""
    return SliceExecutor(runners, actions, plan, graph, checked_tokens(plan, graph), turns_of(plan), rank, dtype)
