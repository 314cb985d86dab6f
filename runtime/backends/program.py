"""`Program`: a graph as groups of operators, each a callable of a backend, called one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableSequence, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from time import process_time_ns
from typing import Any

from ...errors import InputError
from ...profiles.backends import Compiled, InferenceGraph

__all__ = ["Group", "Held", "Program", "in_order"]

Held = Callable[[], AbstractContextManager[object]]
"""As `Backend.held`."""


@dataclass(frozen=True, slots=True)
class Group:
    """A part of a program.

    Parameters
    ----------
    backend : str
        Whose callable it is.
    members : int
        Its nodes, as bits.
    run : callable
        Takes what the group reads (`InferenceGraph.reads`), gives its results (`InferenceGraph.results`).
    """

    backend: str
    members: int
    run: Compiled


class Program:
    """Groups in an order in which they can run.

    Values are kept in slots, and dropped after their last reader. Groups in a row of one backend run under one of its
    `Backend.held`.

    Parameters
    ----------
    graph : InferenceGraph
        The graph that the groups cover, every node once.
    groups : sequence of Group
        In any order.
    held : mapping of str to function
        Backend -> its ``held``; those that are missing hold nothing.

    Raises
    ------
    InputError
        If a node is in no group or in two, or groups wait for each other in a circle.
    """

    def __init__(
        self,
        graph: InferenceGraph,
        groups: Sequence[Group],
        held: Mapping[str, Held] | None = None,
    ) -> None:
        order = in_order(graph, [group.members for group in groups])
        self.groups = tuple(groups[k] for k in order)
        slots = {value.name: k for k, value in enumerate(graph.inputs)}
        last = dict[int, int]()
        steps = list[tuple[tuple[int, ...], tuple[int, ...]]]()
        for k, group in enumerate(self.groups):
            reads = tuple(slots[name] for name in graph.reads(group.members))
            results = tuple(slots.setdefault(name, len(slots)) for name in graph.results(group.members))
            last |= dict.fromkeys((*reads, *results), k)
            steps.append((reads, results))
        self._inputs, self._slots, self._output = len(graph.inputs), len(slots), slots[graph.output]
        last.pop(self._output, None)
        over = [tuple(slot for slot, at in last.items() if at == k) for k in range(len(steps))]
        self._steps = [(g.run, *step, gone) for g, step, gone in zip(self.groups, steps, over, strict=True)]
        self._segments = self._segmented(held or {})

    def _segmented(self, held: Mapping[str, Held]) -> list[tuple[Any, int, int]]:
        out = list[tuple[Any, int, int]]()
        for k, group in enumerate(self.groups):
            if out and group.backend == self.groups[k - 1].backend:
                out[-1] = (*out[-1][:2], k + 1)
            else:
                out.append((held.get(group.backend, nullcontext), k, k + 1))
        return out

    def __call__(self, *inputs: Any) -> Any:
        """The graph's result for some inputs."""
        values = self._begun(inputs)
        steps = self._steps
        for held, first, end in self._segments:
            with held():
                for run, reads, results, over in steps[first:end]:
                    given = run(*[values[slot] for slot in reads])
                    for slot, one in zip(results, given, strict=True):
                        values[slot] = one
                    for slot in over:
                        values[slot] = None
        return values[self._output]

    def timed(self, inputs: Sequence[Any], mark: MutableSequence[int], marks: Sequence[int]) -> list[int]:
        """CPU time of this process in each group's call, nanoseconds, in the order of `groups`.

        It ends after the last group whose entry in `marks` is not negative: what comes after it need not run.

        Parameters
        ----------
        inputs : sequence of torch.Tensor
            Of the graph.
        mark, marks
            ``mark[0]`` is set to the group's entry in `marks` before its call, and to -1 after it: who looks at it from
            outside knows where this process is.
        """
        values, laps = self._begun(inputs), list[int]()
        stop = max((k + 1 for k, mark_of in enumerate(marks) if mark_of >= 0), default=len(marks))
        for held, first, end in self._segments:
            if first >= stop:
                break
            with held():
                for k in range(first, min(end, stop)):
                    run, reads, results, over = self._steps[k]
                    taken = [values[slot] for slot in reads]
                    mark[0] = marks[k]
                    begin = process_time_ns()
                    given = run(*taken)
                    laps.append(process_time_ns() - begin)
                    mark[0] = -1
                    for slot, one in zip(results, given, strict=True):
                        values[slot] = one
                    for slot in over:
                        values[slot] = None
                    del taken, given
        return laps

    def _begun(self, inputs: Sequence[Any]) -> list[Any]:
        if len(inputs) != self._inputs:
            raise InputError(f"program: expected {self._inputs} inputs (got {len(inputs)})")
        return [*inputs, *[None] * (self._slots - self._inputs)]


def in_order(graph: InferenceGraph, groups: Sequence[int]) -> list[int]:
    """Positions of groups (nodes in bits) in an order in which they can run; of several the one whose nodes come first.

    Raises
    ------
    InputError
        If a node is in no group or in two, or groups wait for each other in a circle.
    """
    owner = dict[int, int]()
    for k, members in enumerate(groups):
        for node in range(len(graph.nodes)):
            if members >> node & 1:
                if node in owner:
                    raise InputError(f"program: node {graph.nodes[node].id!r} is in two groups")
                owner[node] = k
    missing = [node.id for k, node in enumerate(graph.nodes) if k not in owner]
    if missing:
        raise InputError(f"program: node {missing[0]!r} is in no group")
    waits = [set[int]() for _ in groups]
    for node, read in enumerate(graph.producers):
        waits[owner[node]] |= {owner[one] for one in read} - {owner[node]}
    order, done = list[int](), set[int]()
    by_first = sorted(range(len(groups)), key=lambda k: (groups[k] & -groups[k]).bit_length())
    while len(order) < len(groups):
        ready = [k for k in by_first if k not in done and waits[k] <= done]
        if not ready:
            stuck = next(k for k in by_first if k not in done)
            name = graph.nodes[(groups[stuck] & -groups[stuck]).bit_length() - 1].id
            raise InputError(f"program: groups wait for each other in a circle (that of {name!r} is one of them)")
        for k in ready:
            order.append(k)
            done.add(k)
    return order
