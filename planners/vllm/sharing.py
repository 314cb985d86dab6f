"""`plan_shared`: several language models multiplexed over groups of devices, as AlpaServe does with other models.

Cuts of the cluster into groups race by successive halving. For each, models are chosen greedily (AlpaServe §4.1, its
fast form): every model is put once on the group with least to do, heaviest first; then, as long as requests are lost,
the model that loses most gets another replica on the group with least to do that still has memory, and a replica stays
only if more requests are good. Every score is a simulation of the whole with engines that take turns
(`simulator.llm.shared`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import InfeasibleError, InputError
from ...reprs import Shown
from ...simulator.cluster import Cluster
from ...simulator.llm.plan.file import LLMPlan
from ...simulator.plan.entries import PlannerEntry
from .costs import CostSource
from .demand import LLMDemand
from .greedy import GreedySelection, Held, SharedScore
from .groups import Partition, check_shared, partitions
from .halving import successive_halving
from .planner import plan
from .planning import Planning
from .space import Effort, SearchSpace

__all__ = ["SharedPlanning", "plan_shared"]


@dataclass(frozen=True, eq=False, repr=False)
class SharedPlanning(Shown):
    """The better of sharing and the best dedicated partition.

    Parameters
    ----------
    plan : LLMPlan
        What was decided.
    shared : LLMPlan
        The best plan with groups.
    shared_good, dedicated_good : float
        Share of all requests, on the first seed, that are good; NaN where no dedicated partition is possible.
    dedicated : Planning or None
        The best dedicated partition.
    tried : tuple of (str, float)
        Cuts of the last round with what they reached, best first.
    """

    plan: LLMPlan
    shared: LLMPlan
    shared_good: float
    dedicated_good: float
    dedicated: Planning | None
    tried: tuple[tuple[str, float], ...]

    def explain(self) -> str:
        """The plan, and how far the others are from it."""
        other = "not possible" if self.dedicated is None else f"{self.dedicated_good:.2%} of the requests are good"
        lines = [
            self.plan.explain(),
            "",
            f"shared groups: {self.shared_good:.2%} of the requests are good; devices of their own: {other}",
            "cuts of the last round:",
            *(f"  {good:.2%}  {what}" for what, good in self.tried),
        ]
        who = self.plan.planner
        lines.append(f"{who.evaluations} simulations in {who.seconds:.3g} s")
        return "\n".join(lines)


def plan_shared(
    cluster: Cluster,
    demands: Sequence[LLMDemand],
    *,
    space: SearchSpace | None = None,
    effort: Effort | None = None,
    seed: int = 0,
    compare: bool = True,
    progress: Callable[[str], None] | None = None,
    **costs: Any,
) -> SharedPlanning:
    """Put language models on groups of devices that they share, for most good requests.

    Parameters
    ----------
    cluster, demands, seed, progress, **costs
        See `plan`.
    space : SearchSpace, optional
        Degrees of parallelism that groups may have; of each other option the first value is taken.
    effort : Effort, optional
        How hard is searched; one seed.
    compare : bool
        Whether to look for the best partition into devices of their own too, and take the better one.

    Raises
    ------
    InputError
        On no model, or a value out of its range.
    InfeasibleError
        If the models do not fit the cluster's memory in any cut.
    """
    begun = time.perf_counter()
    names = [d.name for d in demands]
    if not names or len(set(names)) < len(names):
        raise InputError(f"demands: expected models of different names (got {', '.join(names) or 'none'})")
    space, effort = space or SearchSpace(batched_tokens=(2048,)), effort or Effort(finalists=2)
    check_shared(space)
    search = GreedySelection(cluster, tuple(demands), CostSource(**costs), space, seed)
    cuts = list(partitions(cluster, space))
    say = progress or _silent

    def evaluate(some: Sequence[Partition], requests: int) -> list[SharedScore]:
        found: list[SharedScore] = []
        for number, cut in enumerate(some):
            say(f"cut {number + 1} of {len(some)} on {requests} requests")
            found.append(search.select(cut, requests))
        return found

    longest = max(len(d.traffic.trace(seed)) for d in demands)
    raced = successive_halving(
        cuts, longest, evaluate, _key, eta=effort.eta, finalists=effort.finalists, smallest=effort.smallest
    )
    cut, best = raced.last[0]
    if not best.held:
        raise InfeasibleError(
            f"the models ({', '.join(names)}) do not fit {cluster} in any of {len(cuts)} cuts into groups; "
            "smallest change: more devices, or larger degrees of parallelism"
        )
    shared = search.plan(cut, best.held)
    assert shared is not None
    dedicated, dedicated_good = None, math.nan
    if compare:
        say("devices of their own")
        try:
            dedicated = plan(cluster, demands, space=space, effort=effort, seed=seed, **costs)
            dedicated_good = search.score(dedicated.plan, longest).good
        except InfeasibleError:
            dedicated = None
    chosen = dedicated.plan if dedicated is not None and dedicated_good >= best.good else shared
    result = search.simulate(chosen, longest)
    entry = PlannerEntry(
        name="vllm-shared",
        options={"eta": effort.eta, "finalists": effort.finalists, "compare": compare},
        seed=seed,
        seconds=time.perf_counter() - begun,
        evaluations=search.simulations + (dedicated.plan.planner.evaluations if dedicated is not None else 0),
    )
    made = chosen.model_copy(update={"planner": entry, **result.predictions()})
    tried = tuple((_said(c, s.held, names), s.good) for c, s in raced.last)
    return SharedPlanning(made, shared, best.good, dedicated_good, dedicated, tried)


def _key(score: SharedScore) -> tuple[float, ...]:
    return score.good, score.kept


def _said(cut: Partition, held: Held, names: Sequence[str]) -> str:
    if not held:
        return f"{cut}: does not fit"
    parts = zip(cut.groups, held, strict=True)
    return "; ".join(f"{group}: {', '.join(names[m] for m in sorted(models)) or 'idle'}" for group, models in parts)


def _silent(_: str) -> None:
    """Nobody listens."""
