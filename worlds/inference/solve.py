"""An inference case solved: a cost table, and the cheapest placement by its planner."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import InfeasibleError, InputError
from ...planners.collage.exact import place
from ...planners.collage.instance import Instance, read_instance
from ...planners.collage.placement import Placement
from ...profiles.backends.costs import CostTable
from ...profiles.backends.document import costs_document
from ...simulator.plan.entries import PlannerEntry
from ...wording import nearest
from .case import InferenceCase
from .plan import InferenceGroupEntry, InferenceMachineEntry, InferencePlan, SecondEntry

__all__ = ["MEASURING", "PLANNERS", "Choice", "choose", "instance_of", "plan_of", "singles", "taken"]

PLANNERS: Mapping[str, str] = {
    "collage": "operator level, then evolution: regions given whole to a graph library, measured end to end",
    "collage-op": "the cheapest cover of the operators by what backends take of them (Algorithm 1, exact)",
    "collage-segments": "stretches of the network given whole to graph libraries, with what cutting costs",
    "single-backend": "the one backend that runs the whole network fastest",
    "rule-based": "each operator, with what fuses, on the first backend listed that takes it",
    "exhaustive": "every cover of at most 16 operators",
}
"""Name -> what it does."""

MEASURING = ("collage", "collage-segments")
"""Planners that measure placements while they plan: of no use to a study, whose points come out alike anywhere."""


@dataclass(frozen=True)
class Choice:
    """Which backend runs which operators.

    Parameters
    ----------
    groups : tuple of (str, tuple of str)
        Backend and operators, in an order in which they can run.
    evaluations : int
        Placements, or states, that were looked at.
    notes : tuple of str
        What a reader must know.
    """

    groups: tuple[tuple[str, tuple[str, ...]], ...]
    evaluations: int = 0
    notes: tuple[str, ...] = ()


def instance_of(table: CostTable) -> Instance:
    """A cost table as the planners take it."""
    return read_instance(table.instance())


def choose(case: InferenceCase, table: CostTable) -> Choice:
    """The placement of a planner that measures nothing itself.

    Raises
    ------
    InputError
        If the planner is unknown, or has no such option.
    InfeasibleError
        If there is no placement.
    """
    name, options = case.planner.name, dict(case.planner.options)
    solvers = _solvers()
    if name not in solvers:
        near = nearest(name, PLANNERS)
        hint = f"did you mean {near!r}?" if near else f"known: {', '.join(PLANNERS)}"
        raise InputError(f"planner.name: unknown planner {name!r}; {hint}")
    placement = solvers[name](instance_of(table), case.backends, options)
    if options:
        raise InputError(f"planner.options: {name} has no option {next(iter(options))!r}")
    return _choice(table, placement)


def _solvers() -> dict[str, Callable[[Instance, Sequence[str], dict[str, Any]], Placement]]:
    from ...planners.collage.baselines import exhaustive, rule_based, single_backend

    return {
        "collage-op": lambda instance, _, options: place(instance, **taken(options, steps=int, seconds=float)),
        "single-backend": lambda instance, _, __: single_backend(instance),
        "rule-based": lambda instance, order, _: rule_based(instance, [b for b in order if b in instance.backends]),
        "exhaustive": lambda instance, _, __: exhaustive(instance),
    }


def taken(options: dict[str, Any], **known: Callable[[Any], Any]) -> dict[str, Any]:
    """Options that a planner has, taken out of what was said."""
    found: dict[str, Any] = {}
    for name, kind in known.items():
        if name in options:
            value = options.pop(name)
            try:
                found[name] = kind(value)
            except (TypeError, ValueError):
                raise InputError(f"planner.options: {name}: expected a number (got {value!r})") from None
    return found


def _choice(table: CostTable, placement: Placement) -> Choice:
    ids = [node.id for node in table.graph.nodes]
    groups = tuple((match.backend, tuple(ids[k] for k in sorted(match.nodes))) for match in placement.chosen)
    return Choice(groups, placement.states)


def singles(table: CostTable) -> dict[str, Choice]:
    """Backend -> the whole network on it alone, for those that take all of it. A graph library gets it as one.

    Where it cannot, and of an operator library, the cheapest cover counts.
    """
    from ...planners.collage.baselines import single_backends

    return {name: _choice(table, placement) for name, placement in single_backends(instance_of(table)).items()}


def plan_of(
    case: InferenceCase, table: CostTable, choice: Choice, *, begun: float | None = None,
    measured: Mapping[str, float] | None = None, notes: Sequence[str] = (),
) -> InferencePlan:  # fmt: skip
    """The plan of a choice.

    Parameters
    ----------
    case, table, choice
        What was asked, measured and decided.
    begun : float, optional
        When planning began, by `time.monotonic`; a plan that says nothing of it comes out alike each time.
    measured : mapping of str to float, optional
        What was measured end to end, milliseconds.
    notes : sequence of str
        What a reader must know besides.
    """
    costs = {(m.backend, frozenset(m.nodes)): m.cost_ms for m in table.matches}
    instance = instance_of(table)
    groups = tuple(
        InferenceGroupEntry(
            backend=backend, nodes=nodes, cost_ms=_cost(table, costs, backend, nodes),
            second=_second(table, instance, backend, nodes),
        )
        for backend, nodes in choice.groups
    )  # fmt: skip
    used = dict.fromkeys(group.backend for group in groups)
    alone = {name: _total(table, costs, one) for name, one in singles(table).items()}
    ms = _total(table, costs, choice)
    predicted = {"latency_s": ms / 1e3, "samples_per_s": 1e3 * case.workload.batch / ms}
    if alone:
        predicted |= {"single_s": min(alone.values()) / 1e3, "speedup": min(alone.values()) / ms}
    slo = case.workload.slo
    return InferencePlan(
        model=case.model, batch=case.workload.batch,
        machine=InferenceMachineEntry(
            cpu=table.provenance.machine.cpu, threads=table.provenance.machine.threads,
            versions={name: table.backends[name].version for name in used},
        ),
        groups=groups,
        planner=PlannerEntry(
            name=case.planner.name, options=json.loads(case.planner.model_dump_json())["options"], seed=case.seed,
            seconds=0.0 if begun is None else time.monotonic() - begun, evaluations=choice.evaluations,
        ),
        slo=None if slo is None else slo * case.workload.slo_scale, predicted=predicted,
        measured=dict(measured or {}), notes=(*choice.notes, *notes),
        costs=costs_document(table),
    )  # fmt: skip


def _total(table: CostTable, costs: Mapping[tuple[str, frozenset[str]], float], choice: Choice) -> float:
    """Predicted milliseconds of a call."""
    return sum(
        _cost(table, costs, backend, nodes) + table.backends[backend].context_ms for backend, nodes in choice.groups
    )


def _cost(
    table: CostTable, costs: Mapping[tuple[str, frozenset[str]], float], backend: str, nodes: tuple[str, ...]
) -> float:
    """What a group takes: as measured, or, of a region that no match is, its cheapest cover by its backend."""
    known = costs.get((backend, frozenset(nodes)))
    if known is not None:
        return known
    within = _within(table, instance_of(table), nodes, lambda match: match.backend == backend)
    return place(within).cost if within is not None else 0.0


def _second(table: CostTable, instance: Instance, backend: str, nodes: tuple[str, ...]) -> SecondEntry | None:
    """The cheapest other way to run the same operators."""
    at = {table.graph.index[name] for name in nodes}
    within = _within(table, instance, nodes, lambda match: not (match.backend == backend and set(match.nodes) == at))
    if within is None:
        return None
    try:
        other = place(within)
    except InfeasibleError:
        return None
    return SecondEntry(backends=tuple(match.backend for match in other.chosen), cost_ms=other.cost)


def _within(
    table: CostTable, instance: Instance, nodes: tuple[str, ...], wanted: Callable[[Any], bool]
) -> Instance | None:
    """The instance of some operators alone; what they read from outside is given. None if that has several outputs."""
    at = {table.graph.index[name] for name in nodes}
    kept = [node for node in instance.nodes if node.id in at]
    read = {x for node in kept for x in node.inputs}
    if len([node for node in kept if node.id not in read]) != 1:
        return None
    inside = tuple(
        type(node)(node.id, node.op, tuple(x if x in at else -1 for x in node.inputs)) for node in kept
    )  # fmt: skip
    matches = tuple(match for match in instance.matches if set(match.nodes) <= at and wanted(match))
    return Instance(inside, matches, instance.eps, instance.boundary_cost)
