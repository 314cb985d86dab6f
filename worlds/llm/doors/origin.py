"""The case that an LLM plan was made for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ....errors import InputError
from ....simulator.llm import LLMPlan
from ....simulator.plan.file import PlanFile
from ...door import DoorName

__all__ = ["case_of"]


def case_of(plans: Mapping[str, PlanFile], said: Mapping[str, Any], door: DoorName) -> Mapping[str, Any]:
    """Models, limits, cluster; the planned rate of each model where neither rate nor trace is said.

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
    workload: dict[str, Any] = {}
    rates = plan.workload.rate_per_s if plan.workload is not None else {}
    if "workload.trace" not in said and "workload.rate" not in said:
        if rates:
            workload["rate"] = sum(rates.values())
        elif door == "simulate":
            raise InputError("workload.rate: how many requests per second? Give --rate, or a --trace")
        if rates and len(names) > 1 and "workload.split" not in said:
            workload["split"] = {name: rates.get(name, 0.0) for name in names}
    for limit in ("ttft", "tpot"):
        values = {getattr(model, f"slo_{limit}_s") for model in plan.models}
        value = values.pop() if len(values) == 1 else None
        if value is not None:
            workload[f"slo_{limit}"] = value
    return {
        "model": names[0] if len(names) == 1 else names,
        "cluster": {
            "devices": cluster.n_devices, "devices_per_node": cluster.devices_per_node,
            "device": plan.cluster.device.name,
        },
        "workload": workload,
    }  # fmt: skip
