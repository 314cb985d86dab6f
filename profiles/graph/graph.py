"""`Graph`: a model's graph: operators in the order in which they are defined, parameters and inputs."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ...errors import InputError
from ...reprs import Shown
from .operator import Operator, Tensor

__all__ = ["Graph"]


@dataclass(frozen=True, repr=False)
class Graph(Shown):
    """A static graph: of training, or of inference.

    Of a training graph the last operator is the loss; backward and update are implied: they run on the loops of the
    forward operators. A graph of inference has `results` instead, and nothing that runs backward: its operators save
    nothing.

    Parameters
    ----------
    name : str
        Name of the model, which plans record.
    batch : int
        Samples of one microbatch that the sizes are for; see `with_batch`.
    inputs, parameters : tuple of Tensor
        Tensors that operators read: a microbatch's inputs, and the model's parameters.
    operators : tuple of Operator
        In topological order. The last one of a training graph is the loss.
    items_per_sample, items : float, str
        What one sample counts for in throughput, such as (1024, "tokens") or (1, "images").
    source : str
        Where it comes from: paper and table, or the module that was traced.
    results : tuple of str
        Operators whose values the module gives, in its order; empty: a training graph.

    Raises
    ------
    InputError
        On a name that is used twice or not defined, a cycle, shapes that do not match, or results that are no
        operators.
    """

    name: str
    batch: int
    inputs: tuple[Tensor, ...]
    parameters: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    items_per_sample: float = 1.0
    items: str = "samples"
    source: str = ""
    results: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_batch(self.name, self.batch)
        if not 0 < self.items_per_sample < math.inf:
            raise InputError(
                f"graph {self.name!r}: items_per_sample: expected a positive number (got {self.items_per_sample})"
            )
        if not self.operators:
            raise InputError(f"graph {self.name!r}: no operators")
        shapes: dict[str, tuple[int, ...]] = {}
        for tensor in (*self.inputs, *self.parameters):
            if tensor.name in shapes:
                raise InputError(f"graph {self.name!r}: {tensor.name!r} is defined twice")
            shapes[tensor.name] = tensor.shape
        later = {op.name for op in self.operators}
        for op in self.operators:
            for dims, name in zip(op.parsed.operands, op.inputs, strict=True):
                if name not in shapes:
                    raise InputError(f"graph {self.name!r}: operator {op.name!r} {_undefined(name, later, self)}")
                if op.shape_of(dims) != shapes[name]:
                    raise InputError(
                        f"graph {self.name!r}: operator {op.name!r}: operand {name!r} has shape {shapes[name]}, "
                        f"the formula {op.formula!r} says {op.shape_of(dims)}"
                    )
            if op.name in shapes:
                raise InputError(f"graph {self.name!r}: {op.name!r} is defined twice")
            shapes[op.name] = op.shape
        for name in self.results:
            if name not in later:
                raise InputError(f"graph {self.name!r}: results: expected names of operators (got {name!r})")

    def _headline(self) -> str:
        size = f"{self.params / 1e9:.4g} B parameters, {self.forward_flops / 1e12:.4g} TFLOP forward"
        what = " of inference" if self.inference else ""
        return f"{self.name}: {len(self.operators)} operators{what}, {size}, batch {self.batch}"

    @property
    def inference(self) -> bool:
        """Whether it is a graph of inference: it has results and no loss."""
        return bool(self.results)

    @cached_property
    def tensors(self) -> Mapping[str, Tensor]:
        """Inputs and parameters by name."""
        return {t.name: t for t in (*self.inputs, *self.parameters)}

    @cached_property
    def index(self) -> Mapping[str, int]:
        """Operator -> its position."""
        return {op.name: i for i, op in enumerate(self.operators)}

    @cached_property
    def consumers(self) -> Mapping[str, tuple[tuple[int, int], ...]]:
        """Name of an operator or tensor -> (position of the operator, operand) that read it."""
        found: dict[str, list[tuple[int, int]]] = {name: [] for name in (*self.tensors, *self.index)}
        for i, op in enumerate(self.operators):
            for k, name in enumerate(op.inputs):
                found[name].append((i, k))
        return {name: tuple(where) for name, where in found.items()}

    def bytes_of(self, name: str) -> int:
        """Size of an operator's result, a parameter or an input, bytes."""
        return self.operators[self.index[name]].bytes if name in self.index else self.tensors[name].bytes

    @property
    def params(self) -> int:
        """Trainable parameters; of a graph of inference those of its module, which are no buffers."""
        return sum(t.elements for t in self.parameters if t.trainable)

    @property
    def forward_flops(self) -> float:
        """Forward FLOPs of one microbatch."""
        return sum(op.flops for op in self.operators)

    def with_batch(self, batch: int) -> Graph:
        """The same graph for another microbatch size. It is made once: planners ask for the same sizes again and again.

        Raises
        ------
        InputError
            If the batch is not a positive integer, or a loop that grows with it would not be whole.
        """
        _check_batch(self.name, batch)
        if batch == self.batch:
            return self
        if batch not in self._scaled:
            self._scaled[batch] = self._scaled_to(batch)
        return self._scaled[batch]

    @cached_property
    def _scaled(self) -> dict[int, Graph]:
        """Microbatch size -> the graph for it, as far as they were asked for."""
        return {}

    def _scaled_to(self, batch: int) -> Graph:
        def grown(size: int, what: str) -> int:
            if size * batch % self.batch:
                raise InputError(
                    f"graph {self.name!r}: {what} of size {size} does not scale from batch {self.batch} to {batch}"
                )
            return size * batch // self.batch

        def tensor(t: Tensor) -> Tensor:
            shape = tuple(grown(n, t.name) if d in t.batch_dims else n for d, n in enumerate(t.shape))
            return replace(t, shape=shape)

        def operator(op: Operator) -> Operator:
            loops = tuple(replace(x, size=grown(x.size, f"{op.name}.{x.name}")) if x.batch else x for x in op.loops)
            return replace(op, loops=loops, flops=op.flops * _growth(op, loops))

        return replace(
            self, batch=batch, inputs=tuple(map(tensor, self.inputs)), operators=tuple(map(operator, self.operators))
        )

    def to_json(self) -> str:
        """The graph as JSON text, one operator a line; the same bytes for the same graph."""
        from .document import to_json

        return to_json(self)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the graph's JSON at batch 1 where it scales, else as it is."""
        try:
            plain = self.with_batch(1)
        except InputError:
            plain = self
        return hashlib.sha256(plain.to_json().encode()).hexdigest()


