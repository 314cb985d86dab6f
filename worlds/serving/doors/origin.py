"""The case that a placement was made for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ....simulator import Plan
from ....simulator.plan.file import PlanFile
from ...carried import carried
from ...door import DoorName

__all__ = ["case_of"]

REAL_S: Mapping[DoorName, float] = {"run": 30.0, "compare": 20.0, "measure": 20.0}
"""Seconds of drawn traffic where nobody says how long and somebody waits: of comparing, for each cell; of measuring,
for each round."""

MEASURED = ("cpu-bert-s", "cpu-gpt-s", "cpu-moe-s")
"""Models that are measured where nobody says any: shipped, and small enough for a core."""

TRAFFIC = ("seed", "warmup", "workload")
"""What counts of a plan's case: the cluster, the models and their costs stand in the plan itself."""

LIMITS = ("workload.slo", "workload.slo_scale", "workload.slo_device")
"""What a plan for drawn traffic holds as seconds for each model."""

DRAWN = ("workload.rate", "workload.cv", "workload.duration", "workload.split")
READ = ("workload.trace", "workload.resample", "workload.window")
AGAINST = {
    "workload.trace": (*DRAWN, *LIMITS),
    **dict.fromkeys(DRAWN, READ),
    **dict.fromkeys(LIMITS, LIMITS),
}
"""Traffic is drawn or read: what is said of the one leaves out what a plan's case says of the other."""


def case_of(plans: Mapping[str, PlanFile], said: Mapping[str, Any], door: DoorName) -> Mapping[str, Any]:
    """Cluster and models of the first plan, and the traffic that it was made for, but for what is said now.

    SLOs are the plan's where nobody says any. A real run is as long as somebody waits, and of drawn traffic. Without a
    plan: what is measured.
    """
    if not plans:
        return {"cluster": {"devices": 1, "device": "cpu-core"}, "models": MEASURED, "workload": {"rate": 1.0}}
    plan = cast(Plan, next(iter(plans.values())))
    real = door in REAL_S
    read = not real and "trace" in cast("Mapping[str, Any]", plan.case.get("workload", {}))
    traffic = carried(plan.case, TRAFFIC, said, AGAINST, () if read else (*LIMITS, *READ))
    if real and "workload.trace" not in said:
        traffic["workload"] = {**traffic.get("workload", {}), "duration": REAL_S[door]}
    cluster = plan.cluster_spec
    return {
        **traffic,
        "cluster": {
            "devices": cluster.n_devices, "devices_per_node": cluster.devices_per_node,
            "device": plan.cluster.device.name,
        },
        "models": [model.name for model in plan.models],
    }  # fmt: skip
