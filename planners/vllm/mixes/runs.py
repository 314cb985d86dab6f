"""`Runs`: mixes simulated piece by piece on common random numbers, each piece once, in this process or on several."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache
from multiprocessing import get_context

import numpy as np

from ....profiles.llm.iteration import IterationCost
from ....simulator.llm.plan.entries import Deployment
from ....simulator.llm.plan.file import LLMPlan
from ....simulator.llm.plan.simulate import simulate_plan
from ....simulator.llm.policy.deal import places
from ....simulator.llm.result.columns import LLMResult
from ....simulator.llm.workload.requests import LLMTrace
from ....simulator.mixed import MixedCluster
from ....simulator.plan.entries import PlannerEntry
from ....spawning import check_can_start, check_workers
from ..costs import CostSource, KnownCosts
from ..demand import LLMDemand
from ..score import Score, score_of
from ..scoring import served
from .aims import power_w
from .mix import Mix, Part, Piece, deployments, rows_of

__all__ = ["MixSetting", "PieceScore", "Runs", "Task"]


@dataclass(frozen=True, slots=True)
class MixSetting:
    """What mixes are simulated in.

    Parameters
    ----------
    fleet : MixedCluster
        The devices.
    demands : tuple of LLMDemand
        The models.
    costs : CostSource
        What iterations cost; by default the devices' rooflines.
    target : float
        Share of good requests that is asked for; what misses a promised percentile attains less. In a race each part
        of a mix must keep the percentiles by itself; finalists are judged as a whole.
    """

    fleet: MixedCluster
    demands: tuple[LLMDemand, ...]
    costs: CostSource = field(default_factory=CostSource)
    target: float = 0.99

    @property
    def names(self) -> tuple[str, ...]:
        """The device type of each pool."""
        return tuple(pool.spec.name for pool in self.fleet.pools)

    def plan(self, demand: int, mix: Mix) -> LLMPlan:
        """The plan that a mix for one of the models is.

        Raises
        ------
        InfeasibleError
            If its engines do not go into the nodes.
        """
        asked = self.demands[demand]
        (rows,) = rows_of([mix], self.fleet)
        return LLMPlan.of(
            self.fleet, (served(asked),), deployments(mix, asked.name, rows, self.names), router=mix.router,
            planner=PlannerEntry(name="vllm"),
        )  # fmt: skip

    def power_w(self, mix: Mix, busy: Sequence[float]) -> float:
        """Mean power of a mix whose parts compute for such shares of the time, watts."""
        specs = [self.fleet.pools[part.pool].spec for part in mix.parts]
        return power_w(specs, [part.devices for part in mix.parts], busy)


@dataclass(frozen=True, slots=True)
class Task:
    """A piece of a mix for one of the models, on its first requests under a seed."""

    demand: int
    piece: Piece
    requests: int
    seed: int


@dataclass(frozen=True, slots=True)
class PieceScore:
    """What came of a piece.

    Parameters
    ----------
    requests : int
        How many it got.
    attained : float
        Share of these within the limits; 1 of none.
    slack : float
        See `Score`; infinite without a request.
    busy_s : tuple of float
        Seconds for which the engines of each part compute, on average over them.
    last_s : float
        When the last request finished; 0 if none did.
    """

    requests: int
    attained: float
    slack: float
    busy_s: tuple[float, ...]
    last_s: float


class Runs:
    """Runs pieces and mixes, and counts simulations.

    Parameters
    ----------
    setting : MixSetting
        What is simulated.
    workers : int
        Processes; 1: this one. The scores do not depend on it.
    """

    def __init__(self, setting: MixSetting, workers: int = 1) -> None:
        check_workers(workers)
        self.setting, self.simulations = setting, 0
        self.here = _Runner(setting)
        self._known: dict[Task, PieceScore] = {}
        self._pool = None
        if workers > 1:
            check_can_start("plan: workers")
            self._pool = ProcessPoolExecutor(workers, get_context("spawn"), _begin, (setting,))

    def __call__(self, tasks: Sequence[Task]) -> list[PieceScore]:
        """The scores of pieces, in order."""
        new = [task for task in dict.fromkeys(tasks) if task not in self._known]
        found = map(self.here.piece, new) if self._pool is None else self._pool.map(_work, new, chunksize=8)
        self._known.update(zip(new, found, strict=True))
        self.simulations += len(new)
        return [self._known[task] for task in tasks]

    def whole(self, demand: int, mix: Mix, seed: int) -> tuple[Score, float]:
        """The score of a mix on all requests under a seed, as its plan is simulated, and its mean power in watts."""
        self.simulations += 1
        return self.here.whole(demand, mix, seed)

    def on(self, fleet: MixedCluster) -> Runs:
        """One that simulates on another fleet, in this process."""
        return Runs(replace(self.setting, fleet=fleet))

    def __enter__(self) -> Runs:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


class _Runner:
    """Simulates one after the other; keeps traces, plans and costs."""

    def __init__(self, setting: MixSetting) -> None:
        self.setting, self.costs = setting, KnownCosts(setting.costs)
        self.trace = lru_cache(maxsize=64)(self._trace)
        self.plan = lru_cache(maxsize=1024)(setting.plan)

    def _trace(self, demand: int, seed: int) -> LLMTrace:
        return self.setting.demands[demand].traffic.trace(seed)

    def result(self, demand: int, mix: Mix, trace: LLMTrace, seed: int) -> LLMResult:
        """One simulation."""
        plan = self.plan(demand, mix)

        def cost(deployment: Deployment) -> IterationCost:
            return self.costs.of(plan, deployment)

        tables = self.setting.costs.tables
        found = simulate_plan(plan, trace, tables=tables, costs=cost, seed=seed, engine="fast")
        return found.results[self.setting.demands[demand].name]

    def piece(self, task: Task) -> PieceScore:
        """The score of a piece."""
        whole, piece = self.trace(task.demand, task.seed), task.piece
        at = places(whole)[: task.requests]
        rows = np.flatnonzero((at >= piece.low) & (at < piece.high))
        if not len(rows):
            return PieceScore(0, 1.0, float("inf"), (0.0,) * len(piece.parts), 0.0)
        trace = whole if len(rows) == len(whole) else whole.select(rows)
        result = self.result(task.demand, Mix(piece.parts, router=piece.router), trace, task.seed)
        score = score_of(result, self.setting.demands[task.demand], self.setting.target)
        last = float(result.finish[result.finished].max()) if result.finished.any() else 0.0
        return PieceScore(len(rows), score.attained, score.slack, busy_s(result, piece.parts), last)

    def whole(self, demand: int, mix: Mix, seed: int) -> tuple[Score, float]:
        """Score and power of a mix."""
        trace = self.trace(demand, seed)
        result = self.result(demand, mix, trace, seed)
        first, last = float(trace.arrival[0]), float(np.nan_to_num(result.span[1]))
        busy = [min(1.0, s / (last - first)) if last > first else 0.0 for s in busy_s(result, mix.parts)]
        return score_of(result, self.setting.demands[demand], self.setting.target), self.setting.power_w(mix, busy)


def busy_s(result: LLMResult, parts: Sequence[Part]) -> tuple[float, ...]:
    """Seconds for which the engines of each part compute, on average over them."""
    spent, found, first = result.iterations.end - result.iterations.start, list[float](), 0
    for part in parts:
        count = part.replicas * part.engine.pp
        mine = (result.iterations.engine >= first) & (result.iterations.engine < first + count)
        found.append(float(spent[mine].sum()) / count)
        first += count
    return tuple(found)


_RUNNERS: list[_Runner] = []
"""In a worker process: its runner."""


def _begin(setting: MixSetting) -> None:
    _RUNNERS[:] = [_Runner(setting)]


def _work(task: Task) -> PieceScore:
    return _RUNNERS[0].piece(task)
