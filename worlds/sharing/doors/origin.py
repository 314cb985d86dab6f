"""The case that a sharing plan was made for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ....simulator.plan.file import PlanFile
from ..plan import SharingPlan

__all__ = ["case_of"]


def case_of(plans: Mapping[str, PlanFile], said: Mapping[str, Any]) -> Mapping[str, Any]:
    """The case in the plan; a workload that is said goes before listed apps."""
    plan = cast(SharingPlan, next(iter(plans.values())))
    case: dict[str, Any] = {**plan.case, "planner": plan.policy}
    if any(path.startswith("workload.") for path in said):
        case.pop("apps", None)
    return case
