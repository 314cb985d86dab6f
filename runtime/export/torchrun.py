"""Launch scripts for Meshwright's own service: one torchrun per group and node, and the router."""

from __future__ import annotations

import shlex

from ... import __version__
from ...errors import InputError
from ...simulator.serving.plan.file import Plan
from ..listening import LOOPBACK
from ..service.layout import held_models, nodes_of
from .options import ExportOptions
from .tree import File, json_text

__all__ = ["torchrun"]

RENDEZVOUS = 1000
"""Port of a group's rendezvous, above the port that the group listens on."""

SCRIPT = """\
#!/usr/bin/env bash
# Node {node} of {nodes}: its share of every group{router}. Written by Meshwright {version}; env.sh holds the settings.
set -euo pipefail
cd "$(dirname "${{BASH_SOURCE[0]}}")"
source ./env.sh

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

ENVIRONMENT = """\
# Settings of the launch scripts; set them before, or edit them here.
: "${PYTHON:=python3}"              # an environment with Meshwright and its extras torch and serve
: "${BIND:=%s}"              # address that groups and router listen on; wider than loopback only with a token
# The token is the file `token` beside this one, the same on every node: (umask 077; openssl rand -hex 32 > token)
if [[ -e token ]]; then export MESHWRIGHT_TOKEN_FILE="${MESHWRIGHT_TOKEN_FILE:-$PWD/token}"; fi
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
%s"""

ON_LOOPBACK = 'export GLOO_SOCKET_IFNAME="${GLOO_SOCKET_IFNAME:-lo}"  # members of a group meet on this machine\n'

LAUNCH_ALL = """\
#!/usr/bin/env bash
# Starts every node over ssh: this folder must be at the same path on all of them. Ctrl-C stops them all.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
here=$(printf '%q' "$PWD")
node=0
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
while read -r host _; do
  ssh -tt -o BatchMode=yes "$host" "cd $here && ./launch-node-$node.sh" </dev/null &
  node=$((node + 1))
done <hosts.txt
wait -n
"""


def torchrun(plan: Plan, options: ExportOptions) -> dict[str, File]:
    """The scripts ``launch-node-K.sh``, their settings, the host list, and the router's configuration.

    Raises
    ------
    InputError
        If the hosts are not as many as the plan's nodes, a model cannot be built, or the plan carries no stage
        latencies for the router.
    """
    nodes = plan.cluster.nodes
    hosts = options.hosts or ((LOOPBACK,) if nodes == 1 else tuple(f"node-{k}" for k in range(nodes)))
    if len(hosts) != nodes:
        raise InputError(f"export: hosts: the plan has {nodes} nodes (got {len(hosts)} hosts)")
    plan.planned_profiles()
    for number in range(len(plan.groups)):
        held_models(plan, number)
    kind = options.kind(plan)
    commands: list[list[str]] = [[] for _ in range(nodes)]
    backends = []
    for number, group in enumerate(plan.groups):
        places = nodes_of(plan, group)
        first = next(iter(places))
        port = options.port + 1 + number
        backends.append(f"http://{hosts[first]}:{port}")
        if not group.models:  # nothing to start; the router never sends it anything
            continue
        for turn, (node, devices) in enumerate(places.items()):
            launch = [
                *("-m", "torch.distributed.run", f"--nnodes={len(places)}", f"--node-rank={turn}"),
                *(f"--nproc-per-node={len(devices)}", f"--master-addr={hosts[first]}"),
                *(f"--master-port={port + RENDEZVOUS}", "-m", "meshwright.runtime.service.group"),
                *("--plan", "plan.json", "--group", str(number), "--port", str(port), "--device", kind),
            ]
            visible = f"CUDA_VISIBLE_DEVICES={','.join(map(str, devices))} " if kind == "cuda" else ""
            commands[node].append(_start(f"group {number}: {group.config}", visible, launch))
    route = ["-m", "meshwright.runtime.service.router", "--plan", "plan.json", "--config", "router.json"]
    commands[0].append(_start("router", "", [*route, "--port", str(options.port)]))
    files = {
        f"launch-node-{node}.sh": File(
            SCRIPT.format(
                node=node, nodes=nodes, router=", and the router" if node == 0 else "", version=__version__,
                commands="".join(commands[node]) or "\nsleep infinity &\nchildren+=($!)\n",
            ),
            executable=True,
        )
        for node in range(nodes)
    }  # fmt: skip
    if nodes > 1:
        files["launch-all.sh"] = File(LAUNCH_ALL, executable=True)
    slots = plan.cluster.devices_per_node
    return {
        **files,
        "env.sh": File(ENVIRONMENT % ((LOOPBACK, ON_LOOPBACK) if hosts == (LOOPBACK,) else ("0.0.0.0", ""))),
        "hosts.txt": File("".join(f"{host} slots={slots}\n" for host in hosts)),
        "plan.json": File(plan.to_json()),
        "router.json": File(json_text({"backends": backends})),
    }


def _start(comment: str, environment: str, arguments: list[str]) -> str:
    return f'\n# {comment}\n{environment}"$PYTHON" {shlex.join(arguments)} --host "$BIND" &\nchildren+=($!)\n'
