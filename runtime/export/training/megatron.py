"""A uniform plan as arguments of Megatron-LM, and a script that starts it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from ....errors import InputError
from ....profiles.graph import Graph
from ....simulator.training.plan.file import TrainingPlan
from ..options import ExportOptions
from ..tree import File
from .shape import TransformerSizes, transformer_sizes
from .uniform import ELSE, Uniform, uniform_layout

__all__ = ["SOURCE", "arguments", "megatron"]

SOURCE = "NVIDIA/Megatron-LM, megatron/training/arguments.py, 000c4ac"
"""Where the arguments are defined."""

PRECISION: Mapping[str, tuple[str, ...]] = {"float16": ("--fp16",), "bfloat16": ("--bf16",), "float32": ()}
SCHEDULES = ("1f1b", "interleaved_1f1b")

SCRIPT = """\
#!/usr/bin/env bash
# Trains {model} with Megatron-LM as the plan says: on every node, with NODE_RANK=0, 1, …, MASTER_ADDR and MEGATRON set.
# Data are mock: replace --mock-data and the tokenizer by yours, and say learning rates, checkpoints, … as arguments.
set -euo pipefail
cd "$(dirname "${{BASH_SOURCE[0]}}")"
set -f  # [0,1] is an argument, no pattern
arguments=$(grep -v '^#' megatron-arguments.txt)
export CUDA_DEVICE_MAX_CONNECTIONS=1
exec torchrun --nnodes={nodes} --nproc-per-node={per_node} --node-rank="${{NODE_RANK:-0}}" \\
  --master-addr="${{MASTER_ADDR:-127.0.0.1}}" --master-port="${{MASTER_PORT:-29500}}" \\
  "${{MEGATRON:?set MEGATRON to a checkout of Megatron-LM}}/{program}" $arguments \\
  --mock-data --tokenizer-type NullTokenizer --vocab-size {vocab} --train-iters "${{TRAIN_ITERS:-100}}" \\
  --lr "${{LR:-1e-4}}" "$@"
