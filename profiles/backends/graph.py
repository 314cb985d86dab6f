"""An inference graph as backends see it: operators with what they read, how they are set, and what comes out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...errors import InputError

__all__ = ["InferenceGraph", "Node", "Value", "ones"]


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor: of the graph's inputs, of its parameters, or what an operator gives.

    Parameters
    ----------
    name : str
        Of the input, parameter or operator.
    shape : tuple of int
        Its extents.
    dtype : str
        Such as ``"float32"``.
    strides : tuple of int
        In elements. Those of the run that the graph was captured from: a transposed view has others than a copy.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    strides: tuple[int, ...] = ()

    @property
    def elements(self) -> int:
        """How many numbers it holds."""
        held = 1
        for extent in self.shape:
            held *= extent
        return held


@dataclass(frozen=True, slots=True)
class Node:
    """An operator that gives one tensor.

    Parameters
    ----------
    id : str
        Its name in the graph.
    op : str
        What it does, such as ``"conv2d"``, ``"batch_norm"``, ``"relu"``, ``"add"``.
    inputs : tuple of str
        The tensors that it reads, in order: other operators' ids, the graph's inputs, its parameters.
    attributes : tuple of (str, value)
        What else it was given, by the names of the operator's schema, defaults filled in.
    result : Value
        What it gives.
    shapes : tuple of tuple of int
        Of the tensors that it reads, in their order.
    """

    id: str
    op: str
    inputs: tuple[str, ...]
    attributes: tuple[tuple[str, Any], ...] = ()
    result: Value = Value("", ())
    shapes: tuple[tuple[int, ...], ...] = ()

    def attribute(self, name: str) -> Any:
        """An attribute, or `None`. ``shape``, ``dtype`` and ``ndim`` are the result's, ``shapes`` the operands'."""
        if name == "shapes":
            return self.shapes
        if name in ("shape", "dtype"):
            return getattr(self.result, name)
        if name == "ndim":
            return len(self.result.shape)
        return dict(self.attributes).get(name)


@dataclass(frozen=True)
class InferenceGraph:
    """Operators in an order in which they can run.

    Parameters
    ----------
    inputs : tuple of Value
        What the graph is given.
    parameters : tuple of Value
        Weights and buffers.
    nodes : tuple of Node
        Each after those that it reads.
    output : str
        The operator whose result is the graph's.

    Raises
    ------
    InputError
        If two things have one name, an operator reads what does not come before it, the output is no operator, or an
        operator's result is read by nobody.
    """

    inputs: tuple[Value, ...]
    parameters: tuple[Value, ...]
    nodes: tuple[Node, ...]
    output: str

    def __post_init__(self) -> None:
        known = set[str]()
        for name in (*(v.name for v in self.inputs), *(v.name for v in self.parameters)):
            if name in known:
                raise InputError(f"graph: two inputs or parameters are called {name!r}; names must differ")
            known.add(name)
        read = set[str]()
        for node in self.nodes:
            if node.id in known:
                raise InputError(f"graph: node {node.id!r}: the name is taken; names must differ")
            missing = [name for name in node.inputs if name not in known]
            if missing:
                raise InputError(
                    f"graph: node {node.id!r} reads {missing[0]!r}, which is no input, no parameter and no node before "
                    "it; give nodes in topological order"
                )
            known.add(node.id)
            read.update(node.inputs)
        if self.output not in self.index:
            raise InputError(f"graph: expected a node as output (got {self.output!r})")
        unread = [node.id for node in self.nodes if node.id not in read and node.id != self.output]
        if unread:
            raise InputError(f"graph: nobody reads node {unread[0]!r}, and it is not the output; leave it out")

    @cached_property
    def index(self) -> Mapping[str, int]:
        """Node's id -> its position."""
        return {node.id: k for k, node in enumerate(self.nodes)}

    @cached_property
    def values(self) -> Mapping[str, Value]:
        """Every tensor by its name."""
        given = {value.name: value for value in (*self.inputs, *self.parameters)}
        return given | {node.id: node.result for node in self.nodes}

    @cached_property
    def constants(self) -> frozenset[str]:
        """Names of the parameters."""
        return frozenset(value.name for value in self.parameters)

    @cached_property
    def producers(self) -> tuple[tuple[int, ...], ...]:
        """Per node the positions of the nodes that it reads, each once, ascending."""
        at = self.index
        return tuple(tuple(sorted({at[name] for name in node.inputs if name in at})) for node in self.nodes)

    @cached_property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        """Per node the positions of the nodes that read it, ascending."""
        out: list[list[int]] = [[] for _ in self.nodes]
        for k, read in enumerate(self.producers):
            for j in read:
                out[j].append(k)
        return tuple(map(tuple, out))

    @cached_property
    def above(self) -> tuple[int, ...]:
        """Per node the nodes that it depends on, as bits."""
        out: list[int] = []
        for read in self.producers:
            bits = 0
            for j in read:
                bits |= out[j] | 1 << j
            out.append(bits)
        return tuple(out)

    @cached_property
    def below(self) -> tuple[int, ...]:
        """Per node the nodes that depend on it, as bits."""
        out = [0] * len(self.nodes)
        for k in range(len(self.nodes) - 1, -1, -1):
            for j in self.producers[k]:
                out[j] |= out[k] | 1 << k
        return tuple(out)

    def bits(self, ids: Iterable[str]) -> int:
        """A set of nodes as bits.

        Raises
        ------
        InputError
            If an id is no node's.
        """
        out = 0
        for name in ids:
            if name not in self.index:
                raise InputError(f"graph: no node is called {name!r}")
            out |= 1 << self.index[name]
        return out

    def convex(self, members: int) -> bool:
        """Whether no way leads out of a set of nodes (bits) and back into it: it can run as one unit."""
        reached = 0
        for k in ones(members):
            reached |= self.below[k]
        return all(not self.below[k] & members for k in ones(reached & ~members))

    def results(self, members: int) -> tuple[str, ...]:
        """Nodes of a set (bits) whose values are read outside it, or are the graph's, in order."""
        last = self.index[self.output]
        return tuple(
            self.nodes[k].id
            for k in ones(members)
            if k == last or any(not members >> reader & 1 for reader in self.readers[k])
        )

    def reads(self, members: int) -> tuple[str, ...]:
        """Values that a set of nodes (bits) reads from outside, without parameters, in the order of their first use."""
        found = dict[str, None]()
        for k in ones(members):
            for name in self.nodes[k].inputs:
                if name not in self.constants and not (name in self.index and members >> self.index[name] & 1):
                    found[name] = None
        return tuple(found)


def ones(bits: int) -> Iterable[int]:
    """Positions of the bits that are set, ascending."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low
