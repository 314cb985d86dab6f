"""`Mailbox`: a rank's messages to and from other meshes, under way while it computes."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .layout import local_shape
from .messages import Message, Place, Region, messages, region

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Mailbox", "Parcel"]

KEPT = 64
"""Sends whose buffers are kept before the oldest is waited for."""


class Parcel:
    """A tensor that goes from one place to another, again and again: who sends what is worked out once.

    Parameters
    ----------
    number : int
        The same on both sides, and no other parcel's.
    full : tuple of int
        Whole shape.
    source, target : Place
        From where to where.
    rank : int
        This rank.
    ways : (sequence of Message, sequence of Message), optional
        What is sent, and what the receiving ranks then hand each other; by default each is sent all that it needs.
    """

    def __init__(
        self, number: int, full: tuple[int, ...], source: Place, target: Place, rank: int,
        ways: tuple[tuple[Message, ...], tuple[Message, ...]] | None = None,
    ) -> None:  # fmt: skip
        self.number, self.full, self.rank = number, full, rank
        self.messages, relays = ways if ways is not None else (messages(full, source, target), ())
        self.handed = [(i, m) for i, m in enumerate(relays) if m.source == rank]
        self.taken = [(i, m) for i, m in enumerate(relays) if m.target == rank]
        self.outgoing = [(i, m) for i, m in enumerate(self.messages) if m.source == rank]
        self.incoming = [(i, m) for i, m in enumerate(self.messages) if m.target == rank]
        self.mine = region(full, source, source.ranks.index(rank)) if rank in source.ranks else ()
        self.theirs = region(full, target, target.ranks.index(rank)) if rank in target.ranks else ()
        self.shape = local_shape(full, target.layout, target.shape, "parcel") if rank in target.ranks else ()

    def tag(self, turn: int, message: int, turns: int) -> int:
        """Names a message among all that may be under way."""
        return (self.number * turns + turn) * 64 + message % 64

    def cut(self, x: Tensor, message: Message) -> Tensor:
        """What a message takes from this rank's shard at the source."""
        return x[_inside(message.part, self.mine)]

    def own(self, x: Tensor, message: Message) -> Tensor:
        """A part of this rank's shard at the target."""
        return x[_inside(message.part, self.theirs)]

    def put(self, x: Tensor, message: Message, part: Tensor) -> None:
        """Lay a message into this rank's shard at the target."""
        x[_inside(message.part, self.theirs)] = part


def _inside(part: Region, holder: Region) -> tuple[slice, ...]:
    return tuple(slice(a - c, b - c) for (a, b), (c, _) in zip(part, holder, strict=True))


class Mailbox:
    """Sends and receives of one rank.

    Parameters
    ----------
    dtype : torch.dtype
        Of everything that is sent.
    turns : int
        Microbatches of an iteration.
    """

    def __init__(self, dtype: Any, turns: int) -> None:
        self.dtype, self.turns = dtype, turns
        self._sent: deque[tuple[Any, Tensor]] = deque()
        self._posted: dict[tuple[int, int], list[tuple[Message, Tensor, Any]]] = {}
        self._kept: dict[tuple[int, int], list[tuple[Message, Tensor]]] = {}
        self.sent_bytes = 0
        self.counts: Iterator[int] = itertools.count()

    def token(self) -> Tensor:
        """What is sent where one stage only waits for another."""
        import torch

        return torch.zeros(1, dtype=self.dtype)

    def send(self, parcel: Parcel, turn: int, x: Tensor) -> None:
        """Send this rank's part, without waiting."""
        import torch.distributed as dist

        for i, message in parcel.outgoing:
            part = parcel.cut(x, message).contiguous()
            if message.target == parcel.rank:
                self._kept.setdefault((parcel.number, turn), []).append((message, part))
                continue
            if len(self._sent) == KEPT:
                self._sent.popleft()[0].wait()
            self.sent_bytes += part.nbytes
            self._sent.append((dist.isend(part, message.target, tag=parcel.tag(turn, i, self.turns)), part))

    def post(self, parcel: Parcel, turn: int) -> None:
        """Make ready to receive, so that messages travel while this rank computes; once is enough."""
        import torch
        import torch.distributed as dist

        if (parcel.number, turn) in self._posted:
            return
        posted: list[tuple[Message, Tensor, Any]] = []
        for i, message in parcel.incoming:
            if message.source != parcel.rank:
                buffer = torch.empty([b - a for a, b in message.part], dtype=self.dtype)
                work = dist.irecv(buffer, message.source, tag=parcel.tag(turn, i, self.turns))
                posted.append((message, buffer, work))
        self._posted[parcel.number, turn] = posted

    def receive(self, parcel: Parcel, turn: int) -> Tensor:
        """This rank's shard at the target, when all of it is there."""
        import torch

        self.post(parcel, turn)
        posted = self._posted.pop((parcel.number, turn))
        if len(posted) == 1 and len(parcel.incoming) == 1 and not (parcel.taken or parcel.handed):
            posted[0][2].wait()
            return posted[0][1]
        x = torch.empty(parcel.shape, dtype=self.dtype)
        for message, part in self._kept.pop((parcel.number, turn), []):
            parcel.put(x, message, part)
        for message, buffer, work in posted:
            work.wait()
            parcel.put(x, message, buffer)
        self._gather(parcel, turn, x)
        return x

    def _gather(self, parcel: Parcel, turn: int, x: Tensor) -> None:
        """Ranks of the receiving mesh hand each other their parts. No two of them met in the messages before."""
        import torch
        import torch.distributed as dist

        for i, message in parcel.handed:
            part = parcel.own(x, message).contiguous()
            self._sent.append((dist.isend(part, message.target, tag=parcel.tag(turn, i, self.turns)), part))
        waiting: list[tuple[Message, Tensor, Any]] = []
        for i, message in parcel.taken:
            buffer = torch.empty([b - a for a, b in message.part], dtype=self.dtype)
            work = dist.irecv(buffer, message.source, tag=parcel.tag(turn, i, self.turns))
            waiting.append((message, buffer, work))
        for message, buffer, work in waiting:
            work.wait()
            parcel.put(x, message, buffer)

    def settle(self) -> None:
        """Wait until everything that was sent has gone."""
        while self._sent:
            self._sent.popleft()[0].wait()
