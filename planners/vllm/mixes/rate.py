"""`plan_highest`: the highest load that a fleet of several device types serves within the limits of one model."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ....errors import InfeasibleError, InputError
from ....reprs import Shown
from ....simulator.cluster import Cluster
from ....simulator.llm.plan.simulate import simulate_plan
from ....simulator.llm.workload.requests import LLMTrace
from ....simulator.mixed import MixedCluster
from ...bisection import Bisection
from ..costs import CostSource
from ..demand import LLMDemand, Traffic
from ..layouts import engine_shapes
from ..planner import check_asked, workload_of
from ..score import MOST_DOUBLINGS
from ..scoring import ALONE_S, faster
from ..space import Effort, SearchSpace
from .aims import AIMS
from .infeasible import no_pool
from .planner import plan_mixed
from .planning import MixPlanning
from .runs import MixSetting, Runs
from .search import MixSearch

__all__ = ["plan_fleet", "plan_highest"]

TOLERANCE = 0.02
"""How closely the highest load is found, relative; as on one device type (`Setting.rate_tolerance`)."""


@dataclass(frozen=True, slots=True, repr=False)
class FasterTraffic(Shown):
    """The same requests at a multiple of their rate.

    Parameters
    ----------
    traffic : Traffic
        The requests.
    factor : float
        The multiple, > 0.
    """

    traffic: Traffic
    factor: float

    def trace(self, seed: int) -> LLMTrace:
        """Requests under a seed."""
        return faster(self.traffic.trace(seed), self.factor)

    @property
    def per_second(self) -> float:
        """Requests per second."""
        return self.factor * self.traffic.per_second

    @property
    def source(self) -> str:
        """What they are."""
        return f"{self.traffic.source}, {self.factor:.4g} times as fast"


def plan_highest(
    fleet: MixedCluster | Cluster,
    demands: Sequence[LLMDemand],
    *,
    target: float = 0.99,
    space: SearchSpace | None = None,
    effort: Effort | None = None,
    seed: int = 0,
    workers: int = 1,
    progress: Callable[[str], None] | None = None,
    **costs: Any,
) -> MixPlanning:
    """Find the highest multiple of a model's load at which some mix attains the target, and the fewest devices for it.

    A load is attained if any mix of any number of devices attains it on all seeds: doubling or halving from the given
    load, then bisection (`TOLERANCE`).

    Parameters
    ----------
    fleet, target, space, effort, seed, workers, progress, **costs
        See `plan_mixed`.
    demands : sequence of LLMDemand
        One model.

    Returns
    -------
    MixPlanning
        Its plan says what is predicted at the given load, and ``highest_load_factor``; its fronts are at that multiple.

    Raises
    ------
    InputError
        On several models, or what `plan_mixed` refuses.
    InfeasibleError
        If the model fits no engine, or the target is attained at no load.
    """
    begun, fleet = time.perf_counter(), MixedCluster.of(fleet)
    space, effort, say = space or SearchSpace(), effort or Effort(), progress or _silent
    check_asked(demands, "rate", ("rate",), target, space)
    if len(demands) > 1:
        names = ", ".join(d.name for d in demands)
        raise InputError(f"objective: rate: is looked for of one model on several device types (got {names})")
    (demand,) = demands
    shapes = [engine_shapes(demand, pool, space, range(seed, seed + effort.seeds)) for pool in fleet.pools]
    if not any(found.possible for found in shapes):
        raise InfeasibleError(no_pool(demand, fleet, shapes))
    simulations, known = 0, dict[float, bool]()

    def attains(factor: float) -> bool:
        nonlocal simulations
        if factor not in known:
            say(f"{demand.name}: {factor:.4g} times the load")
            setting = MixSetting(fleet, (_faster(demand, factor),), CostSource(**costs), target)
            with Runs(setting, workers) as runs:
                search = MixSearch(runs, 0, shapes, space, effort, aim=AIMS["devices"], target=target, seed=seed)
                known[factor] = _reaches(search, fleet)
                simulations += runs.simulations
        return known[factor]

    factor = _highest(attains, known, float(demand.traffic.trace(seed).arrival[-1]))
    if factor is None:
        raise InfeasibleError(
            f"{demand.name}: {target:.4g} of the requests within their limits is not reached on {fleet} at any load, "
            "not even by requests that never meet; smallest change: looser limits, or larger degrees of parallelism"
        )
    found = plan_mixed(
        fleet, [_faster(demand, factor)], objective="devices", target=target, space=space, effort=effort, seed=seed,
        workers=workers, progress=progress, **costs,
    )  # fmt: skip
    return _at_given(found, demand, CostSource(**costs), factor, simulations, time.perf_counter() - begun)


def plan_fleet(
    fleet: MixedCluster | Cluster, demands: Sequence[LLMDemand], *, objective: str = "cost", **options: Any
) -> MixPlanning:
    """What `plan_mixed` says of an objective, and `plan_highest` of ``rate``."""
    if objective == "rate":
        return plan_highest(fleet, demands, **options)
    return plan_mixed(fleet, demands, objective=objective, **options)


def _faster(demand: LLMDemand, factor: float) -> LLMDemand:
    return demand if factor == 1 else replace(demand, traffic=FasterTraffic(demand.traffic, factor))


def _reaches(search: MixSearch, fleet: MixedCluster) -> bool:
    """Whether any mix attains the target; those of most devices first, which most probably do."""
    for _, group in reversed(search.aim.levels(fleet, search.fewest)):
        for counts in group:
            level = search.level(counts)
            if level is not None and level.reaching(search.target):
                return True
    return False


def _highest(attains: Callable[[float], bool], known: dict[float, bool], last_s: float) -> float | None:
    """The highest factor that attains, at most 2^`MOST_DOUBLINGS`; None where none does."""
    low = high = 1.0
    while high < 2.0**MOST_DOUBLINGS and attains(high):
        low, high = high, 2 * high
    alone = min(1.0, last_s / ALONE_S) or 1.0
    if not attains(low) and not attains(alone):
        return None
    while not attains(low):
        low, high = max(low / 2, alone), low
    search = Bisection(low, high, "high", TOLERANCE, name="rate")
    attains(high)
    while (factor := search.next(known)) is not None:
        attains(factor)
    return search.reached(known)


def _at_given(
    found: MixPlanning, demand: LLMDemand, costs: CostSource, factor: float, simulations: int, seconds: float
) -> MixPlanning:
    """The plan with what is predicted of it at the given load, and the multiple that it attains."""
    plan, seed = found.plan, found.plan.planner.seed or 0
    traces = {demand.name: demand.traffic.trace(seed)}
    result = simulate_plan(plan, traces, tables=costs.tables, costs=lambda d: costs.of(plan, d), seed=seed)
    said = result.predictions()
    key = "highest_load_factor" if factor < 2.0**MOST_DOUBLINGS else "highest_load_factor_at_least"
    said["predicted_per_model"][demand.name][key] = factor
    who = plan.planner
    entry = who.model_copy(
        update={
            "options": {**who.options, "objective": "rate"}, "seconds": seconds,
            "evaluations": who.evaluations + simulations + 1,
        }
    )  # fmt: skip
    made = plan.model_copy(update={**said, "planner": entry, "workload": workload_of([demand], traces)})
    return replace(found, plan=made, load=factor)


def _silent(_: str) -> None:
    """Nobody listens."""
