"""`Evaluator`: candidates simulated on common random numbers, in this process or on several, with the same scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache
from multiprocessing import get_context

from ...errors import InfeasibleError
from ...profiles.llm.iteration import IterationCost
from ...simulator.cluster import Cluster
from ...simulator.llm.plan.entries import Deployment, ServedModel, promised
from ...simulator.llm.plan.file import LLMPlan
from ...simulator.llm.plan.simulate import simulate_plan
from ...simulator.llm.workload.requests import LLMTrace
from ...simulator.plan.entries import PlannerEntry
from ...spawning import check_can_start, check_workers
from ..bisection import Bisection
from .candidate import Candidate
from .costs import CostSource, KnownCosts
from .demand import LLMDemand
from .layouts import place
from .score import MOST_DOUBLINGS, Score, score_of

__all__ = ["Evaluator", "Score", "Setting", "Task"]

ALONE_S = 1e8
"""Requests that come over three years hardly meet, and such times are still exact to 15 ns: what is not attained there
is attained at no load."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What candidates are simulated in.

    Parameters
    ----------
    cluster : Cluster
        The devices.
    demands : tuple of LLMDemand
        The models.
    costs : CostSource
        What iterations cost; by default the device's roofline.
    target : float
        Share of the requests that must be good, for the highest rate.
    rate_tolerance : float
        How closely the highest rate is found, relative.
    """

    cluster: Cluster
    demands: tuple[LLMDemand, ...]
    costs: CostSource = field(default_factory=CostSource)
    target: float = 0.99
    rate_tolerance: float = 0.02

    def plan(self, demand: int, candidate: Candidate) -> LLMPlan:
        """The plan that a candidate for one of the models is.

        Raises
        ------
        InfeasibleError
            If its engines do not go into the nodes.
        """
        asked = self.demands[demand]
        shape = candidate.engine
        rows = place([(shape.devices, shape.tp)] * candidate.engines, self.cluster)
        if rows is None:
            raise InfeasibleError(f"{asked.name}: {candidate} does not go into {self.cluster}; give more devices")
        return LLMPlan.of(
            self.cluster, (served(asked),), candidate.deployments(asked.name, rows), router=candidate.router,
            planner=PlannerEntry(name="vllm"),
        )  # fmt: skip


def served(demand: LLMDemand) -> ServedModel:
    """A demand as plans say it."""
    return ServedModel.of(
        demand.model, name=demand.name, images=demand.images, expert_skew=demand.expert_skew,
        **promised(demand.promises),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Task:
    """One thing to find out.

    Parameters
    ----------
    demand : int
        Which of the models.
    candidate : Candidate
        How it is served.
    requests : int
        On how many of its first requests.
    seed : int
        Under which seed.
    highest_rate : bool
        Find the highest load at which the target is attained, instead of what is attained at the given one.
    """

    demand: int
    candidate: Candidate
    requests: int
    seed: int
    highest_rate: bool = False


class Evaluator:
    """Runs tasks and counts simulations.

    Parameters
    ----------
    setting : Setting
        What is simulated.
    workers : int
        Processes; 1: this one. The scores do not depend on it.
    """

    def __init__(self, setting: Setting, workers: int = 1) -> None:
        check_workers(workers)
        self.setting, self.simulations = setting, 0
        self._here = _Runner(setting)
        self._pool = None
        if workers > 1:
            check_can_start("plan: workers")
            self._pool = ProcessPoolExecutor(workers, get_context("spawn"), _begin, (setting,))

    def __call__(self, tasks: Sequence[Task]) -> list[Score]:
        """The scores, in order."""
        scores = list(map(self._here, tasks) if self._pool is None else self._pool.map(_work, tasks))
        self.simulations += sum(score.simulations for score in scores)
        return scores

    def on(self, cluster: Cluster) -> Evaluator:
        """One that simulates on another cluster, in this process."""
        return Evaluator(replace(self.setting, cluster=cluster))

    def __enter__(self) -> Evaluator:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


class _Runner:
    """Simulates tasks one after the other; keeps traces and costs."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.costs = KnownCosts(setting.costs)
        self.trace = lru_cache(maxsize=64)(self._trace)

    def _trace(self, demand: int, seed: int) -> LLMTrace:
        return self.setting.demands[demand].traffic.trace(seed)

    def __call__(self, task: Task) -> Score:
        try:
            plan = self.setting.plan(task.demand, task.candidate)
        except InfeasibleError:
            nothing = math.inf
            return Score(0.0, 0.0, 0.0, -nothing, 0.0, nothing, nothing, 0.0 if task.highest_rate else math.nan, 0)
        whole = self.trace(task.demand, task.seed)
        trace = whole if task.requests >= len(whole) else whole.select(slice(0, task.requests))
        if not task.highest_rate:
            return self.score(plan, task, trace, 1.0)
        return self.highest_rate(plan, task, trace)

    def score(self, plan: LLMPlan, task: Task, trace: LLMTrace, factor: float) -> Score:
        """One simulation at a multiple of the load."""

        def cost(deployment: Deployment) -> IterationCost:
            return self.costs.of(plan, deployment)

        result = simulate_plan(
            plan, faster(trace, factor), tables=self.setting.costs.tables, costs=cost, seed=task.seed, engine="fast"
        )
        asked = self.setting.demands[task.demand]
        return score_of(result.results[asked.name], asked, self.setting.target)

    def highest_rate(self, plan: LLMPlan, task: Task, trace: LLMTrace) -> Score:
        """The highest load, by doubling or halving from the given one and bisection."""
        target, scores = self.setting.target, dict[float, Score]()

        def attains(factor: float) -> bool:
            if factor not in scores:
                scores[factor] = self.score(plan, task, trace, factor)
            return scores[factor].attained >= target

        low = high = 1.0
        while high < 2.0**MOST_DOUBLINGS and attains(high):
            low, high = high, 2 * high
        alone = min(1.0, float(trace.arrival[-1]) / ALONE_S) or 1.0
        if not attains(low) and not attains(alone):
            return _with(scores[alone], 0.0, len(scores))
        while not attains(low):
            low, high = max(low / 2, alone), low
        known = {factor: score.attained >= target for factor, score in scores.items()}
        search = Bisection(low, high, "high", self.setting.rate_tolerance, name="rate")
        known[high] = attains(high)
        while (factor := search.next(known)) is not None:
            known[factor] = attains(factor)
        reached = search.reached(known)
        assert reached is not None
        return _with(scores[reached], reached, len(scores))


def faster(trace: LLMTrace, factor: float) -> LLMTrace:
    """The same requests, arriving at `factor` times the rate."""
    if factor == 1.0:
        return trace
    return trace.at(trace.arrival / factor)


def _with(score: Score, factor: float, simulations: int) -> Score:
    return replace(score, factor=factor, simulations=simulations)


_RUNNERS: list[_Runner] = []
"""In a worker process: its runner. Tables are sent once when it starts, not with every task."""


def _begin(setting: Setting) -> None:
    _RUNNERS[:] = [_Runner(setting)]


def _work(task: Task) -> Score:
    return _RUNNERS[0](task)
