"""`SharingPlan`: which policy shares a cluster among which apps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, JsonValue, model_validator

from ...simulator.plan.entries import PlannerEntry, Problem
from ...simulator.plan.file import PlanFile
from ..fields import checked
from .case import PolicyCase, SharingCase

__all__ = ["SharingPlan"]


class SharingPlan(PlanFile):
    """A policy, and the case that it was chosen for. Policies decide as apps come and go: no placement is in it."""

    noun: ClassVar[str] = "a sharing plan"
    schema_id: ClassVar[str] = "urn:meshwright:schema:sharing-plan:1"

    kind: Literal["meshwright/sharing-plan"] = "meshwright/sharing-plan"
    version: Literal[1] = 1
    name: str = Field(default="", description="what tables call the case")
    policy: dict[str, JsonValue] = Field(description="name, label and options of the policy")
    case: dict[str, JsonValue] = Field(description="the case: a case file without its planner")
    planner: PlannerEntry
    predicted: dict[str, float] = Field(default_factory=dict, description="simulated metric -> value")

    @model_validator(mode="after")
    def _is_a_case(self) -> SharingPlan:
        _, wrong = checked(SharingCase, {**self.case, "planner": self.policy})
        if wrong:
            raise ValueError("; ".join(f"{'.'.join(map(str, loc))}: {what}" for loc, what in wrong))
        return self

    @classmethod
    def of(cls, case: SharingCase, name: str, predicted: Mapping[str, float]) -> SharingPlan:
        """The plan of a case."""
        said = json.loads(case.model_dump_json(exclude_unset=True, exclude={"planner"}))
        policy = json.loads(case.planner.model_dump_json(exclude_unset=True))
        who = PlannerEntry(name=case.planner.name, options=policy.get("options", {}), seed=case.seed)
        return cls(
            name=name, policy={"name": case.planner.name, **policy}, case=said, planner=who, predicted=dict(predicted)
        )

    @classmethod
    def between(cls, data: Mapping[str, Any]) -> list[Problem]:
        """Nothing: a policy needs nothing of the case that the case does not say."""
        return []

    def full_case(self) -> SharingCase:
        """The case with this plan's policy."""
        return SharingCase.model_validate_json(json.dumps({**self.case, "planner": self.policy}), strict=True)

    @property
    def decided(self) -> PolicyCase:
        """The policy."""
        return self.full_case().planner

    def explain(self) -> str:
        """In words."""
        said = ", ".join(f"{key} {value}" for key, value in self.decided.options.items())
        return f"{self.decided.called}: policy {self.decided.name}{f' ({said})' if said else ''}"
