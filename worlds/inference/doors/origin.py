"""The case that an inference plan was made for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ....simulator.plan.file import PlanFile
from ..plan import InferencePlan

__all__ = ["case_of"]


def case_of(plans: Mapping[str, PlanFile], said: Mapping[str, Any]) -> Mapping[str, Any]:
    """Network, batch, backends and planner of the first plan; without one, nothing but defaults."""
    if not plans:
        return {}
    plan = cast(InferencePlan, next(iter(plans.values())))
    return {
        "model": plan.model, "workload": {"batch": plan.batch, "slo": plan.slo},
        "backends": list(plan.table.backends),
        "planner": {"name": plan.planner.name, "options": dict(plan.planner.options)}, "seed": plan.planner.seed or 0,
    }  # fmt: skip
