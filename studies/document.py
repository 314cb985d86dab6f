"""`StudyDocument`: what a study file says, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field

from .axes import Axis
from .fields import find_field
from .questions import Question
from .worlds import Case, world

__all__ = ["StudyDocument", "read_document"]


class StudyDocument(BaseModel):
    """A study file."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)

    study: int
    name: str
    world: str = "serving"
    planners: Sequence[str | Mapping[str, Any]] = ("alpaserve",)
    axes: Mapping[str, Any] = Field(default_factory=dict)
    design: Any = "grid"
    points: Sequence[Mapping[str, Any]] | None = None
    question: Question | None = None
    questions: Sequence[Question] = ()
    replications: int = 1
    seed: int = 0
    confidence: float = 0.95

    def base_case(self) -> Case:
        """The base case, under the first planner."""
        said = dict(self.model_extra or {}) | {"seed": self.seed}
        said["planner"] = next(iter(self.planner_fields().values()))
        return world(self.world).case.model_validate(said)

    def planner_fields(self) -> dict[str, dict[str, Any]]:
        """Label -> fields of the case's planner."""
        given = [{"name": p} if isinstance(p, str) else dict(p) for p in self.planners]
        return {p.get("label") or p["name"]: p for p in given}

    def question_list(self) -> tuple[Question, ...]:
        """What is asked."""
        return (*(() if self.question is None else (self.question,)), *self.questions)

    def axis_list(self) -> tuple[Axis, ...]:
        """The axes, with full paths."""
        case = world(self.world).case
        return tuple(Axis(find_field(case, name), tuple(values)) for name, values in self.axes.items())


def read_document(text: str, where: str) -> StudyDocument:
    """Check the text of a study file."""
    return StudyDocument.model_validate(yaml.safe_load(text))
