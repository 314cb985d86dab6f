"""`messages`: who sends which part of a tensor to whom, between the devices of two meshes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from .layout import Layout, pieces

__all__ = ["Message", "Place", "Region", "messages", "messages_to", "region"]

Region = tuple[tuple[int, int], ...]
"""For each dimension of the whole tensor, first index and one past the last."""


@dataclass(frozen=True, slots=True)
class Place:
    """How a tensor is sharded over the ranks of a logical mesh.

    Parameters
    ----------
    ranks : tuple of int
        Ranks of the mesh, row by row.
    shape : (int, int)
        Shape of the logical mesh.
    layout : Layout
        Layout of the tensor on it.
    """

    ranks: tuple[int, ...]
    shape: tuple[int, int]
    layout: Layout


@dataclass(frozen=True, slots=True)
class Message:
    """A part of a tensor that one rank sends to another (or keeps, where they are the same).

    Parameters
    ----------
    source, target : int
        The sending and the receiving rank.
    part : Region
        The part, in indices of the whole tensor.
    """

    source: int
    target: int
    part: Region


def region(full: tuple[int, ...], place: Place, device: int) -> Region:
    """The part of a tensor that a device of a mesh holds."""
    at = divmod(device, place.shape[1])
    found: list[tuple[int, int]] = []
    for size, cut in zip(full, place.layout, strict=True):
        index = 0
        for axis in cut:
            index = index * place.shape[axis] + at[axis]
        step = size // pieces(cut, place.shape)
        found.append((index * step, (index + 1) * step))
    return tuple(found)


def messages(full: tuple[int, ...], source: Place, target: Place) -> tuple[Message, ...]:
    """Messages by which every device of the target gets its shard from devices of the source.

    Where several devices of the source hold the same shard, they take turns to send it.
    """
    return messages_to(full, source, {rank: region(full, target, device) for device, rank in enumerate(target.ranks)})


def messages_to(full: tuple[int, ...], source: Place, wants: Mapping[int, Region]) -> tuple[Message, ...]:
    """Messages by which every rank gets the part that it wants from devices of the source; replicas take turns."""
    holders: dict[Region, list[int]] = {}
    for device, rank in enumerate(source.ranks):
        holders.setdefault(region(full, source, device), []).append(rank)
    found: list[Message] = []
    turn = itertools.count()  # one count for the whole tensor, so that its replicas send about equally much
    for rank, want in wants.items():
        for have, ranks in holders.items():
            part = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(want, have, strict=True))
            if all(a < b for a, b in part):
                sender = rank if rank in ranks else ranks[next(turn) % len(ranks)]
                found.append(Message(sender, rank, part))
    return tuple(found)
