"""Clockwork++ (AlpaServe §6.2): Selective Replication afresh for every window of the trace.

Swapping costs nothing, which makes it a bound; with `loading` it costs what it does, and is its sober twin.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from ...profiles.config import ParallelConfig
from ...profiles.profile import ModelProfile
from ...reprs import Shown
from ...simulator.cluster import Cluster
from ...simulator.placement import PlacementSchedule
from ...simulator.serving.loading import Loading
from ...simulator.serving.plan.file import PlannerEntry
from ...traces.trace import Trace
from .baselines import check_room, select, uniform_groups
from .evaluator import Evaluator
from .finish import predict
from .instance import Instance, build_instance
from .options import ClockworkOptions
from .selection import fill_spare_memory
from .swaps import Swaps

__all__ = ["ScheduledPlan", "clockwork_pp"]


@dataclass(frozen=True, eq=False, repr=False)
class ScheduledPlan(Shown):
    """A placement for every window of a trace. `placement` is what `simulate` takes, as a `Plan`'s is.

    Swapping models at no cost is a bound on what a real system could do, so there is nothing here to export or run.

    Parameters
    ----------
    cluster : Cluster
        What was planned on.
    placement : PlacementSchedule
        The placements and when each begins.
    planner : PlannerEntry
        Who planned it.
    predicted : Mapping[str, float]
        Simulated metrics.
    """

    cluster: Cluster
    placement: PlacementSchedule
    planner: PlannerEntry
    predicted: Mapping[str, float]

    def explain(self) -> str:
        """The schedule in words."""
        starts, placements = self.placement.starts, self.placement.placements
        changes = sum(a.groups != b.groups for a, b in pairwise(placements))
        load_s = self.placement.load_s
        seconds = 0.0 if load_s is None else sum(sum(one.values()) for one in load_s)
        cost = "swapping costs nothing" if load_s is None else f"devices load for {seconds:.4g} s in all"
        lines = [
            f"{self.planner.name} on {self.cluster}",
            f"{len(starts)} windows, the placement changes at {changes} of their boundaries; {cost}",
            f"first window: {placements[0]}",
        ]
        lines += [f"{key}: {value:.6g}" for key, value in self.predicted.items()]
        lines.append(f"planned in {self.planner.seconds:.3g} s, {self.planner.evaluations} evaluations")
        return "\n".join(lines)


def clockwork_pp(
    cluster: Cluster,
    models: Iterable[str] | None,
    trace: Trace,
    profiles: Mapping[str, ModelProfile],
    *,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
    **options: Any,
) -> ScheduledPlan:
    """Clockwork++: Selective Replication re-planned for every window.

    Parameters
    ----------
    cluster, models, trace, profiles
        The problem.
    seed
        For the common contract; nothing here is random.
    progress : callable, optional
        Called with a line of text after each window.
    **options
        Fields of `ClockworkOptions`: the windows, and how models are selected in each.

    Raises
    ------
    InfeasibleError
        If no model fits one device.
    """
    begun, asked = time.perf_counter(), ClockworkOptions(**options)
    instance = build_instance(cluster, models, trace, profiles, asked, require="any")
    starts = _starts(trace, asked.window, asked.windows)
    bounds = [*np.searchsorted(trace.arrival, starts, side="left").tolist(), len(trace)]
    groups = uniform_groups(instance, ParallelConfig(1, 1))
    check_room(instance, groups, ParallelConfig(1, 1), "clockwork++")
    placements = []
    evaluations = 0
    for k in range(len(starts)):
        seen = k if asked.clairvoyant or k == 0 else k - 1
        if bounds[seen] == bounds[seen + 1] and placements:
            placements.append(placements[-1])  # nothing arrived: no reason to move
            continue
        evaluator = Evaluator(_rows(instance, bounds[seen], bounds[seen + 1]))
        state = select(evaluator, groups, asked)
        if not asked.clairvoyant:
            state = fill_spare_memory(evaluator, state)  # models that were silent may speak in the next window
        placements.append(evaluator.placement(state))
        evaluations += evaluator.evaluations
        if progress:
            progress(f"window {k + 1} of {len(starts)}")
    if isinstance(asked.loading, Loading):
        swaps = Swaps(instance, asked.loading)
        schedule = swaps.schedule(starts, bounds, placements, asked.clairvoyant)
    else:
        schedule = PlacementSchedule(starts, placements, carry=asked.carry)
    predicted = predict(instance, schedule)
    loading = {"loading": _plain(asked.loading)} if isinstance(asked.loading, Loading) else {}
    entry = PlannerEntry(
        name="clockwork++",
        options={name: getattr(asked, name) for name in ("window", "windows", "clairvoyant", "carry")} | loading,
        seed=seed,
        seconds=time.perf_counter() - begun,
        evaluations=evaluations,
    )
    return ScheduledPlan(cluster, schedule, entry, predicted)


def _plain(loading: Loading) -> dict[str, Any]:
    """As a plan says it: what has no limit is left out."""
    return {name: value for name, value in asdict(loading).items() if value not in (None, math.inf)}


def _starts(trace: Trace, window: float, windows: str) -> list[float]:
    if windows == "fixed":
        return [k * window for k in range(int(trace.duration // window) + 1)]
    starts = [0.0]
    first = float(trace.arrival[0])
    while True:
        i = int(np.searchsorted(trace.arrival, first + window, side="right"))
        if i == len(trace):
            return starts
        first = float(trace.arrival[i])
        starts.append(first)


def _rows(instance: Instance, low: int, high: int) -> Instance:
    """The same problem with only requests ``low`` … ``high - 1``."""
    model = instance.model[low:high]
    return replace(
        instance,
        arrival=instance.arrival[low:high],
        slo=instance.slo[low:high],
        model=model,
        counts=np.bincount(model, minlength=instance.n_models),
    )