def _check_batch(name: str, batch: object) -> None:
    if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
        raise InputError(f"graph {name!r}: batch: expected a positive integer (got {batch!r})")


def _growth(op: Operator, loops: tuple[Any, ...]) -> float:
    return math.prod(x.size for x in loops) / math.prod(x.size for x in op.loops)


def _undefined(name: str, later: set[str], graph: Graph) -> str:
    if name not in later:
        return f"reads {name!r}, which is not defined"
    reads = {op.name: op.inputs for op in graph.operators}
    path, seen = [name], {name}
    while True:  # walk back along inputs; a cycle comes back to where it was
        nexts = [x for x in reads.get(path[-1], ()) if x in reads and _reaches(x, name, reads)]
        if not nexts:
            return f"reads {name!r} before it is made; operators must be in topological order"
        path.append(nexts[0])
        if nexts[0] in seen:
            return f"is in or after a cycle: {' <- '.join(path[path.index(nexts[0]) :])}"
        seen.add(nexts[0])


def _reaches(start: str, goal: str, reads: Mapping[str, tuple[str, ...]]) -> bool:
    stack, seen = [start], set[str]()
    while stack:
        name = stack.pop()
        if name == goal:
            return True
        if name not in seen:
            seen.add(name)
            stack += [x for x in reads.get(name, ()) if x in reads]
    return False
