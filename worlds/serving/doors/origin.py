"""The case that a placement was made for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ....simulator import Plan
from ....simulator.plan.file import PlanFile
from ...door import DoorName

__all__ = ["case_of"]

REAL_S: Mapping[DoorName, float] = {"run": 30.0, "compare": 20.0}
"""Seconds of drawn traffic where nobody says how long and somebody waits: of comparing, for each cell."""

MEASURED = ("cpu-bert-s", "cpu-gpt-s", "cpu-moe-s")
"""Models that are measured where nobody says any: shipped, and small enough for a core."""


def case_of(plans: Mapping[str, PlanFile], said: Mapping[str, Any], door: DoorName) -> Mapping[str, Any]:
    """Cluster and models of the first plan; traffic is said each time, SLOs are the plan's where nobody says any.

    Without a plan: what is measured.
    """
    if not plans:
        return {"cluster": {"devices": 1, "device": "cpu-core"}, "models": MEASURED, "workload": {"rate": 1.0}}
    plan = cast(Plan, next(iter(plans.values())))
    cluster = plan.cluster_spec
    drawn = {} if "workload.trace" in said or door not in REAL_S else {"workload": {"duration": REAL_S[door]}}
    return {
        **drawn,
        "cluster": {
            "devices": cluster.n_devices, "devices_per_node": cluster.devices_per_node,
            "device": plan.cluster.device.name,
        },
        "models": [model.name for model in plan.models],
    }  # fmt: skip
