"""`stage_graph_plan`: a plan with given stages, which may form a graph; `branch_stages`: the branches of a model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...errors import InputError
from ...profiles.graph import Graph, Parallel, Series, operators_of, reordered, sp_tree
from ...simulator.training.plan.file import TrainingPlan
from .hand_plan import hand_plan

__all__ = ["branch_stages", "stage_graph_plan"]


def branch_stages(graph: Graph) -> tuple[tuple[int, ...], ...]:
    """Operators of each branch at a graph's start, and of what follows them.

    Raises
    ------
    InputError
        If the graph does not start with branches.
    """
    tree = sp_tree(graph)
    first, *rest = tree.children if isinstance(tree, Series) else (tree,)
    if not isinstance(first, Parallel) or not rest:
        raise InputError(f"graph {graph.name!r}: does not start with branches that meet later")
    ends = tuple(sorted(i for x in rest for i in operators_of(x)))
    return (*(tuple(sorted(operators_of(x))) for x in first.children), ends)


def stage_graph_plan(
    graph: Graph,
    stages: Sequence[Sequence[int]],
    *,
    meshes: Sequence[tuple[int, int]],
    global_batch: int,
    samples: Sequence[int],
    schedule: str = "kfkb",
    k: Sequence[int] = (),
    warmup: Sequence[int] = (),
    orders: Sequence[str] = (),
    **options: Any,
) -> TrainingPlan:
    """Make a plan from given stages. Its times are 0 until `measure.calibrate` measures them.

    Parameters
    ----------
    graph : Graph
        What to train, with operators in the graph's own order.
    stages : sequence of sequence of int
        Operators of each stage, by position, in a topological order of the stages.
    meshes : sequence of (int, int)
        Logical shape of each stage's mesh.
    global_batch : int
        Samples of an iteration.
    samples : sequence of int
        Samples of a microbatch, for each stage.
    schedule : str
        ``gpipe``, ``kfkb`` or ``explicit`` where microbatch sizes differ; any schedule where they are the same.
    k, warmup, orders : sequence, optional
        For each stage, the field of that name of `StageEntry`.
    **options
        As in `hand_plan`: ``rule``, ``zero``, ``recompute``, ``optimizer``, ``cluster``.

    Raises
    ------
    InputError
        If this is no plan.
    """
    order = [i for stage in stages for i in stage]
    own = order == list(range(len(graph.operators)))
    cuts = [0]
    for stage in stages:
        cuts.append(cuts[-1] + len(stage))
    unit = math.gcd(*samples)
    plan = hand_plan(
        reordered(graph, order), meshes=meshes, microbatches=global_batch // unit, global_batch=global_batch,
        # These two read fields of stages that are set below; without orders, ``explicit`` would be refused here.
        schedule="gpipe" if schedule in ("kfkb", "explicit") else schedule, cuts=cuts, **options,
    )  # fmt: skip
    entries = list(plan.stages)
    for s, size in enumerate(samples):
        update: dict[str, Any] = {"microbatch": 0 if size == unit else size}
        update |= {"k": k[s]} if k else {}
        update |= {"warmup": warmup[s]} if warmup else {}
        update |= {"order": orders[s]} if orders else {}
        entries[s] = entries[s].model_copy(update=update)
    parameters = {name for stage in entries for name in stage.parameters}
    transfers = tuple(
        t if t.value in parameters else t.model_copy(update={"bytes": t.bytes * samples[t.source] / unit})
        for t in plan.transfers
    )
    model = plan.model.model_copy(update={"digest": graph.digest, "order": () if own else tuple(order)})
    return TrainingPlan.of(
        plan.cluster_spec, model=model, global_batch=global_batch, microbatches=plan.microbatches, schedule=schedule,
        meshes=plan.meshes, stages=tuple(entries), transfers=transfers, overlap=True, planner=plan.planner,
    )  # fmt: skip
