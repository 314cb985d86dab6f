"""Where each torchrun rank of a group stands, and what it holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...errors import InputError
from ...kernels.specs import ModelSpec
from ...simulator.serving.plan.file import GroupEntry, Plan
from ..serving.assignment import boundaries, model_spec

__all__ = ["Held", "deployment_name", "equal_groups", "held_models", "nodes_of", "positions"]


@dataclass(frozen=True, slots=True)
class Held:
    """One model of a group.

    Parameters
    ----------
    spec : ModelSpec
        Its shape.
    seed : int
        Its weights are made from it.
    cuts : tuple of int
        Layer boundaries of the stages, length ``pp + 1``.
    """

    spec: ModelSpec
    seed: int
    cuts: tuple[int, ...]


def nodes_of(plan: Plan, group: GroupEntry) -> dict[int, list[int]]:
    """Node -> the group's devices on it (numbers within the node), both in stage order: position 0 is on the first."""
    per_node = plan.cluster.devices_per_node
    found: dict[int, list[int]] = {}
    for device in group.devices:
        found.setdefault(device // per_node, []).append(device % per_node)
    return found


def positions(plan: Plan, group: GroupEntry) -> list[int]:
    """Rank -> position in ``group.devices``: torchrun numbers ranks node by node, a group its devices by stage."""
    per_node = plan.cluster.devices_per_node
    turn = {node: k for k, node in enumerate(nodes_of(plan, group))}
    return sorted(range(len(group.devices)), key=lambda i: turn[group.devices[i] // per_node])


def held_models(plan: Plan, number: int) -> dict[str, Held]:
    """The models of group `number`, ready to be built.

    Raises
    ------
    InputError
        If there is no such group, or a model's architecture is not shipped or cannot be cut so.
    """
    if not 0 <= number < len(plan.groups):
        raise InputError(f"group: the plan has groups 0 … {len(plan.groups) - 1} (got {number})")
    group = plan.groups[number]
    placed = plan.placement.groups[number]
    held = {}
    for name in group.models:
        spec, seed = model_spec(name, plan, {})
        try:
            spec.check_op(group.op)
        except ValueError as error:
            raise InputError(f"model {name!r}: {error}") from None
        held[name] = Held(spec, seed, boundaries(spec, placed, group.partition.get(name, ())))
    return held


def equal_groups(plan: Plan) -> list[list[int]]:
    """Numbers of the groups that hold models, those that are replicas of each other together, in plan order."""
    kinds: dict[Any, list[int]] = {}
    for number, group in enumerate(plan.groups):
        if group.models:
            key = (group.config, tuple(sorted(group.models)), tuple(sorted(group.partition.items())))
            kinds.setdefault(key, []).append(number)
    return list(kinds.values())


def deployment_name(number: int) -> str:
    """Name of the deployment whose first replica is group `number`."""
    return f"group-{number}"
