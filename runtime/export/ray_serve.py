"""A Ray Serve config: one deployment per kind of group, replicas for equal groups, and an ingress that routes."""

from __future__ import annotations

from typing import Any

from ...errors import InputError
from ...simulator.serving.plan.file import GroupEntry, Plan
from ..listening import LOOPBACK, TOKEN_VARIABLE
from ..service.layout import deployment_name, equal_groups, held_models, nodes_of
from .options import ExportOptions
from .tree import File, yaml_text

__all__ = ["ray_serve"]

NOTE = f"""\
# To listen wider than loopback set both `host`s, and {TOKEN_VARIABLE} in the environment of `ray start` on every node:
# requests then have to carry it as `Authorization: Bearer TOKEN`.
"""

APP = '''\
"""The application that serve-config.yaml imports: `build` gets the plan from the config's ``args``."""

from meshwright.runtime.service.ray_app import build

__all__ = ["build"]
'''


def ray_serve(plan: Plan, options: ExportOptions) -> dict[str, File]:
    """``serve-config.yaml``, ``meshwright_app.py`` that it imports, and the plan.

    Groups with the same configuration, models and partition become replicas of one deployment; each replica of a group
    of several devices gets a placement group with a bundle per device.

    Raises
    ------
    InputError
        If a model cannot be built.
    """
    for number in range(len(plan.groups)):
        held_models(plan, number)
    kinds = equal_groups(plan)
    kind = options.kind(plan)
    deployments = [_deployment(plan, numbers, kind) for numbers in kinds]
    if not deployments:
        raise InputError("export: no group of the plan holds a model; there is nothing to serve")
    config = {
        "proxy_location": "HeadOnly",
        "http_options": {"host": LOOPBACK, "port": options.port},
        "applications": [
            {
                "name": "meshwright",
                "route_prefix": "/",
                "import_path": "meshwright_app:build",
                "args": {"plan": plan.to_json(), "device": kind, "host": LOOPBACK},
                "deployments": [
                    {"name": "ingress", "num_replicas": 1, "ray_actor_options": {"num_cpus": 1}},
                    *deployments,
                ],
            }
        ],
    }
    return {
        "serve-config.yaml": File(NOTE + yaml_text(config)),
        "meshwright_app.py": File(APP),
        "plan.json": File(plan.to_json()),
    }


def _deployment(plan: Plan, numbers: list[int], kind: str) -> dict[str, Any]:
    group = plan.groups[numbers[0]]
    gpus = 1 if kind == "cuda" else 0
    entry: dict[str, Any] = {
        "name": deployment_name(numbers[0]),
        "num_replicas": len(numbers),
        "max_ongoing_requests": 1000,  # a group queues its requests itself
        "ray_actor_options": {"num_cpus": 1, "num_gpus": gpus},
    }
    if len(group.devices) > 1:
        bundle = {"CPU": 1.0, "GPU": 1.0} if gpus else {"CPU": 1.0}
        entry["placement_group_bundles"] = [dict(bundle) for _ in group.devices]
        entry["placement_group_strategy"] = _strategy(plan, group)
    return entry


def _strategy(plan: Plan, group: GroupEntry) -> str:
    return "STRICT_PACK" if len(nodes_of(plan, group)) == 1 else "PACK"
