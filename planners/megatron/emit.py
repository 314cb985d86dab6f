"""`training_plan`: a configuration as a `TrainingPlan`, whose schedule the simulator plays action by action."""

from __future__ import annotations

from dataclasses import asdict, astuple, replace
from typing import Any, Literal, cast

from ...errors import InputError
from ...profiles.hardware import LinkSpec
from ...simulator import Cluster
from ...simulator.plan.entries import PlannerEntry
from ...simulator.training import (
    CORE,
    DeviceRates,
    MeshEntry,
    ModelEntry,
    Settings,
    Stack,
    StageEntry,
    TrainingPlan,
    TransferEntry,
    estimate,
)
from ...simulator.training.configuration.model import TransformerShape, shape_of
from ...simulator.training.plan.entries import TrafficOf
from .chunks import Chunk, Chunks

__all__ = ["training_plan"]

Recompute = Literal["none", "selective", "full"]
DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "fp8": "bfloat16"}
"""What parameters are in. 8-bit products (`Settings.dtype` "fp8") make their own copies of them."""
SCHEDULES = {"zb-h1": "zb_h1", "dualpipe": "dualpipe", "zb-v": "zb_v"}


def training_plan(
    model: object,
    cluster: Cluster,
    global_batch: int,
    *,
    stack: Stack = CORE,
    rates: DeviceRates | None = None,
    name: str = "decoder",
    memory_bytes: float | None = None,
    **settings: Any,
) -> TrainingPlan:
    """A configuration as a plan: pp x interleave stages on pp meshes of dp x cp x tp devices, with the estimate's
    times; of DualPipe twice as many, for either direction.

    The plan can be simulated, drawn, explained, and run and exported by a decoder of its shape
    (`runtime.training.configured`). It names layers where plans of a graph name operators (0 the embedding, 1 … the
    layers, last the output layer), and degrees instead of shardings. Its network adapters have the rate that they
    reach.

    Parameters
    ----------
    model, cluster, global_batch, stack, rates, memory_bytes
        As in `estimate`.
    name : str
        What the plan calls the model.
    **settings
        The other fields of `simulator.training.Settings`; `Configuration.settings` holds them, but for the type.

    Raises
    ------
    InputError
        On what `estimate` refuses, or a mesh that is no rectangle of devices.
    """
    shape = shape_of(model)
    c = Settings(global_batch=global_batch, **settings)
    tp, pp, dp = c.tp, c.pp, c.dp * c.cp
    whole = estimate(shape, cluster, *astuple(c), stack=stack, rates=rates, check_memory=False,
                     memory_bytes=memory_bytes)  # fmt: skip
    meshes = _meshes(cluster, tp * dp, pp)
    limit = cluster.spec.memory_bytes if memory_bytes is None else memory_bytes
    chunks = Chunks.of(shape, cluster, c, stack, rates, limit)
    samples = c.microbatch * shape.seq / c.cp * dp  # tokens of a microbatch on a mesh
    layer_flops, head_flops = (x * samples for x in shape.forward_flops())
    time = whole.breakdown.time
    # Of a whole mesh, once in an iteration; its stages have equal shares, so that together they take what it takes.
    both = 2 if c.schedule == "dualpipe" else 1  # directions
    shares = c.interleave * both
    reduce, update = time.data_parallel + time.tied_embedding, time.optimizer + time.host
    tensors = whole.breakdown.tensors
    recomputed, offloaded = ([x.name for x in tensors if x.use == use] for use in ("recomputed", "offloaded"))
    again = cast("Recompute", c.recompute)
    if chunks.chosen is not None:
        again = "full" if chunks.chosen.whole[0] else "selective" if recomputed else "none"
    stages: list[StageEntry] = []
    begin, count = 0, pp * c.interleave
    for s, chunk in enumerate(chunks.each):
        last = s == count - 1
        further = shape.mtp_layers * last
        # Where gradients of weights come later, logits are none of what waits for them.
        split = c.schedule in SCHEDULES
        kept = chunk.activation_bytes + (0.0 if split else chunk.logits_bytes)
        work = whole.breakdown.memory.workspace + (chunk.logits_bytes if split else 0.0)
        end = begin + chunk.layers + further + (s == 0) + last
        stages.append(
            StageEntry(
                mesh=_mesh_of(c, s),
                logical=(dp, tp),
                first=begin,
                last=end,
                forward_s=chunk.forward_s,
                backward_input_s=chunk.inputs_s,
                backward_weight_s=chunk.weights_s,
                reduce_s=reduce / shares,
                update_s=update / shares,
                state_bytes=chunk.parameter_bytes + chunk.optimizer_bytes / both,
                activation_bytes=kept,
                work_bytes=float(work) if last else 0.0,
                flops=(chunk.layers + further) / (shape.layers + shape.mtp_layers) * layer_flops + head_flops * last,
                recompute=again,
                traffic=_traffic(chunk, reduce / shares, meshes[0].hosts > 1),
            )
        )
        begin = end
    if both > 1:
        stages += [stage.model_copy(update={"mesh": pp - 1 - stage.mesh}) for stage in stages]
    said = {name: value for name, value in asdict(c).items() if name != "global_batch"}
    said |= {"recomputed": recomputed, "offloaded": offloaded} if tensors else {}
    return TrainingPlan.of(
        _reached(cluster, chunks.kernels.rates),
        predicted={"seconds": whole.seconds, "peak_bytes": float(whole.peak_bytes), "mfu": whole.mfu},
        model=ModelEntry(name=name, dtype=DTYPES[c.dtype]),
        global_batch=global_batch,
        microbatches=whole.breakdown.microbatches,
        schedule=SCHEDULES.get(c.schedule, "interleaved_1f1b" if c.interleave > 1 else "1f1b"),
        resharding="scatter_gather" if stack.scatter_gather and not c.sequence_parallel else "send_recv",
        overlap=stack.overlap_pipeline and c.interleave > 1,
        meshes=meshes,
        stages=tuple(stages),
        transfers=_transfers(c, len(stages), chunks.kernels.size * samples * shape.hidden),
        planner=PlannerEntry(name="megatron-search", options={**said, "stack": stack.name, "shape": _plain(shape)}),
        cost_source=whole.breakdown.source,
    )


