"""`Mailbox`: a rank's messages to and from ranks of other stages, which travel while it computes."""

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
"""Sends whose buffers are kept before the oldest is waited for. A guess: it bounds memory, and is far above what a
pipeline has under way, so that sending hardly ever waits."""


class Parcel:
    """A tensor that goes from one stage to another for every microbatch: who sends what is worked out once.

    Parameters
    ----------
    number : int
        Number of the parcel; both sides must use the same, and no other parcel may have it.
    full : tuple of int
        Shape of the whole tensor.
    source, target : Place
        How the tensor is sharded where it comes from and where it goes.
    rank : int
        This rank.
    ways : (sequence of Message, sequence of Message), optional
        Messages between the two meshes, and messages by which the receiving ranks then gather. By default every
        receiving rank is sent all that it needs, and none gathers.
    dtype : str
        Type of the elements; "": the mailbox's.
    """

    dtype: str = ""

    def __init__(
        self, number: int, full: tuple[int, ...], source: Place, target: Place, rank: int,
        ways: tuple[tuple[Message, ...], tuple[Message, ...]] | None = None, dtype: str = "",
    ) -> None:  # fmt: skip
        self.dtype = dtype
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
        """Tag of a message, by which a receive finds it among all that are under way.

        Messages of a parcel that differ by 64 share a tag. That is safe: between two ranks, gloo matches messages of
        one tag in order, and both sides go through them in the same order.
        """
        return (self.number * turns + turn) * 64 + message % 64

    def cut(self, x: Tensor, message: Message) -> Tensor:
        """The part of this rank's shard at the source that a message carries."""
        return x[_inside(message.part, self.mine)]

    def own(self, x: Tensor, message: Message) -> Tensor:
        """The part of this rank's shard at the target that a message carries on to others."""
        return x[_inside(message.part, self.theirs)]

    def put(self, x: Tensor, message: Message, part: Tensor) -> None:
        """Copy a received message into its place in this rank's shard at the target."""
        x[_inside(message.part, self.theirs)] = part


def _inside(part: Region, holder: Region) -> tuple[slice, ...]:
    return tuple(slice(a - c, b - c) for (a, b), (c, _) in zip(part, holder, strict=True))


class Mailbox:
    """Sends and receives messages of one rank.

    Parameters
    ----------
    dtype : torch.dtype
        Number format of everything that is sent, but for integers and truth values.
    turns : int
        Microbatches of an iteration (slices, where these are sent).
    """

    def __init__(self, dtype: Any, turns: int) -> None:
        self.dtype, self.turns = dtype, turns
        self._sent: deque[tuple[Any, Tensor]] = deque()
        self._posted: dict[tuple[int, int], list[tuple[Message, Tensor, Any]]] = {}
        self._kept: dict[tuple[int, int], list[tuple[Message, Tensor]]] = {}
        self.sent_bytes = 0
        self.counts: Iterator[int] = itertools.count()

    def token(self) -> Tensor:
        """The single number that is sent where one stage only waits for another."""
        import torch

        return torch.zeros(1, dtype=self.dtype)

    def _dtype(self, parcel: Parcel) -> Any:
        import torch

        return getattr(torch, parcel.dtype) if parcel.dtype else self.dtype

    def send(self, parcel: Parcel, turn: int, x: Tensor) -> None:
        """Send this rank's part of a parcel, without waiting for its arrival."""
        import torch.distributed as dist

        for i, message in parcel.outgoing:
            part = parcel.cut(x, message).to(self._dtype(parcel)).contiguous()
            if message.target == parcel.rank:
                self._kept.setdefault((parcel.number, turn), []).append((message, part))
                continue
            if len(self._sent) == KEPT:
                self._sent.popleft()[0].wait()
            self.sent_bytes += part.nbytes
            self._sent.append((dist.isend(part, message.target, tag=parcel.tag(turn, i, self.turns)), part))

    def post(self, parcel: Parcel, turn: int) -> None:
        """Post receives, so that messages travel while this rank computes; repeats do nothing."""
        import torch
        import torch.distributed as dist

        if (parcel.number, turn) in self._posted:
            return
        posted: list[tuple[Message, Tensor, Any]] = []
        for i, message in parcel.incoming:
            if message.source != parcel.rank:
                buffer = torch.empty([b - a for a, b in message.part], dtype=self._dtype(parcel))
                work = dist.irecv(buffer, message.source, tag=parcel.tag(turn, i, self.turns))
                posted.append((message, buffer, work))
        self._posted[parcel.number, turn] = posted

    def receive(self, parcel: Parcel, turn: int) -> Tensor:
        """Wait for all messages of a parcel; returns this rank's shard at the target."""
        import torch

        self.post(parcel, turn)
        posted = self._posted.pop((parcel.number, turn))
        if len(posted) == 1 and len(parcel.incoming) == 1 and not (parcel.taken or parcel.handed):
            posted[0][2].wait()  # one message is the whole shard: its buffer needs no copy
            return posted[0][1]
        x = torch.empty(parcel.shape, dtype=self._dtype(parcel))
        for message, part in self._kept.pop((parcel.number, turn), []):
            parcel.put(x, message, part)
        for message, buffer, work in posted:
            work.wait()
            parcel.put(x, message, buffer)
        self._gather(parcel, turn, x)
        return x

    def _gather(self, parcel: Parcel, turn: int, x: Tensor) -> None:
        """Gather: ranks of the receiving mesh send each other their parts.

        Tags may be those of the first messages: these came from ranks of the other mesh.
        """
        # All send before any waits, or two ranks could wait for each other.
        import torch
        import torch.distributed as dist

        for i, message in parcel.handed:
            part = parcel.own(x, message).contiguous()
            self._sent.append((dist.isend(part, message.target, tag=parcel.tag(turn, i, self.turns)), part))
        waiting: list[tuple[Message, Tensor, Any]] = []
        for i, message in parcel.taken:
            buffer = torch.empty([b - a for a, b in message.part], dtype=self._dtype(parcel))
            work = dist.irecv(buffer, message.source, tag=parcel.tag(turn, i, self.turns))
            waiting.append((message, buffer, work))
        for message, buffer, work in waiting:
            work.wait()
            parcel.put(x, message, buffer)

    def settle(self) -> None:
        """Wait until everything that was sent has gone out, so that no buffer is freed too early."""
        while self._sent:
            self._sent.popleft()[0].wait()
