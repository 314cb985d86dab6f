"""What a run may cost beside the data sheet: the runtime's time, products with few rows, another order of operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ...profiles.graph import CostModel, Graph, Operator, OperatorTimes
from ...profiles.graph.costs.shapes import local

__all__ = ["HostTime", "SmallProducts", "level_by_level"]


@dataclass(frozen=True, slots=True)
class HostTime:
    """A cost model with the same seconds on top of every operator's pass that has a kernel of its own.

    What FlexFlow runs as part of another operator (a bias, an activation after a product) and views add nothing.
    """

    base: CostModel
    host_s: float

    @property
    def source(self) -> str:
        """What the seconds rest on."""
        return f"{self.base.source}; {self.host_s:g} s a pass for the host"

    def times(self, op: Operator, parts: Mapping[str, int]) -> OperatorTimes:
        """Seconds on one device."""
        found = self.base.times(op, parts)
        if op.kind == "view" or op.attributes.get("fn") in ("relu", "gelu") or op.name.endswith(".add"):
            return found
        back = found.backward_input_s + self.host_s if found.backward_s else found.backward_input_s
        return OperatorTimes(found.forward_s + self.host_s, back, found.backward_weight_s)


@dataclass(frozen=True, slots=True)
class SmallProducts:
    """A cost model whose products with weights lose speed as they have fewer rows: rows / (rows + half_rows) of it.

    A product of activations with each other (the scores of an attention) is one for each sample and head: more samples
    do not make it larger, and it keeps its speed.
    """

    base: CostModel
    half_rows: float

    @property
    def source(self) -> str:
        """What the seconds rest on."""
        return f"{self.base.source}; products with weights have half of their speed at {self.half_rows:g} rows"

    def times(self, op: Operator, parts: Mapping[str, int]) -> OperatorTimes:
        """Seconds on one device."""
        found = self.base.times(op, parts)
        if op.kind != "contraction":
            return found
        on = local(op, parts)
        if not any(on.is_weight(k) for k in range(len(op.inputs))):
            return found
        longer = 1.0 + self.half_rows / on.forward().m
        return OperatorTimes(
            found.forward_s * longer, found.backward_input_s * longer, found.backward_weight_s * longer
        )


def level_by_level(graph: Graph) -> Graph:
    """The graph with its operators sorted by how many come before them on the longest way, else as they were."""
    level: dict[str, int] = {}
    for op in graph.operators:
        level[op.name] = 1 + max((level[name] for name in op.inputs if name in level), default=-1)
    return replace(graph, operators=tuple(sorted(graph.operators, key=lambda op: level[op.name])))
