"""vLLM: a ``vllm serve`` per model and group, as a script and as a docker-compose file per node."""

from __future__ import annotations

import shlex
from typing import Any

from ...errors import InputError
from ...kernels.specs import SPECS
from ...simulator.serving.plan.file import GroupEntry, Plan
from ..service.layout import nodes_of
from .names import dns_names
from .options import ExportOptions
from .tree import File, json_text, yaml_text

__all__ = ["vllm"]

IMAGE = "vllm/vllm-openai:v0.8.5"
MEMORY = 0.9
"""Share of a GPU's memory that all models of a group may take together: vLLM's own default for one."""

SCRIPT = """\
#!/usr/bin/env bash
# Starts the vLLM servers of node {node}; endpoints.json says who serves what.
set -euo pipefail
# The servers listen on every address: clients send this key as their bearer token.
: "${{VLLM_API_KEY:?a key of your own, see: openssl rand -hex 32}}"
export VLLM_API_KEY
children=()
stop() {{
  trap - EXIT
  kill "${{children[@]}}" 2>/dev/null || true
  wait
}}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
{commands}
wait -n "${{children[@]}}"  # one that ends takes the others with it
"""


def vllm(plan: Plan, options: ExportOptions) -> dict[str, File]:
    """``node-K/serve.sh``, ``node-K/docker-compose.yaml``, and ``endpoints.json``: model -> where it is served.

    Models of one group share its GPUs; each server gets memory in proportion to its model's weights.

    Raises
    ------
    InputError
        If a model is no decoder, its weights' source is not known, a group spans nodes, or devices are not GPUs.
    """
    if options.kind(plan) != "cuda":
        raise InputError(
            f"export: the plan is for {plan.cluster.device.name!r} devices, vLLM's servers want GPUs; export to "
            "torchrun, or say --device cuda"
        )
    sources = _sources(plan, options)
    names = dns_names(plan.placement.models)
    hosts = options.hosts or tuple(f"node-{k}" for k in range(plan.cluster.nodes))
    if len(hosts) != plan.cluster.nodes:
        raise InputError(f"export: hosts: the plan has {plan.cluster.nodes} nodes (got {len(hosts)} hosts)")
    commands: dict[int, list[str]] = {}
    services: dict[int, dict[str, Any]] = {}
    endpoints: dict[str, list[str]] = {}
    port = options.port
    for number, group in enumerate(plan.groups):
        places = nodes_of(plan, group)
        if len(places) > 1 and group.models:
            raise InputError(
                f"export: groups[{number}] spans nodes {', '.join(map(str, places))}; the vllm target starts a server "
                "on one node: plan groups that fit in a node, or export to k8s or torchrun"
            )
        ((node, devices),) = list(places.items())[:1]
        shares = _memory_shares(plan, group)
        for model in group.models:
            arguments = _arguments(group, model, sources[model], shares[model], port)
            commands.setdefault(node, []).append(_command(number, devices, arguments))
            service = _service(options, devices, arguments, port)
            services.setdefault(node, {})[f"group-{number}-{names[model]}"] = service
            endpoints.setdefault(model, []).append(f"http://{hosts[node]}:{port}/v1")
            port += 1
    files = {"plan.json": File(plan.to_json()), "endpoints.json": File(json_text(endpoints))}
    for node in commands:
        script = SCRIPT.format(node=node, commands="".join(commands[node]))
        files[f"node-{node}/serve.sh"] = File(script, executable=True)
        files[f"node-{node}/docker-compose.yaml"] = File(yaml_text({"services": services[node]}))
    return files


def _sources(plan: Plan, options: ExportOptions) -> dict[str, str]:
    """Model -> Hugging Face name or folder of its weights."""
    foreign = [name for name in options.model_source if name not in {m.name for m in plan.models}]
    if foreign:
        raise InputError(f"export: model_source: the plan has no model {foreign[0]!r}")
    sources = {}
    for model in plan.models:
        spec = SPECS.get(model.architecture)
        if spec is not None and spec.family == "bert":
            raise InputError(
                f"export: model {model.name!r} is an encoder ({model.architecture}); vLLM generates tokens with "
                "decoders: export to triton, ray-serve, k8s or torchrun"
            )
        source = options.model_source.get(model.name, f"/models/{model.architecture}" if spec else "")
        if not source or source.startswith("-"):
            raise InputError(
                f"export: model {model.name!r}: no source of its weights (architecture {model.architecture!r}); say "
                f"--model-source {shlex.quote(model.name + '=NAME-OR-FOLDER')}"
            )
        sources[model.name] = source
    return sources


def _memory_shares(plan: Plan, group: GroupEntry) -> dict[str, float]:
    """Model -> share of the group's GPU memory, by weights; equal where the plan does not know them."""
    entries = {m.name: m.stages.get(str(group.config)) for m in plan.models}
    weights = {name: max(stage.weight_bytes) if (stage := entries[name]) else 0.0 for name in group.models}
    if not all(weights.values()):
        weights = dict.fromkeys(group.models, 1.0)
    total = sum(weights.values())
    return {name: int(1000 * MEMORY * weight / total) / 1000 for name, weight in weights.items()}


def _arguments(group: GroupEntry, model: str, source: str, share: float, port: int) -> list[str]:
    return [
        source,
        f"--served-model-name={model}",
        "--host=0.0.0.0",
        f"--port={port}",
        f"--tensor-parallel-size={group.op}",
        f"--pipeline-parallel-size={group.pp}",
        f"--gpu-memory-utilization={share}",
    ]


def _command(number: int, devices: list[int], arguments: list[str]) -> str:
    visible = ",".join(map(str, devices))
    return f"\n# group {number}\nCUDA_VISIBLE_DEVICES={visible} vllm serve {shlex.join(arguments)} &\nchildren+=($!)\n"


def _service(options: ExportOptions, devices: list[int], arguments: list[str], port: int) -> dict[str, Any]:
    reserved = {"driver": "nvidia", "device_ids": [str(d) for d in devices], "capabilities": ["gpu"]}
    return {
        "image": options.image or IMAGE,
        "command": [argument.replace("$", "$$") for argument in arguments],  # compose would put variables in
        "environment": {"VLLM_API_KEY": "${VLLM_API_KEY:?clients send it as their bearer token}"},
        "ports": [f"{port}:{port}"],
        "ipc": "host",
        "volumes": ["/models:/models:ro"],
        "restart": "on-failure",
        "deploy": {"resources": {"reservations": {"devices": [reserved]}}},
    }
