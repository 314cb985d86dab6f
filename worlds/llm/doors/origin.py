"""The case that an LLM plan was made for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ....errors import InputError
from ....profiles.devices import DEVICES
from ....profiles.llm.experts import SKEW
from ....simulator.llm import LLMPlan
from ....simulator.plan.file import PlanFile
from ...carried import carried
from ...door import DoorName

__all__ = ["case_of"]

TRAFFIC = ("seed", "warmup", "kernels", "workload")
"""What counts of a plan's case: the cluster, the models and their limits stand in the plan itself."""

LIMITS = ("workload.slo_ttft", "workload.slo_tpot", "workload.slo", "workload.slo_scale")
"""What a plan holds for each model, scaled."""
REQUESTS = ("workload.images", "workload.expert_skew")
"""What a plan holds for each model of its requests."""

DRAWN = (
    "workload.rate", "workload.cv", "workload.requests", "workload.duration", "workload.split", "workload.lengths",
    "workload.classes",
)  # fmt: skip
RATELESS = ("at_once", "closed")
AGAINST = {
    "workload.trace": DRAWN, **dict.fromkeys(DRAWN, ("workload.trace",)),
    "workload.requests": ("workload.trace", "workload.duration"),
    "workload.duration": ("workload.trace", "workload.requests"),
}  # fmt: skip
"""Traffic is drawn or read: what is said of the one leaves out what a plan's case says of the other."""


def case_of(plans: Mapping[str, PlanFile], said: Mapping[str, Any], door: DoorName) -> Mapping[str, Any]:
    """Models and cluster of the first plan, and the traffic that it was made for, but for what is said now.

    A real run takes as many requests as somebody waits for, with weights and lengths of its own.

    Raises
    ------
    InputError
        If the rate or the lengths of simulated traffic are neither said nor in the plan.
    """
    if not plans:
        return {"cluster": {"devices": 1, "device": "cpu-core"}}
    plan = cast(LLMPlan, next(iter(plans.values())))
    real = () if door == "simulate" else ("seed", "warmup", "kernels", "workload.requests", "workload.duration")
    case: dict[str, Any] = carried(plan.case, TRAFFIC, said, AGAINST, (*LIMITS, *REQUESTS, *real))
    workload = {**case.get("workload", {}), **_limits(plan)}
    if "workload.trace" not in said and "trace" not in workload:
        how = said.get("workload.clients.arrivals", workload.get("clients", {}).get("arrivals"))
        workload |= _traffic(plan, {*said, *(f"workload.{name}" for name in workload)}, door, how)
    names = [model.name for model in plan.models]
    cluster = plan.cluster_spec
    return {
        **case,
        "model": _models_said(plan, names),
        "cluster": {
            "devices": cluster.n_devices, "devices_per_node": cluster.devices_per_node,
            "device": _device_said(plan),
        },
        "workload": workload,
    }  # fmt: skip


def _models_said(plan: LLMPlan, names: list[str]) -> Any:
    """What a case calls the plan's models: their names, or the files that the plan's own case took them from."""
    made: Any = plan.case.get("model")
    of = [made] if isinstance(made, str) else list(made or ())
    return made if any(str(name).endswith(".json") for name in of) else names[0] if len(names) == 1 else names


def _device_said(plan: LLMPlan) -> str:
    """What a case calls the plan's device: its shipped name, or the file that the plan's own case took it from."""
    name = plan.cluster.device.name
    made = plan.case.get("cluster")
    said = made.get("device") if isinstance(made, Mapping) and name not in DEVICES else None
    return said if isinstance(said, str) else name


def _limits(plan: LLMPlan) -> dict[str, Any]:
    """Limits, in seconds, and what else plans say of requests, as far as all models share it."""
    first, *rest = (model.slo for model in plan.models)
    shared: dict[str, Any] = {"slo": first} if first and all(slo == first for slo in rest) else {}
    found = {name: {getattr(model, f"{name}_s") for model in plan.models} for name in ("slo_ttft", "slo_tpot")}
    images, skew = ({getattr(model, name) for model in plan.models} for name in ("images", "expert_skew"))
    if len(images) == 1 and (pairs := images.pop()):
        shared["images"] = [f"{height}x{width}" for height, width in pairs]
    if len(skew) == 1 and (value := skew.pop()) != SKEW:
        shared["expert_skew"] = value
    return shared | {name: value for name, (value, *others) in found.items() if not others and value is not None}


def _traffic(plan: LLMPlan, known: set[str], door: DoorName, arrivals: Any = None) -> dict[str, Any]:
    """What a plan that no case made says of its requests; at the rate that it was made for, also how many."""
    planned = plan.workload
    if arrivals in RATELESS:
        return {}
    if door == "simulate" and not plan.case and planned is not None and "workload.lengths" not in known:
        raise InputError(f"workload.lengths: the plan was made for {planned.source}; give --lengths, or a --trace")
    if "workload.rate" in known:
        return {}
    if planned is None or not planned.rate_per_s:
        if door == "simulate":
            raise InputError("workload.rate: how many requests per second? Give --rate, or a --trace")
        return {}
    workload: dict[str, Any] = {"rate": sum(planned.rate_per_s.values())}
    if len(plan.models) > 1 and "workload.split" not in known:
        workload["split"] = {model.name: planned.rate_per_s.get(model.name, 0.0) for model in plan.models}
    if door == "simulate" and not {"workload.requests", "workload.duration"} & known:
        workload["requests"] = planned.requests
    return workload
