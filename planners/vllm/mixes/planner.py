"""`plan_mixed`: how to serve language models on devices of several types, cheapest or with the least power."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from ....errors import InfeasibleError, InputError
from ....simulator.cluster import Cluster
from ....simulator.llm.plan.file import LLMPlan
from ....simulator.llm.plan.simulate import simulate_plan
from ....simulator.mixed import MixedCluster
from ....simulator.plan.entries import PlannerEntry
from ..costs import CostSource
from ..demand import LLMDemand
from ..layouts import engine_shapes
from ..planner import check_asked, workload_of
from ..scoring import served
from ..space import Effort, SearchSpace
from .aims import AIMS, IDLE_SHARE
from .choice import Option, assign, best_of, reach_first, reach_most
from .infeasible import no_pool, no_room, out_of_reach
from .mix import deployments, rows_of
from .planning import MixPlanning
from .runs import MixSetting, Runs
from .search import MixSearch

__all__ = ["plan_mixed"]


def plan_mixed(
    fleet: MixedCluster | Cluster,
    demands: Sequence[LLMDemand],
    *,
    objective: str = "cost",
    target: float = 0.99,
    space: SearchSpace | None = None,
    effort: Effort | None = None,
    seed: int = 0,
    workers: int = 1,
    progress: Callable[[str], None] | None = None,
    **costs: Any,
) -> MixPlanning:
    """Choose engines on devices of one or several types, each priced by its own device's cost model.

    For every number of devices of each type, mixes that use exactly so many race by successive halving, all on the same
    requests. In a mix each type has equal engines, and gets a share of the requests, dealt in turn (`policy.deal`); or
    prompts are on one type and decodes on the other. Parts of a mix do not touch each other, so they are simulated
    alone, once for all mixes that have them.

    Parameters
    ----------
    fleet : MixedCluster or Cluster
        The devices there are.
    demands : sequence of LLMDemand
        The models, their requests and limits.
    objective : {"cost", "energy", "devices", "goodput"}
        Lowest price per hour, lowest mean power (see `IDLE_SHARE`) or fewest devices with which every model attains the
        target; or most good requests, of equals on the fewest devices.
    target : float
        Share of a model's requests that must be within both limits, in (0, 1].
    space, effort, seed, workers, progress, **costs
        See `plan`.

    Raises
    ------
    InputError
        On no model, the same one twice, a value out of its range, or a device whose price or power is not known.
    InfeasibleError
        If a model fits no engine, or the target cannot be reached; with the smallest change that would mend it.
    """
    begun, fleet = time.perf_counter(), MixedCluster.of(fleet)
    space, effort = space or SearchSpace(), effort or Effort()
    if objective == "rate":
        raise InputError("objective: rate: plan_highest looks for it; give cost, energy, devices or goodput")
    check_asked(demands, objective, tuple(AIMS), target, space)
    aim = AIMS[objective]
    aim.check(fleet)
    setting = MixSetting(fleet, tuple(demands), CostSource(**costs), target)
    seeds, say = range(seed, seed + effort.seeds), progress or _silent
    with Runs(setting, workers) as runs:
        searches: list[MixSearch] = []
        for number, demand in enumerate(demands):
            shapes = [engine_shapes(demand, pool, space, seeds) for pool in fleet.pools]
            if not any(found.possible for found in shapes):
                raise InfeasibleError(no_pool(demand, fleet, shapes))
            searches.append(MixSearch(runs, number, shapes, space, effort, aim=aim, target=target, seed=seed))
        chosen = _chosen(searches, demands, fleet, say)
        made = _assembled(setting, chosen, seed)
        entry = PlannerEntry(
            name="vllm",
            options={
                "objective": objective, "target": target, "eta": effort.eta, "seeds": effort.seeds,
                "share_steps": effort.share_steps, **({"idle_share": IDLE_SHARE} if objective == "energy" else {}),
            },
            seed=seed,
            seconds=time.perf_counter() - begun,
            evaluations=runs.simulations,
        )  # fmt: skip
        rejected = {
            demand.name: {
                pool.spec.name: shapes.rejected for pool, shapes in zip(fleet.pools, search.shapes, strict=True)
            }
            for demand, search in zip(demands, searches, strict=True)
        }
        levels = {demand.name: search.levels for demand, search in zip(demands, searches, strict=True)}
        said = {demand.name: option for demand, option in zip(demands, chosen, strict=True)}
        return MixPlanning(made.model_copy(update={"planner": entry}), aim, target, said, levels, rejected)


def _silent(_: str) -> None:
    """Nobody listens."""


def _chosen(
    searches: Sequence[MixSearch], demands: Sequence[LLMDemand], fleet: MixedCluster, say: Callable[[str], None]
) -> tuple[Option, ...]:
    """An option for each model, so that all go into the fleet."""
    most, aim = tuple(pool.n_devices for pool in fleet.pools), searches[0].aim

    def told(demand: LLMDemand) -> Callable[[str], None]:
        return lambda what: say(f"{demand.name}: {what}")

    levels = [aim.levels(fleet, search.fewest) for search in searches]
    if not aim.reaches:
        every = [reach_most(*x, told(d)) for x, d in zip(zip(searches, levels, strict=True), demands, strict=True)]
        weights = [float(search.requests) for search in searches]

        def good(options: Sequence[Option]) -> tuple[float, ...]:
            share = sum(w * o.finalist.attained for w, o in zip(weights, options, strict=False))
            return share, -sum(o.value for o in options)

        chosen = assign(every, most, good)
        if len(chosen) < len(searches):
            raise InfeasibleError(no_room(demands, fleet, 0.0))
        return chosen
    first: list[Option] = []
    for search, demand, mine in zip(searches, demands, levels, strict=True):
        found = reach_first(search, mine, told(demand))
        if found is None:
            raise InfeasibleError(out_of_reach(search, demand, told(demand)))
        first.append(found)
    if _together(first, fleet):
        for search, demand in zip(searches, demands, strict=True):
            _alone(search, fleet, told(demand))
        return tuple(first)
    every = list[list[Option]]()
    for search, demand, mine in zip(searches, demands, levels, strict=True):
        reach_most(search, mine, told(demand))
        every.append([o for level in search.levels if (o := best_of(search, level)) is not None])
    chosen = assign(every, most, lambda options: (-sum(o.value for o in options),))
    if len(chosen) < len(searches):
        raise InfeasibleError(no_room(demands, fleet, searches[0].target))
    return chosen


def _alone(search: MixSearch, fleet: MixedCluster, say: Callable[[str], None]) -> None:
    """Try each device type by itself, until it reaches the target: whoever reads the answer asks for that."""
    if len(fleet.pools) == 1:
        return
    for number, pool in enumerate(fleet.pools):
        for n in range(1, pool.n_devices + 1):
            say(f"{n} {pool.spec.name} alone")
            level = search.level(tuple(n if i == number else 0 for i in range(len(fleet.pools))))
            if level is not None and level.reaching(search.target):
                break


def _together(options: Sequence[Option], fleet: MixedCluster) -> bool:
    used = [sum(column) for column in zip(*(o.level.counts for o in options), strict=True)]
    if any(n > pool.n_devices for n, pool in zip(used, fleet.pools, strict=True)):
        return False
    try:
        rows_of([o.finalist.mix for o in options], fleet)
    except InfeasibleError:
        return False
    return True


def _assembled(setting: MixSetting, chosen: Sequence[Option], seed: int) -> LLMPlan:
    """The plan of the chosen mixes, simulated as a whole."""
    mixes = [option.finalist.mix for option in chosen]
    rows = rows_of(mixes, setting.fleet)
    traces = {d.name: d.traffic.trace(seed) for d in setting.demands}
    made = LLMPlan.of(
        setting.fleet,
        tuple(map(served, setting.demands)),
        tuple(
            each
            for demand, mix, mine in zip(setting.demands, mixes, rows, strict=True)
            for each in deployments(mix, demand.name, mine, setting.names)
        ),
        router=mixes[0].router,
        planner=PlannerEntry(name="vllm"),
        workload=workload_of(setting.demands, traces),
        cost_source=setting.costs.text(setting.fleet),
    )
    source = setting.costs
    result = simulate_plan(made, traces, tables=source.tables, costs=lambda d: source.of(made, d), seed=seed)
    said = result.predictions()
    said["predicted"] |= _figures(made, chosen)
    return made.model_copy(update=said)


def _figures(made: LLMPlan, chosen: Sequence[Option]) -> dict[str, float]:
    """Price and power; those that are not known are left out."""
    power = sum(option.finalist.power for option in chosen)
    found = {"price_per_hour": made.price_per_hour, "board_power_w": made.watts}
    if made.watts:
        found |= {"mean_power_w": power, "good_requests_per_kwh": _per_kwh(chosen, power)}
    return {name: value for name, value in found.items() if value}


def _per_kwh(chosen: Sequence[Option], power_w: float) -> float:
    good = sum(sum(s.goodput for s in o.finalist.scores) / len(o.finalist.scores) for o in chosen)
    return good * 3600 / (power_w / 1000) if power_w else 0.0
