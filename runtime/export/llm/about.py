"""What every export of an LLM plan says beside the commands: sources of weights, KV memory by its formula, notes."""

from __future__ import annotations

import shlex

from ....errors import InfeasibleError, InputError
from ....profiles.llm.engine_memory import other_bytes
from ....simulator.llm.plan.entries import Deployment
from ....simulator.llm.plan.file import LLMPlan
from ....simulator.llm.policy.vllm_v1.state import V1Config
from ..options import ExportOptions
from .arguments import CHECKPOINTS, VLLM_VERSION, Server

__all__ = ["IMAGE", "capacity_text", "checked", "sources"]

IMAGE = f"vllm/vllm-openai:v{VLLM_VERSION}"


def checked(plan: LLMPlan, options: ExportOptions) -> None:
    """What no export of an LLM plan can do.

    Raises
    ------
    InputError
        If devices are not GPUs.
    """
    kind = options.device
    if kind == "auto":
        kind = "cpu" if plan.cluster.device.name.startswith("cpu") else "cuda"
    if kind != "cuda":
        raise InputError(
            f"export: the plan is for {plan.cluster.device.name!r} devices, vLLM's servers want GPUs; say --device "
            "cuda if they are, or run the plan on this machine: meshwright run PLAN"
        )


def sources(plan: LLMPlan, options: ExportOptions) -> dict[str, str]:
    """Model -> Hugging Face name or folder of its weights; ``/models/NAME`` where nobody says.

    Raises
    ------
    InputError
        If a source is given for no model of the plan, or reads like an option.
    """
    names = [model.name for model in plan.models]
    by_lower = {name.lower(): name for name in names}  # as `meshwright plan llm --model` takes them, in any case
    given: dict[str, str] = {}
    for asked, source in options.model_source.items():
        name = asked if asked in names else by_lower.get(asked.lower())
        if name is None:
            raise InputError(f"export: model_source: the plan has no model {asked!r}; it serves {', '.join(names)}")
        if name in given:
            raise InputError(f"export: model_source: model {name!r} has two sources; give one")
        given[name] = source
    found = {model.name: given.get(model.name, f"/models/{model.spec.name}") for model in plan.models}
    for name, source in found.items():
        if not source or source.startswith("-"):
            raise InputError(
                f"export: model {name!r}: {source!r} is no source of weights; say --model-source "
                f"{shlex.quote(name + '=NAME-OR-FOLDER')}"
            )
    return found


def capacity_text(plan: LLMPlan, servers: tuple[Server, ...]) -> str:
    """KV memory of every deployment by vLLM's formula, beside the blocks that the plan asks for, and what to know."""
    lines = [
        "KV memory of one rank:",
        "  blocks = (memory x gpu_memory_utilization - weights - other) // bytes of a block",
        "  bytes of a block = 2 x layers of the rank x block_size x max(1, KV heads / tp) x head size x bytes each",
        "  tokens of an engine = (blocks - 1) x block_size x decode context parallelism: block 0 is vLLM's null block",
        "`other` is what vLLM measures in a trial step: its runtime, and the peak of activations or logits.",
        "Servers are started with --num-gpu-blocks-override, so that they have what the plan has, not what they find.",
        "",
    ]
    for deployment in plan.deployments:
        mine = [s for s in servers if s.deployment is deployment]
        lines += [f"{deployment.name} ({deployment.model}; {len(mine)} x {deployment.devices_per_engine} devices):"]
        lines += [f"  {line}" for line in _capacity(plan, deployment)]
    notes = _notes(plan)
    return "\n".join([*lines, *(["", "To know:", *notes] if notes else [])]) + "\n"


def _capacity(plan: LLMPlan, deployment: Deployment) -> list[str]:
    options = deployment.options
    tokens = (deployment.num_blocks - 1) * deployment.block_size * deployment.cp
    asked = f"asked for: {deployment.num_blocks} blocks = {tokens} tokens"
    spec = plan.model(deployment.model).spec
    if not deployment.other_bytes and isinstance(options, V1Config):  # a plan by hand
        quantised = deployment.precision not in ("bf16", "bfloat16", "fp16", "float16")
        other = other_bytes(
            spec, deployment.tp, options.max_num_batched_tokens, options.max_num_seqs, bf16_ends=quantised
        )
        deployment = deployment.model_copy(update={"other_bytes": other})
    try:
        found = plan.capacity(deployment)
    except InfeasibleError as error:
        return [asked, f"does not fit by the formula: {error}"]
    except InputError as error:
        return [asked, f"not known by the formula: {error}"]
    short = [] if found.num_blocks >= deployment.num_blocks else [
        f"fewer than asked for: the server may run out of memory; lower num_blocks to {found.num_blocks}"
    ]  # fmt: skip
    return [found.explain(), asked, *short]


def _notes(plan: LLMPlan) -> list[str]:
    notes: list[str] = []
    for each in plan.deployments:
        if each.precision in CHECKPOINTS:
            notes.append(f"- {each.name}: the checkpoint must be {each.precision} already; vLLM reads that from it.")
        if each.policy != "vllm-v1":
            notes.append(f"- {each.name}: {each.policy} is approximated by vLLM's own scheduler with the same budgets.")
    if any(each.role != "both" for each in plan.deployments):
        notes.append(
            "- Prefill and decode are apart: requests must go through a proxy that asks a prefill server for one token "
            "and hands the answer's kv_transfer_params to a decode server (vLLM's documentation of disaggregated "
            "prefilling has one). nginx cannot; endpoints.json lists both kinds."
        )
    return notes
