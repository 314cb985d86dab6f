"""`MeshComm`: one rank's collectives along the axes of its stage's logical mesh, each counted and timed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Axes", "Call", "MeshComm", "MuteComm", "axis_groups"]


Axes = tuple[int, ...]
"""Axes of a logical mesh: (), (0,), (1,) or (0, 1)."""

Call = tuple[str, str, Axes, int]
"""A collective: pass, kind, axes, and bytes on one device, of its input or its output, whichever is larger."""

Collective = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all"]


def axis_groups(ranks: tuple[int, ...], shape: tuple[int, int]) -> dict[Axes, list[list[int]]]:
    """The groups of ranks that communicate along each choice of axes, in an order that every rank computes alike.

    Parameters
    ----------
    ranks : tuple of int
        Ranks of the mesh, row by row.
    shape : (int, int)
        Shape of the logical mesh.
    """
    n0, n1 = shape
    rows = [list(ranks[i * n1 : (i + 1) * n1]) for i in range(n0)]
    return {(0,): [list(column) for column in zip(*rows, strict=True)], (1,): rows, (0, 1): [list(ranks)]}


class MeshComm:
    """Collectives of one rank on one logical mesh. In a group of one device they do nothing and are not counted.

    Parameters
    ----------
    ranks : tuple of int
        Ranks of the mesh in torch.distributed, row by row.
    shape : (int, int)
        Shape of the logical mesh.
    rank : int
        This rank.
    groups : mapping
        Axes -> process group of this rank; may be empty on one device.
    """

    def __init__(
        self, ranks: tuple[int, ...], shape: tuple[int, int], rank: int, groups: dict[Axes, Any] | None = None
    ) -> None:
        self.ranks, self.shape, self.groups = ranks, shape, groups or {}
        self.place = divmod(ranks.index(rank), shape[1])
        self.phase = ""
        self.counts: Counter[str] = Counter()
        self.calls: Counter[Call] = Counter()
        self.seconds = 0.0
        self.record: list[Tensor] | None = None
        self.replay: list[Tensor] | None = None

    def statistic(self, x: Tensor, axes: Axes) -> Tensor:
        """Sum of a statistic (of a norm or softmax) over devices: kept in `record`, or taken from `replay` if set.

        An operator that is computed again in the backward pass replays its sums instead of communicating again.
        """
        if self.replay is not None:
            return self.replay.pop(0)
        total = self.all_reduce(x, axes)
        if self.record is not None:
            self.record.append(total)
        return total

    @classmethod
    def create(cls, ranks: tuple[int, ...], shape: tuple[int, int], rank: int, timeout: timedelta) -> MeshComm | None:
        """Make the process groups of a mesh; returns None on ranks that are not in it.

        Every rank of the world must call it: torch.distributed makes a group on all ranks together.
        """
        import torch.distributed as dist

        mine: dict[Axes, Any] = {}
        for axes, members in axis_groups(ranks, shape).items():
            for group in members:
                if len(group) > 1:
                    made = dist.new_group(group, timeout=timeout)
                    if rank in group:
                        mine[axes] = made
        return cls(ranks, shape, rank, mine) if rank in ranks else None

    def destroy(self) -> None:
        """Destroy the process groups."""
        import torch.distributed as dist

        for group in self.groups.values():
            dist.destroy_process_group(group)
        self.groups = {}

    def size(self, axes: Axes) -> int:
        """Devices in a group along these axes."""
        return int(self.shape[0] ** (0 in axes) * self.shape[1] ** (1 in axes))

    def index(self, axes: Axes) -> int:
        """This rank's position in its group along these axes; axis 0 is the major one."""
        position = 0
        for axis in sorted(axes):
            position = position * self.shape[axis] + self.place[axis]
        return position

    def present(self, axes: Iterable[int]) -> Axes:
        """Those of the given axes along which there are several devices, sorted."""
        return tuple(sorted(axis for axis in set(axes) if self.shape[axis] > 1))

    def _note(self, collective: str, axes: Axes, tensors: int, n_bytes: int, start: float) -> None:
        self.counts[f"{self.phase}.{collective}"] += tensors  # as plans count: those that travel together are several
        self.calls[self.phase, collective, axes, n_bytes] += 1
        self.seconds += time.perf_counter() - start

    def _send(self, collective: Callable[..., object], *tensors: Tensor, group: Axes) -> None:
        collective(*tensors, group=self.groups[group])

    def all_reduce(self, x: Tensor, axes: Axes) -> Tensor:
        """Sum over a group; returns a new tensor, or `x` itself in a group of one."""
        return self.together("all_reduce", axes, [x])[0]

    def all_gather(self, x: Tensor, axes: Axes, dim: int) -> Tensor:
        """Concatenate the group's shards along a dimension."""
        return self.together("all_gather", axes, [x], [(dim, -1)])[0]

    def reduce_scatter(self, x: Tensor, axes: Axes, dim: int) -> Tensor:
        """Sum over a group, and keep this rank's part of a dimension."""
        return self.together("reduce_scatter", axes, [x], [(dim, -1)])[0]

    def all_to_all(self, x: Tensor, axes: Axes, gather: int, split: int) -> Tensor:
        """Gather dimension `gather`, and shard dimension `split` instead."""
        return self.together("all_to_all", axes, [x], [(gather, split)])[0]

    def together(
        self, kind: Collective, axes: Axes, tensors: Sequence[Tensor], dims: Sequence[tuple[int, int]] | None = None
    ) -> list[Tensor]:
        """One collective for several tensors of a type, which pay its latency once.

        Parameters
        ----------
        kind : {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"}
            What is done to each.
        axes : tuple of int
            Mesh axes along which the group lies; in a group of one the tensors come back as they are.
        tensors : sequence of Tensor
            This rank's.
        dims : sequence of (int, int), optional
            For each the dimension that is gathered or scattered, and the one that an all-to-all cuts.
        """
        import torch
        import torch.distributed as dist

        axes = self.present(axes)
        if not axes:
            return list(tensors)
        start, n = time.perf_counter(), self.size(axes)
        at = dims or [(-1, -1)] * len(tensors)
        if kind in ("all_reduce", "all_gather"):
            parts = [x.detach().contiguous() for x in tensors]
        else:
            cuts = [d if kind == "reduce_scatter" else other for d, other in at]
            parts = [_split(x.detach(), n, cut) for x, cut in zip(tensors, cuts, strict=True)]
        rows = n if kind in ("reduce_scatter", "all_to_all") else 1
        flat = [x.view(rows, -1) for x in parts]
        sent = torch.cat(flat, 1) if len(flat) > 1 else flat[0].clone() if kind == "all_reduce" else flat[0]
        if kind == "all_reduce":
            got = sent
            self._send(dist.all_reduce, got.view(-1), group=axes)
        else:
            call = {
                "all_gather": dist.all_gather_into_tensor,
                "reduce_scatter": dist.reduce_scatter_tensor,
                "all_to_all": dist.all_to_all_single,
            }[kind]
            got = torch.empty((1 if kind == "reduce_scatter" else n, sent.shape[1]), dtype=sent.dtype)
            self._send(call, got.view(-1), sent.view(-1), group=axes)
        self._note(kind, axes, len(parts), max(sent.nbytes, got.nbytes), start)
        pieces = got.split([x.shape[1] for x in flat], 1)
        shapes = [{"all_gather": (n, *x.shape), "reduce_scatter": x.shape[1:]}.get(kind, x.shape) for x in parts]
        back = [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]
        if kind in ("all_reduce", "reduce_scatter"):
            return back
        return [_merge(x, d) for x, (d, _) in zip(back, at, strict=True)]

    def slice(self, x: Tensor, axes: Axes, dim: int) -> Tensor:
        """This rank's part of a dimension that it has whole; no communication."""
        axes = self.present(axes)
        if not axes:
            return x
        size = x.shape[dim] // self.size(axes)
        return x.detach().narrow(dim, self.index(axes) * size, size).contiguous()


class MuteComm(MeshComm):
    """Collectives that do not communicate, for measuring what a rank computes: others' shards are copies of its own."""

    def _send(self, collective: Callable[..., object], *tensors: Tensor, group: Axes) -> None:
        if len(tensors) == 2:
            into, own = tensors
            if own.numel() >= into.numel():
                into.copy_(own[: into.numel()])
            else:
                into.view(-1, own.numel()).copy_(own)


def _split(x: Tensor, n: int, dim: int) -> Tensor:
    """The n parts of a dimension, stacked along a new first one; contiguous, as collectives on one buffer need it."""
    shape = x.shape
    apart = x.reshape(*shape[:dim], n, shape[dim] // n, *shape[dim + 1 :])
    return apart.movedim(dim, 0).contiguous()


def _merge(parts: Tensor, dim: int) -> Tensor:
    """The inverse of `_split`."""
    n, *shape = parts.shape
    return parts.movedim(0, dim).reshape(*shape[:dim], n * shape[dim], *shape[dim + 1 :]).contiguous()
