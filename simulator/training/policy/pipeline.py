"""`Pipeline`: the input of a schedule: stages, meshes, microbatches, and who waits for whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Order", "Pipeline"]

Order = npt.NDArray[np.int32]
"""What one mesh computes: rows (op, stage, microbatch, slice), shape (n, 4)."""


@dataclass(frozen=True)
class Pipeline:
    """The stages of a pipeline, where they run, and how often: all that a schedule needs to order their passes.

    Parameters
    ----------
    stages : tuple of tuple of int
        For each mesh, its stages, ascending; the mesh of the first stage first.
    meshes : tuple of int
        Which mesh each of these is.
    counts : tuple of int
        Microbatches of an iteration, for each stage.
    depth : tuple of int
        For each stage, the stages on the longest path from it to a last stage, itself included.
    edges : tuple of (int, int)
        Which stage hands which other one something.
    k, warmup : tuple of int
        For each stage: backward passes in turn with forward passes, and forward passes before the first backward, −1
        for the fewest that keep it busy (``kfkb``).
    order : tuple of str
        For each stage, its passes (``explicit``).
    slices : tuple of int
        For each microbatch, its token slices (``terapipe``); empty for one each.
    """

    stages: tuple[tuple[int, ...], ...]
    meshes: tuple[int, ...]
    counts: tuple[int, ...]
    depth: tuple[int, ...]
    edges: tuple[tuple[int, int], ...] = ()
    k: tuple[int, ...] = ()
    warmup: tuple[int, ...] = ()
    order: tuple[str, ...] = ()
    slices: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        mesh_of: Sequence[int],
        microbatches: int | Sequence[int],
        depth: Sequence[int],
        *,
        edges: Sequence[tuple[int, int]] = (),
        k: int | Sequence[int] = 1,
        warmup: int | Sequence[int] = -1,
        order: Sequence[str] = (),
        slices: Sequence[int] = (),
    ) -> Pipeline:
        """The pipeline of stages of which each is on a mesh; every mesh up to the last has one."""
        mine: dict[int, list[int]] = {}
        for stage, mesh in enumerate(mesh_of):
            mine.setdefault(mesh, []).append(stage)
        every = [(x,) * len(depth) if isinstance(x, int) else tuple(x) for x in (microbatches, k, warmup)]
        return cls(
            tuple(map(tuple, mine.values())), tuple(mine), every[0], tuple(depth), tuple(edges), every[1], every[2],
            tuple(order), tuple(slices),
        )  # fmt: skip

    def by_mesh(self, orders: Sequence[Order]) -> list[Order]:
        """Orders of the meshes by their numbers."""
        return [order for _, order in sorted(zip(self.meshes, orders, strict=True), key=lambda pair: pair[0])]

    @property
    def n_stages(self) -> int:
        """Number of stages."""
        return len(self.depth)

    @property
    def microbatches(self) -> int:
        """Microbatches of the stage that has most."""
        return max(self.counts)
