"""How torchrun starts a plan's processes: a line, and where a plan spans several clusters a script for each of them."""

from __future__ import annotations

from ....simulator.training.plan.file import TrainingPlan
from ..tree import File

__all__ = ["launch_files", "launch_line"]

SCRIPT = """\
#!/usr/bin/env bash
# Starts one node of cluster {number} ({cluster}): node {which} of {nodes}. Set NODE_RANK, and MASTER_ADDR to node 0's.
# `launch-{number}.sh train_torch.py …` starts that instead of train.py, with its arguments.
set -euo pipefail
cd "$(dirname "${{BASH_SOURCE[0]}}")"
exec torchrun --nnodes={nodes} --nproc-per-node={per_node} \\
  --node-rank="${{NODE_RANK:?the number of this node: {which}}}" \\
  --master-addr="${{MASTER_ADDR:?the address of node 0}}" --master-port="${{MASTER_PORT:-29500}}" \\
  "${{1:-train.py}}" "${{@:2}}"
"""


def launch_line(plan: TrainingPlan) -> str:
    """What starts the processes, before the name of the program."""
    if plan.further_clusters:
        return "NODE_RANK=K MASTER_ADDR=HOST bash launch-C.sh"
    devices = sum(m.hosts * m.devices for m in plan.meshes)
    line = f"torchrun --nproc-per-node {min(devices, plan.cluster.devices_per_node)}"
    if devices > plan.cluster.devices_per_node:
        line += f" --nnodes {devices // plan.cluster.devices_per_node} --node-rank K --master-addr HOST"
    return line


def launch_files(plan: TrainingPlan) -> dict[str, File]:
    """``launch-0.sh``, ``launch-1.sh``, … of a plan over several clusters: nodes are numbered through."""
    if not plan.further_clusters:
        return {}
    files: dict[str, File] = {}
    nodes, first = sum(c.nodes for c in plan.clusters), 0
    for number, cluster in enumerate(plan.clusters):
        last = first + cluster.nodes - 1
        text = SCRIPT.format(
            number=number, cluster=cluster, nodes=nodes, per_node=cluster.devices_per_node,
            which=f"{first}" if first == last else f"{first} to {last}",
        )  # fmt: skip
        files[f"launch-{number}.sh"] = File(text, executable=True)
        first = last + 1
    return files
