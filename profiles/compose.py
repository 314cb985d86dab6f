"""From layers to stages by AlpaServe's rule (§4.1): the sum of its layers, plus communication."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Literal

from ..errors import InputError
from .autoparallel import Partition, auto_partition, computation_partition, equal_layers, partition_at
from .comm import CommModel
from .config import ParallelConfig
from .layers import LayerTable
from .profile import ModelProfile, StageProfile

__all__ = ["compose", "compose_stage", "default_configs"]

Partitioner = Literal["auto", "computation", "equal"]

_PARTITIONERS: dict[str, Callable[[LayerTable, ParallelConfig, CommModel, int], Partition]] = {
    "auto": auto_partition,
    "computation": computation_partition,
    "equal": equal_layers,
}


def compose(
    table: LayerTable,
    comm: CommModel,
    *,
    configs: Iterable[ParallelConfig] | None = None,
    partition: Partitioner = "auto",
    name: str | None = None,
) -> ModelProfile:
    """The profile that a layer table and a communication model add up to.

    Parameters
    ----------
    table : LayerTable
        Measured or modelled layers.
    comm : CommModel
        Point-to-point and all-reduce costs.
    configs : iterable of ParallelConfig, optional
        What to compose; `default_configs` if left out.
    partition : {"auto", "computation", "equal"}
        `auto_partition`, `computation_partition` or the manual `equal_layers`; decided at
        the smallest batch size and kept for all.
    name : str, optional
        Name of the profile; the table's model if left out.

    Raises
    ------
    InfeasibleError
        If a configuration has more stages than the model has layers.
    OutOfProfileError
        If a configuration's intra-op degree is not in `table` or `comm`.
    """
    if partition not in _PARTITIONERS:
        raise InputError(f"compose: partition must be 'auto' or 'equal' (got {partition!r})")
    wanted = tuple(default_configs(table, comm) if configs is None else configs)
    stages = {config: compose_stage(table, comm, config, partition=partition) for config in wanted}
    notes = "; ".join(
        part
        for part in (
            table.provenance.notes,
            f"stages are sums of layers ({partition} partition) plus communication",
            f"communication: {comm.source}" if comm.source else "",
        )
        if part
    )
    return ModelProfile(name or table.model, stages, replace(table.provenance, notes=notes))


def compose_stage(
    table: LayerTable,
    comm: CommModel,
    config: ParallelConfig,
    *,
    partition: Partitioner = "auto",
    source: str = "composed",
) -> StageProfile:
    """One configuration of `compose`."""
    batches = table.batches(config.op)
    chosen = _PARTITIONERS[partition](table, config, comm, batches[0])
    cuts = (*chosen.starts, len(table))
    weights = table.weight_bytes(config.op)
    peak = max(layer.activation_bytes for layer in table.layers)
    hop = 0.0
    if config.pp > 1 and not comm.p2p_occupies_stage:
        sent = table.output_bytes * batches[0]
        hop = max(float(comm.transfer_s(sent, config, s)[end - 1]) for s, end in enumerate(cuts[1:-1]))
    return StageProfile(
        latency={b: partition_at(table, config, chosen.starts, comm, b).stage_s for b in batches},
        weight_bytes=tuple(float(weights[a:b].sum()) for a, b in pairwise(cuts)),
        activation_bytes={b: peak * b / config.op for b in batches} if peak else {},
        hop_s=hop,
        partition=chosen.starts,
        source=source,
    )


def default_configs(table: LayerTable, comm: CommModel) -> tuple[ParallelConfig, ...]:
    """Every intra-op degree that `table` and `comm` hold, with 1, 2, 4, … stages up to one per layer."""
    reduces = any(layer.allreduces for layer in table.layers)
    ops = [op for op in table.ops if op == 1 or not reduces or op in comm.allreduce]
    depths = [2**i for i in range(len(table).bit_length()) if 2**i <= len(table)]
    return tuple(ParallelConfig(op, pp) for op in ops for pp in depths)
