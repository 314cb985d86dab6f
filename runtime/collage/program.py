"""`Program`: a placement as callables that run one after another and hand each other tensors."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import InputError, RunError
from ...profiles.backends import Backend, Compiled
from ..backends.capture import Captured
from ..backends.subgraph import subgraph

if TYPE_CHECKING:
    import torch

__all__ = ["Program", "Timed", "Unit", "compiled_program"]


@dataclass(frozen=True, slots=True)
class Unit:
    """Operators that one backend runs as one.

    Parameters
    ----------
    backend : str
        Its name.
    nodes : tuple of str
        Ids of the operators, in the graph's order.
    """

    backend: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Timed:
    """One run, as CPU time of this process.

    Parameters
    ----------
    result : torch.Tensor
        What the network gave.
    unit_ms : tuple of float
        Each unit, milliseconds.
    total_ms : float
        The whole, milliseconds; the rest is what goes on between units.
    """

    result: torch.Tensor
    unit_ms: tuple[float, ...]
    total_ms: float


@dataclass(frozen=True, slots=True)
class _Step:
    run: Compiled
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    over: tuple[int, ...]
    """Slots that nobody reads after it."""


class Program:
    """A network cut into units, ready to run.

    Parameters
    ----------
    captured : Captured
        The network.
    units : sequence of Unit
        In an order in which they can run; each operator in one of them.
    compiled : sequence of callable
        What each unit's backend made of it.
    backends : sequence of Backend
        Whose flags hold while their units run.

    Raises
    ------
    InputError
        If an operator is in no unit or in two, or a unit reads what no unit before it gives.
    """

    def __init__(
        self, captured: Captured, units: Sequence[Unit], compiled: Sequence[Compiled], backends: Sequence[Backend]
    ) -> None:
        self.captured, self.units = captured, tuple(units)
        self._inputs, self._size = len(captured.graph.inputs), 0
        steps, self._result = self._wired(compiled)
        held = {backend.name: backend.held for backend in backends}
        # a global flag is set once for units in a row
        self._stretches: list[tuple[Callable[[], Any], list[_Step]]] = []
        for k, (unit, step) in enumerate(zip(self.units, steps, strict=True)):
            if not k or self.units[k - 1].backend != unit.backend:
                self._stretches.append((held[unit.backend], []))
            self._stretches[-1][1].append(step)

    def __call__(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Run the network.

        Raises
        ------
        InputError
            If the inputs are not of the shapes and types that it was planned for.
        """
        self._check(inputs)
        slots: list[Any] = [*inputs, *[None] * (self._size - self._inputs)]
        for held, steps in self._stretches:
            with held():
                for step in steps:
                    made = step.run(*[slots[k] for k in step.reads])
                    for k, value in zip(step.writes, made, strict=True):
                        slots[k] = value
                    for k in step.over:
                        slots[k] = None
        return slots[self._result]

    def timed(self, *inputs: torch.Tensor) -> Timed:
        """Run it, and say what each unit took.

        Raises
        ------
        InputError
            As a call does.
        """
        self._check(inputs)
        slots: list[Any] = [*inputs, *[None] * (self._size - self._inputs)]
        clock, spent = time.process_time_ns, list[int]()
        begun = clock()
        for held, steps in self._stretches:
            with held():
                for step in steps:
                    before = clock()
                    made = step.run(*[slots[k] for k in step.reads])
                    spent.append(clock() - before)
                    for k, value in zip(step.writes, made, strict=True):
                        slots[k] = value
                    for k in step.over:
                        slots[k] = None
        total = clock() - begun
        return Timed(slots[self._result], tuple(each / 1e6 for each in spent), total / 1e6)

    def crossings(self) -> int:
        """Values that go from one backend to another, once for each unit that reads them."""
        graph = self.captured.graph
        maker = {name: unit.backend for unit in self.units for name in unit.nodes}
        return sum(
            maker.get(name, unit.backend) != unit.backend
            for unit in self.units
            for name in graph.reads(graph.bits(unit.nodes))
        )

    def _wired(self, compiled: Sequence[Compiled]) -> tuple[list[_Step], int]:
        """Units with the slots that they read and write, and the slot of the result."""
        graph = self.captured.graph
        slot = {value.name: k for k, value in enumerate(graph.inputs)}
        seen = set[str]()
        wires: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
        for unit in self.units:
            members = graph.bits(unit.nodes)
            twice = next((name for name in unit.nodes if name in seen), None)
            if twice is not None:
                raise InputError(f"program: operator {twice!r} is in two units; expected each in one")
            seen.update(unit.nodes)
            reads = graph.reads(members)
            missing = next((name for name in reads if name not in slot), None)
            if missing is not None:
                raise InputError(
                    f"program: the unit of {unit.nodes[0]!r} on {unit.backend} reads {missing!r}, which no unit before "
                    "it gives; give units in an order in which they can run"
                )
            results = graph.results(members)
            slot |= {name: len(slot) + k for k, name in enumerate(results)}
            wires.append((tuple(slot[name] for name in reads), tuple(slot[name] for name in results)))
        left = next((node.id for node in graph.nodes if node.id not in seen), None)
        if left is not None:
            raise InputError(f"program: operator {left!r} is in no unit; expected each in one")
        self._size, result = len(slot), slot[graph.output]
        last = {k: at for at, (reads, writes) in enumerate(wires) for k in (*writes, *reads)}
        ends: list[list[int]] = [[] for _ in wires]
        for k, at in last.items():
            if k != result:
                ends[at].append(k)
        steps = [
            _Step(run, reads, writes, tuple(over))
            for run, (reads, writes), over in zip(compiled, wires, ends, strict=True)
        ]
        return steps, result

    def _check(self, inputs: Sequence[torch.Tensor]) -> None:
        expected = self.captured.example
        if len(inputs) != len(expected):
            raise InputError(f"program: expected {len(expected)} inputs (got {len(inputs)})")
        for k, (given, wanted) in enumerate(zip(inputs, expected, strict=True)):
            if given.shape != wanted.shape or given.dtype != wanted.dtype:
                raise InputError(
                    f"program: input {k}: planned for {tuple(wanted.shape)} of {wanted.dtype} (got "
                    f"{tuple(given.shape)} of {given.dtype}); plan for this batch"
                )


def compiled_program(captured: Captured, units: Sequence[Unit], backends: Sequence[Backend]) -> Program:
    """Compile every unit on its backend.

    Raises
    ------
    InputError
        If a unit names a backend that is not among them, or the units do not make the graph.
    RunError
        If a backend cannot compile its unit.
    """
    import torch

    from ..backends.capture import recorded

    known = {backend.name: backend for backend in backends}
    values = recorded(captured.module, captured.example)
    made = list[Compiled]()
    for unit in units:
        if unit.backend not in known:
            raise InputError(f"program: no backend {unit.backend!r} among {', '.join(known)}")
        module = subgraph(captured, unit.nodes)
        graph = captured.graph
        example = [values[name] for name in graph.reads(graph.bits(unit.nodes))]
        backend = known[unit.backend]
        try:
            with torch.inference_mode(), backend.held():
                made.append(backend.compile(module, example))
        except Exception as error:
            line = " ".join(str(error).split())[:200]
            raise RunError(
                f"backend {unit.backend!r} cannot compile {', '.join(unit.nodes[:3])}: {type(error).__name__}: {line}"
            ) from error
    return Program(captured, units, made, backends)
