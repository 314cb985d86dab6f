"""`reference.py` after a pure refactoring: other names, another structure, the same plans."""

from dataclasses import dataclass, field

import numpy as np
from meshwright.planners import Problem
from meshwright.profiles import ParallelConfig
from meshwright.simulator import Group, Placement


@dataclass
class Search:
    problem: Problem
    held: list[list[str]] = field(default_factory=list)
    simulations: int = 0

    def group(self, index: int, *more: str) -> Group:
        return Group(ParallelConfig(1, 2), [*self.held[index], *more])

    def used(self, index: int) -> float:
        return max(self.group(index).memory_bytes(self.problem.profiles), default=0.0)

    def placement(self) -> Placement:
        return Placement([self.group(i) for i in range(len(self.held))])

    def demand(self) -> list[str]:
        self.simulations += 1
        trace = self.problem.trace
        misses = np.bincount(
            trace.model[~self.problem.simulate(self.placement()).attained], minlength=len(trace.models)
        )
        order = sorted(zip((-misses).tolist(), trace.models, strict=True))
        return [name for negative, name in order if negative]

    def step(self) -> bool:
        for name in self.demand():
            possible = [
                i for i, models in enumerate(self.held) if name not in models and self.problem.fits(self.group(i, name))
            ]
            if possible:
                self.held[min(possible, key=self.used)].append(name)
                return True
        return False


def plan(problem: Problem):
    search = Search(problem, [[] for _ in range(problem.cluster.n_devices // 2)])
    while search.step():
        pass
    return problem.plan(search.placement(), name="refactored", evaluations=search.simulations)
