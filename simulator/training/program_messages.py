"""Which send of a program each receive waits for: messages numbered by pair of stages, microbatch and slice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from .action_columns import RECV_B, RECV_F, SEND_B, SEND_F
from .program import Program

__all__ = ["COMPUTE", "RECEIVE", "SEND", "Messages", "Pair", "messages_of"]

Pair = tuple[Literal["forward", "backward", "tied"], int, int]
"""What goes from one stage to another: activations, gradients, or once an iteration the gradient of a parameter that
both keep; source stage; target stage."""

COMPUTE, SEND, RECEIVE = range(3)
PAIR, MESSAGE = 34, 2**32 - 1  # a word is pair << PAIR | message << 2 | kind
_WHAT: tuple[Literal["forward"], Literal["backward"], Literal["tied"]] = ("forward", "backward", "tied")
_KIND = np.zeros(9, dtype=np.int8)
_KIND[[SEND_F, SEND_B]], _KIND[[RECV_F, RECV_B]] = SEND, RECEIVE


@dataclass(frozen=True, eq=False)
class Messages:
    """The messages of a program.

    Parameters
    ----------
    kind : ndarray of int8, shape (n,)
        COMPUTE, SEND or RECEIVE, for each action.
    message : ndarray of int32, shape (n,)
        Number of the message that an action sends or receives, −1 for none.
    word : ndarray of int64, shape (n,)
        Kind, message and index into `pairs` of each action, packed for the compiled engine.
    pairs : tuple of (str, int, int)
        (what, source stage, target stage) of each pair.
    units : int
        Messages numbered per pair: message k belongs to pair ``k // units``.
    """

    kind: npt.NDArray[np.int8]
    message: npt.NDArray[np.int32]
    word: npt.NDArray[np.int64]
    pairs: tuple[Pair, ...]
    units: int

    @property
    def n_messages(self) -> int:
        """Numbers given out; not all need be in use."""
        return len(self.pairs) * self.units


def messages_of(program: Program) -> Messages:
    """Match sends with receives; done once for a program.

    Raises
    ------
    InputError
        If something is sent twice, received twice, sent and not received or received and not sent.
    """
    if "messages" not in program.cache:
        program.cache["messages"] = _match(program)
    return cast("Messages", program.cache["messages"])


def _match(program: Program) -> Messages:
    c, n = program.columns, program.n_stages
    kind = _KIND[c.op]
    rows = np.flatnonzero(kind != COMPUTE)
    op, stage, peer = c.op[rows], c.stage[rows].astype(np.int64), c.peer[rows].astype(np.int64)
    sends = kind[rows] == SEND
    source, target = np.where(sends, stage, peer), np.where(sends, peer, stage)
    what = ((op == SEND_B) | (op == RECV_B)) * (1 + (c.microbatch[rows] < 0))
    code = (what * n + source) * n + target
    present = np.zeros(3 * n * n, dtype=bool)
    present[code] = True
    used = np.flatnonzero(present)
    number = np.cumsum(present) - 1
    slices = int(c.slice.max(initial=0)) + 1
    units = (program.microbatches + 1) * slices
    ids = number[code] * units + (c.microbatch[rows] + 1) * slices + c.slice[rows]
    for mine, done in ((sends, "sent"), (~sends, "received")):
        _once(program, rows[mine], ids[mine], len(used) * units, done)
    _paired(program, rows, ids, sends, len(used) * units)
    message = np.full(len(c), -1, dtype=np.int32)
    message[rows] = ids
    word = np.full(len(c), COMPUTE, dtype=np.int64)
    word[rows] = number[code].astype(np.int64) << PAIR | ids << 2 | kind[rows]
    pairs = tuple[Pair, ...]((_WHAT[code // (n * n)], code // n % n, code % n) for code in used.tolist())
    return Messages(kind, message, word, pairs, units)


def _once(program: Program, rows: npt.NDArray[np.int64], ids: npt.NDArray[np.int64], n: int, what: str) -> None:
    for k in np.flatnonzero(np.bincount(ids, minlength=n) > 1)[:1]:
        row = int(rows[np.flatnonzero(ids == k)[1]])
        raise InputError(f"program: mesh {program.columns.mesh[row]}: {program.action(row)} is {what} twice")


def _paired(
    program: Program, rows: npt.NDArray[np.int64], ids: npt.NDArray[np.int64], sends: npt.NDArray[np.bool_], n: int
) -> None:
    balance = np.zeros(n, dtype=np.int64)
    balance[ids[sends]] += 1
    balance[ids[~sends]] -= 1
    for k in np.flatnonzero(balance)[:1]:
        row = int(rows[np.flatnonzero(ids == k)[0]])
        action, mesh = program.action(row), program.columns.mesh[row]
        other = program.mesh_of[action.peer]
        missing = "received by" if balance[k] > 0 else "sent by"
        raise InputError(f"program: mesh {mesh}: {action} is never {missing} stage {action.peer} on mesh {other}")
