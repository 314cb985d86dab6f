"""`plan`: AlpaServe's placement search, with local search, robust planning and the gap to the best possible."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...profiles.profile import ModelProfile
from ...simulator.cluster import Cluster
from ...simulator.serving.plan.file import Plan
from ...traces.trace import Trace
from .baselines import config_of, uniform_groups
from .drawn import DrawnTimes, slower
from .evaluator import Evaluator, State
from .finish import finish
from .instance import build_instance
from .local_search import local_search
from .options import PlanOptions
from .partition import Search
from .robust import Scenarios, concatenate, resampled
from .selection import fill_spare_memory

__all__ = ["plan"]

RECORDED = (
    "algorithm", "selection", "beam", "config", "max_op", "max_pp", "bucket_threshold", "bucketings", "remainder",
    "max_splits", "polish", "local_search_iterations", "local_search_seconds", "robust", "times", "draws", "criterion",
    "fill", "memory",
)  # fmt: skip
"""Options that a plan says it was made with, in this order. How it is served stands elsewhere in a plan."""

Progress = Callable[[str], None]


def plan(
    cluster: Cluster,
    models: Iterable[str] | None,
    trace: Trace,
    profiles: Mapping[str, ModelProfile],
    *,
    seed: int = 0,
    progress: Progress | None = None,
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
    nominal = build_instance(cluster, models, trace, profiles, asked)
    traces: list[Trace] = []
    instance = nominal
    if asked.robust is not None:
        traces = resampled(trace, asked.robust, seed) if isinstance(asked.robust, int) else list(asked.robust)
        instance = build_instance(cluster, nominal.models, concatenate(traces), profiles, asked)
    evaluator = Evaluator(instance)

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
    extra: dict[str, float] = {}
    quantile = asked.quantile
    if traces and quantile is not None:
        scenarios = Scenarios(instance, traces)
        # A quantile is no sum over traces, so the best plan for it may be the plan for one of them.
        candidates = [state, *map(search, scenarios.evaluators)]
        state = max(candidates, key=lambda s: scenarios.quantile(s, quantile))
        state = improve(evaluator, state, scenarios.objective(quantile))
        extra["robust_quantile"] = scenarios.quantile(state, quantile)
    elif asked.times == "drawn":
        drawn, nominal_state = DrawnTimes(evaluator, asked.draws, seed), improve(evaluator, state, None)
        # Slower times leave slack; what they are worth is for the draws to say.
        others = [search(Evaluator(slower(instance, factor))) for factor in drawn.slow]
        state = max([nominal_state, *others], key=lambda s: drawn.value(s, quantile))
        state = improve(evaluator, state, drawn.objective(quantile))
        extra = drawn.metrics(state, nominal_state, quantile)
    else:
        state = improve(evaluator, state, None)
    if asked.fill and not extra:  # replicas that do no harm to the mean may still harm a quantile
        state = fill_spare_memory(evaluator, state)
    if traces:
        each = Scenarios(instance, traces).attainments(state)
        extra |= {"robust_mean": sum(each) / len(each), "robust_worst": min(each)}
    record = {name: getattr(asked, name) for name in RECORDED} | {
        "config": None if asked.config is None else str(asked.config), "robust": len(traces),
    }  # fmt: skip
    return finish(nominal, state, evaluator, "alpaserve", record, begun, seed, extra)


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
