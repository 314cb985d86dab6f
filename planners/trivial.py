"""The trivial plan: one replica of each model, without looking at the traffic.

It is a lower bar: no planner should do worse.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import InfeasibleError
from ..profiles.config import ParallelConfig
from ..simulator.placement import Group, Placement
from ..simulator.serving.plan.file import Plan
from .contract.problem import Problem

__all__ = ["placement", "plan"]


def plan(problem: Problem) -> Plan:
    """The plan of the trivial placement (see `placement`)."""
    return problem.plan(placement(problem), name="trivial")


def placement(problem: Problem) -> Placement:
    """One replica of each model, under the smallest configuration that fits it.

    Models that need the largest configuration are placed first, and otherwise in the order of the problem. A model goes
    to the first group of its configuration that has room; if none has, a new group is opened. The models with the
    smallest configuration share all devices that are left, and are dealt out to their groups in turn. A model that
    finds no room gets no replica, and its requests are lost.

    Parameters
    ----------
    problem : Problem
        The models, the cluster and the trace to place for.

    Raises
    ------
    InfeasibleError
        If a model fits nowhere. The message says the smallest change that would make it fit.
    """
    wanted: dict[ParallelConfig, list[str]] = {}
    for model in problem.models:
        wanted.setdefault(problem.smallest_config(model), []).append(model)
    left = problem.cluster.n_devices
    groups: list[Group] = []
    # Largest configurations first, while whole groups of devices are still free; ties by the configuration itself, and
    # not by which model was named first.
    order = sorted(wanted, key=lambda config: (-config.n_devices, config))
    for config in order[:-1]:
        opened = _first_fit(problem, config, wanted[config], left // config.n_devices)
        left -= len(opened) * config.n_devices
        groups += opened
    last = order[-1]
    groups += _dealt(problem, last, wanted[last], left // last.n_devices)
    filled = [group for group in groups if group.models]
    if not filled:  # a cluster of any devices holds one model of the largest configuration, so this is never seen
        raise InfeasibleError("the trivial plan places no model")
    return Placement(filled)


def _first_fit(problem: Problem, config: ParallelConfig, models: Sequence[str], most: int) -> list[Group]:
    """First fit: at most `most` groups; a new one is opened when no earlier one has room."""
    groups: list[Group] = []
    for model in models:
        for g, group in enumerate(groups):
            if problem.fits(Group(config, [*group.models, model])):
                groups[g] = Group(config, [*group.models, model])
                break
        else:
            if len(groups) < most:
                groups.append(Group(config, [model]))
    return groups


def _dealt(problem: Problem, config: ParallelConfig, models: Sequence[str], count: int) -> list[Group]:
    """`count` groups, filled round robin: each model goes to the next group with room after the one filled last."""
    groups = [Group(config)] * count
    turn = 0
    for model in models:
        for step in range(count):
            g = (turn + step) % count
            if problem.fits(Group(config, [*groups[g].models, model])):
                groups[g] = Group(config, [*groups[g].models, model])
                turn = g + 1
                break
    return groups
