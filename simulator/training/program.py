"""`Program`: one list of actions per mesh, which a schedule emits, the simulator times and the runtime executes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ...errors import InputError

__all__ = ["Action", "Op", "Program"]


class Op(StrEnum):
    """What a mesh does. Every device of the mesh does the same, on its own shards."""

    RECV_F = "RECV_F"  # receive activations from an earlier stage (`peer`)
    F = "F"  # forward
    SEND_F = "SEND_F"  # send activations to a later stage
    RECV_B = "RECV_B"  # receive gradients from a later stage
    B = "B"  # backward: both halves, or of the inputs only where a W follows
    W = "W"  # backward of the weights, split off (zero bubble)
    SEND_B = "SEND_B"  # send gradients to an earlier stage
    REDUCE = "REDUCE"  # reduce gradients over data-parallel axes, once an iteration
    UPDATE = "UPDATE"  # optimiser step, and the all-gather of updated shards where they are


@dataclass(frozen=True, slots=True)
class Action:
    """One step of a mesh.

    Parameters
    ----------
    op : Op
        What.
    stage : int
        The stage that it belongs to (several on one mesh where schedules interleave).
    microbatch : int
        Which microbatch; −1 where it is once an iteration.
    peer : int
        The other stage of a transfer; −1 for none.
    slice : int
        Token slice of a microbatch (TeraPipe); 0 where there is one.
    """

    op: Op
    stage: int
    microbatch: int = -1
    peer: int = -1
    slice: int = 0

    def __str__(self) -> str:
        where = f"{self.op}{self.stage}" if self.peer < 0 else f"{self.op}{self.stage}~{self.peer}"
        return where if self.microbatch < 0 else f"{where}.{self.microbatch}" + (f"/{self.slice}" if self.slice else "")


@dataclass(frozen=True, slots=True)
class Program:
    """What every mesh does in one iteration, in order.

    Parameters
    ----------
    actions : tuple of tuple of Action
        For each mesh.
    mesh_of : tuple of int
        For each stage, the mesh that it runs on.
    microbatches : int
        Microbatches of the iteration.
    schedule : str
        What emitted it.

    Raises
    ------
    InputError
        If an action is on the wrong mesh or names a microbatch that is not there.
    """

    actions: tuple[tuple[Action, ...], ...]
    mesh_of: tuple[int, ...]
    microbatches: int
    schedule: str = ""

    def __post_init__(self) -> None:
        for mesh, actions in enumerate(self.actions):
            for action in actions:
                if not 0 <= action.stage < len(self.mesh_of) or self.mesh_of[action.stage] != mesh:
                    raise InputError(f"program: mesh {mesh}: {action} is of a stage on another mesh")
                if not -1 <= action.microbatch < self.microbatches:
                    raise InputError(f"program: mesh {mesh}: {action} of {self.microbatches} microbatches")
