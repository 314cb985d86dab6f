"""`units`: the runs of operators that a pipeline never cuts, and what a forward plan says of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ....profiles import CommModel, Layer, LayerTable, Provenance
from ....profiles.graph import Graph, graph_cut
from ....profiles.hardware import DeviceSpec
from .options import InferenceOptions
from .solve import ForwardPlan

__all__ = ["Unit", "comm_of", "table_of", "units"]


@dataclass(frozen=True, slots=True)
class Unit:
    """A run of operators.

    Parameters
    ----------
    first, last : int
        Operators first … last − 1.
    """

    first: int
    last: int


def units(graph: Graph) -> tuple[Unit, ...]:
    """The finest runs with one heavy operator each (a product, a convolution, an embedding), and what follows it.

    What stands before the first heavy operator of a repeated layer belongs to that layer's first unit.
    """
    starts, has_heavy = [0], False
    for i, op in enumerate(graph.operators):
        if has_heavy and (op.heavy or op.layer != graph.operators[i - 1].layer):
            starts.append(i)
            has_heavy = False
        has_heavy = has_heavy or op.heavy
    if not has_heavy and len(starts) > 1:
        starts.pop()
    ends = [*starts[1:], len(graph.operators)]
    return tuple(Unit(a, b) for a, b in zip(starts, ends, strict=True))


Plans = Mapping[int, Mapping[int, ForwardPlan]]
"""Intra-op degree -> batch size -> plan."""


def table_of(graph: Graph, cut: tuple[Unit, ...], plans: Plans, provenance: Provenance) -> LayerTable:
    """The units as layers: computation per degree and batch, weights, and what crosses a cut behind each."""
    tags = [graph.operators[u.last - 1].layer for u in cut]
    inside = [t for t in tags if t >= 0]
    blocks = inside == sorted(inside)
    layers: list[Layer] = []
    for u, tag in zip(cut, tags, strict=True):
        crossing = sum(graph.bytes_of(name) for name in graph_cut(graph, u.last)) / graph.batch
        first = min(plans)
        work = plans[first][min(plans[first])]
        layers.append(
            Layer(
                graph.operators[u.first].name,
                {
                    op: {b: float(p.computation_s[u.first : u.last].sum()) for b, p in by_batch.items()}
                    for op, by_batch in plans.items()
                },
                {op: by_batch[min(by_batch)].weight_bytes(u.first, u.last) for op, by_batch in plans.items()},
                float(crossing),
                activation_bytes=float(work.live_bytes[u.first : u.last].max()) * first / work.graph.batch,
                block=tag if blocks and tag >= 0 else None,
            )
        )
    return LayerTable(graph.name, tuple(layers), provenance)


def comm_of(cut: tuple[Unit, ...], plans: Plans, device: DeviceSpec, options: InferenceOptions) -> CommModel:
    """Links of the device between stages, and the planned collectives of each unit."""
    return CommModel(
        p2p=device.intra_node,
        stage_overhead_s=options.stage_overhead_s,
        p2p_inter_node=device.inter_node,
        devices_per_node=options.devices_per_node,
        planned_s={
            op: {b: tuple(float(p.collective_s[u.first : u.last].sum()) for u in cut) for b, p in by_batch.items()}
            for op, by_batch in plans.items()
        },
        source=f"collectives planned by Alpa's ILP without data parallelism, links of {device.name}'s data sheet",
    )
