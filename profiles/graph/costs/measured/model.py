"""`MeasuredCosts`: operators at measured seconds where they were measured, else at a scaled roofline."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from ...operator import Operator
from ..model import OperatorTimes, Roofline, roofline
from .local_operator import LocalOperator
from .profile import MeasuredOperator, TrainingProfile

__all__ = ["MeasuredCosts", "Origin"]

Origin = Literal["measured", "scaled"]
"""Where an operator's seconds come from."""

PASSES: tuple[Callable[[OperatorTimes], float], ...] = (
    lambda times: times.forward_s, lambda times: times.backward_input_s, lambda times: times.backward_weight_s,
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class MeasuredCosts:
    """Cost model of a device whose operators were measured.

    An operator of a shape that was not measured takes what a roofline of the measured rates says, times the median
    ratio of measured to roofline seconds of the same kind of operator and the same pass; of all kinds where none of its
    kind was measured. A pass that costs nothing by the roofline takes its kind's median seconds. All are times the
    profile's ratio of stages at work to sums of operators.

    Parameters
    ----------
    profile : TrainingProfile
        What was measured.
    """

    profile: TrainingProfile
    _known: dict[tuple[object, ...], OperatorTimes] = field(default_factory=dict[tuple[object, ...], OperatorTimes])

    @property
    def source(self) -> str:
        """What was measured, and what stands in for the rest."""
        return f"{self.profile.about}; other shapes: roofline of its measured rates, scaled by kind of operator"

    @cached_property
    def base(self) -> Roofline:
        """The roofline of the device as it was measured."""
        return roofline(self.profile.device, self.profile.dtype)

    def times(self, op: Operator, parts: Mapping[str, int]) -> OperatorTimes:
        """See `CostModel`."""
        attributes = tuple(sorted(op.attributes.items()))
        key = (
            *(op.kind, op.formula, op.loops, op.dtype, op.flops, op.saves, attributes),
            tuple(sorted(item for item in parts.items() if item[1] != 1)),
        )
        found = self._known.get(key)
        if found is None:
            measured = self._measured(op, parts)
            alone = self._scaled(op, parts) if measured is None else measured.times
            forward, back = self.profile.in_place
            found = self._known[key] = OperatorTimes(
                alone.forward_s * forward, alone.backward_input_s * back, alone.backward_weight_s * back
            )
        return found

    def origin(self, op: Operator, parts: Mapping[str, int]) -> Origin:
        """Whether an operator's seconds were measured or scaled."""
        return "scaled" if self._measured(op, parts) is None else "measured"

    def _measured(self, op: Operator, parts: Mapping[str, int]) -> MeasuredOperator | None:
        here = LocalOperator.of(op, parts, self.profile.dtype)
        return None if here is None else self.profile.by_key.get(here.key)

    def _scaled(self, op: Operator, parts: Mapping[str, int]) -> OperatorTimes:
        plain, kind = self.base.times(op, parts), op.kind if op.kind in self._ratios else ""
        if kind not in self._ratios:
            return plain
        seconds = [
            alone if of(plain) == 0.0 else of(plain) * ratio
            for of, (ratio, alone) in zip(PASSES, self._ratios[kind], strict=True)
        ]
        return OperatorTimes(*seconds)

    @cached_property
    def _ratios(self) -> dict[str, list[tuple[float, float]]]:
        """Kind of operator -> for each pass its ratio, and its seconds where the roofline has none; "": all kinds."""
        kinds: dict[str, list[tuple[OperatorTimes, OperatorTimes]]] = {}
        for one in self.profile.operators:
            pair = one.times, self.base.times(one.local.op, {})
            kinds.setdefault(one.local.op.kind, []).append(pair)
            kinds.setdefault("", []).append(pair)
        return {kind: list(_medians(pairs)) for kind, pairs in kinds.items()}


def _medians(pairs: list[tuple[OperatorTimes, OperatorTimes]]) -> Iterator[tuple[float, float]]:
    for of in PASSES:
        ratios = [of(measured) / of(plain) for measured, plain in pairs if of(plain) > 0]
        alone = [of(measured) for measured, plain in pairs if of(plain) == 0]
        yield statistics.median(ratios) if ratios else 1.0, statistics.median(alone) if alone else 0.0
