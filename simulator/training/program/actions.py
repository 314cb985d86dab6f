"""`Action`, and `Program`: one list of actions per mesh."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any

import numpy as np

from ....errors import InputError
from ....reprs import Shown
from . import kernels as program_kernels
from .columns import Columns, columns_of

__all__ = ["Action", "Op", "Program"]


class Op(StrEnum):
    """Kinds of actions of a mesh. Every device of the mesh does the same, on its own shards."""

    RECV_F = "RECV_F"  # receive activations from an earlier stage (`peer`)
    F = "F"  # forward
    SEND_F = "SEND_F"  # send activations to a later stage
    RECV_B = "RECV_B"  # receive gradients from a later stage
    B = "B"  # backward: both halves, or of the inputs only where a W follows
    W = "W"  # backward of the weights, split off (zero bubble)
    SEND_B = "SEND_B"  # send gradients to an earlier stage
    REDUCE = "REDUCE"  # reduce gradients over data-parallel axes, once an iteration
    UPDATE = "UPDATE"  # optimiser step, and the all-gather of updated shards where they are


_compiled: Any = program_kernels  # numba functions have no types
_OPS: tuple[Op, ...] = tuple(Op)
_CODES = {str(op): code for code, op in enumerate(_OPS)}


@dataclass(frozen=True, slots=True, repr=False)
class Action(Shown):
    """One step of a mesh's program.

    Parameters
    ----------
    op : Op
        Kind of the action.
    stage : int
        The stage that it belongs to (a mesh has several where schedules interleave).
    microbatch : int
        The stage's microbatch; −1 for what happens once per iteration. SEND_B and RECV_B with −1 carry the gradient of
        a parameter that both stages hold. Where stages have different microbatches, a receive names the sender's.
    peer : int
        The other stage of a transfer; −1 for other actions.
    slice : int
        Token slice of the microbatch (TeraPipe); 0 without slices.
    """

    op: Op
    stage: int
    microbatch: int = -1
    peer: int = -1
    slice: int = 0

    def __str__(self) -> str:
        where = f"{self.op}{self.stage}" if self.peer < 0 else f"{self.op}{self.stage}~{self.peer}"
        return where if self.microbatch < 0 else f"{where}.{self.microbatch}" + (f"/{self.slice}" if self.slice else "")


class Program(Shown):
    """What every mesh does in one iteration, in order. Immutable.

    A program has two equivalent forms: `actions`, to read and to execute, and `columns`, to compute with. A program of
    many actions is built from columns (`Program.of_columns`); its actions are made when they are first asked for.

    Parameters
    ----------
    actions : sequence of sequence of Action
        Actions of each mesh, in order.
    mesh_of : sequence of int
        For each stage, the mesh that it runs on.
    microbatches : int or sequence of int
        Microbatches of the iteration: one number for all stages, or one for each.
    schedule : str
        Name of the schedule that made it.

    Raises
    ------
    InputError
        If an action is on the wrong mesh, or names a microbatch or a stage that does not exist. `check_program` checks
        for deadlocks.
    """

    __slots__ = ("_actions", "cache", "columns", "mesh_of", "microbatches_of", "schedule")

    columns: Columns
    mesh_of: tuple[int, ...]
    microbatches_of: tuple[int, ...]  # of each stage
    schedule: str
    cache: dict[str, object]  # what engines derive from the columns, once
    _actions: tuple[tuple[Action, ...], ...] | None

    def __init__(
        self,
        actions: Sequence[Sequence[Action]],
        mesh_of: Sequence[int],
        microbatches: int | Sequence[int],
        schedule: str = "",
    ) -> None:
        self._fill(columns_of(actions, _CODES), mesh_of, microbatches, schedule)
        object.__setattr__(self, "_actions", tuple(tuple(mine) for mine in actions))

    @classmethod
    def of_columns(
        cls, columns: Columns, mesh_of: Sequence[int], microbatches: int | Sequence[int], schedule: str = ""
    ) -> Program:
        """Make a program from actions in columns."""
        program = cls.__new__(cls)
        program._fill(columns, mesh_of, microbatches, schedule)
        return program

    def _fill(self, columns: Columns, mesh_of: Sequence[int], microbatches: int | Sequence[int], schedule: str) -> None:
        homes = tuple(mesh_of)
        entries: dict[str, object] = {
            "columns": columns,
            "mesh_of": homes,
            "microbatches_of": (microbatches,) * len(homes) if isinstance(microbatches, int) else tuple(microbatches),
            "schedule": schedule,
            "cache": {},
            "_actions": None,
        }
        for name, value in entries.items():
            object.__setattr__(self, name, value)
        if len(self.microbatches_of) != len(homes):
            raise InputError(
                f"program: microbatches: expected a number for each of {len(homes)} stages "
                f"(got {list(self.microbatches_of)})"
            )
        row, wrong = _compiled.first_wrong(
            columns.op, columns.stage, columns.microbatch, columns.peer, columns.slice, columns.offsets,
            np.array(homes, dtype=np.int32), np.array(self.microbatches_of, dtype=np.int32),
        )  # fmt: skip
        if row >= 0:
            raise InputError(f"program: mesh {columns.mesh[row]}: {self._said(wrong, self.action(row))}")

    def _said(self, wrong: int, action: Action) -> str:
        if wrong == program_kernels.ELSEWHERE:
            return f"{action} is of a stage on another mesh"
        if wrong == program_kernels.NO_PEER:
            return f"{action}: a transfer has another of the {self.n_stages} stages as peer, any other action none"
        producer = action.peer if action.op in (Op.RECV_F, Op.RECV_B) else action.stage
        return f"{action} of {self.microbatches_of[producer]} microbatches"

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Program is immutable: cannot set {name}")

    def __reduce__(self) -> tuple[object, ...]:
        return Program.of_columns, (self.columns, self.mesh_of, self.microbatches_of, self.schedule)

    @property
    def microbatches(self) -> int:
        """Microbatches of the iteration; of the stage that has most, where stages have different numbers."""
        return max(self.microbatches_of)

    @property
    def n_meshes(self) -> int:
        """Number of meshes."""
        return self.columns.n_meshes

    @property
    def n_stages(self) -> int:
        """Number of stages."""
        return len(self.mesh_of)

    @property
    def actions(self) -> tuple[tuple[Action, ...], ...]:
        """The actions of each mesh."""
        if self._actions is None:
            bounds = self.columns.offsets.tolist()
            every = list(self._rows(0, bounds[-1]))
            made = tuple(tuple(every[a:b]) for a, b in pairwise(bounds))
            object.__setattr__(self, "_actions", made)
            return made
        return self._actions

    def action(self, row: int) -> Action:
        """One action, by its row in the columns."""
        return next(self._rows(row, row + 1))

    def _rows(self, first: int, last: int) -> Iterator[Action]:
        c = self.columns
        columns: list[list[int]] = [x[first:last].tolist() for x in (c.op, c.stage, c.microbatch, c.peer, c.slice)]
        ops, stages, microbatches, peers, slices = columns
        rows = zip(ops, stages, microbatches, peers, slices, strict=True)
        return (Action(_OPS[op], stage, microbatch, peer, piece) for op, stage, microbatch, peer, piece in rows)

    def __len__(self) -> int:
        return len(self.columns)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Program):
            return NotImplemented
        return (
            self.mesh_of == other.mesh_of
            and self.microbatches_of == other.microbatches_of
            and self.columns.equals(other.columns)
        )

    __hash__ = None  # type: ignore[assignment]

    def _headline(self) -> str:
        what = f"{self.schedule or 'program'} of {self.n_stages} stages on {self.n_meshes} meshes"
        counts = " or ".join(map(str, sorted(set(self.microbatches_of))))
        return f"{what}, {counts} microbatches, {len(self)} actions"

    def __str__(self) -> str:
        return "\n".join(f"mesh {m}: {' '.join(map(str, mine))}" for m, mine in enumerate(self.actions))
