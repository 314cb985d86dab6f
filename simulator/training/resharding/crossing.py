"""Cross-mesh resharding: how a tensor gets from one logical mesh, cut by one spec, to another (Alpa §6, Fig. 6).

Four ways. **send_recv**: every receiving device is sent its whole tile; replicas share the sending, all at once.
**first_holder**: the same tiles, each sent by the first device that holds it, one after the other (what "naive" means
in Fig. 6b; blocking sends and receives in the order of the receivers). **scatter_gather** (Megatron-LM; equal meshes
and specs): each device sends a part of what it shares with its replicas to its counterpart, and these gather.
**local_all_gather**: where several receiving devices need the same tile, each is sent a part of it, so that everything
crosses once, and they gather inside their mesh.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import lcm, prod
from typing import Literal

from ....errors import InputError
from ....reprs import Shown
from ...mesh import LogicalMesh
from ...sharding import ShardingSpec
from .senders import Candidate, Choice, Network, choose_senders, first_senders

__all__ = ["Box", "Gather", "Message", "Method", "Resharding", "gather_seconds", "reshard_across"]

Method = Literal["send_recv", "first_holder", "scatter_gather", "local_all_gather"]

Box = tuple[tuple[int, int], ...]
"""A part of a tensor: first cell and one past the last of each dimension, in cells of a grid."""


@dataclass(frozen=True, slots=True, repr=False)
class Message(Shown):
    """A part of the tensor that one device sends to another; devices as the cluster numbers them."""

    source: int
    target: int
    box: Box
    n_bytes: float


@dataclass(frozen=True, slots=True, repr=False)
class Gather(Shown):
    """An all-gather inside the receiving mesh, among devices that need the same tile and were sent parts of it.

    Parameters
    ----------
    devices : tuple of int
        The devices that need the tile.
    parts : tuple of (int, Box)
        Device -> the part that it was sent, and which it sends on to all others.
    """

    devices: tuple[int, ...]
    parts: tuple[tuple[int, Box], ...]


@dataclass(frozen=True, repr=False)
class Resharding(Shown):
    """Which messages and all-gathers bring one tensor from mesh to mesh, and how long they take.

    Parameters
    ----------
    method : str
        The resharding method.
    grid : tuple of int
        Number of cells of each dimension, in which boxes are given; these are elements if the shape was given.
    n_bytes : float
        Bytes of the whole tensor.
    messages : tuple of Message
        The messages between the two meshes.
    gathers : tuple of Gather
        The all-gathers inside the receiving mesh that follow, all at once.
    seconds : float
        Seconds of the messages: they go all at once, and the busiest device or network adapter decides; first_holder:
        one after the other wherever they share a device or an adapter.
    gather_s : float
        Seconds of the all-gathers.
    adapters_out, adapters_in : tuple of int
        Network adapters that send and receive, as the cluster numbers them.
    exact : bool
        Whether it was shown that no other choice of senders among replicas is faster.
    """

    method: Method
    grid: tuple[int, ...]
    n_bytes: float
    messages: tuple[Message, ...]
    gathers: tuple[Gather, ...]
    seconds: float
    gather_s: float
    adapters_out: tuple[int, ...]
    adapters_in: tuple[int, ...]
    exact: bool

    @property
    def sent_bytes(self) -> float:
        """Bytes that go from mesh to mesh."""
        return sum(m.n_bytes for m in self.messages)

    def slices(self, box: Box, shape: tuple[int, ...]) -> tuple[slice, ...]:
        """A box as slices of a tensor of `shape`.

        Raises
        ------
        InputError
            If the grid's cells are no whole numbers of elements; give the shape to `reshard_across` then.
        """
        if len(shape) != len(self.grid) or any(size % n for size, n in zip(shape, self.grid, strict=False)):
            raise InputError(f"resharding: a tensor of shape {shape} is not cut by a grid of {self.grid}")
        cell = [size // n for size, n in zip(shape, self.grid, strict=True)]
        return tuple(slice(a * c, b * c) for (a, b), c in zip(box, cell, strict=True))


def reshard_across(
    n_bytes: float,
    source: LogicalMesh,
    source_spec: ShardingSpec | str,
    target: LogicalMesh,
    target_spec: ShardingSpec | str,
    *,
    method: Method = "local_all_gather",
    shape: Sequence[int] | None = None,
) -> Resharding:
    """Plan how a tensor gets from one mesh to another.

    Parameters
    ----------
    n_bytes : float
        Bytes of the whole tensor.
    source, target : LogicalMesh
        The mesh that has the tensor, and the mesh that needs it.
    source_spec, target_spec : ShardingSpec or str
        How the tensor is sharded on each. An empty text means that it is replicated.
    method : {"send_recv", "first_holder", "scatter_gather", "local_all_gather"}
        The resharding method, see above. Between meshes of unequal shapes or specs, scatter_gather falls back to
        send_recv.
    shape : sequence of int, optional
        Shape of the tensor; without it every dimension is taken to be divisible as needed.

    Raises
    ------
    InputError
        If a spec is none, the specs are of different ranks, or the shape cannot be cut so.
    """
    have, need = (ShardingSpec.parse(s) if isinstance(s, str) else s for s in (source_spec, target_spec))
    rank = max(have.rank, need.rank)
    have, need = (s if s.rank else ShardingSpec.replicated(rank) for s in (have, need))
    if have.rank != need.rank:
        raise InputError(f"resharding: specs of one tensor, but {have} and {need} are of different ranks")
    equal = source.shape == target.shape and have == need
    if method == "scatter_gather" and not equal:
        method = "send_recv"
    grid = [lcm(a, b) for a, b in zip(have.pieces(source.shape), need.pieces(target.shape), strict=True)]
    if shape is not None:
        for spec, mesh in ((have, source), (need, target)):
            spec.check(tuple(shape), mesh.shape)
        grid = list(shape)
    tiles = _tiles(need, target, grid)
    copies = target.size(need.repeating_axes)
    parts = 1
    whole = method in ("send_recv", "first_holder")
    if not whole and copies > 1:
        parts, dimension = _cut(grid, have.pieces(source.shape), need.pieces(target.shape), copies, shape is not None)
        if parts > 1 and shape is None:
            grid[dimension] = lcm(grid[dimension], need.pieces(target.shape)[dimension] * parts)
            tiles = _tiles(need, target, grid)
    else:
        dimension = 0
    holders = _tiles(have, source, grid)
    wanted: list[tuple[int, Box]] = []
    gathers: list[Gather] = []
    for box, devices in tiles.items():
        if whole or copies == 1:
            wanted += [(device, box) for device in devices]
            continue
        mine = tuple(zip(devices, _split(box, dimension, parts), strict=False))
        wanted += mine
        gathers.append(Gather(devices, mine))
    fixed = dict(zip(target.mesh.device_ids, source.mesh.device_ids, strict=True)) if equal else None
    choice, messages = _messages(
        wanted, holders, n_bytes / prod(grid), source, fixed if method == "scatter_gather" else None,
        first_senders if method == "first_holder" else choose_senders,
    )  # fmt: skip
    tile_bytes = n_bytes * need.fraction(target.shape)
    cluster = source.mesh.network
    far = [(m.source, m.target) for m in messages if cluster.node_of(m.source) != cluster.node_of(m.target)]
    return Resharding(
        method=method,
        grid=tuple(grid),
        n_bytes=n_bytes,
        messages=messages,
        gathers=tuple(gathers),
        seconds=choice.seconds,
        gather_s=_gather_seconds(tile_bytes, target, need.repeating_axes, parts < copies) if gathers else 0.0,
        adapters_out=tuple(sorted({cluster.adapter_of(a) for a, _ in far})),
        adapters_in=tuple(sorted({cluster.adapter_of(b) for _, b in far})),
        exact=choice.exact,
    )


def gather_seconds(way: Resharding, n_bytes: float, target: LogicalMesh, target_spec: ShardingSpec | str) -> float:
    """Seconds of a resharding's gathers where the whole tensor has `n_bytes`."""
    if not way.gathers:
        return 0.0
    need = ShardingSpec.parse(target_spec) if isinstance(target_spec, str) else target_spec
    need = need if need.rank else ShardingSpec.replicated(len(way.grid))
    spread = len(way.gathers[0].parts) < len(way.gathers[0].devices)
    return _gather_seconds(n_bytes * need.fraction(target.shape), target, need.repeating_axes, spread)


