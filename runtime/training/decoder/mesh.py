"""`Ranks`: which processes go together, and this one's place among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from .config import Way

__all__ = ["Ranks"]


@dataclass(frozen=True, slots=True)
class Ranks:
    """Two meshes of the same processes: neighbours share products, then tokens, then parameters, then the batch.

    Parameters
    ----------
    dense : DeviceMesh
        ("pp", "replica", "shard", "tp"): of everything but experts.
    sparse : DeviceMesh
        ("pp", "copy", "ep"): of experts, which lie on `ep` neighbours and are copied over the stage's others.
    context : ProcessGroup, optional
        The ranks that have this one's samples' other tokens.
    tied : ProcessGroup, optional
        The ranks of the first and the last stage that have the same share of a tied embedding.
    data : int
        This rank's number among those of its stage that have other tokens, dp x cp of them.
    """

    dense: DeviceMesh
    sparse: DeviceMesh
    context: dist.ProcessGroup | None
    tied: dist.ProcessGroup | None
    data: int

    @classmethod
    def of(cls, way: Way, device: str) -> Ranks:
        """Make all groups; every process calls it.

        Raises
        ------
        ValueError
            If there are more or fewer processes than the way is for.
        """
        world = dist.get_world_size()
        if world != way.processes:
            raise ValueError(
                f"tp {way.tp} x pp {way.pp} x dp {way.dp} x cp {way.cp}: for {way.processes} processes, not {world}"
            )
        ranks = way.dp * way.cp
        names = ("pp", "replica", "shard", "tp"), ("pp", "copy", "ep")
        sizes = (way.pp, ranks // way.shard, way.shard, way.tp), (way.pp, ranks * way.tp // way.ep, way.ep)
        dense, sparse = (
            init_device_mesh(device, size, mesh_dim_names=name) for size, name in zip(sizes, names, strict=True)
        )
        mine = dist.get_rank()
        stage, data, tp = mine // (ranks * way.tp), mine // way.tp % ranks, mine % way.tp
        context: Any = None
        tied: Any = None
        for s in range(way.pp):  # every process makes every group, in the same order
            for d in range(way.dp if way.cp > 1 else 0):
                for t in range(way.tp):
                    members = [((s * ranks) + d * way.cp + c) * way.tp + t for c in range(way.cp)]
                    group = dist.new_group(members)
                    if (s, d, t) == (stage, data // way.cp, tp):
                        context = group
        for one in range(ranks * way.tp if way.pp > 1 else 0):
            group = dist.new_group([one, (way.pp - 1) * ranks * way.tp + one])
            if one == mine % (ranks * way.tp) and stage in (0, way.pp - 1):
                tied = group
        return cls(dense, sparse, context, tied, data)

    @property
    def stage(self) -> int:
        """This rank's stage."""
        return self.dense.get_local_rank("pp")

    @property
    def tp(self) -> int:
        """This rank's number among those that share products."""
        return self.dense.get_local_rank("tp")

    @property
    def first_of_stage(self) -> bool:
        """Whether this rank speaks for its stage: no other of it has a lower number."""
        return self.data == 0 and self.tp == 0
