"""Planners that break one rule of the contract each."""

from __future__ import annotations

import gc
import random

import numpy as np
from meshwright.planners import trivial
from meshwright.simulator import Group, ParallelConfig, Placement, PlacementSchedule
from meshwright.simulator.serving.plan.file import PlannerEntry
from meshwright.traces import Trace

ONE = ParallelConfig(1, 1)
FUTURE: list[Trace] = []
SEEN: list[str] = []


def overfills(problem):
    """Everything on the first device."""
    return Placement([Group(problem.smallest_config(problem.models[0]), problem.models)])


def foreign_model(problem):
    problem.smallest_config(problem.models[0])
    return problem.plan(Placement([Group(ONE, ["nobody"])]), name="foreign")


def device_too_many(problem):
    config = problem.smallest_config(problem.models[0])
    first = problem.cluster.n_devices
    return Placement([Group(config, problem.models[:1], range(first, first + config.n_devices))])


def one_of(problem, models):
    """The trivial plan, its groups told in the order of `models`: different plans of equal worth."""
    return Placement(sorted(trivial.placement(problem).groups, key=lambda g: models.index(g.models[0])))


def rolls_dice(problem):
    groups = list(trivial.placement(problem).groups)
    random.shuffle(groups)
    return Placement(groups)


def counts_calls(problem):
    """Alternates between two plans."""
    SEEN.append("call")
    groups = trivial.placement(problem).groups
    return Placement(groups if len(SEEN) % 2 else groups[::-1])


def remembers(problem):
    """The plan depends on what was planned before it."""
    name = f"{problem.models}{len(problem.trace)}"
    groups = trivial.placement(problem).groups
    flipped = bool(SEEN) and SEEN[-1] > name
    SEEN.append(name)
    return Placement(groups[::-1] if flipped else groups)


def order_of_a_set(problem):
    return one_of(problem, list(set(problem.models)))


def order_of_a_mapping(problem):
    return one_of(problem, list(problem.profiles))


def reads_the_future(problem):
    """The model that will be busiest comes first."""
    if not FUTURE:
        return trivial.plan(problem)
    busiest = FUTURE[-1].models[int(np.argmax(FUTURE[-1].counts()))]
    groups = trivial.placement(problem).groups
    return Placement(sorted(groups, key=lambda g: busiest not in g.models))


def searches_memory(problem):
    """Looks for a trace that it was not given among all objects."""
    groups = trivial.placement(problem).groups
    others = [t for t in gc.get_objects() if isinstance(t, Trace) and set(t.models) == set(problem.models)]
    rates = [t.rate for t in others if not np.isclose(t.rate, problem.trace.rate)]
    return Placement(groups[::-1] if rates else groups)


def foresees(problem):
    """Changes its placement in the middle, to suit what comes then."""
    trivial_one = trivial.placement(problem)
    half = problem.trace.duration / 2
    later = problem.trace.model[problem.trace.arrival > half]
    flipped = Placement(trivial_one.groups[::-1])
    first = trivial_one if len(later) % 2 or later.sum() % 3 else flipped
    return PlacementSchedule([0.0, half], [first, flipped if first is trivial_one else trivial_one])


def keeps_the_past(problem):
    """As `foresees`, but the second half is placed after the traffic of the first: a good one."""
    placement = trivial.placement(problem)
    half = problem.trace.duration / 2
    earlier = problem.trace.model[problem.trace.arrival <= half]
    turned = Placement([Group(g.config, g.models[::-1], g.devices) for g in placement.groups])
    return PlacementSchedule([0.0, half], [placement, turned if earlier.sum() % 2 else placement])


def worse_than_trivial(problem):
    """Serves one model alone."""
    model = problem.models[0]
    return Placement([Group(problem.smallest_config(model), [model])])


def writes_the_trace(problem):
    arrival = problem.trace.arrival
    arrival.flags.writeable = True
    arrival[:] = np.sort(arrival) * 0.5
    return trivial.plan(problem)


def forgets_a_profile(problem):
    plan = trivial.plan(problem)
    problem.profiles.pop(problem.models[-1])
    return plan


def a_dict(problem):
    problem.smallest_config(problem.models[0])
    return {"groups": []}


def nothing(problem):
    problem.smallest_config(problem.models[0])


def boasts(problem):
    plan = trivial.plan(problem)
    return plan.model_copy(update={"predicted": {**plan.predicted, "attainment": 1.0, "goodput": 1e9}})


def not_json(problem):
    return problem.plan(trivial.placement(problem), name="x", options={"best": object()})


def plans_the_impossible(problem):
    if all(not problem.configs(model) for model in problem.models):
        return problem.plan(Placement([Group(ONE)]), name="optimist")
    return trivial.plan(problem)


def never_feasible(problem):
    problem.smallest_config(problem.models[0])
    from meshwright.errors import InfeasibleError

    raise InfeasibleError("too hard")


def takes_any_option(problem, **options):
    return trivial.plan(problem)


def by_name(problem):
    """Breaks ties by name."""
    placement = trivial.placement(problem)
    return Placement(sorted(placement.groups, key=lambda g: g.models))


def another_cluster(problem):
    from dataclasses import replace

    from meshwright.simulator import Cluster

    other = replace(problem, cluster=Cluster(2, problem.cluster.n_devices, problem.cluster.spec))
    return trivial.plan(other)


def other_serving(problem):
    plan = trivial.plan(problem)
    return plan.model_copy(update={"serving": plan.serving.model_copy(update={"overhead_s": 5.0})})


def no_metrics(problem):
    """A plan without predictions: they are filled in."""
    from meshwright.simulator import Plan

    return Plan.of(
        problem.cluster, trivial.placement(problem), problem.profiles, planner=PlannerEntry(name="bare"),
        trace=problem.trace, serving=problem.serving,
    )  # fmt: skip
