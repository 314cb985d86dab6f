"""`Constants`: the values of what is computed from numbers and buffers alone, such as masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...operator import Operator

__all__ = ["LARGEST", "Constants"]

LARGEST = 1 << 24
"""Buffers of more elements than this are not looked at."""

BYTES = 1 << 28
"""Results that take more are not computed: a mask of 16,384 positions is less. A guess of what a laptop can spare."""


class Constants:
    """Values by name, computed when they are asked for.

    What grows with the batch is computed for one sample: a mask that is repeated for each is the same for all.

    Parameters
    ----------
    operators : sequence of Operator
        Of the graph.
    known : mapping
        Values of buffers, as arrays.
    """

    def __init__(self, operators: Sequence[Operator], known: Mapping[str, Any]) -> None:
        self._made = {op.name: op for op in operators}
        sizes = [x.size for op in operators for x in op.loops if x.batch]
        self._batch = int(np.gcd.reduce(sizes)) if sizes else 1
        self._values: dict[str, Any] = dict(known)

    def __call__(self, name: str) -> np.ndarray | None:
        """The value; None if it depends on an input or a parameter, is drawn, or is too large."""
        found = self._value(name)
        return None if found is None else np.asarray(found)

    def _value(self, name: str) -> Any:
        order, stack = list[str](), [name]
        while stack:  # a chain of operators may be longer than Python's stack
            at = stack.pop()
            op = self._made.get(at)
            if at not in self._values and op is not None:
                order.append(at)
                stack += op.inputs
        for at in reversed(order):
            if at not in self._values:
                self._values[at] = self._computed(self._made[at])
        return self._values.get(name)

    def _computed(self, op: Operator) -> Any:
        import torch

        from ...compute import evaluate
        from ...compute.draws import draws_at_random
        from ...module_loss import in_float64

        read = {name: self._values.get(name) for name in op.inputs}
        if any(x is None for x in read.values()) or op.kind not in ("elementwise", "view") or draws_at_random(op):
            return None
        small = self._of_one_sample(op)
        if small is None or small.bytes > BYTES:
            return None
        values = {key: torch.as_tensor(x) for key, x in read.items()}
        try:
            with in_float64():  # the lowest number of a module in float64 is none of float32
                return evaluate([small], values)[op.name].numpy()
        except Exception:  # what cannot be computed has no value that is known
            return None

    def _of_one_sample(self, op: Operator) -> Operator | None:
        loops = tuple(replace(x, size=x.size // self._batch) if x.batch else x for x in op.loops)
        return op if self._batch == 1 or loops == op.loops else replace(op, loops=loops, flops=-1.0)
