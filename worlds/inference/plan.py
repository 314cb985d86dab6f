"""`InferencePlan`: which backend runs which operators of a network, with all that was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

from pydantic import Field, JsonValue, model_validator

from ...errors import InputError
from ...simulator.plan.entries import Entry, Name, PlannerEntry, Problem
from ...simulator.plan.file import PlanFile

if TYPE_CHECKING:
    from ...profiles.backends.costs import CostTable

__all__ = ["InferenceGroupEntry", "InferenceMachineEntry", "InferencePlan", "SecondEntry"]


class SecondEntry(Entry):
    """What would have run a group otherwise."""

    backends: tuple[Name, ...] = Field(description="of the cheapest other way to run the same operators, in order")
    cost_ms: float = Field(ge=0, description="what that takes, contexts included, milliseconds")


class InferenceGroupEntry(Entry):
    """Operators that one backend runs as one."""

    backend: Name = Field(description="whose they are")
    nodes: tuple[Name, ...] = Field(min_length=1, description="the operators, in the network's order")
    cost_ms: float = Field(ge=0, description="measured in its place, milliseconds")
    second: SecondEntry | None = Field(default=None, description="the second best; none where no other takes them")


class InferenceMachineEntry(Entry):
    """What the costs hold for."""

    cpu: Name = Field(description="processor")
    threads: int = Field(gt=0, description="threads of the process")
    versions: dict[str, str] = Field(description="backend -> version")


class InferencePlan(PlanFile):
    """A network's operators in groups, in an order in which they can run, and each group's backend."""

    noun: ClassVar[str] = "an inference plan"
    schema_id: ClassVar[str] = "urn:meshwright:schema:inference-plan:1"

    kind: Literal["meshwright/inference-plan"] = "meshwright/inference-plan"
    version: Literal[1] = 1
    model: Name = Field(description="the network's name, or path/to/file.py:function")
    batch: int = Field(gt=0, description="samples of one call")
    machine: InferenceMachineEntry
    groups: tuple[InferenceGroupEntry, ...] = Field(min_length=1, description="in an order in which they can run")
    planner: PlannerEntry
    slo: float | None = Field(default=None, gt=0, description="limit of one call, seconds")
    predicted: dict[str, float] = Field(default_factory=dict, description="metric -> value")
    measured: dict[str, float] = Field(
        default_factory=dict, description="measured end to end while planning, milliseconds: placement, and each single"
    )
    notes: tuple[str, ...] = Field(default=(), description="what a reader must know")
    costs: dict[str, JsonValue] = Field(description="the cost table that it was planned with")

    @model_validator(mode="after")
    def _is_a_placement(self) -> InferencePlan:
        if self._contradictions(self.costs, [group.nodes for group in self.groups]):
            raise ValueError("contradicts itself")
        return self

    @classmethod
    def between(cls, data: Mapping[str, Any]) -> list[Problem]:
        """Groups against the cost table's operators: each once, and an order in which they can run."""
        groups = data.get("groups")
        if not isinstance(groups, list):
            return []
        entries = [cast("dict[str, Any]", one) for one in cast("list[Any]", groups) if isinstance(one, dict)]
        nodes: list[list[Any]] = [one.get("nodes", []) for one in entries]
        return cls._contradictions(data.get("costs"), nodes)

    @classmethod
    def _contradictions(cls, costs: Any, groups: Sequence[Sequence[Any]]) -> list[Problem]:
        from ...profiles.backends.document import read_costs

        try:
            graph = read_costs(costs, "costs").graph
        except InputError as error:
            return [(("costs",), str(error).removeprefix("costs: "))]
        known = {value.name for value in graph.inputs}
        seen = set[str]()
        for k, group in enumerate(groups):
            at = ("groups", k, "nodes")
            nodes = [str(name) for name in group]
            wrong = next((n for n in nodes if n not in graph.index or n in seen), None)
            if wrong is not None:
                what = "stands in two groups" if wrong in seen else "is no operator of the cost table"
                return [(at, f"{wrong!r} {what}")]
            members = graph.bits(nodes)
            missing = next((name for name in graph.reads(members) if name not in known), None)
            if missing is not None:
                return [(at, f"reads {missing!r}, which no group before it gives")]
            seen.update(nodes)
            known.update(graph.results(members))
        left = next((node.id for node in graph.nodes if node.id not in seen), None)
        return [] if left is None else [(("groups",), f"operator {left!r} is in no group")]

    @cached_property
    def table(self) -> CostTable:
        """What was measured."""
        from ...profiles.backends.document import read_costs

        return read_costs(self.costs, "costs")

    def crossings(self) -> int:
        """Values that go from one backend to another, once for each group that reads them."""
        graph = self.table.graph
        maker = {name: group.backend for group in self.groups for name in group.nodes}
        return sum(
            maker.get(name, group.backend) != group.backend
            for group in self.groups
            for name in graph.reads(graph.bits(group.nodes))
        )

    def explain(self) -> str:
        """A line for each group: what it is, where it runs, what that takes, and the second best."""
        graph = self.table.graph
        rows: list[str] = []
        for k, group in enumerate(self.groups):
            ops = [graph.nodes[graph.index[name]].op for name in group.nodes]
            what = " ".join(ops) if len(ops) <= 4 else f"{' '.join(ops[:2])} … {ops[-1]} ({len(ops)})"
            if group.second is None:
                why = "no other takes it"
            else:
                other = "+".join(dict.fromkeys(group.second.backends))
                why = f"second best: {other}, {group.second.cost_ms:.3g} ms"
            rows.append(f"{k:>4}  {group.backend:<20} {group.cost_ms:>8.3f} ms  {what:<40} {why}")
        return "\n".join(rows)
