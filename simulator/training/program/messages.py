"""Which send of a program each receive waits for: messages numbered by pair of stages, microbatch and slice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from .actions import Program
from .kernels import MESSAGE, PAIR, exchanged, match

__all__ = ["Messages", "Pair", "messages_of"]

Pair = tuple[Literal["forward", "backward", "tied"], int, int]
"""What goes from one stage to another: activations, gradients, or once an iteration the gradient of a parameter that
both keep; source stage; target stage."""

_WHAT: tuple[Literal["forward"], Literal["backward"], Literal["tied"]] = ("forward", "backward", "tied")


@dataclass(frozen=True, eq=False)
class Messages:
    """The messages of a program.

    Parameters
    ----------
    word : ndarray of int64, shape (n,)
        Kind, message and index into `pairs` of each action, packed.
    pairs : tuple of (str, int, int)
        (what, source stage, target stage) of each pair.
    units : int
        Messages numbered per pair: message k belongs to pair ``k // units``.
    """

    word: npt.NDArray[np.int64]
    pairs: tuple[Pair, ...]
    units: int

    @property
    def kind(self) -> npt.NDArray[np.int64]:
        """COMPUTE, SEND or RECEIVE, for each action."""
        return self.word & 3

    @property
    def message(self) -> npt.NDArray[np.int64]:
        """Number of the message that each action sends or receives; 0 where it does neither."""
        return (self.word >> 2) & MESSAGE

    @property
    def pair(self) -> npt.NDArray[np.int64]:
        """Index into `pairs` of each action's message."""
        return self.word >> PAIR

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
    present = exchanged(c.op, c.stage, c.microbatch, c.peer, n)
    used = np.flatnonzero(present)
    slices = int(c.slice.max(initial=0)) + 1
    units = (program.microbatches + 1) * slices
    number = np.cumsum(present) - 1
    columns = (c.op, c.stage, c.microbatch, c.peer, c.slice)
    word, sender, receiver = match(*columns, n, number, units, slices, len(used) * units)
    for ends, done in ((sender, "sent"), (receiver, "received")):
        for row in ends[ends < -1][:1]:
            raise InputError(f"program: mesh {c.mesh[-2 - row]}: {program.action(int(-2 - row))} is {done} twice")
    for k in np.flatnonzero((sender >= 0) != (receiver >= 0))[:1]:
        row, missing = (sender[k], "received by") if sender[k] >= 0 else (receiver[k], "sent by")
        action = program.action(int(row))
        raise InputError(
            f"program: mesh {c.mesh[row]}: {action} is never {missing} stage {action.peer} on mesh "
            f"{program.mesh_of[action.peer]}"
        )
    pairs = tuple[Pair, ...]((_WHAT[code // (n * n)], code // n % n, code % n) for code in used.tolist())
    return Messages(word, pairs, units)
