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
from ...simulator.training.configuration.collectives import GroupLinks
from ...simulator.training.configuration.columns import RECOMPUTE
from ...simulator.training.configuration.kernels import DTYPE_BYTES, Kernels
from ...simulator.training.configuration.layer_costs import end_times, layer_times, padded_vocab
from ...simulator.training.configuration.memory import STATE_BYTES, activation_bytes, layer_params, stage_layers
from ...simulator.training.configuration.model import shape_of
from ...simulator.training.configuration.rates import rates_of

__all__ = ["training_plan"]

Recompute = Literal["none", "selective", "full"]
DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}


def training_plan(
    model: object,
    cluster: Cluster,
    global_batch: int,
    *,
    stack: Stack = CORE,
    rates: DeviceRates | None = None,
    name: str = "decoder",
    **settings: Any,
) -> TrainingPlan:
    """A configuration as a plan: pp x interleave stages on pp meshes of dp x tp devices, with the estimate's times.

    The plan can be simulated, drawn and explained. It names layers where plans of a graph name operators (0 the
    embedding, 1 … the layers, last the output layer) and no shardings, so that it cannot be run or exported. Its
    network adapters have the rate that they reach.

    Parameters
    ----------
    model, cluster, global_batch, stack, rates
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
    tp, pp, dp, microbatch = c.tp, c.pp, c.dp, c.microbatch
    whole = estimate(shape, cluster, *astuple(c), stack=stack, rates=rates, check_memory=False)
    meshes = _meshes(cluster, tp * dp, pp)
    kernels = Kernels(cluster.spec, rates or rates_of(cluster.spec), c.dtype, None, cluster.n_devices)
    group = GroupLinks.of(cluster, kernels.rates, [tp], 1)
    code = RECOMPUTE.index(c.recompute)
    layer = layer_times(shape, kernels, stack, group, [microbatch], [c.sequence_parallel], [code])
    ends = end_times(shape, kernels, group, [microbatch], [c.sequence_parallel], stack)
    size, states = DTYPE_BYTES[c.dtype], STATE_BYTES[c.dtype]
    n = microbatch * shape.seq
    split = tp if c.sequence_parallel else 1
    middle, outer = (round(float(x)) for x in stage_layers(shape, pp, c.interleave))
    count = pp * c.interleave
    layers = [middle // c.interleave] * count  # the embedding and the output layer may take a layer's place each
    layers[0] -= middle - outer
    layers[-1] -= (middle - outer) if count > 1 else 0
    vocabulary = float(padded_vocab(shape, tp)) * shape.hidden / tp
    forward, backward = float(layer.forward[0]), float(layer.backward[0])
    per_layer = float(activation_bytes(shape, stack, tp, microbatch, c.sequence_parallel, code, size))
    # Parameters are shared from ZeRO 3 on, gradients from 2, the optimizer's state from 1.
    bytes_of = sum(each / (dp if c.zero >= level else 1) for each, level in zip(states, (3, 2, 1), strict=True))
    flops, head_flops = (x * n * dp for x in shape.forward_flops())
    time = whole.breakdown.time
    # Of a whole mesh, once in an iteration; its chunks have equal shares, so that together they take what it takes.
    reduce, update = time.data_parallel + time.tied_embedding, time.optimizer + time.host
    first_s = (float(ends.embedding_forward[0]), float(ends.embedding_backward[0]))
    last_s = (float(ends.head_forward[0]), float(ends.head_backward[0]))
    stages: list[StageEntry] = []
    begin = 0
    for s in range(count):
        first, last = s == 0, s == count - 1
        end = begin + layers[s] + first + last
        # A tied embedding is on both ends (Megatron). The last stage keeps the final norm's input and output, and
        # logits in fp32.
        held = layers[s] * float(layer_params(shape, tp)) + (vocabulary if first or last else 0)
        kept = layers[s] * per_layer + (2 * size * n * shape.hidden / split + 4 * n * vocabulary / shape.hidden) * last
        stages.append(
            StageEntry(
                mesh=s % pp,
                logical=(dp, tp),
                first=begin,
                last=end,
                forward_s=layers[s] * forward + first_s[0] * first + last_s[0] * last,
                backward_input_s=layers[s] * backward + first_s[1] * first + last_s[1] * last,
                reduce_s=reduce / c.interleave,
                update_s=update / c.interleave,
                state_bytes=held * bytes_of,
                activation_bytes=kept,
                work_bytes=float(whole.breakdown.memory.workspace) if last else 0.0,
                flops=layers[s] / shape.layers * flops + head_flops * last,
                recompute=cast("Recompute", c.recompute),
            )
        )
        begin = end
    spec = "S0S1R" if c.sequence_parallel else "S0RR"
    n_bytes = float(size * n * dp * shape.hidden)
    hops = range(count - 1) if pp > 1 else ()
    transfers = tuple(
        TransferEntry(
            source=s, target=s + 1, value=f"activation {s}", bytes=n_bytes, source_spec=spec, target_spec=spec
        )
        for s in hops
    )
    said = {name: value for name, value in asdict(c).items() if name != "global_batch"}
    return TrainingPlan.of(
        _reached(cluster, kernels.rates),
        predicted={"seconds": whole.seconds, "peak_bytes": float(whole.peak_bytes), "mfu": whole.mfu},
        model=ModelEntry(name=name, dtype=DTYPES[c.dtype]),
        global_batch=global_batch,
        microbatches=whole.breakdown.microbatches,
        schedule="interleaved_1f1b" if c.interleave > 1 else "1f1b",
        resharding="scatter_gather" if stack.scatter_gather and not c.sequence_parallel else "send_recv",
        overlap=stack.overlap_pipeline and c.interleave > 1,
        meshes=meshes,
        stages=tuple(stages),
        transfers=transfers,
        planner=PlannerEntry(name="megatron-search", options={**said, "stack": stack.name}),
        cost_source=whole.breakdown.source,
    )


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
