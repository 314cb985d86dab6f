"""A uniform plan as a configuration of DeepSpeed, and what must be said in code beside it."""

from __future__ import annotations

from typing import Any

from ....errors import InputError
from ....profiles.graph import Graph
from ....simulator.training.plan.file import TrainingPlan
from ..options import ExportOptions
from ..tree import File, json_text
from .uniform import ELSE, Uniform, uniform_layout

__all__ = ["SOURCE", "configuration", "deepspeed"]

SOURCE = "deepspeedai/DeepSpeed, docs/_pages/config-json.md, 00376da"
"""Where the keys are documented."""


def deepspeed(plan: TrainingPlan, graph: Graph, options: ExportOptions) -> dict[str, File]:
    """``ds_config.json``, and ``README.md`` with what DeepSpeed wants in code.

    Raises
    ------
    InputError
        If DeepSpeed cannot do what the plan says; names the first stage that stands in the way.
    """
    uniform = uniform_layout(plan, graph)
    return {
        "ds_config.json": File(json_text(configuration(plan, graph))),
        "README.md": File(_readme(plan, uniform)),
        "plan.json": File(plan.to_json()),
    }


def configuration(plan: TrainingPlan, graph: Graph) -> dict[str, Any]:
    """The configuration.

    Raises
    ------
    InputError
        As `deepspeed`.
    """
    uniform = uniform_layout(plan, graph)
    if uniform.pipeline > 1 and uniform.zero > 1:
        raise InputError(
            f"export: {len(plan.stages)} stages with weights as ZeRO stage {uniform.zero}: DeepSpeed's pipelines take "
            f"stages 0 and 1; {ELSE}, or plan with -o stages=one"
        )
    if uniform.pipeline > 1 and uniform.tensor > 1:
        raise InputError(
            f"export: stage 0 cuts tensors over {uniform.tensor} devices and the plan has {uniform.pipeline} stages: "
            "DeepSpeed leaves that to Megatron-LM; export it --to megatron"
        )
    if uniform.virtual > 1:
        raise InputError(
            f"export: stage {uniform.pipeline} shares a mesh with stage 0: DeepSpeed interleaves none; {ELSE}"
        )
    if uniform.tensor > 1 and uniform.zero > 2:
        raise InputError(f"export: stage 0: DeepSpeed's tensor parallelism goes with ZeRO stages 0 to 2, not 3; {ELSE}")
    if uniform.pipeline > 1 and plan.schedule != "1f1b":
        raise InputError(f"export: DeepSpeed's pipelines run 1f1b, not {plan.schedule}; {ELSE}")
    if plan.microbatch % uniform.data:
        raise InputError(
            f"export: a microbatch of {plan.microbatch} samples does not divide over {uniform.data} data-parallel "
            f"devices; {ELSE}"
        )
    if plan.model.optimizer == "adafactor":
        raise InputError(
            f"export: optimizer adafactor: DeepSpeed flattens weights, which have no rows and columns then; {ELSE}"
        )
    adam = plan.model.optimizer == "adam"
    devices = uniform.tensor * uniform.data * uniform.pipeline
    # DeepSpeed checks that the batch is micro batch x accumulation x world. Its world is all processes, unless code
    # says otherwise (a PipelineModule does, AutoTP does not). Of the three it works out the one that is missing.
    batch = {"train_batch_size": plan.global_batch} if devices == uniform.data else {}
    said: dict[str, Any] = batch | {
        "train_micro_batch_size_per_gpu": plan.microbatch // uniform.data,
        "gradient_accumulation_steps": plan.microbatches,
        "zero_optimization": {"stage": uniform.zero},
        "optimizer": {"type": "Adam" if adam else "SGD", "params": {"lr": 1e-4}},
    }
    if plan.model.optimizer == "momentum":
        said["optimizer"]["params"]["momentum"] = 0.9
    if not adam and uniform.zero:
        said["zero_allow_untested_optimizer"] = True
    if plan.model.dtype in ("float16", "bfloat16"):
        said["fp16" if plan.model.dtype == "float16" else "bf16"] = {"enabled": True}
    if uniform.tensor > 1:
        said["tensor_parallel"] = {"autotp_size": uniform.tensor}
    return said


def _readme(plan: TrainingPlan, uniform: Uniform) -> str:
    devices = uniform.tensor * uniform.data * uniform.pipeline
    nodes, per_node = _nodes(plan, devices)
    lines = [
        f"# {plan.model.name} with DeepSpeed",
        "",
        f"`ds_config.json` is for {devices} devices. Its keys are those of {SOURCE}.",
        "",
        f"    deepspeed --num_nodes {nodes} --num_gpus {per_node} your_program.py --deepspeed "
        "--deepspeed_config ds_config.json",
        "",
        f"A global batch is {plan.global_batch} samples: {plan.microbatch // uniform.data} in each of {uniform.data} "
        f"data-parallel groups, {plan.microbatches} times.",
        "",
    ]
    if devices != uniform.data:
        lines.append(
            "- `train_batch_size` is left out: DeepSpeed holds it against all processes, also those of one "
            "data-parallel group."
        )
    if uniform.pipeline > 1:
        lines.append(
            f"- Pipelines are said in code: `deepspeed.pipe.PipelineModule(layers=…, num_stages={uniform.pipeline})`; "
            f"the plan gives its stages {', '.join(map(str, uniform.layers))} layers."
        )
    if uniform.expert > 1:
        lines.append(f"- Experts are said in code: `deepspeed.moe.layer.MoE(…, ep_size={uniform.expert})`.")
    if uniform.recompute != "none":
        lines.append("- Recomputation is said in code: wrap each layer in `deepspeed.checkpointing.checkpoint`.")
    return "\n".join(lines) + "\n"


def _nodes(plan: TrainingPlan, devices: int) -> tuple[int, int]:
    """Nodes, and devices on each, as DeepSpeed's launcher takes them: the same number on every node.

    Raises
    ------
    InputError
        If the devices do not fill the nodes that they are on alike.
    """
    most = plan.cluster.devices_per_node
    nodes = -(-devices // most)
    if devices % nodes:
        raise InputError(
            f"export: {devices} devices on {nodes} nodes of {most}: DeepSpeed starts equally many on every node; {ELSE}"
        )
    return nodes, devices // nodes
