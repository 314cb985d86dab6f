"""Submesh shapes (Alpa §5.2) and the logical views of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ....errors import InputError
from ....simulator.cluster import Cluster
from ....simulator.mesh import Mesh

__all__ = ["logical_shapes", "submesh_shapes"]

Shape = tuple[int, int]


def submesh_shapes(cluster: Cluster, which: Literal["all", "power_of_two"] = "all") -> tuple[Shape, ...]:
    """Shapes (hosts, devices per host) that a stage may run on, smallest first.

    With N nodes of M devices these are (1, 2^k) with 2^k < M, and (n, M) for every n up to N (or only for powers of two
    and N). If M is not a power of two, parts of nodes could not always be put together (Theorem 1), so only whole nodes
    are left.

    Parameters
    ----------
    cluster : Cluster
        The cluster.
    which : {"all", "power_of_two"}
        The paper's shapes, or those of the authors' code.
    """
    if which not in ("all", "power_of_two"):
        raise InputError(f"submesh_shapes: expected 'all' or 'power_of_two' (got {which!r})")
    nodes, width = cluster.nodes, cluster.devices_per_node
    parts: list[Shape] = []
    if width & (width - 1) == 0:
        parts = [(1, 2**k) for k in range(width.bit_length() - 1)]
    hosts = range(1, nodes + 1)
    if which == "power_of_two":
        hosts = sorted({n for n in hosts if n & (n - 1) == 0} | {nodes})
    return (*parts, *((n, width) for n in hosts))


def logical_shapes(mesh: Mesh, given: Sequence[Shape] | None = None, axes_alike: bool = True) -> tuple[Shape, ...]:
    """Two-dimensional views of a submesh: all that differ, or those of them that are given.

    If the links along both axes are the same, as within a node, (a, b) and (b, a) differ only in the names of the axes.
    The one with the smaller first size then stands for both.

    Parameters
    ----------
    mesh : Mesh
        The submesh.
    given : sequence of (int, int), optional
        Views to keep, whichever way round.
    axes_alike : bool
        Whether both axes may be used alike. If not, no view stands for another.
    """
    kept = [s for s in mesh.logical_shapes if given is None or s in given or s[::-1] in given]
    return tuple(s for s in kept if s[0] <= s[1] or not axes_alike or not _mirrored(mesh, s))


def _mirrored(mesh: Mesh, shape: Shape) -> bool:
    one, other = mesh.view(shape), mesh.view((shape[1], shape[0]))
    return one.link((0,)) == other.link((1,)) and one.link((1,)) == other.link((0,))
