"""The case that an LLM plan was made for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from ....errors import InputError
from ....simulator.llm import LLMPlan
from ....simulator.plan.file import PlanFile
from ....traces.lengths import LENGTHS
from ...door import DoorName

__all__ = ["case_of"]


def case_of(plans: Mapping[str, PlanFile], said: Mapping[str, Any], door: DoorName) -> Mapping[str, Any]:
    """Models, limits, cluster; the traffic that was planned for, where no trace and no rate of one's own is said.

    Raises
    ------
    InputError
        If traffic is neither said nor in the plan, and is to be simulated; a real run takes requests at once then.
    """
    if not plans:
        return {"cluster": {"devices": 1, "device": "cpu-core"}}
    plan = cast(LLMPlan, next(iter(plans.values())))
    names = [model.name for model in plan.models]
    cluster = plan.cluster_spec
    workload = {} if "workload.trace" in said else _traffic(plan, said, door)
    for limit in ("ttft", "tpot"):
        values = {getattr(model, f"slo_{limit}_s") for model in plan.models}
        value = values.pop() if len(values) == 1 else None
        if value is not None:
            workload[f"slo_{limit}"] = value
    seed = {"seed": plan.planner.seed} if door == "simulate" and plan.planner.seed is not None else {}
    return {
        **seed,
        "model": names[0] if len(names) == 1 else names,
        "cluster": {
            "devices": cluster.n_devices, "devices_per_node": cluster.devices_per_node,
            "device": plan.cluster.device.name,
        },
        "workload": workload,
    }  # fmt: skip


def _traffic(plan: LLMPlan, said: Mapping[str, Any], door: DoorName) -> dict[str, Any]:
    """What a plan says of the requests that it was made for; at the rate that it was made for, also how many."""
    planned = plan.workload
    workload: dict[str, Any] = {}
    if planned is not None and "workload.lengths" not in said:
        lengths, cv = _drawn(planned.source)
        if lengths:
            workload["lengths"] = lengths
        elif door == "simulate":
            raise InputError(f"workload.lengths: the plan was made for {planned.source}; give --lengths, or a --trace")
        if cv is not None and "workload.cv" not in said:
            workload["cv"] = cv
    if "workload.rate" in said:
        return workload
    if planned is None or not planned.rate_per_s:
        if door == "simulate":
            raise InputError("workload.rate: how many requests per second? Give --rate, or a --trace")
        return workload
    workload["rate"] = sum(planned.rate_per_s.values())
    if len(plan.models) > 1 and "workload.split" not in said:
        workload["split"] = {model.name: planned.rate_per_s.get(model.name, 0.0) for model in plan.models}
    if door == "simulate" and not {"workload.requests", "workload.duration"} & said.keys():
        workload["requests"] = planned.requests
    return workload


def _drawn(source: str) -> tuple[str, float | None]:
    """Shipped lengths and CV of the traffic that a plan's words tell of (`DrawnTraffic.source`); empty of others."""
    name = next((name for name, lengths in LENGTHS.items() if source.startswith(f"{lengths.name} lengths,")), "")
    bursty = re.search(r"Gamma \(CV ([^)]+)\)", source)
    return name, float(bursty[1]) if name and bursty else None
