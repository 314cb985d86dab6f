"""`reference.py` with a planted regression: it counts memory in slots of the largest model, and no gap is ever used."""

from collections.abc import Mapping

from meshwright.planners import Problem
from meshwright.profiles import ParallelConfig
from meshwright.simulator import Group, Placement, Plan

PIPE = ParallelConfig(1, 2)


def free(group: Group, problem: Problem) -> float:
    return problem.cluster.memory_bytes - max(group.memory_bytes(problem.profiles), default=0.0)


def unserved(groups: list[Group], problem: Problem) -> Mapping[str, int]:
    result = problem.simulate(Placement(groups))
    lost = problem.trace.model[~result.attained].tolist()
    return {name: lost.count(m) for m, name in enumerate(problem.trace.models)}


def plan(problem: Problem) -> Plan:
    largest = max(max(problem.profiles[name].weight_bytes(PIPE)) for name in problem.models)
    slots = int(problem.cluster.memory_bytes // largest)
    groups = [Group(PIPE) for _ in range(problem.cluster.n_devices // 2)]
    evaluations = 0
    while True:
        evaluations += 1
        wanted = unserved(groups, problem)
        for name in sorted(wanted, key=lambda n: (-wanted[n], n)):
            room = [g for g, group in enumerate(groups) if name not in group.models and len(group.models) < slots]
            if wanted[name] and room:
                g = max(room, key=lambda g: (free(groups[g], problem), -g))
                groups[g] = Group(PIPE, [*groups[g].models, name])
                break
        else:
            return problem.plan(Placement(groups), name="fragmenting", evaluations=evaluations)
