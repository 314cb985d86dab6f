"""`GraphParcel`: messages between stages whose microbatch sizes differ, sent part by part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..wires.edges import Edge
from ..wires.layout import local_shape
from ..wires.mailbox import Mailbox, Parcel
from ..wires.messages import Region, messages_to, region
from .microbatch_parts import Part, moved, parts_of

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["GraphMailbox", "GraphParcel", "Piece", "Sized"]


@dataclass(frozen=True, slots=True)
class Sized:
    """One side of an edge: samples of a microbatch of its stage, and the shape of the whole tensor for one of them."""

    samples: int
    full: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a message, and where the reader puts it.

    Parameters
    ----------
    parcel : Parcel
        The parcel that brings this part.
    turn : int
        The reader's microbatch.
    where : tuple of slice
        Its place in this rank's shard of the reader's microbatch.
    """

    parcel: Parcel
    turn: int
    where: tuple[slice, ...]


class _PartParcel(Parcel):
    """The part of a tensor that falls into one of the reader's microbatches; ranks get what their shards need of it."""

    def __init__(self, number: int, edge: Edge, source: Sized, dim: int, rows: int, target: Sized, rank: int) -> None:
        here, there = edge.made, edge.read
        wants = {
            r: moved(region(target.full, there, device), dim, rows, source.full[dim])
            for device, r in enumerate(there.ranks)
        }
        self.number, self.full, self.rank, self.dtype = number, source.full, rank, edge.dtype
        self.messages = messages_to(source.full, here, wants)
        self.handed, self.taken = [], []
        self.outgoing = [(i, m) for i, m in enumerate(self.messages) if m.source == rank]
        self.incoming = [(i, m) for i, m in enumerate(self.messages) if m.target == rank]
        self.mine: Region = region(source.full, here, here.ranks.index(rank)) if rank in here.ranks else ()
        self.theirs: Region = wants.get(rank, ())
        self.shape = tuple(b - a for a, b in self.theirs)
        self.where: tuple[slice, ...] = ()
        if rank in there.ranks:
            (first, _), ours = region(target.full, there, there.ranks.index(rank))[dim], self.theirs
            at = ours[dim][0] + rows - first if ours[dim][0] < ours[dim][1] else 0
            lies = [slice(None)] * len(ours)
            lies[dim] = slice(at, at + self.shape[dim])
            self.where = tuple(lies)


class GraphParcel(Parcel):
    """The messages of an edge; each carries one microbatch of the sending stage, cut by the reader's microbatches.

    Parameters
    ----------
    number : int
        Parcel number of the first part; the others follow.
    edge : Edge
        What crosses, from where to where; turned round for a gradient.
    source, target : Sized
        The sending and the receiving side.
    dim : int
        Dimension that grows with the samples.
    rank : int
        This rank.
    """

    def __init__(self, number: int, edge: Edge, source: Sized, target: Sized, dim: int, rank: int) -> None:
        self.source, self.target = source, target
        self.parts: dict[int, _PartParcel] = {}  # by how far the sender's microbatch starts behind the reader's
        per_sample = source.full[dim] // source.samples
        turns = max(1, target.samples // source.samples)
        every = sorted({part.ahead for turn in range(turns) for part in self._parts(turn)})
        for k, ahead in enumerate(every):
            self.parts[ahead] = _PartParcel(number + k, edge, source, dim, ahead * per_sample, target, rank)
        # The base class's fields are those of the first part, but for `where`, which only a part has.
        first = next(iter(self.parts.values()))
        vars(self).update({key: value for key, value in vars(first).items() if key != "where"})
        there = edge.read
        self.whole = local_shape(target.full, there.layout, there.shape, "parcel") if rank in there.ranks else ()

    def _parts(self, turn: int) -> list[Part]:
        return list(parts_of(turn, self.source.samples, self.target.samples))

    def pieces(self, turn: int) -> list[Piece]:
        """Parts of the message of one of the sender's microbatches."""
        found: list[Piece] = []
        for part in self._parts(turn):
            parcel = self.parts[part.ahead]
            found.append(Piece(parcel, part.turn, parcel.where))
        return found


class GraphMailbox(Mailbox):
    """Sends and receives messages of one rank; a `GraphParcel` goes part by part."""

    def send(self, parcel: Parcel, turn: int, x: Tensor) -> None:
        """Send this rank's parts, without waiting."""
        if not isinstance(parcel, GraphParcel):
            super().send(parcel, turn, x)
            return
        for piece in parcel.pieces(turn):
            super().send(piece.parcel, turn, x)

    def post(self, parcel: Parcel, turn: int) -> None:
        """Post the receives of a message's parts, so that they travel while this rank computes; repeats do nothing."""
        if not isinstance(parcel, GraphParcel):
            super().post(parcel, turn)
            return
        for piece in parcel.pieces(turn):
            super().post(piece.parcel, turn)
