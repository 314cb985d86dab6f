"""`Placed`: a network whose operators were placed, compiled and ready to run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ...errors import InputError, RunError
from ...profiles.backends import Backend, Compiled
from ..backends.capture import Captured, recorded
from ..backends.program import Group, Program
from ..backends.subgraph import subgraph
from .rounds import one_core

if TYPE_CHECKING:
    import torch

__all__ = ["Compiler", "Placed", "Timed", "Unit"]


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
    unit_ms : tuple of float
        Each unit, milliseconds.
    total_ms : float
        The whole, milliseconds; the rest is what goes on between units.
    """

    unit_ms: tuple[float, ...]
    total_ms: float


class Placed:
    """A network cut into units, each compiled by its backend.

    Parameters
    ----------
    captured : Captured
        The network.
    units : sequence of Unit
        Each operator in one of them.
    compiled : sequence of callable
        What each unit's backend made of it.
    backends : sequence of Backend
        Whose flags hold while their units run.

    Raises
    ------
    InputError
        If an operator is in no unit or in two, or units wait for each other in a circle.
    """

    def __init__(
        self, captured: Captured, units: Sequence[Unit], compiled: Sequence[Compiled], backends: Sequence[Backend]
    ) -> None:
        graph = captured.graph
        bits = [graph.bits(unit.nodes) for unit in units]
        groups = [Group(unit.backend, members, run) for unit, members, run in zip(units, bits, compiled, strict=True)]
        by_bits = dict(zip(bits, units, strict=True))
        self.captured = captured
        self.program = Program(graph, groups, {backend.name: backend.held for backend in backends})
        self.units = tuple(by_bits[group.members] for group in self.program.groups)
        """In the order in which they run."""

    def __call__(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Run the network.

        Raises
        ------
        InputError
            If the inputs are not of the shapes and types that it was planned for.
        """
        self._check(inputs)
        return self.program(*inputs)

    def timed(self, *inputs: torch.Tensor) -> Timed:
        """Run it, and say what each unit took.

        Raises
        ------
        InputError
            As a call does.
        """
        self._check(inputs)
        begun = time.process_time_ns()
        laps = self.program.timed(inputs, [0], [0] * len(self.units))
        total = time.process_time_ns() - begun
        return Timed(tuple(each / 1e6 for each in laps), total / 1e6)

    @cached_property
    def crossings(self) -> int:
        """Values that go from one backend to another, once for each unit that reads them."""
        graph = self.captured.graph
        maker = {name: unit.backend for unit in self.units for name in unit.nodes}
        return sum(
            maker.get(name, unit.backend) != unit.backend
            for unit in self.units
            for name in graph.reads(graph.bits(unit.nodes))
        )

    def _check(self, inputs: Sequence[torch.Tensor]) -> None:
        expected = self.captured.example
        if len(inputs) != len(expected):
            raise InputError(f"placement: expected {len(expected)} inputs (got {len(inputs)})")
        for k, (given, wanted) in enumerate(zip(inputs, expected, strict=True)):
            if given.shape != wanted.shape or given.dtype != wanted.dtype:
                raise InputError(
                    f"placement: input {k}: planned for {tuple(wanted.shape)} of {wanted.dtype} (got "
                    f"{tuple(given.shape)} of {given.dtype}); plan for this batch"
                )


class Compiler:
    """Compiles units of one network, each once: placements that share units share what was compiled.

    Parameters
    ----------
    captured : Captured
        The network.
    backends : sequence of Backend
        That units may name.
    """

    def __init__(self, captured: Captured, backends: Sequence[Backend]) -> None:
        self.captured, self.backends = captured, {backend.name: backend for backend in backends}
        self._compiled: dict[tuple[str, int], Compiled] = {}

    @cached_property
    def _values(self) -> dict[str, Any]:
        return recorded(self.captured.module, self.captured.example)

    def placed(self, units: Sequence[Unit]) -> Placed:
        """The network in these units.

        Raises
        ------
        InputError
            If a unit names a backend that is not among them, or the units do not make the graph.
        RunError
            If a backend cannot compile its unit.
        """
        compiled = [self._of(unit) for unit in units]
        return Placed(self.captured, units, compiled, tuple(self.backends.values()))

    def _of(self, unit: Unit) -> Compiled:
        import torch

        if unit.backend not in self.backends:
            raise InputError(f"placement: no backend {unit.backend!r} among {', '.join(self.backends)}")
        graph = self.captured.graph
        members = graph.bits(unit.nodes)
        key = unit.backend, members
        if key not in self._compiled:
            backend = self.backends[unit.backend]
            example = [self._values[name] for name in graph.reads(members)]
            try:
                # oneDNN Graph compiles for the threads that there are: for two, it is 20 times slower on one
                with one_core(), torch.inference_mode(), backend.held():
                    self._compiled[key] = backend.compile(subgraph(self.captured, unit.nodes), example)
            except Exception as error:
                line = " ".join(str(error).split())[:200]
                raise RunError(
                    f"backend {unit.backend!r} cannot compile {', '.join(unit.nodes[:3])}: {type(error).__name__}: "
                    f"{line}"
                ) from error
        return self._compiled[key]
