"""The case that a placement was made for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ....simulator import Plan
from ....simulator.plan.file import PlanFile

__all__ = ["case_of"]


def case_of(plans: Mapping[str, PlanFile], said: Mapping[str, Any]) -> Mapping[str, Any]:
    """Cluster and models of the first plan; traffic is said each time, SLOs are the plan's where nobody says any."""
    plan = cast(Plan, next(iter(plans.values())))
    cluster = plan.cluster_spec
    return {
        "cluster": {
            "devices": cluster.n_devices, "devices_per_node": cluster.devices_per_node,
            "device": plan.cluster.device.name,
        },
        "models": [model.name for model in plan.models],
    }  # fmt: skip
