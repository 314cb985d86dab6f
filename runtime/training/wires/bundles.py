"""`run_bundled`: the routes of many tensors, step by step, where steps of one kind and group share a collective.

Gradients and weights travel like this once an iteration: most are small, and by themselves each would pay the latency
of a collective. Planners count them so, too (`LogicalMesh.shared_seconds`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ....simulator.mesh import BUCKET_BYTES
from .comm import Axes, Collective, MeshComm
from .routes import Route

if TYPE_CHECKING:
    from torch import Tensor, dtype

__all__ = ["run_bundled"]


def run_bundled(comm: MeshComm, routes: Sequence[Route], tensors: Sequence[Tensor]) -> list[Tensor]:
    """Run each route on its tensor; returns the shards in the target layouts.

    Every rank of the mesh must give the same routes in the same order.
    """
    found = list(tensors)
    for step in range(max((len(one.hops) for one in routes), default=0)):
        waiting: dict[tuple[Collective, Axes, dtype], list[int]] = {}
        for i, one in enumerate(routes):
            if step >= len(one.hops):
                continue
            hop = one.hops[step]
            if hop.kind == "slice":
                found[i] = hop.run(comm, found[i])
            else:
                waiting.setdefault((hop.kind, hop.axes, found[i].dtype), []).append(i)
        for (kind, axes, _), every in waiting.items():
            for some in _buckets(every, found):
                dims = [(routes[i].hops[step].dim, routes[i].hops[step].other) for i in some]
                done = comm.together(kind, axes, [found[i] for i in some], dims)
                for i, x in zip(some, done, strict=True):
                    found[i] = x
    return found


def _buckets(every: Sequence[int], tensors: Sequence[Tensor]) -> Iterator[list[int]]:
    some, held = list[int](), 0
    for i in every:
        if some and held + tensors[i].nbytes > BUCKET_BYTES:
            yield some
            some, held = [], 0
        some.append(i)
        held += tensors[i].nbytes
    yield some
