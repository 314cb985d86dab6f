"""`Analysis`: facts about a graph that hold on any mesh.

Which operators follow others, which have a gradient, and what is kept or recomputed for the backward pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ....profiles.graph import DTYPE_BYTES, Graph, Operator, depths, differentiable, leaders
from .options import Recompute

__all__ = ["Analysis", "Kept"]

_VIEW = "view"


@dataclass(frozen=True, slots=True)
class Kept:
    """What a stage keeps for its backward pass.

    Parameters
    ----------
    values : dict of str to int
        Value (operator, stage input or graph input) -> the first operator that needs it kept.
    again : dict of str to str
        Values that only the repeated forward pass of a group holds -> the group, a repeated layer or attention core.
    """

    values: dict[str, int]
    again: dict[str, str]


class Analysis:
    """Facts about a graph that no mesh changes; made once and shared by all calls for it.

    Parameters
    ----------
    graph : Graph
        At the size of one microbatch.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._groups: dict[str, tuple[str, ...]] = {}
        self._repeated: dict[str, tuple[bool, ...]] = {}

    @cached_property
    def parameters(self) -> frozenset[str]:
        """Names of the parameters."""
        return frozenset(t.name for t in self.graph.parameters)

    @cached_property
    def guides(self) -> tuple[int, ...]:
        """For every operator, the operand whose cut it takes over (§4.2: the deepest one); −1: it chooses its own.

        Heavy operators choose their own cut, and so do trivial ones that read no other operator. Operands that follow a
        heavy operator take precedence, as in `profiles.graph.leaders`.
        """
        graph, depth, lead = self.graph, depths(self.graph), leaders(self.graph)
        found: list[int] = []
        for op in graph.operators:
            made = [k for k, name in enumerate(op.inputs) if name in graph.index]
            led = [k for k in made if lead[graph.index[op.inputs[k]]] >= 0] or made
            # Of equally deep operands the first, as `max` keeps it.
            deepest = max(led, key=lambda k: depth[graph.index[op.inputs[k]]], default=-1)
            found.append(-1 if op.heavy else deepest)
        return tuple(found)

    @cached_property
    def twins(self) -> tuple[int, ...]:
        """For every heavy operator, the first one that reads the same value by the same formula (such as q of q, k, v).

        They share one copy of the value: it is resharded once, and the gradients that they make of it are added before
        they are summed over devices. On a mesh they run alike if they have the same algorithms.
        """
        seen: dict[tuple[str, str, str], int] = {}
        found: list[int] = []
        for i, op in enumerate(self.graph.operators):
            made = [name for name in op.inputs if name in self.graph.index]
            alike = op.heavy and len(made) == 1 and op.inputs[0] == made[0]
            found.append(seen.setdefault((made[0], op.kind, op.formula), i) if alike else i)
        return tuple(found)

    @cached_property
    def differentiable(self) -> frozenset[str]:
        """Tensors and results that have a gradient."""
        return differentiable(self.graph)

    @cached_property
    def kinds(self) -> tuple[int, ...]:
        """A number for every operator that two have in common if they are the same but for names and wiring."""
        seen: dict[object, int] = {}
        return tuple(
            seen.setdefault(
                (op.kind, op.formula, op.loops, op.dtype, op.flops, op.saves, tuple(sorted(op.attributes.items()))),
                len(seen),
            )
            for op in self.graph.operators
        )

    def itemsize(self, name: str) -> int:
        """Bytes of an element of a tensor or result."""
        return DTYPE_BYTES[self.dtype(name)]

    def dtype(self, name: str) -> str:
        """Type of a tensor or result."""
        graph = self.graph
        return graph.operators[graph.index[name]].dtype if name in graph.index else graph.tensors[name].dtype

    def groups(self, recompute: Recompute) -> tuple[str, ...]:
        """For every operator the group that is computed again together in the backward pass; empty: none."""
        if recompute not in self._groups:
            operators = self.graph.operators
            if recompute == "none":
                found = tuple("" for _ in operators)
            elif recompute == "full":
                found = tuple(f"layer {op.layer}" if op.layer >= 0 else "" for op in operators)
            else:
                core = self._attention_core()
                found = tuple(f"attention {core[i]}" if i in core else "" for i in range(len(operators)))
            self._groups[recompute] = found
        return self._groups[recompute]

    def repeated(self, recompute: Recompute) -> tuple[bool, ...]:
        """For every operator whether the backward pass computes it again: with its group, if any of it has a gradient.

        So a mask inside a repeated layer is made again, though it has no gradient of its own.
        """
        if recompute not in self._repeated:
            groups, operators = self.groups(recompute), self.graph.operators
            live = {g for g, op in zip(groups, operators, strict=True) if g and op.name in self.differentiable}
            self._repeated[recompute] = tuple(g in live for g in groups)
        return self._repeated[recompute]

    def kept(self, first: int, last: int, recompute: Recompute) -> Kept:
        """What a stage of operators first … last − 1 keeps for its backward pass.

        An operator that is computed again needs what enters its group kept; what it saves itself is there only while
        its group is computed again. A view is kept as what it is a view of.
        """
        graph, groups = self.graph, self.groups(recompute)
        values: dict[str, int] = {}
        again: dict[str, str] = {}
        for i in range(first, last):
            op, group = graph.operators[i], groups[i]
            saved = {op.name if k < 0 else op.inputs[k] for k in op.saves}
            entering = {name for name in op.inputs if group and not self._inside(name, first, groups, group)}
            for name in sorted(saved | entering):
                if name in self.parameters:
                    continue
                root = self.root(name, first)
                if not group or name in entering:
                    values.setdefault(root, i)
                else:
                    again.setdefault(root, group)
        return Kept(values, {name: group for name, group in again.items() if name not in values})

    def _inside(self, name: str, first: int, groups: tuple[str, ...], group: str) -> bool:
        at = self.graph.index.get(name, -1)
        return name in self.parameters or (at >= first and groups[at] == group)

    def root(self, name: str, first: int) -> str:
        """What a value is a view of, as far as a stage that begins with operator `first` makes it."""
        index = self.graph.index
        while index.get(name, -1) >= first and self.graph.operators[index[name]].kind == _VIEW:
            name = self.graph.operators[index[name]].inputs[0]
        return name

    def _attention_core(self) -> dict[int, int]:
        """Operators of products of two activations with a softmax between them -> number of their core."""
        graph = self.graph
        product = {i for i, op in enumerate(graph.operators) if self._of_activations(op)}
        below: dict[int, int] = {}  # operator -> the product that it is made of through trivial operators
        for i, op in enumerate(graph.operators):
            made = [graph.index[name] for name in op.inputs if name in graph.index]
            if i in product:
                below[i] = i
            elif not op.heavy:
                from_core = [below[j] for j in made if j in below]
                if from_core:
                    below[i] = from_core[0]
        core: dict[int, int] = {}
        for i in sorted(product, reverse=True):
            feeding = [graph.index[n] for n in graph.operators[i].inputs if n in graph.index]
            chain = [j for j in feeding if j in below]
            softmax, seen = False, set[int]()
            while chain:
                j = chain.pop()
                if j in seen or j not in below:
                    continue
                seen.add(j)
                softmax = softmax or graph.operators[j].kind == "softmax"
                if j not in product:
                    chain += [graph.index[n] for n in graph.operators[j].inputs if n in graph.index]
            if softmax:
                core.update(dict.fromkeys((*seen, i), i))
        return core

    def _of_activations(self, op: Operator) -> bool:
        return op.kind == "contraction" and sum(name in self.graph.index for name in op.inputs) == 2
