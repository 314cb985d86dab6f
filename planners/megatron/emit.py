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
from ...simulator.training.configuration.activations.decide import decide
from ...simulator.training.configuration.collectives import GroupLinks
from ...simulator.training.configuration.kernels import DTYPE_BYTES, Kernels
from ...simulator.training.configuration.layer.spread import Spread
from ...simulator.training.configuration.layer_costs import end_times, layer_times, padded_vocab
from ...simulator.training.configuration.memory import kept_per_layer
from ...simulator.training.configuration.model import TransformerShape, shape_of
from ...simulator.training.configuration.rates import rates_of
from ...simulator.training.configuration.stages import stage_layers
from ...simulator.training.configuration.weights import STATE_BYTES, layer_params

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
    memory_bytes: float | None = None,
    **settings: Any,
) -> TrainingPlan:
    """A configuration as a plan: pp x interleave stages on pp meshes of dp x cp x tp devices, with the estimate's
    times.

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
        On what `estimate` refuses, a mesh that is no rectangle of devices, or what plans do not say: other schedules
        than 1F1B, 8-bit products, and layers that predict further tokens.
    """
    shape = shape_of(model)
    c = Settings(global_batch=global_batch, **settings)
    if c.schedule != "1f1b" or c.dtype not in DTYPES:
        raise InputError(
            f"training_plan: expected schedule '1f1b' and one of {', '.join(DTYPES)} (got {c.schedule!r}, {c.dtype!r})"
        )
    if shape.mtp_layers:
        raise InputError(f"training_plan: expected a model with mtp_layers 0 (got {shape.mtp_layers})")
    tp, pp, dp, microbatch = c.tp, c.pp, c.dp * c.cp, c.microbatch
    whole = estimate(shape, cluster, *astuple(c), stack=stack, rates=rates, check_memory=False,
                     memory_bytes=memory_bytes)  # fmt: skip
    meshes = _meshes(cluster, tp * dp, pp)
    kernels = Kernels(cluster.spec, rates or rates_of(cluster.spec), c.dtype, None, cluster.n_devices)
    one = c.columns
    limit = cluster.spec.memory_bytes if memory_bytes is None else memory_bytes
    chosen = decide(shape, cluster, kernels, stack, one, limit)
    if chosen is not None:  # which says all that is recomputed
        one = replace(one, recompute=one.recompute * 0)
    group = GroupLinks.of(cluster, kernels.rates, [tp], 1)
    spread = Spread.of(shape, cluster, kernels.rates, one)
    own = (one.microbatch, one.sequence_parallel, one.recompute, spread)
    kinds = [layer_times(shape, kernels, stack, group, *own)]  # of layers: dense, and with experts
    kinds += [layer_times(shape, kernels, stack, group, *own, mixed=True)] if shape.experts else []
    ends = end_times(shape, kernels, group, one.microbatch, one.sequence_parallel, stack, one.cp)
    size, states = DTYPE_BYTES[c.dtype], STATE_BYTES[c.dtype]
    n = microbatch * shape.seq / c.cp
    split = tp if c.sequence_parallel else 1
    count = pp * c.interleave
    layers = _layers(shape, c)
    vocabulary = float(padded_vocab(shape, tp)) * shape.hidden / tp
    kept = [float(x[0]) for x in kept_per_layer(shape, stack, one, size, False)]
    more = [(0.0, 0.0), (0.0, 0.0)]  # seconds of a layer of each kind, forward and backward
    if chosen is not None:
        kept = [float(chosen.held.dense[0]), float(chosen.held.mixed[0])]
        more = [(float(x[1][0]), float(x[0][0] + x[2][0])) for x in chosen.each]
    held = [float(layer_params(shape, tp)), float(layer_params(shape, tp, mixed=shape.experts is not None))]
    experts = 0.0 if shape.experts is None else shape.experts.count * shape.expert_params / c.ep / (c.etp or c.tp)
    # Parameters are shared from ZeRO 3 on, gradients from 2, the optimizer's state from 1.
    levels = list(zip(states, (3, 2, 1), strict=True))
    bytes_of = sum(each / (int(one.shards[0]) if c.zero >= level else 1) for each, level in levels)
    expert_bytes = sum(each / (int(one.expert_shards[0]) if c.zero >= level else 1) for each, level in levels)
    flops, head_flops = (x * n * dp for x in shape.forward_flops())
    time = whole.breakdown.time
    # Of a whole mesh, once in an iteration; its chunks have equal shares, so that together they take what it takes.
    reduce, update = time.data_parallel + time.tied_embedding, time.optimizer + time.host
    first_s = (float(ends.embedding_forward[0]), float(ends.embedding_backward[0]))
    last_s = (float(ends.head_forward[0]), float(ends.head_backward[0]))
    tensors = whole.breakdown.tensors
    recomputed, offloaded = ([x.name for x in tensors if x.use == use] for use in ("recomputed", "offloaded"))
    again = cast("Recompute", c.recompute)
    if chosen is not None:
        again = "full" if chosen.whole[0] else "selective" if recomputed else "none"
    stages: list[StageEntry] = []
    begin = 0
    for s in range(count):
        first, last = s == 0, s == count - 1
        end = begin + sum(layers[s]) + first + last
        # A tied embedding is on both ends (Megatron). The last stage keeps the final norm's input and output, and
        # logits in fp32.
        params = sum(k * each for k, each in zip(layers[s], held, strict=True)) + (vocabulary if first or last else 0)
        activations = sum(k * each for k, each in zip(layers[s], kept, strict=True))
        activations += (2 * size * n * shape.hidden / split + 4 * n * vocabulary / shape.hidden) * last
        several = list(zip(layers[s], kinds, more, strict=False))
        forward = sum(k * (float(kind.forward[0]) + x[0]) for k, kind, x in several)
        backward = sum(k * (float(kind.backward[0]) + x[1]) for k, kind, x in several)
        stages.append(
            StageEntry(
                mesh=s % pp,
                logical=(dp, tp),
                first=begin,
                last=end,
                forward_s=forward + first_s[0] * first + last_s[0] * last,
                backward_input_s=backward + first_s[1] * first + last_s[1] * last,
                reduce_s=reduce / c.interleave,
                update_s=update / c.interleave,
                state_bytes=params * bytes_of + layers[s][1] * experts * expert_bytes,
                activation_bytes=activations,
                work_bytes=float(whole.breakdown.memory.workspace) if last else 0.0,
                flops=sum(layers[s]) / shape.layers * flops + head_flops * last,
                recompute=again,
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
    said |= {"recomputed": recomputed, "offloaded": offloaded} if tensors else {}
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
        planner=PlannerEntry(name="megatron-search", options={**said, "stack": stack.name, "shape": _plain(shape)}),
        cost_source=whole.breakdown.source,
    )


def _plain(shape: TransformerShape) -> dict[str, Any]:
    """The fields that are given, as numbers and words."""
    return {name: value for name, value in asdict(shape).items() if value is not None}


def _layers(shape: TransformerShape, c: Settings) -> list[tuple[int, int]]:
    """Layers of every chunk, in their order: with a dense MLP, and with experts. The embedding and the output
    layer may take a layer's place each."""
    middle, outer = (round(float(x)) for x in stage_layers(shape, c.pp, c.interleave))
    count = c.pp * c.interleave
    sizes = [middle // c.interleave] * count
    sizes[0] -= middle - outer
    sizes[-1] -= (middle - outer) if count > 1 else 0
    kinds = [shape.experts is not None] * shape.layers
    if shape.experts is not None and shape.experts.dense_layers:
        few = shape.experts.dense_layers
        dense = [k * shape.layers // few for k in range(few)] if shape.experts.alternate else range(few)
        for k in dense:
            kinds[k] = False
    starts = [sum(sizes[:k]) for k in range(count)]
    mixed = [sum(kinds[start : start + size]) for start, size in zip(starts, sizes, strict=True)]
    return [(size - few, few) for size, few in zip(sizes, mixed, strict=True)]


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
