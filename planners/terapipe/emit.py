"""`emit`: write a layout with its chosen slices as a `TrainingPlan`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

import numpy as np

from ...profiles.graph import Graph
from ...simulator.cluster import Cluster
from ...simulator.plan.entries import PlannerEntry
from ...simulator.training.plan.entries import ModelEntry, SliceEntry, StageEntry, TrafficOf
from ...simulator.training.plan.file import TrainingPlan
from ..alpa.inter.assemble import transfers
from ..alpa.inter.pricing.intra_pricer import stage_plan
from ..alpa.inter.pricing.pricer import Recompute
from .cells import Cell
from .choose import Chosen
from .options import TeraPipeOptions
from .pipeline import Pipeline
from .slicing import Slice

__all__ = ["emit", "stage_bytes"]

Schedule = Literal["terapipe", "terapipe_1f1b"]


def stage_bytes(pipeline: Pipeline, slices: Sequence[Slice], schedule: Schedule) -> list[tuple[float, float]]:
    """Bytes on one device of each stage: state with temporaries, and the most activations in flight.

    Under "terapipe" all activations of the batch are in flight. Under "terapipe_1f1b" these are the slices that stage s
    feeds before its first backward pass: those of one microbatch, and one more for each later stage. After that, one
    slice comes for each that goes. Besides its temporaries, a stage holds the gradients of a microbatch's keys and
    values, which its slices add up.
    """
    most = max(x.samples for x in slices)
    longest = max(len(x.tokens) for x in slices)
    found: list[tuple[float, float]] = []
    for s, cell in enumerate(pipeline.cells):
        each = {x: x.samples * cell.activation_bytes(x.tokens) for x in dict.fromkeys(slices)}
        fed = np.array([each[x] * i / sum(x.tokens) for x in slices for i in x.tokens])
        freed = np.array([each[x] * i / sum(x.tokens) for x in slices for i in reversed(x.tokens)])
        ahead = len(fed) if schedule == "terapipe" else min(len(fed), longest + len(pipeline.cells) - 1 - s)
        gone = np.concatenate(([0.0], np.cumsum(freed)))  # of a microbatch the last slice goes first
        held = float((np.cumsum(fed)[ahead - 1 :] - gone[: len(fed) - ahead + 1]).max())
        work = most * (cell.plan.work_bytes + cell.carried_bytes)
        found.append((cell.plan.state_bytes + work, held))
    return found


@dataclass(frozen=True, slots=True)
class Origin:
    """How a plan was found: the planner, when it began (`time.perf_counter`), evaluations, cost source and choices."""

    planner: str
    started: float
    evaluations: int
    source: str
    record: Mapping[str, Any]


def emit(
    graph: Graph,
    cluster: Cluster,
    pipeline: Pipeline,
    chosen: Chosen,
    options: TeraPipeOptions,
    *,
    cells: Sequence[Cell],
    schedule: Schedule,
    recompute: Recompute,
    origin: Origin,
) -> TrainingPlan:
    """Write the plan.

    Parameters
    ----------
    graph : Graph
        The model with one sample on each replica.
    pipeline, chosen
        The stages, and their slices.
    cells : sequence of Cell
        The cell of each stage, with the names of its own operators.
    schedule, recompute
        Schedule and recomputation of all stages.
    origin : Origin
        How the plan was found, for its record.
    """
    layout, slices = pipeline.layout, chosen.slices
    data = layout.data
    entries = tuple(
        SliceEntry(samples=x.samples * data, tokens=x.tokens, count=len(list(same)))
        for x, same in groupby(slices)
    )  # fmt: skip
    count = len(slices)
    mean = sum(x.samples for x in slices) / count
    stages: list[StageEntry] = []
    for s, (cell, bounds) in enumerate(zip(cells, layout.bounds, strict=True)):
        plan = stage_plan(cell.plan)
        each = {x: pipeline.slice_seconds(s, x) for x in dict.fromkeys(slices)}
        forward = sum(f for x in slices for f, _ in each[x]) / count
        backward = sum(b for x in slices for _, b in each[x]) / count
        whole = plan.backward_input_s + plan.backward_weight_s
        weights = backward * (plan.backward_weight_s / whole if whole else 0.0)
        kept = sum(x.samples * cell.activation_bytes(x.tokens) for x in slices) / count
        most = max(x.samples for x in slices)
        first, last = bounds
        stages.append(
            StageEntry(
                mesh=s,
                logical=(data, layout.op),
                first=first,
                last=last,
                forward_s=forward,
                backward_input_s=backward - weights,
                backward_weight_s=weights,
                reduce_s=plan.reduce_s,
                update_s=plan.update_s,
                state_bytes=plan.state_bytes,
                activation_bytes=kept,
                work_bytes=most * (plan.work_bytes + cell.carried_bytes),
                flops=mean * sum(op.flops for op in graph.operators[first:last]),
                recompute=recompute,
                operators=dict(plan.operators),
                parameters=dict(plan.parameters),
                optimizer_states=dict(plan.optimizer_states),
                collectives=dict(plan.collectives),
                traffic=_traffic(plan.traffic, cell, slices),
                slice_forward_s=tuple(tuple(f for f, _ in each[x]) for x, _ in groupby(slices)),
                slice_backward_s=tuple(tuple(b for _, b in each[x]) for x, _ in groupby(slices)),
            )
        )
    between = transfers(graph, stages, [stage_plan(cell.plan) for cell in cells])
    parameters = {t.name for t in graph.parameters}
    sized = tuple(
        t if t.value in parameters else t.model_copy(update={"bytes": t.bytes * mean}) for t in between
    )  # fmt: skip
    dtypes = [t.dtype for t in graph.parameters]
    return TrainingPlan.of(
        cluster,
        model=ModelEntry(
            name=graph.name, digest=graph.digest, dtype=dtypes[0] if dtypes else graph.operators[0].dtype,
            optimizer=options.optimizer,
        ),
        global_batch=data * sum(x.samples for x in slices),
        microbatches=count,
        schedule=schedule,
        resharding=options.resharding,
        overlap=options.overlap,
        meshes=layout.meshes,
        stages=tuple(stages),
        transfers=sized,
        slices=entries,
        planner=PlannerEntry(
            name=origin.planner, options=options.to_json() | dict(origin.record),
            seconds=time.perf_counter() - origin.started, evaluations=origin.evaluations,
        ),
        cost_source=origin.source,
        predicted={},
    )  # fmt: skip


def _traffic(
    whole: Mapping[TrafficOf, tuple[float, ...]], cell: Cell, slices: Sequence[Slice]
) -> dict[TrafficOf, tuple[float, ...]]:
    """What a stage's collectives keep busy: those of slices by a microbatch of average size, as its seconds are; once
    an iteration as the plan of `whole` sequences has them."""
    each = {x: cell.busy(x.samples, x.tokens) for x in dict.fromkeys(slices)}
    ways = [np.mean([each[x][way] for x in slices], axis=0).tolist() for way in (0, 1)]
    said: dict[TrafficOf, tuple[float, ...]] = {"forward": tuple(ways[0]), "backward_input": tuple(ways[1])}
    said |= {name: busy for name, busy in whole.items() if name in ("reduce", "update")}
    return {name: busy for name, busy in said.items() if any(busy)}
