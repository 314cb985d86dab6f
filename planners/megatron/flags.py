"""`megatron_flags`: a configuration as arguments of Megatron-LM."""

from __future__ import annotations

from ...errors import InputError
from ...simulator.training import CORE, Stack
from ...simulator.training.configuration.model import shape_of
from .result import Configuration

__all__ = ["SOURCE", "megatron_flags"]

SOURCE = "NVIDIA/Megatron-LM, megatron/training/arguments.py, 2025"
"""Where the arguments are defined."""

RECOMPUTE = {
    "none": (),
    "selective": ("--recompute-granularity selective",),
    "full": ("--recompute-granularity full", "--recompute-method uniform", "--recompute-num-layers 1"),
}
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
        On a type that Megatron-LM does not have.
    """
    shape, c = shape_of(model), configuration
    if dtype not in PRECISION:
        raise InputError(f"dtype: expected one of {', '.join(PRECISION)} (got {dtype!r})")
    flags = [
        f"--tensor-model-parallel-size {c.tp}",
        f"--pipeline-model-parallel-size {c.pp}",
        f"--micro-batch-size {c.microbatch}",
        f"--global-batch-size {global_batch}",
    ]
    flags += ["--sequence-parallel"] if c.sequence_parallel and c.tp > 1 else []
    uneven = shape.layers % (c.pp * c.interleave) != 0
    if uneven:
        flags += ["--account-for-embedding-in-pipeline-split", "--account-for-loss-in-pipeline-split"]
    if c.interleave > 1:
        flags.append(
            f"--num-virtual-stages-per-pipeline-rank {c.interleave}"
            if uneven
            else f"--num-layers-per-virtual-pipeline-stage {shape.layers // (c.pp * c.interleave)}"
        )
        flags += [] if stack.overlap_pipeline else ["--no-overlap-p2p-communication"]
    flags += RECOMPUTE[c.recompute]
    if c.zero == 1:
        flags.append("--use-distributed-optimizer")
    elif c.zero > 1:
        flags += ["--use-megatron-fsdp", f"--data-parallel-sharding-strategy {SHARDING[c.zero]}",
                  "--use-distributed-optimizer"]  # fmt: skip
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
