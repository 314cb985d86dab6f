"""`Columns`: the actions of a program as arrays, mesh after mesh, which schedules build and engines read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from .actions import Action

__all__ = ["B", "F", "RECV_B", "RECV_F", "REDUCE", "SEND_B", "SEND_F", "UPDATE", "W", "Columns", "columns_of"]

RECV_F, F, SEND_F, RECV_B, B, W, SEND_B, REDUCE, UPDATE = range(9)
"""Code of each `Op`, in the order in which `Op` lists them."""

Codes = npt.NDArray[np.int8]
Integers = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Columns:
    """One row for each action, those of mesh 0 first; see `Action` for the fields.

    Parameters
    ----------
    op : ndarray of int8, shape (n,)
        Code of the operation.
    stage, microbatch, peer, slice : ndarray of int32, shape (n,)
        As in `Action`.
    offsets : ndarray of int64, shape (n_meshes + 1,)
        Where each mesh's rows begin, and n.
    """

    op: Codes
    stage: Integers
    microbatch: Integers
    peer: Integers
    slice: Integers
    offsets: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.op)

    @property
    def n_meshes(self) -> int:
        """Number of meshes."""
        return len(self.offsets) - 1

    @property
    def mesh(self) -> Integers:
        """Mesh of each action, shape (n,)."""
        return np.repeat(np.arange(self.n_meshes, dtype=np.int32), np.diff(self.offsets))

    def equals(self, other: Columns) -> bool:
        """Whether all actions are the same."""
        names = ("offsets", "op", "stage", "microbatch", "peer", "slice")
        return all(np.array_equal(getattr(self, n), getattr(other, n)) for n in names)

    @classmethod
    def joined(cls, rows: npt.NDArray[np.int64], counts: Iterable[int]) -> Columns:
        """From rows (op, stage, microbatch, peer, slice), shape (n, 5), and how many of them each mesh has."""
        ints = rows.astype(np.int32)
        offsets = np.concatenate(([0], np.cumsum(np.fromiter(counts, dtype=np.int64))))
        op, stage, microbatch, peer, piece = (np.ascontiguousarray(ints[:, k]) for k in range(5))
        return cls(op.astype(np.int8), stage, microbatch, peer, piece, offsets)


def columns_of(actions: Sequence[Sequence[Action]], codes: dict[str, int]) -> Columns:
    """The columns of readable actions."""
    rows = [(codes[a.op], a.stage, a.microbatch, a.peer, a.slice) for mine in actions for a in mine]
    table = np.array(rows, dtype=np.int64).reshape(-1, 5)
    return Columns.joined(table, (len(mine) for mine in actions))
