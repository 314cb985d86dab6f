"""`layouts`: the ways to spread a model over a cluster.

A layout has data-parallel replicas × pipeline stages of equal cells × devices that share each operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...errors import InfeasibleError, InputError
from ...profiles.graph import Graph
from ...simulator.cluster import Cluster
from ...simulator.mesh import LogicalMesh, Mesh
from ...simulator.training.plan.entries import MeshEntry
from ..alpa.baseline_megatron import block_stages
from ..alpa.fixed import megatron
from ..alpa.inter.assemble import mesh_entries
from ..alpa.inter.shapes import submesh_shapes
from .options import TeraPipeOptions

__all__ = ["Layout", "layouts"]


@dataclass(frozen=True, eq=False)
class Layout:
    """One way to spread a model over a cluster.

    Parameters
    ----------
    data, pipe, op : int
        Degrees of parallelism: replicas, stages, devices that share each operator.
    bounds : tuple of (int, int)
        Range of operators of each stage, half-open.
    meshes : tuple of MeshEntry
        The mesh of each stage.
    views : tuple of LogicalMesh
        The meshes as logical meshes (replicas, devices that share an operator).
    """

    data: int
    pipe: int
    op: int
    bounds: tuple[tuple[int, int], ...]
    meshes: tuple[MeshEntry, ...]
    views: tuple[LogicalMesh, ...]

    def __str__(self) -> str:
        return f"data {self.data} x pipe {self.pipe} x op {self.op}"


def layouts(graph: Graph, cluster: Cluster, options: TeraPipeOptions, batch: int) -> list[Layout]:
    """All layouts that use every device and keep the degrees that the options fix, fewest stages first.

    Parameters
    ----------
    batch : int
        Samples of an iteration; the number of replicas must divide it.

    Raises
    ------
    InputError
        If given degrees contradict each other, the cluster, the model or the batch.
    InfeasibleError
        If no combination of degrees uses the whole cluster.
    """
    n, width = cluster.n_devices, cluster.devices_per_node
    _check(graph, cluster, options, batch)
    shapes = set(submesh_shapes(cluster))
    found: list[Layout] = []
    for pipe in _degrees(options.pipe, n):
        bounds = block_stages(graph, pipe)
        if bounds is None or n % pipe:
            continue
        for op in _degrees(options.op, width):
            if (n // pipe) % op or width % op:
                continue
            data = n // pipe // op
            if options.data not in (None, data) or batch % data:
                continue
            shape = (1, data * op) if data * op <= width else (data * op // width, width)
            if shape not in shapes or shape[0] * shape[1] != data * op:
                continue
            try:
                sized = graph.with_batch(data)
                if options.op is None:  # a degree that is given says itself why it does not divide a loop
                    megatron(sized, (data, op))
            except InputError:
                continue
            meshes = mesh_entries([(0, shape)] * pipe, [cluster])
            views = tuple(
                Mesh(cluster, m.hosts, m.devices, m.first_host, m.first_device).view((data, op)) for m in meshes
            )
            found.append(Layout(data, pipe, op, tuple(bounds), meshes, views))
    if not found:
        raise InfeasibleError(
            f"terapipe: no degrees make up {cluster} with {_blocks(graph)} equal blocks of {graph.name!r} and a batch "
            f"of {batch}{_given(options)}; stages must divide the blocks, replicas the batch, op the devices of a node"
        )
    return found


def _degrees(given: int | None, most: int) -> Sequence[int]:
    return range(1, most + 1) if given is None else (given,)


def _given(options: TeraPipeOptions) -> str:
    said = [f"{name} {value}" for name in ("data", "pipe", "op") if (value := getattr(options, name)) is not None]
    return f" ({', '.join(said)} given)" if said else ""


def _blocks(graph: Graph) -> int:
    return len({op.layer for op in graph.operators if op.layer >= 0})


def _check(graph: Graph, cluster: Cluster, options: TeraPipeOptions, batch: int) -> None:
    n, blocks = cluster.n_devices, _blocks(graph)
    if not blocks:
        raise InputError(f"terapipe: {graph.name!r} has no repeated blocks, which equal cells are made of")
    if options.pipe is not None and blocks % options.pipe:
        raise InputError(
            f"terapipe: pipe: {options.pipe} stages do not divide {blocks} blocks equally; use "
            f"{_nearest(blocks, options.pipe)}"
        )
    if options.data is not None and batch % options.data:
        raise InputError(
            f"terapipe: data: {options.data} replicas do not divide a batch of {batch}; use "
            f"{_nearest(batch, options.data)}"
        )
    if options.op is not None and cluster.devices_per_node % options.op:
        raise InputError(
            f"terapipe: op: operators are shared within a node; {options.op} does not divide its "
            f"{cluster.devices_per_node} devices"
        )
    given = [x for x in (options.data, options.pipe, options.op) if x is not None]
    product = 1
    for x in given:
        product *= x
    if product > n:
        raise InputError(
            f"terapipe: data x pipe x op: {' x '.join(map(str, given))} need {product} devices; {cluster} has {n}: use "
            "more devices, or smaller degrees"
        )
    if n % product or (len(given) == 3 and product != n):
        raise InputError(
            f"terapipe: data x pipe x op: {' x '.join(map(str, given))} = {product} do not make up {n} devices"
        )


def _nearest(n: int, wanted: int) -> int:
    """The divisor of n that is nearest to the wanted number; the smaller of two."""
    return min((d for d in range(1, n + 1) if n % d == 0), key=lambda d: abs(d - wanted))
