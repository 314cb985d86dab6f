"""A training case solved: a plan of its planner, and one simulated iteration of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ...errors import InfeasibleError, InputError
from ...planners.training import training_planner
from ...profiles.graph.costs.measured.model import MeasuredCosts
from ...simulator.training import TrainingPlan, TrainingResult, simulate_training
from .case import TrainingCase
from .clusters import cluster_of, further_clusters_of
from .data import TrainingData, is_search, model_key
from .measured import measured_cluster, with_origins

if TYPE_CHECKING:
    from ...planners.megatron import SearchOptions, SearchResult

__all__ = ["TrainingSolved", "laid_out", "plan", "solve"]

CACHED_PLANS = 64
"""Plans that a worker remembers: points that differ in nothing that a planner sees share one."""

LAID_OUT = (10, 1_000)
"""Configurations of a search that are tried as plans: the fastest whose meshes are rectangles of devices is taken.
Few first, for nearly always it is the first; each costs an estimate."""

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, eq=False)
class TrainingSolved:
    """A case, its plan, and what came of an iteration.

    Parameters
    ----------
    case : TrainingCase
        The case.
    plan : TrainingPlan
        Who trains what where.
    result : TrainingResult
        One simulated iteration.
    tokens : int
        Tokens of a sample; 0: its samples are none.
    checkpoint_bytes : float
        Of weights and optimizer states.
    """

    case: TrainingCase
    plan: TrainingPlan
    result: TrainingResult
    tokens: int = 0
    checkpoint_bytes: float = 0.0


def plan(case: TrainingCase, data: TrainingData, progress: Progress | None = None) -> TrainingPlan:
    """The plan of a case. A planning problem is solved once in a process.

    Raises
    ------
    InfeasibleError
        If nothing fits; says the smallest change that helps where the planner knows it.
    LimitError
        If a limit ended the search.
    """
    made = _planned(_Asked(_seen(case), case, data, progress))
    return made.model_copy(update={"links": "shared"}) if case.cluster.shared_links else made


def solve(case: TrainingCase, data: TrainingData) -> TrainingSolved:
    """Plan and simulate.

    Raises
    ------
    InfeasibleError, LimitError
        As `plan`.
    """
    made = plan(case, data)
    held = data.checkpoint_bytes(case, made.model.optimizer, made.model.dtype) if case.failures.some else 0.0
    return TrainingSolved(case, made, simulate_training(made), tokens_of(case, data), held)


def tokens_of(case: TrainingCase, data: TrainingData) -> int:
    """Tokens of a sample; 0 where samples are none, as images are."""
    if is_search(case):
        return data.shapes[model_key(case)].seq
    graph = data.graph_of(case)
    return int(graph.items_per_sample) if graph.items == "tokens" else 0


def _seen(case: TrainingCase) -> str:
    """What decides a plan: not the seed, for planning draws nothing; not what is only counted or compared."""
    unseen: dict[str, Any] = {
        "seed": True, "failures": True, "checkpoint": True, "planner": {"label"}, "cluster": {"price_per_hour"},
        "workload": {"slo", "slo_scale", "run_samples", "deadline"},
    }  # fmt: skip
    return case.model_dump_json(exclude=unseen)


@dataclass(frozen=True)
class _Asked:
    """A plan to make; equal to another if all that decides it is."""

    seen: str
    case: TrainingCase = field(compare=False)
    data: TrainingData = field(compare=False)
    progress: Progress | None = field(compare=False)

    def __post_init__(self) -> None:
        # The same words may name another file in another folder: its content decides, too.
        object.__setattr__(self, "seen", f"{self.seen} {sorted(self.data.digests_of(self.case).items())}")


@lru_cache(maxsize=CACHED_PLANS)
def _planned(asked: _Asked) -> TrainingPlan:
    case, data = asked.case, asked.data
    if is_search(case):
        return _searched(case, data, asked.progress)
    if case.cluster.also:
        from ...planners.alpa import plan_heterogeneous

        return plan_heterogeneous(
            data.graph_of(case), [cluster_of(case), *further_clusters_of(case)],
            global_batch=case.workload.global_batch, microbatches=case.workload.microbatches,
            options=data.options_of(case), progress=asked.progress,
        )  # fmt: skip
    graph, cluster, costs = data.graph_of(case), cluster_of(case), None
    if case.profile is not None:
        profile = data.profiles[case.profile]
        cluster, costs = measured_cluster(cluster, case, profile), MeasuredCosts(profile)
    made = training_planner(case.planner.name)(
        graph, cluster, global_batch=case.workload.global_batch, microbatches=case.workload.microbatches,
        options=data.options_of(case), costs=costs, progress=asked.progress,
    )  # fmt: skip
    if costs is not None:
        made = with_origins(made, graph, costs)
    named = case.planner.options.get("slice_profile", case.planner.options.get("slice-profile"))
    if named is None:
        return made
    who = made.planner.model_copy(update={"options": {**made.planner.options, "slice_profile": named}})
    return made.model_copy(update={"planner": who})


def _searched(case: TrainingCase, data: TrainingData, progress: Progress | None) -> TrainingPlan:
    """The fastest configuration that stands on rectangles of devices."""
    from ...planners.megatron import ImpossibleError, SearchOptions

    options, cluster = SearchOptions.of(data.options_of(case)), cluster_of(case)
    shape = data.shapes[model_key(case)]
    tables = None if case.kernels is None else data.tables[case.kernels]
    batch = case.workload.global_batch
    why, tried = InfeasibleError("search: nothing was tried"), 0
    for top in LAID_OUT:
        try:
            found = options.run(shape, cluster, batch, top=top, tables=tables, progress=progress)
        except ImpossibleError as error:
            raise InfeasibleError(str(error)) from None
        try:
            return laid_out(case, data, found, options, tried)
        except InfeasibleError as error:
            why, tried = error, len(found.best)
    raise why


def laid_out(
    case: TrainingCase, data: TrainingData, found: SearchResult, options: SearchOptions, first: int = 0
) -> TrainingPlan:
    """The fastest that was found, from place `first` on, whose meshes are rectangles of devices.

    Raises
    ------
    InfeasibleError
        If there is none.
    """
    from ...planners.megatron import training_plan

    why = ""
    for one in found.best[first:]:
        try:
            made = training_plan(
                data.shapes[model_key(case)], found.cluster, found.global_batch, dtype=options.dtype,
                stack=options.stack(one.stack), name="decoder" if "=" in case.model else case.model,
                memory_bytes=found.memory_bytes, **one.settings,
            )  # fmt: skip
        except InputError as error:
            why = str(error)
            continue
        who = made.planner.model_copy(
            update={"name": "search", "evaluations": found.evaluated, "seconds": found.seconds}
        )
        return made.model_copy(update={"planner": who})
    raise InfeasibleError(f"search: none of the fastest {len(found.best)} configurations can be laid out: {why}")
