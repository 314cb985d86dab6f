"""A scheduler extender for kube-scheduler that runs the policy itself: a stub, whose README says what it lacks."""

from __future__ import annotations

from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from ....errors import InputError
from ....simulator.sharing import BASELINES, Policy, SharingWorld
from ....simulator.sharing.policy.baselines import SHIPPED
from ...listening import LOOPBACK
from ..tree import File, json_text, yaml_text

__all__ = ["KNOBS", "plugin"]

SCHEDULER, PORT = "meshwright-sharing", 8888
GPU = "nvidia.com/gpu"
KNOBS = ("fairness", "payments", "rounding", "visibility", "leftovers", "seed")
"""What the auction is given; the others are given where GPUs come from, `placement`, and the seed of its lots."""


def plugin(world: SharingWorld, policy: Policy) -> dict[str, File]:
    """The extender, what it is told of cluster and policy, and the scheduler's configuration.

    Raises
    ------
    InputError
        If the policy is neither Themis' nor one of the baselines: the extender makes it by its name.
    """
    if policy.name != "themis" and policy.name not in BASELINES:
        raise InputError(f"export: the extender makes policies by name, and {policy.name!r} is none of ours")
    options: dict[str, Any] = {}
    if policy.name == "themis" and is_dataclass(policy) and not isinstance(policy, type):
        options = {name: value for name, value in asdict(policy).items() if name in KNOBS}
    if isinstance(policy, SHIPPED):
        options = {"placement": policy.chooser.placement, "seed": policy.chooser.seed}
    machines = [
        {"node": f"machine-{number}", "slots": m.slots, "gpus_per_slot": m.gpus_per_slot, "rack": m.rack}
        for number, m in enumerate(world.cluster.machines)
    ]
    about = {
        "policy": policy.name, "options": options, "lease_s": world.lease_s, "lease_ends": world.lease_ends,
        "machines": machines, "port": PORT,
    }  # fmt: skip
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": SCHEDULER}],
        "extenders": [
            {
                # In the scheduler's own pod: kube-scheduler can send no token, so nobody else may get there.
                "urlPrefix": f"http://{LOOPBACK}:{PORT}",
                "filterVerb": "filter",
                "nodeCacheCapable": True,  # it is sent names of nodes, and not the nodes
                "ignorable": False,  # without the arbiter nobody gets GPUs
                "httpTimeout": "10s",
                "managedResources": [{"name": GPU, "ignoredByScheduler": False}],
            }
        ],
    }
    text = (Path(__file__).parent / "extender.py.txt").read_text(encoding="utf-8")
    return {
        "extender.py": File(text),
        "arbiter.json": File(json_text(about)),
        "scheduler.yaml": File(yaml_text(configuration)),
    }
