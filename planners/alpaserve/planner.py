"""`plan`: AlpaServe's placement search, with local search, robust planning and the gap to the best possible."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ...errors import InputError
from ...profiles.config import ParallelConfig
from ...profiles.profile import ModelProfile
from ...simulator.cluster import Cluster
from ...simulator.serving.plan.file import Plan
from ...traces.trace import Trace
from .baselines import config_of, uniform_groups
from .evaluator import Evaluator, State
from .finish import finish
from .instance import build_instance
from .local_search import local_search
from .partition import PartitionOptions, Search
from .robust import Scenarios, concatenate, resampled
from .spare import fill_spare_memory

__all__ = ["ALGORITHMS", "plan"]

ALGORITHMS = ("auto", "algorithm1", "algorithm2")
"""``auto``: Algorithm 2 with and without separate model buckets, the better one. ``algorithm2``: the paper's, separate
buckets only. ``algorithm1``: model selection alone, for equal groups of `config`."""

Progress = Callable[[str], None]


def plan(
    cluster: Cluster,
    models: Iterable[str] | None,
    trace: Trace,
    profiles: Mapping[str, ModelProfile],
    *,
    algorithm: str = "auto",
    selection: str | None = None,
    beam: int = 1,
    config: ParallelConfig | str | None = None,
    max_op: int | None = 8,
    max_pp: int | None = 16,
    bucket_threshold: float = 0.38,
    bucketings: str = "coarsest",
    remainder: str = "powers_of_two",
    max_splits: int = 100,
    polish: int | None = None,
    local_search_iterations: int = 0,
    local_search_seconds: float = 0.0,
    robust: int | Sequence[Trace] | None = None,
    criterion: str | float = "mean",
    fill: bool = True,
    memory: str = "per_stage",
    dispatch: str = "shortest_queue",
    admission: bool = True,
    overhead: float | None = None,
    seed: int = 0,
    progress: Progress | None = None,
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
    algorithm : str
        One of `ALGORITHMS`.
    selection : str, optional
        ``"fast"`` (one simulation per step, the most unserved model to the least utilised group) or ``"greedy"``
        (Algorithm 1 with its simulation of every candidate; never worse than fast here). By default greedy for
        ``algorithm1`` and fast otherwise.
    beam : int
        Beam size of Algorithm 1.
    config : ParallelConfig or str, optional
        The groups of ``algorithm1``.
    max_op, max_pp : int, optional
        Largest degrees to try; None for whatever is profiled.
    bucket_threshold, bucketings, remainder, max_splits
        See `PartitionOptions`.
    polish : int, optional
        Moves of single replicas tried on the answer, kept where they do not harm; by default 300 for ``auto`` and none
        for the paper's algorithms.
    local_search_iterations, local_search_seconds : int, float
        Improve the answer by local search until either is reached; 0 for no limit of that kind, both 0 for no search.
        With iterations alone the plan depends only on the arguments.
    robust : int or sequence of Trace, optional
        Plan for these traces, or for so many resamples of `trace`, instead of `trace` itself.
    criterion : str or float
        ``"mean"`` attainment over the robust traces, or the quantile of it to make large (0: the worst trace).
    fill : bool
        Fill spare memory with replicas that do no harm.
    memory : str
        ``"per_stage"`` or ``"max_stage"``: see `instance.MEMORY_RULES`.
    dispatch, admission, overhead
        How the plan will be served; `overhead` by default the profile set's.
    seed : int
        Seed of local search and resampling.
    progress : callable, optional
        Called with a line of text now and then.

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
    begun = time.perf_counter()
    chosen = selection or ("greedy" if algorithm == "algorithm1" else "fast")
    options = PartitionOptions(
        selection=chosen, beam=beam, bucket_threshold=bucket_threshold, bucketings=bucketings,
        unseparated=algorithm != "algorithm2", remainder=remainder, max_splits=max_splits,
    )  # fmt: skip
    polish = (300 if algorithm == "auto" else 0) if polish is None else polish
    _check(algorithm, config, robust, criterion, {"polish": polish, "local_search_iterations": local_search_iterations})
    if not (math.isfinite(local_search_seconds) and local_search_seconds >= 0):
        raise InputError(f"local_search_seconds: expected finite seconds >= 0 (got {local_search_seconds})")
    serving: dict[str, Any] = {
        "max_op": max_op, "max_pp": max_pp, "dispatch": dispatch, "admission": admission, "overhead": overhead,
        "memory": memory,
    }  # fmt: skip
    nominal = build_instance(cluster, models, trace, profiles, **serving)
    traces: list[Trace] = []
    instance = nominal
    if robust is not None:
        traces = resampled(trace, robust, seed) if isinstance(robust, int) else list(robust)
        instance = build_instance(cluster, nominal.models, concatenate(traces), profiles, **serving)
    evaluator = Evaluator(instance)

    def search(e: Evaluator) -> State:
        solver = Search(e, options, progress)
        everything = (1 << e.instance.n_models) - 1
        if algorithm == "algorithm1":
            groups = uniform_groups(e.instance, config_of(config or ParallelConfig()))
            return solver.select(groups, everything, 0).state
        found = solver.run()
        floor = solver.floor(everything, e.instance.n_devices)
        return local_search(e, found.state, iterations=polish, seed=seed, shapes=False, floor=floor).state

    improve = _improver(local_search_iterations, local_search_seconds, seed, progress)
    state = search(evaluator)
    extra: dict[str, float] = {}
    if traces and criterion != "mean":
        scenarios = Scenarios(instance, traces)
        candidates = [state, *map(search, scenarios.evaluators)]
        state = max(candidates, key=lambda s: scenarios.quantile(s, float(criterion)))
        state = improve(evaluator, state, scenarios.objective(float(criterion)))
        extra["robust_quantile"] = scenarios.quantile(state, float(criterion))
    else:
        state = improve(evaluator, state, None)
    if fill and not extra:
        state = fill_spare_memory(evaluator, state)
    if traces:
        each = Scenarios(instance, traces).attainments(state)
        extra |= {"robust_mean": sum(each) / len(each), "robust_worst": min(each)}
    record = {
        "algorithm": algorithm, "selection": chosen, "beam": beam, "config": None if config is None else str(config),
        "max_op": max_op, "max_pp": max_pp, "bucket_threshold": bucket_threshold, "bucketings": bucketings,
        "remainder": remainder, "max_splits": max_splits, "polish": polish,
        "local_search_iterations": local_search_iterations,
        "local_search_seconds": local_search_seconds, "robust": len(traces), "criterion": criterion, "fill": fill,
        "memory": memory,
    }  # fmt: skip
    return finish(nominal, state, evaluator, "alpaserve", record, begun, seed, extra)


Improver = Callable[[Evaluator, State, Callable[[State, int | None], int | None] | None], State]


def _improver(iterations: int, seconds: float, seed: int, progress: Progress | None) -> Improver:
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


def _check(
    algorithm: str,
    config: ParallelConfig | str | None,
    robust: int | Sequence[Trace] | None,
    criterion: str | float,
    counts: Mapping[str, int],
) -> None:
    if algorithm not in ALGORITHMS:
        raise InputError(f"algorithm: unknown algorithm {algorithm!r}; expected one of {', '.join(ALGORITHMS)}")
    if (config is None) == (algorithm == "algorithm1"):
        needed = "needs the configuration of its groups" if config is None else f"searches it (got {config})"
        raise InputError(f"config: {algorithm} {needed}; it goes with algorithm1 only")
    if criterion != "mean":
        if isinstance(criterion, bool) or not isinstance(criterion, int | float) or not 0 <= criterion <= 1:
            raise InputError(f"criterion: expected 'mean' or a quantile from 0 to 1 (got {criterion!r})")
        if robust is None:
            raise InputError("criterion: a quantile needs several traces; give robust")
    if robust is not None and not isinstance(robust, int):
        given = list(robust)
        if not given or not all(isinstance(t, Trace) for t in given):
            raise InputError(f"robust: expected traces or a number of resamples (got {given[:3]})")
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise InputError(f"{name}: expected an integer >= 0 (got {count!r})")