def _tiles(spec: ShardingSpec, mesh: LogicalMesh, grid: Sequence[int]) -> dict[Box, tuple[int, ...]]:
    """Each different tile and the devices that hold it."""
    pieces = spec.pieces(mesh.shape)
    tiles: dict[Box, tuple[int, ...]] = {}
    for k, device in enumerate(mesh.mesh.device_ids):
        at = spec.position(mesh.shape, k)
        box = tuple((i * g // n, (i + 1) * g // n) for i, g, n in zip(at, grid, pieces, strict=True))
        tiles[box] = (*tiles.get(box, ()), device)
    return tiles


def _cut(
    grid: Sequence[int], have: Sequence[int], need: Sequence[int], copies: int, whole_cells: bool
) -> tuple[int, int]:
    """Into how many parts a tile is cut for its replicas, and along which dimension: the one with fewest messages.

    Cut along d, a part meets every source tile across the other dimensions, and along d as few as its extent lets it.
    """
    # As many parts as there are replicas if that divides, else fewer: each byte crosses once in any case, but with more
    # parts more links carry it.
    for parts in (n for n in range(copies, 1, -1) if copies % n == 0):
        possible = [d for d in range(len(grid)) if not whole_cells or grid[d] // need[d] % parts == 0]
        if possible:

            def met(d: int, parts: int = parts) -> int:
                cuts = [n * (parts if k == d else 1) for k, n in enumerate(need)]
                return prod(lcm(a, b) for a, b in zip(have, cuts, strict=True))

            return parts, min(possible, key=met)
    return 1, 0


def _split(box: Box, dimension: int, parts: int) -> list[Box]:
    if parts == 1:
        return [box]
    first, last = box[dimension]
    bounds = [first + (last - first) * k // parts for k in range(parts + 1)]
    return [(*box[:dimension], ends, *box[dimension + 1 :]) for ends in pairwise(bounds)]


def _messages(
    wanted: Sequence[tuple[int, Box]],
    holders: dict[Box, tuple[int, ...]],
    cell_bytes: float,
    source: LogicalMesh,
    fixed: dict[int, int] | None,
    choose: Callable[[Sequence[Candidate], Network], Choice],
) -> tuple[Choice, tuple[Message, ...]]:
    """What is wanted, cut by who has it; `fixed` says the sender of each receiver where that is given."""
    asked: list[Candidate] = []
    boxes: list[Box] = []
    along = [sorted({box[d] for box in holders}) for d in range(len(next(iter(holders))))]
    for target, box in wanted:
        spans = [
            [(max(a, x), min(b, y), (x, y)) for x, y in s if x < b and a < y]
            for (a, b), s in zip(box, along, strict=True)
        ]
        for met in product(*spans):
            part = tuple((a, b) for a, b, _ in met)
            who = holders[tuple(tile for _, _, tile in met)]
            if target in who:
                continue  # it has it already
            if fixed is not None:
                who = (fixed[target],)
            asked.append(Candidate(target, who, cell_bytes * prod(b - a for a, b in part)))
            boxes.append(part)
    choice = choose(asked, source.mesh.network)
    rows = zip(asked, boxes, choice.senders, strict=True)
    return choice, tuple(Message(sender, a.target, box, a.n_bytes) for a, box, sender in rows)


def _gather_seconds(n_bytes: float, mesh: LogicalMesh, axes: tuple[int, ...], spread: bool) -> float:
    """An all-gather of the tile; where fewer parts than devices were sent, a broadcast of it round the ring."""
    if not spread:
        return mesh.seconds("all_gather", n_bytes, axes)
    link = mesh.link(axes)
    return (link.size - 1) * link.latency_s + n_bytes / link.bandwidth_bytes_per_s
