"""A plan on this machine: its network captured, its groups compiled, held against eager; or why that cannot be."""

from __future__ import annotations

from pathlib import Path

from ....errors import InputError, RunError
from ....profiles.backends.keys import this_cpu
from ....runtime.backends.capture import Captured
from ....runtime.backends.measure.agreement import disagreement
from ....runtime.backends.registry import backends
from ....runtime.collage.placed import Compiler, Placed, Unit
from ..network import captured_network
from ..plan import InferencePlan

__all__ = ["TOLERANCE", "checked", "compiler_of", "network_of_plan", "units_of"]

TOLERANCE = 1e-4
"""Largest difference from eager over the largest value; what a match may differ by, too (thesis 003 says nothing)."""


def units_of(plan: InferencePlan) -> tuple[Unit, ...]:
    """The plan's groups."""
    return tuple(Unit(group.backend, group.nodes) for group in plan.groups)


def network_of_plan(plan: InferencePlan, folder: Path) -> Captured:
    """The plan's network, which must be what it was planned for.

    Raises
    ------
    InputError
        If it has other operators now, or other shapes.
    """
    captured = captured_network(plan.model, plan.batch, folder)
    was, now = plan.table.graph, captured.graph
    if [(n.id, n.op, n.inputs, n.shapes) for n in was.nodes] != [(n.id, n.op, n.inputs, n.shapes) for n in now.nodes]:
        raise InputError(
            f"{plan.model}: the network is not the one that was planned: {len(now.nodes)} operators now, "
            f"{len(was.nodes)} then, or others, or of other shapes; plan it again"
        )
    return captured


def compiler_of(plan: InferencePlan, captured: Captured) -> Compiler:
    """The plan's backends, which must be those that it was planned for, on the processor that it was planned for.

    Raises
    ------
    InputError
        If the processor or a version is another one; what was measured does not hold then.
    """
    if plan.machine.cpu != this_cpu():
        raise InputError(
            f"the plan is for {plan.machine.cpu}, and this is {this_cpu()}: its costs do not hold here; plan again"
        )
    made = backends(dict.fromkeys(group.backend for group in plan.groups))
    for backend in made:
        was = plan.machine.versions.get(backend.name)
        if was != backend.version():
            raise InputError(
                f"the plan is for {backend.name} {was}, and here is {backend.version()}: its costs do not hold; plan "
                "again"
            )
    return Compiler(captured, made)


def checked(placed: Placed) -> float:
    """Largest difference from eager over the largest value, on 3 random inputs.

    Raises
    ------
    RunError
        If it is larger than `TOLERANCE`, or the result is none.
    """
    captured = placed.captured
    try:
        error = disagreement(lambda *given: (placed(*given),), captured.module, captured.example, 0)
    except Exception as raised:
        line = " ".join(str(raised).split())[:200]
        raise RunError(f"the placement cannot be held against eager: {type(raised).__name__}: {line}") from raised
    if not error <= TOLERANCE:
        raise RunError(
            f"the placement is not the network: it differs from eager by {error:.2g} of the largest value (at most "
            f"{TOLERANCE:g}); nothing was timed"
        )
    return error
