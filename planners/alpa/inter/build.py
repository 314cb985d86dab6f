"""`build_plan`: chosen stages as a `TrainingPlan`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ....profiles.graph import Graph
from ....simulator.plan.entries import PlannerEntry
from ....simulator.training.plan.entries import ModelEntry
from ....simulator.training.plan.file import TrainingPlan
from ....simulator.training.simulate import simulate_training
from .assemble import PlacedStage, Site, mesh_entries, predicted, stage_entries, transfers
from .interleave import held_microbatches
from .memory import in_flight
from .pricing.pricer import Recompute

if TYPE_CHECKING:
    from ..options import AlpaOptions

__all__ = ["build_plan"]

Shape = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Origin:
    """How a plan was found.

    Parameters
    ----------
    planner : str
        Name of the planner.
    started : float
        When, by `time.perf_counter`.
    evaluations : int
        How much was tried.
    record : mapping
        Further options that the plan records.
    programme_s : float
        Seconds of an iteration that the dynamic programme minimised.
    """

    planner: str
    started: float
    evaluations: int
    record: Mapping[str, Any]
    programme_s: float


def build_plan(
    graph: Graph,
    sites: Sequence[Site],
    shapes: Sequence[tuple[int, Shape]],
    stages: Sequence[tuple[int, int, Shape, Recompute]],
    microbatches: int,
    options: AlpaOptions,
    origin: Origin,
) -> TrainingPlan:
    """Solve every stage exactly under its memory bound, and put the plan together.

    Parameters
    ----------
    graph : Graph
        At the size of one microbatch.
    sites : sequence of Site
        The clusters, mostly one.
    shapes : sequence of (int, (int, int))
        Number of the cluster, and submesh of each mesh. With fewer meshes than stages, stages go round them.
    stages : sequence of (first, last, logical mesh shape, recomputation)
        Operators half-open.
    microbatches : int
        B, microbatches of one iteration.
    options : AlpaOptions
        The planner's options, which the plan records.
    origin : Origin
        How the plan was found, which the plan records.

    Raises
    ------
    InfeasibleError
        If a stage does not fit after all.
    """
    meshes = mesh_entries(shapes, [site.cluster for site in sites])
    count, rounds = len(stages), len(stages) // len(shapes)
    if rounds > 1:
        held = held_microbatches(len(shapes), rounds, microbatches)
    else:
        held = tuple(in_flight(options.schedule, s, count, microbatches) for s in range(count))
    placed = [
        PlacedStage(first, last, number % len(shapes), logical, recompute, held[number])
        for number, (first, last, logical, recompute) in enumerate(stages)
    ]
    entries, plans = stage_entries(graph, placed, meshes, sites, microbatches)
    dtypes = [t.dtype for t in graph.parameters]
    clusters = [site.cluster for site in sites]
    made = TrainingPlan.of(
        clusters,
        model=ModelEntry(
            name=graph.name,
            digest=graph.digest,
            dtype=dtypes[0] if dtypes else graph.operators[0].dtype,
            optimizer=options.optimizer,
        ),
        global_batch=graph.batch * microbatches,
        microbatches=microbatches,
        schedule=options.schedule,
        resharding=options.resharding,
        overlap=options.overlap,
        meshes=meshes,
        stages=tuple(entries),
        transfers=transfers(graph, entries, plans),
        planner=PlannerEntry(
            name=origin.planner,
            options=options.to_json() | dict(origin.record),
            seconds=time.perf_counter() - origin.started,
            evaluations=origin.evaluations,
        ),
        cost_source="; ".join(dict.fromkeys(site.pricer.source for site in sites)),
        predicted=predicted(
            graph, entries, meshes, microbatches, sum(c.n_devices * c.spec.peak_flops for c in clusters)
        )
        | {"gap": max(p.gap for p in plans), "dp_seconds": origin.programme_s},
    )
    # Eq. 2 has no transfers between stages; the simulation of the very plan has, and the memory of its very program.
    result = simulate_training(made)
    simulated = {"peak_bytes": float(result.peak_bytes[result.fullest]), "simulated_s": result.seconds}
    return made.model_copy(update={"predicted": made.predicted | simulated})