"""


def megatron(plan: TrainingPlan, graph: Graph, options: ExportOptions) -> dict[str, File]:
    """``megatron-arguments.txt``, one a line, and ``train.sh``.

    Raises
    ------
    InputError
        If Megatron-LM cannot do what the plan says; names the first stage that stands in the way.
    """
    sizes = transformer_sizes(graph)
    said = arguments(plan, graph)
    per_node = min(plan.cluster.devices_per_node, _devices(plan))
    note = "# Routing is Megatron's own: capacity and balancing losses are yours to say.\n" if sizes.experts else ""
    text = f"# {plan.model.name} on {plan.cluster_spec}; arguments as in {SOURCE}\n{note}" + "".join(
        f"{x}\n" for x in said
    )
    script = SCRIPT.format(
        model=shlex.quote(plan.model.name), nodes=max(1, _devices(plan) // plan.cluster.devices_per_node),
        per_node=per_node, program="pretrain_gpt.py" if sizes.causal else "pretrain_bert.py", vocab=sizes.vocab,
    )  # fmt: skip
    return {"megatron-arguments.txt": File(text), "train.sh": File(script, executable=True),
            "plan.json": File(plan.to_json())}  # fmt: skip


def arguments(plan: TrainingPlan, graph: Graph) -> list[str]:
    """The arguments, each with its value after a blank.

    Raises
    ------
    InputError
        As `megatron`.
    """
    uniform = uniform_layout(plan, graph)
    if plan.schedule not in SCHEDULES:
        raise InputError(f"export: Megatron-LM runs {' and '.join(SCHEDULES)}, not {plan.schedule}; {ELSE}")
    if plan.microbatch % uniform.data:
        raise InputError(
            f"export: a microbatch of {plan.microbatch} samples does not divide over {uniform.data} data-parallel "
            f"devices; {ELSE}"
        )
    if uniform.expert > 1 and uniform.tensor > 1 and not uniform.sequence_parallel:
        raise InputError(
            "export: stage 0 cuts experts and tensors, and norms are not cut along the sequence: Megatron-LM wants "
            f"sequence parallelism then; plan with -o sequence_parallel=true, or {ELSE}"
        )
    if plan.model.optimizer == "adafactor":
        raise InputError(f"export: optimizer adafactor: Megatron-LM has none; {ELSE}")
    if plan.model.optimizer != "adam" and uniform.zero:
        raise InputError(
            f"export: optimizer {plan.model.optimizer}: Megatron-LM's distributed optimizer is Adam's alone; plan with "
            f"-o zero=0, or {ELSE}"
        )
    return [*_parallel(plan, uniform), *_model(transformer_sizes(graph))]


def _devices(plan: TrainingPlan) -> int:
    return sum(m.hosts * m.devices for m in plan.meshes)


def _parallel(plan: TrainingPlan, uniform: Uniform) -> Iterator[str]:
    yield f"--tensor-model-parallel-size {uniform.tensor}"
    yield f"--pipeline-model-parallel-size {uniform.pipeline}"
    if uniform.expert > 1:
        yield f"--expert-model-parallel-size {uniform.expert}"
    yield f"--micro-batch-size {plan.microbatch // uniform.data}"
    yield f"--global-batch-size {plan.global_batch}"
    if len(set(uniform.layers)) > 1:
        yield f"--pipeline-model-parallel-layout {_layout(uniform.layers)}"
    elif uniform.virtual > 1:
        yield f"--num-virtual-stages-per-pipeline-rank {uniform.virtual}"
    if uniform.sequence_parallel and uniform.tensor > 1:
        yield "--sequence-parallel"
    if uniform.recompute == "selective":
        yield "--recompute-granularity selective"
    elif uniform.recompute == "full":
        yield from ("--recompute-granularity full", "--recompute-method uniform", "--recompute-num-layers 1")
    if uniform.zero == 3:
        yield from ("--use-distributed-optimizer", "--use-megatron-fsdp",
                    "--data-parallel-sharding-strategy optim_grads_params")  # fmt: skip
    elif uniform.zero == 2:
        yield "--use-distributed-optimizer"
    yield from PRECISION[plan.model.dtype]
    if plan.model.optimizer == "adam":
        yield "--optimizer adam"
    else:
        yield from ("--optimizer sgd", f"--sgd-momentum {0.9 if plan.model.optimizer == 'momentum' else 0.0}")


def _layout(layers: tuple[int, ...]) -> str:
    """Stages of unequal numbers of layers: ``Et*2|t*3|t*2L``."""
    stages = [f"t*{n}" if n > 1 else "t" * n for n in layers]
    return "|".join([f"E{stages[0]}", *stages[1:]]) + "L"


def _model(sizes: TransformerSizes) -> Iterator[str]:
    yield f"--num-layers {sizes.layers}"
    yield f"--hidden-size {sizes.hidden}"
    yield f"--ffn-hidden-size {sizes.ffn}"
    yield f"--num-attention-heads {sizes.heads}"
    if sizes.kv_heads != sizes.heads:
        yield from ("--group-query-attention", f"--num-query-groups {sizes.kv_heads}")
    yield f"--seq-length {sizes.seq}"
    yield f"--max-position-embeddings {sizes.seq}"
    if sizes.rotary:
        yield "--position-embedding-type rope"
    if sizes.gated:
        yield "--swiglu"
    if sizes.rms:
        yield "--normalization RMSNorm"
    if not sizes.bias:
        yield "--disable-bias-linear"
    if not sizes.tied:
        yield "--untie-embeddings-and-output-weights"
    if sizes.experts:
        yield from (f"--num-experts {sizes.experts}", f"--moe-router-topk {sizes.top_k}")
        if len(sizes.moe_layers) != sizes.layers:
            every = "".join(str(int(i in sizes.moe_layers)) + "," for i in range(sizes.layers)).rstrip(",")
            yield f"--moe-layer-freq [{every}]"
