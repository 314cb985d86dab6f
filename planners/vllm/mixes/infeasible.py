"""Why no mix reaches the target, and the smallest change that would make one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ....simulator.cluster import Cluster
from ....simulator.mixed import MixedCluster
from ..demand import LLMDemand
from ..infeasible import FURTHER, looser, promised
from ..layouts import Shapes
from .mix import rows_of
from .search import MixLevel, MixSearch

__all__ = ["no_pool", "no_room", "out_of_reach"]


def no_pool(demand: LLMDemand, fleet: MixedCluster, shapes: Sequence[Shapes]) -> str:
    """No engine of the space holds the model on any type of device."""
    said = [f"{pool.spec.name}: {found.why_not}" for pool, found in zip(fleet.pools, shapes, strict=True)]
    return (
        f"{demand.name}: no engine is possible on any of {len(fleet.pools)} device types; the nearest of each: "
        f"{'; '.join(said)}; smallest change: larger degrees of parallelism (tp, pp), or devices with more memory"
    )


def no_room(demands: Sequence[LLMDemand], fleet: MixedCluster, target: float) -> str:
    """Each model alone reaches the target, but not all together."""
    return (
        f"{', '.join(d.name for d in demands)}: each reaches {target:.4g} alone, but they do not go together into "
        f"{fleet}; smallest change: more devices"
    )


def out_of_reach(search: MixSearch, demand: LLMDemand, say: Callable[[str], None]) -> str:
    """The target is not attained on the fleet: would more devices of one type do, or which limits would?"""
    fleet, target = search.runs.setting.fleet, search.target
    tried = search.levels
    said = f"{demand.name}: {target:.4g} of the requests within {promised(demand)} is not reached on {fleet}"
    whole = [level for level in tried if level.finalists]
    if whole:
        level = max(whole, key=lambda x: x.finalists[0].attained)
        best = level.finalists[0]
        said += f"; the best, {best.mix.said(search.runs.setting.names)}, reaches {best.attained:.4f}"
    elif tried:
        share, requests = max(level.seen for level in tried)
        said += f"; the best reaches {share:.4f} on the first {requests} requests already"
    say(f"{demand.name}: looking for the smallest change")
    changes = [change for pool in range(len(fleet.pools)) if (change := _more(search, pool, say))]
    if whole:
        relaxed = _limits(search, demand, max(whole, key=lambda x: x.finalists[0].attained))
        changes += [relaxed] if relaxed else []
    if not changes:
        return f"{said}; {FURTHER} times as many devices of one type do not do either, and no looser limits would"
    return f"{said}; smallest change: {', or '.join(changes)}"


def _more(search: MixSearch, pool: int, say: Callable[[str], None]) -> str:
    """How many more devices of a type would do, beside all the others or alone: doubled, then halved between."""
    runs, fleet = search.runs, search.runs.setting.fleet
    mine = fleet.pools[pool]
    most = (FURTHER - 1) * mine.n_devices
    nodes = FURTHER * mine.nodes
    larger = Cluster(nodes, mine.devices_per_node, mine.device)
    wider = MixedCluster((*fleet.pools[:pool], larger, *fleet.pools[pool + 1 :]))
    effort = replace(search.effort, finalists=1)
    there = MixSearch(
        runs.on(wider), search.demand, search.shapes, search.space, effort, aim=search.aim, target=search.target,
        seed=search.seed,
    )  # fmt: skip

    def does(more: int) -> bool:
        say(f"{more} more {mine.spec.name}")
        every = tuple(p.n_devices + (more if n == pool else 0) for n, p in enumerate(fleet.pools))
        alone = tuple(count if n == pool else 0 for n, count in enumerate(every))
        found = (there.level(counts) for counts in dict.fromkeys((every, alone)))
        return any(level is not None and level.reaching(search.target) for level in found)

    low, high = 0, 1
    while high <= most and not does(high):
        low, high = high, 2 * high
    if high > most:
        return ""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if does(middle) else (middle, high)
    return f"{high} more {mine.spec.name} ({mine.n_devices + high})"


def _limits(search: MixSearch, demand: LLMDemand, level: MixLevel) -> str:
    runs, mix = search.runs, level.finalists[0].mix
    rows_of([mix], runs.setting.fleet)
    result = runs.here.result(search.demand, mix, demand.traffic.trace(search.seed), search.seed)
    return looser(result, demand, search.target)
