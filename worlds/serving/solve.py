"""A serving case solved: planned (or a plan taken as it stands), perhaps with groups lost, and simulated."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from ...errors import InfeasibleError, InputError
from ...planners import Problem, ScheduledPlan
from ...profiles import ModelProfile
from ...profiles.spread import Variation
from ...seeds import spawned
from ...simulator.cluster import Cluster
from ...simulator.placement import Group, Placement, PlacementSchedule
from ...simulator.serving import SimulationResult, simulate
from ...simulator.serving.conditions import Conditions
from ...simulator.serving.forecast import Forecast, over_draws
from ...simulator.serving.plan.file import Plan
from ...simulator.serving.times import devices_of, times_of
from ...traces.trace import Trace
from ..fields import find_field, set_fields
from .case import ServingCase
from .conditions.failing import breakdowns_of
from .conditions.scaled import ScalingCase, repairs_of, scaling_of
from .conditions.varying import cautious, variation_of
from .data import ServingData, cluster_of
from .traffic import traffic

__all__ = ["Solved", "planning_case", "solve"]

CACHED_PLANS = 64
"""Plans that a worker remembers: points that differ in nothing that a planner sees share one."""


@dataclass(frozen=True)
class Solved:
    """A case solved in full: what was decided and how every request fared.

    Parameters
    ----------
    case : ServingCase
        What was asked.
    problem : Problem
        The case as a planner sees it: what it is served on, and the traffic that was planned on.
    plan : Plan or ScheduledPlan
        What was decided, perhaps for another variant of the case (`planner.planned_for`).
    result : SimulationResult
        The scored traffic on the plan's placement, without the lost groups' models.
    lost : tuple of int
        Groups that are lost, by their index in the plan.
    drawn : Forecast, optional
        Where times or failures are drawn: what all draws came to; `result` is then the one with the median attainment.
    """

    case: ServingCase
    problem: Problem
    plan: Plan | ScheduledPlan
    result: SimulationResult
    lost: tuple[int, ...] = ()
    drawn: Forecast | None = None

    @property
    def attainment(self) -> float:
        """What is attained; of draws, in the mean."""
        return self.result.attainment if self.drawn is None else self.drawn.mean


def solve(case: ServingCase, data: ServingData) -> Solved:
    """Plan a case and score the plan.

    Raises
    ------
    InfeasibleError
        If nothing can be planned, or a plan that was made for something else does not fit.
    """
    plan, problem = _plan(case, data), problem_of(case, data)
    case = data.told(case)
    if case.planner.plan is not None or case.planner.planned_for:
        held = dict.fromkeys(name for p in _placements(plan) for name in p.models)
        check_fit(plan, problem.cluster, data.costs_of(case, tuple(held)))
    scored = traffic(case, data)
    known, variation = cautious(case, problem.profiles, variation_of(case, problem.profiles))

    def conditions(seed: int) -> Conditions | None:
        return _conditions(case, data, plan, problem, scored, variation, seed)

    def score(lost: Sequence[int]) -> Solved:
        placement = _without(plan.placement, lost)

        def simulated(seed: int) -> SimulationResult:
            result = simulate(
                placement, scored, known, dispatch=problem.dispatch,
                batching=case.serving.max_batch if case.serving.max_batch > 1 else None, admission=problem.admission,
                overhead=problem.overhead, conditions=conditions(seed),
            )  # fmt: skip
            return result.trim(case.warmup) if case.warmup else result

        if variation.constant and not case.failures.random:
            return Solved(case, problem, plan, simulated(case.seed), tuple(lost))
        told = over_draws(simulated, draws=case.serving.draws, seed=case.seed)
        return Solved(case, problem, plan, simulated(spawned(case.seed, told.middle)), tuple(lost), told)

    if case.planner.lost_groups != "worst":
        return score(case.planner.lost_groups)
    return min((score((g,)) for g in range(_n_groups(plan))), key=lambda one: one.attainment)


def _conditions(
    case: ServingCase, data: ServingData, plan: Plan | ScheduledPlan, problem: Problem, scored: Trace,
    variation: Variation, seed: int,
) -> Conditions | None:  # fmt: skip
    """Times that vary, machines that fail, and groups that follow the load while the traffic is served."""
    times = times_of(variation, max(_placements(plan), key=devices_of), scored, seed)
    breakdowns = breakdowns_of(case.failures, case.loading, data.scripts)
    if breakdowns is None and case.scaling.least is None:
        return None if times is None else Conditions(times)
    if isinstance(plan, ScheduledPlan):
        named = "failures: name" if case.scaling.least is None else "scaling: is of the"
        raise InputError(f"{named} groups of one placement, and the plan changes its placement over time")
    held = data.costs_of(case, plan.placement.models)
    rule = scaling_of(case.scaling, plan.placement, problem.cluster, held, case.loading)
    breakdowns = repairs_of(breakdowns, rule)
    if breakdowns is None:
        return Conditions(times, scaling=rule)
    outages = breakdowns.outages(plan.placement, problem.cluster, held, float(scored.arrival[-1]), seed)
    return Conditions(times, outages, rule)


def problem_of(case: ServingCase, data: ServingData) -> Problem:
    """The case as its planner sees it."""
    profiles = data.profiles_for(case)
    serving = case.serving
    planned_on = traffic(case, data, "history" if case.planner.plan_on == "history" else "scored")
    return Problem(
        cluster_of(case), tuple(profiles), planned_on, profiles, dispatch=serving.dispatch,
        admission=serving.admission, overhead=profiles.overhead_s if serving.overhead is None else serving.overhead,
        max_batch=serving.max_batch, seed=case.seed, options=case.planner.options,
        breakdowns=breakdowns_of(case.failures, data.told(case).loading, data.scripts),
    )  # fmt: skip


def planning_case(case: ServingCase) -> ServingCase:
    """The variant of a case that its plan is made for: the case itself, but for `planner.planned_for`.

    What no planner sees is set back to its default, so that cases which differ in that alone share a plan.
    """
    asked = {find_field(ServingCase, name): value for name, value in case.planner.planned_for.items()}
    unseen: dict[str, Any] = {"planner.planned_for": {}, "planner.lost_groups": (), "planner.label": "", "warmup": 0.0}
    return set_fields(case.model_copy(update={"scaling": ScalingCase()}), asked | unseen)


@dataclass(frozen=True)
class _Planning:
    """A planning problem; equal to another if all that a planner sees of the two is."""

    seen: str
    case: ServingCase = field(compare=False)
    data: ServingData = field(compare=False)


def _plan(case: ServingCase, data: ServingData) -> Plan | ScheduledPlan:
    """The plan of a case; the same planning problem is solved once in a process."""
    if case.planner.plan is not None:
        return data.plans[case.planner.plan]
    asked = planning_case(case)
    seen = [asked.model_dump(mode="json"), data.digests_of(asked), data.planners[asked.planner.name].digest]
    return _solved(_Planning(json.dumps(seen), asked, data))


@lru_cache(maxsize=CACHED_PLANS)
def _solved(planning: _Planning) -> Plan | ScheduledPlan:
    case, data = planning.case, planning.data
    return data.planners[case.planner.name].plan(problem_of(case, data), where="planner.options")


def _placements(plan: Plan | ScheduledPlan) -> tuple[Placement, ...]:
    return plan.placement.placements if isinstance(plan, ScheduledPlan) else (plan.placement,)


def check_fit(plan: Plan | ScheduledPlan, cluster: Cluster, profiles: Mapping[str, ModelProfile]) -> None:
    """Refuse to score a plan on a cluster that it does not fit.

    Raises
    ------
    InfeasibleError
        If it uses devices that the cluster lacks, or more memory.
    InputError
        If it was made for another device type.
    """
    for placement in _placements(plan):
        used = 1 + max(d for g in placement.groups for d in g.devices or ())
        if used > cluster.n_devices:
            raise InfeasibleError(f"the plan uses {used} devices, the cluster has {cluster.n_devices}")
    if isinstance(plan, Plan):
        plan.validate_for(cluster, profiles)
    else:
        for placement in _placements(plan):
            placement.check(cluster, profiles)


def _n_groups(plan: Plan | ScheduledPlan) -> int:
    """Groups that can be lost: those that the plan has at any time, counted alike in every window."""
    return min(len(p.groups) for p in _placements(plan))


def _without(placement: Placement | PlacementSchedule, lost: Sequence[int]) -> Placement | PlacementSchedule:
    """A placement whose lost groups hold nothing: requests go to the models' other replicas, or are rejected."""
    if not lost:
        return placement
    if isinstance(placement, PlacementSchedule):
        return PlacementSchedule(placement.starts, [_emptied(p, lost) for p in placement.placements], placement.carry)
    return _emptied(placement, lost)


def _emptied(placement: Placement, lost: Sequence[int]) -> Placement:
    unknown = [g for g in lost if g >= len(placement.groups)]
    if unknown:
        raise InputError(
            f"planner.lost_groups: the plan has groups 0 … {len(placement.groups) - 1} (got {unknown[0]}); "
            'name one of them, or say "worst"'
        )
    return Placement(Group(g.config, () if i in lost else g.models, g.devices) for i, g in enumerate(placement.groups))
