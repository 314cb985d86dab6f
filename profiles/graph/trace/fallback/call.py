"""`fall_back`: a call that no handler says, as operators of kind ``call``: one for each of its results."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any

from .....errors import InputError
from ...operator import Operator
from ..draft import Axes, Draft, Labels
from ..step import Result, Step
from ..values import ONE, Atoms, Size, Value, total
from .probe import Backward, backward_of, why_not_by_rows
from .said import Said, said

__all__ = ["fall_back"]

ROWS = "rows"
"""Label of the loop that the batch grows along, and the attribute that names it."""


def fall_back(step: Step, target: Any, twin: Mapping[str, Any], growth: Size) -> Result:
    """Keep a call as it is.

    Its loops are the dimensions of its tensors. None is cut, but for the rows: the loop that grows with the batch in
    the result, where running the call on random rows shows that they do not depend on each other.

    Parameters
    ----------
    step : Step
        The call at the first batch.
    target : overload
        What torch calls; of one that writes in place, the function without the underscore is taken.
    twin : mapping
        Its arguments at the second batch.
    growth : (int, int)
        Both batches.

    Raises
    ------
    InputError
        If the call draws random numbers, reads or changes what is no value, or cannot be written down or computed.
    """
    from ...compute.calls import draws, why_not_callable

    target = _functional(target)
    step, target, twin = _copied(step, target, twin)
    why = why_not_callable(target)
    if why:
        raise step.unknown(why)
    if draws(target, step.args):
        raise step.unknown("draws random numbers, which would be others wherever it is cut otherwise")
    call = said(step, target, twin, growth)
    if any(0 in total(dim) for v in call.operands for dim in v.dims):
        raise step.unknown("reads a tensor without elements")
    made = [_result(step, target, call, k) for k in range(len(step.sizes))]
    return made if _several(step, target) else made[0]


def _several(step: Step, target: Any) -> bool:
    """Whether a call gives a tuple or a list."""
    return len(step.sizes) > 1 or str(target._schema.returns[0].real_type) != "Tensor"


def _functional(target: Any) -> Any:
    """The overload that gives what another writes in place."""
    import torch

    word = target._schema.name.partition("::")[2]
    if not word.endswith("_") or word.endswith("__"):
        return target
    plain = getattr(torch.ops.aten, word.rstrip("_"), None)
    return getattr(plain, target._overloadname, target)


def _copied(step: Step, target: Any, twin: Mapping[str, Any]) -> tuple[Step, Any, Mapping[str, Any]]:
    """What is written over all of a tensor, repeated to its shape: torch has no gradient of ``copy`` itself."""
    import torch

    if target is not torch.ops.aten.copy.default or step.args["src"].dtype != step.args["self"].dtype:
        return step, target, twin
    sizes = step.sizes[0][:-1] if step.complex else step.sizes[0]
    args = {"self": step.args["src"], "size": [a for a, _ in sizes], "implicit": False}
    other = {"self": twin["src"], "size": [b for _, b in sizes], "implicit": False}
    return replace(step, args=args), torch.ops.aten.expand.default, other


def _result(step: Step, target: Any, call: Said, k: int) -> Value:
    """The operator of one result."""
    sizes = step.sizes[k]
    if any(0 in size for size in sizes):  # nothing reads it: it could not be an operand
        return Value("", (), step.dtypes[k], False)
    growing = [a[0][0] for v in call.operands for a in v.dims if _leads(a)] + [s[0] for s in sizes if s[0] != s[1]]
    unit = math.gcd(*growing, *call.grown)
    name = f"aten.{target._schema.name.partition('::')[2]}.{target._overloadname}"
    attributes: dict[str, Any] = {"target": name, "arguments": json.dumps(call.in_rows(unit or 1))}
    if _several(step, target):
        attributes["result"] = k
    made = _Making(step, call, unit, k, attributes)
    trial = made.operator(Draft({v.name for v in call.operands}), True, call.operands, Backward((), (), 0.0))
    if call.grown and ROWS not in trial.attributes:
        raise step.unknown("has a number that depends on the batch")
    dtypes = [v.dtype for v in call.operands]
    wants = [v.grad and v.dtype.startswith(("float", "bfloat")) for v in call.operands]
    if not step.dtypes[k].startswith(("float", "bfloat")):
        wants = [False] * len(wants)
    try:
        backward = backward_of(trial, dtypes, wants)
    except InputError:
        raise
    except Exception as error:
        said_so = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise step.unknown(f"torch cannot compute it or its gradient in float64 ({said_so[:120]})") from error
    trial = replace(trial, flops=max(backward.flops, float(math.prod(trial.shape))))
    why = _why_whole(trial, dtypes, backward.reached)
    if why:
        attributes["whole"] = why
    stops = step.dtypes[k].startswith(("float", "bfloat"))  # others have no gradient anyway
    read = [_detached(step, v) if v.grad and stops and not reached else v
            for v, reached in zip(call.operands, backward.reached, strict=True)]  # fmt: skip
    made.operator(step.draft, not why, read, backward)
    last = step.draft.operators[-1]
    return Value(last.name, made.dims(), last.dtype, any(backward.reached), step.pairs[k] if step.pairs else False)


def _why_whole(op: Operator, dtypes: list[str], reached: tuple[bool, ...]) -> str:
    """Why its rows are not cut; "" if they are."""
    if ROWS not in op.attributes:
        return "nothing of it grows with the batch"
    if all(op.attributes[ROWS] not in group for group in op.parsed.result):
        return "its result does not grow with the batch"
    return why_not_by_rows(op, dtypes, reached)


def _detached(step: Step, x: Value) -> Value:
    """An operand that gets no gradient from a call."""
    axes = step.draft.aligned(x)
    return step.draft.add("detach", "elementwise", axes, grad=False, attributes={"fn": "detach"})


class _Making:
    """How the dimensions of a call's tensors line up. Only rows have a common loop, and equal dimensions of the first
    operand and of a result of its rank."""

    def __init__(self, step: Step, call: Said, unit: int, k: int, attributes: dict[str, Any]) -> None:
        self.step, self.unit, self.k, self.attributes = step, unit, k, attributes
        self.sizes: dict[Any, Size] = {ROWS: (unit, 2 * unit)} if unit else {}
        self.labels = [self._operand(i, v) for i, v in enumerate(call.operands)]
        self.result = self._result(call.operands[0] if call.operands else None)
        self._made: Value | None = None

    def operator(
        self, draft: Draft, cut: bool, operands: tuple[Value, ...] | list[Value], backward: Backward
    ) -> Operator:
        """Add the operator to a draft."""
        axes = Axes(
            list(zip(operands, self.labels, strict=True)), self.result, self.sizes,
            {label: "whole" for label in self._labels() if not (cut and label == ROWS)},
            {ROWS: ROWS} if ROWS in self._labels() else {},
        )  # fmt: skip
        flops = max(backward.flops, float(math.prod(s[0] for s in self.step.sizes[self.k])))
        self._made = draft.add(
            self.step.word, "call", axes, dtype=self.step.dtypes[self.k], saves=backward.saves, flops=flops,
            grad=any(backward.reached), attributes=self.attributes,
        )  # fmt: skip
        return draft.operators[-1]

    def dims(self) -> tuple[Atoms, ...]:
        """Dimensions of the result that was added last."""
        assert self._made is not None
        return self._made.dims

    def _labels(self) -> set[Hashable]:
        every = (label for labels in (self.result, *self.labels) for label in labels if label is not None)
        return {part for label in every for part in (label if isinstance(label, tuple) else (label,))}

    def _operand(self, i: int, v: Value) -> Labels:
        labels: list[Hashable | None] = []
        for d, dim in enumerate(v.dims):
            found = not _leads(dim) or any(label and ROWS in _both(label) for label in labels)
            labels.append(None if not dim else f"{i}.{d}" if found else self._rows(total(dim), f"{i}.{d}"))
        return labels

    def _result(self, first: Value | None) -> Labels:
        sizes, labels = self.step.sizes[self.k], list[Hashable | None]()
        alike = first is not None and len(first.dims) == len(sizes)
        for d, size in enumerate(sizes):
            if alike and first is not None and size != ONE and total(first.dims[d]) == size:
                labels.append(self.labels[0][d])
            elif size == ONE:
                labels.append(None)
            elif size[0] != size[1] and not any(label and ROWS in _both(label) for label in labels):
                labels.append(self._rows(size, f"result {d}"))
            else:
                self.sizes[f"result {d}"] = size
                labels.append(f"result {d}")
        return labels

    def _rows(self, size: Size, rest: str) -> Hashable:
        """A dimension that is rows, and in every row so many elements."""
        each = size[0] // self.unit
        if each == 1:
            return ROWS
        self.sizes[rest] = (each, each)
        return (ROWS, rest)


def _both(label: Hashable) -> tuple[Hashable, ...]:
    return label if isinstance(label, tuple) else (label,)


def _leads(dim: Atoms) -> bool:
    """Whether a dimension grows with the batch by its major loop, and by that alone."""
    return bool(dim) and dim[0][0] != dim[0][1] and all(a == b for a, b in dim[1:])
