"""`plan`: AlpaServe's placement search, with local search, robust planning and the gap to the best possible."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...profiles.profile import ModelProfile
from ...simulator.cluster import Cluster
from ...simulator.placement import Placement
from ...simulator.serving.breakdowns import Breakdowns
from ...simulator.serving.plan.file import Plan
from ...traces.trace import Trace
from .baselines import config_of, uniform_groups
from .drawn import plan_over_draws, variation_of
from .evaluator import Evaluator, State
from .finish import finish
from .instance import build_instance
from .local_search import local_search
from .options import PlanOptions
from .partition import Search
from .robust import Scenarios, concatenate, resampled
from .selection import fill_spare_memory
from .survive import Survival, equal_groups

__all__ = ["plan"]

RECORDED = (
    "algorithm", "selection", "beam", "config", "max_op", "max_pp", "bucket_threshold", "bucketings", "remainder",
    "max_splits", "polish", "local_search_iterations", "local_search_seconds", "robust", "times", "failures", "draws",
    "criterion", "survive", "fill", "memory",
)  # fmt: skip
"""Options that a plan says it was made with, in this order. How it is served stands elsewhere in a plan."""

SURVIVE_MOVES = 1000
"""Moves of the local search for plans that survive a loss. A guess: a few seconds for tens of devices."""

Progress = Callable[[str], None]


def plan(
    cluster: Cluster,
    models: Iterable[str] | None,
    trace: Trace,
    profiles: Mapping[str, ModelProfile],
    *,
    seed: int = 0,
    progress: Progress | None = None,
    breakdowns: Breakdowns | None = None,
    max_batch: int = 1,
    **options: Any,
) -> Plan:
    """Plan a placement as AlpaServe does (§4.2).

    Parameters
    ----------
    cluster : Cluster
        Where to place.
    models : iterable of str, optional
        What to place; the trace's models if None.
    trace : Trace
        The traffic to plan for.
    profiles : Mapping[str, ModelProfile]
        What models cost.
    seed : int
        Seed of local search and resampling.
    progress : callable, optional
        Called with a line of text now and then.
    breakdowns : Breakdowns, optional
        What fails and what loading costs: used with ``failures="drawn"`` alone.
    max_batch : int
        Largest batch that the plan will be served with: what is drawn, and what is lost, is judged with it. The search
        without either knows no batches.
    **options
        Fields of `PlanOptions`: the algorithm, what it searches, how the plan will be served.

    Returns
    -------
    Plan
        With predicted attainment, goodput, mean latency, an upper bound on any placement's attainment, and the gap.

    Raises
    ------
    InputError
        If an argument is wrong; before any work.
    InfeasibleError
        If a model fits nowhere; says the smallest change that makes it fit.
    """
    begun, asked = time.perf_counter(), PlanOptions(**options)
    fails = asked.breakdowns(breakdowns, cluster)
    nominal = build_instance(cluster, models, trace, profiles, asked)
    traces: list[Trace] = []
    instance = nominal
    if asked.robust is not None:
        traces = resampled(trace, asked.robust, seed) if isinstance(asked.robust, int) else list(asked.robust)
        instance = build_instance(cluster, nominal.models, concatenate(traces), profiles, asked)
    evaluator = Evaluator(instance)
    over_draws = asked.times == "drawn" or fails is not None or (asked.survive != "none" and max_batch > 1)
    if asked.times == "drawn":
        variation_of(instance)  # refused before any work, as the loss of an only node is
    survival = None if asked.survive == "none" else Survival(evaluator, asked.survive)

    def search(e: Evaluator) -> State:
        solver = Search(e, asked.partition, progress)
        everything = (1 << e.instance.n_models) - 1
        if asked.config is not None:
            groups = uniform_groups(e.instance, config_of(asked.config))
            return solver.select(groups, everything, 0).state
        found = solver.run()
        floor = solver.floor(everything, e.instance.n_devices)
        return local_search(e, found.state, iterations=asked.polish, seed=seed, shapes=False, floor=floor).state

    improve = _improver(asked, seed, progress)
    state = search(evaluator)
    if survival is not None and not over_draws:
        return _surviving(asked, survival, state, begun, seed, progress)
    extra: dict[str, float] = {}
    placement: Placement | None = None
    quantile = asked.quantile
    if traces and quantile is not None:
        scenarios = Scenarios(instance, traces)
        # A quantile is no sum over traces, so the best plan for it may be the plan for one of them.
        candidates = [state, *map(search, scenarios.evaluators)]
        state = max(candidates, key=lambda s: scenarios.quantile(s, quantile))
        state = improve(evaluator, state, scenarios.objective(quantile))
        extra["robust_quantile"] = scenarios.quantile(state, quantile)
    elif over_draws:
        usual = improve(evaluator, state, None)
        if asked.fill and (fails is not None or survival is not None):
            usual = fill_spare_memory(evaluator, usual)
        state, placement, extra = plan_over_draws(asked, evaluator, usual, search, seed, fails, max_batch, progress)
    else:
        state = improve(evaluator, state, None)
    if asked.fill and not extra:  # replicas that do no harm to the mean may still harm a quantile
        state = fill_spare_memory(evaluator, state)
    if traces:
        each = Scenarios(instance, traces).attainments(state)
        extra |= {"robust_mean": sum(each) / len(each), "robust_worst": min(each)}
    return finish(nominal, state, evaluator, "alpaserve", _record(asked, len(traces)), begun, seed, extra, placement)


def _record(asked: PlanOptions, traces: int = 0) -> dict[str, Any]:
    """Options as a plan says them."""
    return {name: getattr(asked, name) for name in RECORDED} | {
        "config": None if asked.config is None else str(asked.config), "robust": traces,
        "failures": asked.failures if isinstance(asked.failures, str) else "drawn",
    }  # fmt: skip


def _surviving(
    asked: PlanOptions, survival: Survival, usual: State, begun: float, seed: int, progress: Progress | None
) -> Plan:
    """The plan for what is attained after the worst loss, and how it compares with the usual one.

    The local search begins at the best of the usual plan and of equal groups of each configuration.
    """
    evaluator, instance = survival.evaluator, survival.evaluator.instance
    if asked.fill:
        usual = fill_spare_memory(evaluator, usual)
    starts = [usual, *([] if asked.config is not None else equal_groups(evaluator))]
    score = survival.objective
    first = min(starts, key=lambda state: (score(state, None), state))
    found = local_search(
        evaluator, first, iterations=asked.local_search_iterations or SURVIVE_MOVES,
        seconds=asked.local_search_seconds or None, seed=seed, objective=score, progress=progress,
    )  # fmt: skip
    filled = fill_spare_memory(evaluator, found.state) if asked.fill else found.state
    state = min((found.state, filled), key=lambda state: score(state, None) or 0)
    arranged = survival.improved(survival.arrange(state))
    plain = survival.improved(survival.arrange(usual))
    after, without = survival.attainment(arranged), survival.attainment(plain)
    extra = {
        "survive_worst": after,
        "survive_worst_of_usual": without,
        "survive_gain": after - without,
        "attainment_of_usual": evaluator.attainment(usual),
    }
    return finish(
        instance, state, evaluator, "alpaserve", _record(asked), begun, seed, extra, survival.placement(arranged)
    )


Improver = Callable[[Evaluator, State, Callable[[State, int | None], int | None] | None], State]


def _improver(options: PlanOptions, seed: int, progress: Progress | None) -> Improver:
    iterations, seconds = options.local_search_iterations, options.local_search_seconds

    def improve(
        evaluator: Evaluator, state: State, objective: Callable[[State, int | None], int | None] | None
    ) -> State:
        if not iterations and not seconds:
            return state
        return local_search(
            evaluator, state, iterations=iterations or None, seconds=seconds or None, seed=seed, objective=objective,
            progress=progress,
        ).state  # fmt: skip

    return improve
