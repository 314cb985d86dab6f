"""Scripts and docker-compose files per node, with nginx before the servers."""

from __future__ import annotations

import shlex
from typing import Any

from ....errors import InputError
from ....simulator.llm.plan.file import LLMPlan
from ...listening import LOOPBACK
from ..names import dns_names
from ..options import ExportOptions
from ..tree import File, json_text, yaml_text
from .about import IMAGE, capacity_text, checked, sources
from .arguments import Server, arguments, servers, spread
from .routing import nginx, weight

__all__ = ["client_ports", "scripts"]

SCRIPT = """\
#!/usr/bin/env bash
# Starts the vLLM servers of node {node}; endpoints.json says who serves what, nginx.conf spreads requests.
set -euo pipefail
{key}children=()
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
KEY = """\
# The servers listen on every address: clients send this key as their bearer token.
: "${VLLM_API_KEY:?a key of your own, see: openssl rand -hex 32}"
export VLLM_API_KEY
"""
TOGETHER, SIDE_CHANNEL = 1000, 2000
"""Added to a server's port: where its processes on several nodes meet, and where KV transfers are arranged."""


def client_ports(plan: LLMPlan, port: int) -> dict[str, int]:
    """Model -> port that clients call."""
    return {model.name: port + k for k, model in enumerate(plan.models)}


def scripts(plan: LLMPlan, options: ExportOptions) -> dict[str, File]:
    """``node-K/serve.sh``, ``node-K/docker-compose.yaml``, ``nginx.conf``, ``endpoints.json``, ``capacity.txt``.

    Raises
    ------
    InputError
        If devices are not GPUs, a host is missing, or vLLM or nginx cannot do what the plan says.
    """
    checked(plan, options)
    found = sources(plan, options)
    nodes = plan.mixed.nodes
    hosts = options.hosts or ((LOOPBACK,) if nodes == 1 else tuple(f"node-{k}" for k in range(nodes)))
    if len(hosts) != nodes:
        raise InputError(f"export: hosts: the plan has {nodes} nodes (got {len(hosts)} hosts)")
    inside = all(host == LOOPBACK for host in hosts)  # then nobody else gets there, and no key is asked for
    clients = client_ports(plan, options.port)
    engines = servers(plan, options.port + len(clients))
    commands: dict[int, list[str]] = {}
    services: dict[int, dict[str, Any]] = {}
    names = dns_names([server.name for server in engines])
    for server in engines:
        said = arguments(plan, server, found[server.deployment.model], host=LOOPBACK if inside else "0.0.0.0")
        more = spread(server, hosts[server.node], server.port + TOGETHER)
        for (node, devices), extra in zip(server.nodes.items(), more, strict=True):
            variables = _variables(server, hosts[node], devices)
            commands.setdefault(node, []).append(_command(server, variables, [*said, *extra]))
            service = _service(options, devices, variables, [*said, *extra], keyed=not inside)
            services.setdefault(node, {})[names[server.name]] = service
    files = {
        "plan.json": File(plan.to_json()),
        "endpoints.json": File(json_text(_endpoints(plan, engines, hosts, clients))),
        "capacity.txt": File(capacity_text(plan, engines)),
    }
    routed = [
        (name, clients[model], addresses)
        for model, name in dns_names(clients).items()
        if (addresses := [f"{hosts[s.node]}:{s.port}{weight(plan, s)}" for s in engines if _whole(s, model)])
    ]
    if routed:
        files["nginx.conf"] = File(nginx(plan.router, routed, LOOPBACK if inside else ""))
        first = services.setdefault(0, {})
        first["router"] = {
            "image": "nginx:1.29",
            "network_mode": "host",
            "volumes": ["../nginx.conf:/etc/nginx/nginx.conf:ro"],
            "restart": "unless-stopped",
        }
    for node, listed in services.items():
        files[f"node-{node}/docker-compose.yaml"] = File(yaml_text({"services": listed}))
        script = SCRIPT.format(node=node, key="" if inside else KEY, commands="".join(commands.get(node, [])))
        if node in commands:
            files[f"node-{node}/serve.sh"] = File(script, executable=True)
    return files


def _whole(server: Server, model: str) -> bool:
    return server.deployment.model == model and server.deployment.role == "both"


def _variables(server: Server, host: str, devices: tuple[int, ...]) -> dict[str, str]:
    said = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, devices))}
    if server.deployment.role != "both":
        said |= {"VLLM_NIXL_SIDE_CHANNEL_HOST": host, "VLLM_NIXL_SIDE_CHANNEL_PORT": str(server.port + SIDE_CHANNEL)}
    return said


def _command(server: Server, variables: dict[str, str], said: list[str]) -> str:
    before = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
    name = server.name.replace("\n", " ")
    return f"\n# {name}\n{before} vllm serve \\\n  {_folded(said)} &\nchildren+=($!)\n"


def _folded(said: list[str]) -> str:
    return " \\\n  ".join(shlex.quote(argument) for argument in said)


def _service(
    options: ExportOptions, devices: tuple[int, ...], variables: dict[str, str], said: list[str], *, keyed: bool
) -> dict[str, Any]:
    reserved = {"driver": "nvidia", "device_ids": [str(d) for d in devices], "capabilities": ["gpu"]}
    rest = {n: v.replace("$", "$$") for n, v in variables.items() if n != "CUDA_VISIBLE_DEVICES"}
    if keyed:
        rest["VLLM_API_KEY"] = "${VLLM_API_KEY:?clients send it as their bearer token}"
    return {
        "image": options.image or IMAGE,
        "command": [argument.replace("$", "$$") for argument in said],  # compose would put variables in
        **({"environment": rest} if rest else {}),
        "network_mode": "host",
        "ipc": "host",
        "volumes": ["/models:/models:ro"],
        "restart": "on-failure",
        "deploy": {"resources": {"reservations": {"devices": [reserved]}}},
    }


def _endpoints(
    plan: LLMPlan, engines: tuple[Server, ...], hosts: tuple[str, ...], clients: dict[str, int]
) -> dict[str, Any]:
    said: dict[str, Any] = {}
    for model in plan.models:
        mine = [s for s in engines if s.deployment.model == model.name]
        roles = {
            role: [f"http://{hosts[s.node]}:{s.port}/v1" for s in mine if s.deployment.role == role]
            for role in ("both", "prefill", "decode")
        }
        said[model.name] = {
            **({"clients": f"http://{hosts[0]}:{clients[model.name]}/v1"} if roles["both"] else {}),
            **{"servers" if role == "both" else role: urls for role, urls in roles.items() if urls},
        }
    return said