def _traffic(chunk: Chunk, reduce_s: float, network: bool) -> dict[TrafficOf, tuple[float, ...]]:
    """What a stage's collectives keep busy, as far as the estimate charges it: what work hides is in no pass's time.
    Gradients are summed over the `network`, or inside a node."""
    forward, backward = chunk.busy_s
    reduce = (0.0, reduce_s) if network else (reduce_s,)
    said: dict[TrafficOf, tuple[float, ...]] = {"forward": forward, "backward_input": backward, "reduce": reduce}
    return {name: busy for name, busy in said.items() if any(busy)}


def _mesh_of(c: Settings, chunk: int) -> int:
    """The mesh of a chunk: in turn, or there and back."""
    if c.schedule == "zb-v":
        return min(chunk, 2 * c.pp - 1 - chunk)
    return chunk % c.pp


def _transfers(c: Settings, count: int, n_bytes: float) -> tuple[TransferEntry, ...]:
    """Activations from stage to stage; the last of one direction of DualPipe gives the other one nothing."""
    spec = "S0S1R" if c.sequence_parallel else "S0RR"
    hops = range(count - 1) if c.pp > 1 else ()
    return tuple(
        TransferEntry(
            source=s, target=s + 1, value=f"activation {s}", bytes=n_bytes, source_spec=spec, target_spec=spec
        )
        for s in hops
        if c.schedule != "dualpipe" or s + 1 != c.pp
    )


def _plain(shape: TransformerShape) -> dict[str, Any]:
    """The fields that are given, as numbers and words."""
    return {name: value for name, value in asdict(shape).items() if value is not None}


def _reached(cluster: Cluster, rates: DeviceRates) -> Cluster:
    """The cluster with what its network adapters reach of their data sheet."""
    far = cluster.spec.inter_node
    spec = replace(cluster.spec, inter_node=LinkSpec(far.bandwidth_bytes_per_s * rates.network, far.latency_s))
    return Cluster(cluster.nodes, cluster.devices_per_node, spec)


def _meshes(cluster: Cluster, size: int, count: int) -> tuple[MeshEntry, ...]:
    """Blocks of consecutive devices, as Megatron numbers its pipeline ranks."""
    node = cluster.devices_per_node
    if size >= node and size % node == 0:
        hosts = size // node
        return tuple(MeshEntry(hosts=hosts, devices=node, first_host=k * hosts) for k in range(count))
    if size < node and node % size == 0:
        return tuple(
            MeshEntry(hosts=1, devices=size, first_host=k * size // node, first_device=k * size % node)
            for k in range(count)
        )
    raise InputError(
        f"training_plan: tp x dp: {size} devices are no rectangle of nodes with {node}; choose a divisor or a multiple"
    )
