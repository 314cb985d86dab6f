"""`megatron_flags`: a configuration as arguments of Megatron-LM."""

from __future__ import annotations

from ...errors import InputError
from ...simulator.training import CORE, Stack, TransformerShape
from ...simulator.training.configuration.model import shape_of
from .modules import RECOMPUTE, activation_flags
from .result import Configuration

__all__ = ["SOURCE", "megatron_flags"]

SOURCE = "NVIDIA/Megatron-LM, megatron/training/arguments.py, 2025"
"""Where the arguments are defined."""

SHARDING = {2: "optim_grads", 3: "optim_grads_params"}
PRECISION = {"bf16": ("--bf16",), "fp16": ("--fp16",), "fp32": ()}


def megatron_flags(
    configuration: Configuration,
    model: object,
    global_batch: int,
    *,
    dtype: str = "bf16",
    stack: Stack = CORE,
) -> list[str]:
    """Arguments of ``pretrain_gpt.py`` for a configuration, each with its value after a blank.

    The model, its sizes and what the estimate assumes of the software; not data, tokenizer, learning rates or
    checkpoints. ZeRO 2 and 3 are Megatron-FSDP's.

    Raises
    ------
    InputError
        On a type, a schedule or a choice of tensors that Megatron-LM does not have.
    """
    shape, c = shape_of(model), configuration
    if dtype not in PRECISION:
        raise InputError(f"dtype: expected one of {', '.join(PRECISION)} (got {dtype!r})")
    if c.schedule != "1f1b":
        raise InputError(f"flags: Megatron-LM has no schedule {c.schedule!r}; set schedule=1f1b")
    flags = [
        f"--tensor-model-parallel-size {c.tp}",
        f"--pipeline-model-parallel-size {c.pp}",
        f"--micro-batch-size {c.microbatch}",
        f"--global-batch-size {global_batch}",
    ]
    flags += ["--sequence-parallel"] if c.sequence_parallel and c.tp > 1 else []
    if c.cp > 1:
        kind = "p2p" if c.context == "ring" else "a2a"
        flags += [f"--context-parallel-size {c.cp}", f"--cp-comm-type {kind}"]
    flags += _experts(c, shape, stack)
    flags += _latent(shape)
    given = {"first": c.first_layers, "last": c.last_layers}
    flags += [f"--decoder-{end}-pipeline-num-layers {n}" for end, n in given.items() if n]
    uneven = any(given.values()) or shape.layers % (c.pp * c.interleave) != 0
    if uneven and not any(given.values()):
        flags += ["--account-for-embedding-in-pipeline-split", "--account-for-loss-in-pipeline-split"]
    if c.interleave > 1:
        flags.append(
            f"--num-virtual-stages-per-pipeline-rank {c.interleave}"
            if uneven
            else f"--num-layers-per-virtual-pipeline-stage {shape.layers // (c.pp * c.interleave)}"
        )
        flags += [] if stack.overlap_pipeline else ["--no-overlap-p2p-communication"]
    flags += activation_flags(c, shape) if c.breakdown.tensors else RECOMPUTE[c.recompute]
    if c.zero == 1:
        flags.append("--use-distributed-optimizer")
    elif c.zero > 1:
        if c.zero == 3 and not c.reshard:
            raise InputError("flags: Megatron-LM's FSDP always gives gathered parameters back; set reshard=True")
        flags += ["--use-megatron-fsdp", f"--data-parallel-sharding-strategy {SHARDING[c.zero]}",
                  "--use-distributed-optimizer"]  # fmt: skip
    if c.shard:
        flags.append(f"--num-distributed-optimizer-instances {c.dp * c.cp // c.shard}")
    if c.offload_optimizer:
        flags += ["--optimizer-cpu-offload", "--use-precision-aware-optimizer"]
    if stack.overlap_data:
        flags += ["--overlap-grad-reduce"] + (["--overlap-param-gather"] if c.zero else [])
    flags += PRECISION[dtype]
    flags.append(f"--attention-backend {'flash' if stack.flash else 'unfused'}")
    flags += [
        f"--num-layers {shape.layers}", f"--hidden-size {shape.hidden}", f"--ffn-hidden-size {shape.ffn}",
        f"--num-attention-heads {shape.heads}", f"--kv-channels {shape.head_dim}", f"--seq-length {shape.seq}",
        f"--max-position-embeddings {shape.seq}",
    ]  # fmt: skip
    if shape.kv_heads != shape.heads:
        flags += ["--group-query-attention", f"--num-query-groups {shape.kv_heads}"]
    if shape.gated:
        flags += ["--swiglu", "--normalization RMSNorm", "--position-embedding-type rope", "--disable-bias-linear"]
    if not shape.tied:
        flags.append("--untie-embeddings-and-output-weights")
    dropout = (stack.dropout and not shape.gated) if shape.dropout is None else shape.dropout
    flags += [] if dropout else ["--attention-dropout 0", "--hidden-dropout 0"]
    return flags


def _experts(c: Configuration, shape: TransformerShape, stack: Stack) -> list[str]:
    """Of a mixture of experts."""
    mixed = shape.experts
    if mixed is None:
        return []
    dense = shape.layers - shape.expert_layers
    first = f"([0]*{mixed.dense_layers}+[1]*{shape.layers - mixed.dense_layers})"
    flags = [
        f"--expert-model-parallel-size {c.ep}", f"--expert-tensor-parallel-size {c.etp or c.tp}",
        f"--num-experts {mixed.count}", f"--moe-router-topk {mixed.top_k}", f"--moe-ffn-hidden-size {mixed.ffn}",
        "--moe-grouped-gemm", f"--moe-token-dispatcher-type {'flex' if stack.dispatch_once else 'alltoall'}",
    ]  # fmt: skip
    flags += ["--moe-enable-deepep"] if stack.dispatch_once else []
    if dense:
        every = round(shape.layers / shape.expert_layers)
        between = f"([0]*{every - 1}+[1])*{shape.expert_layers}"
        flags.append(f"--moe-layer-freq {between if mixed.alternate else first}")
    if mixed.shared_ffn:
        flags.append(f"--moe-shared-expert-intermediate-size {mixed.shared_ffn}")
    if mixed.capacity:
        flags += [f"--moe-expert-capacity-factor {mixed.capacity:g}", "--moe-pad-expert-input-to-capacity"]
    if mixed.router_bias:
        flags.append("--moe-router-enable-expert-bias")
    return flags + (["--overlap-moe-expert-parallel-comm"] if c.overlap_experts else [])


def _latent(shape: TransformerShape) -> list[str]:
    """Of latent attention, and of layers that predict further tokens."""
    flags = [f"--mtp-num-layers {shape.mtp_layers}"] if shape.mtp_layers else []
    if (latent := shape.latent) is None:
        return flags
    flags += ["--multi-latent-attention", f"--kv-lora-rank {latent.kv_rank}"]
    flags += [f"--q-lora-rank {latent.q_rank}"] if latent.q_rank else []
    return [
        *flags, f"--qk-head-dim {shape.head_dim - latent.rope_dim}", f"--qk-pos-emb-head-dim {latent.rope_dim}",
        f"--v-head-dim {latent.value_dim}",
    ]  # fmt: skip
