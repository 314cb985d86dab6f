"""`check_stage_graph`: is a plan valid (constraints C1–C5 of thesis §3.3), and does it fit the memory (Eq. 3.2)?

It checks any training plan, whichever planner made it, and names the first constraint that is broken.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...errors import InputError
from ...profiles.graph import Graph, reordered
from ...simulator.training.plan.file import TrainingPlan
from ...simulator.training.plan.program import is_tied, plan_program
from ...simulator.training.program.actions import Program
from ...simulator.training.program.columns import B, F

__all__ = ["check_passes", "check_stage_graph"]

GIB = 2**30
Passes = list[list[tuple[int, int]]]
"""For each stage, its passes in order: (F or B, microbatch)."""


def check_stage_graph(plan: TrainingPlan, graph: Graph, *, memory_bytes: float | None = None) -> None:
    """Check that a plan is valid and fits its devices' memory.

    Parameters
    ----------
    plan : TrainingPlan
        The plan.
    graph : Graph
        The graph that it trains, in the graph's own order of operators.
    memory_bytes : float, optional
        Bytes of each device that a stage may use; by default all of the device's memory.

    Raises
    ------
    InputError
        If a constraint does not hold. The message names the first one, C1 to C5 or Eq. 3.2, and where it is broken.
    """
    ordered = reordered(graph, plan.model.order)
    stage_of = _partition(plan, ordered)
    _dependencies(plan, ordered, stage_of)
    _devices(plan)
    try:
        program = plan_program(plan)
    except InputError as error:  # a program that deadlocks is not made
        raise InputError(f"C5: {error}") from None
    passes = _passes(plan, program)
    edges = [(t.source, t.target, t.gradient) for t in plan.transfers if not is_tied(plan, t)]
    check_passes(passes, [plan.microbatch_of(s) for s in range(len(passes))], edges, plan.global_batch)
    _memory(plan, passes, memory_bytes)


def check_passes(
    passes: Passes, sizes: Sequence[int], edges: Sequence[tuple[int, int, bool]], global_batch: int
) -> None:
    """Check constraints C4 and C5 on the order of the stages' passes.

    Parameters
    ----------
    passes : list of list of (int, int)
        For each stage, its passes in order: (F or B, microbatch).
    sizes : sequence of int
        Samples of one microbatch, for each stage.
    edges : sequence of (int, int, bool)
        For each edge: the stage that makes the value, the stage that reads it, and whether a gradient comes back.
    global_batch : int
        B, samples of one iteration.

    Raises
    ------
    InputError
        If they break C4 or C5.
    """
    _order_inside(passes)
    _order_between(passes, sizes, edges, global_batch)


def _partition(plan: TrainingPlan, graph: Graph) -> list[int]:
    """C1: convex subgraphs that form a partition."""
    n = len(graph.operators)
    stage_of = [-1] * n
    for s, stage in enumerate(plan.stages):
        for i in range(stage.first, min(stage.last, n)):
            if stage_of[i] >= 0:
                name = graph.operators[i].name
                raise InputError(f"C1: operator {name!r} is in stages {stage_of[i]} and {s}; give it to one of them")
            stage_of[i] = s
        if stage.last > n:
            raise InputError(f"C1: stage {s} ends at operator {stage.last}; the graph has {n}")
    missing = next((i for i, s in enumerate(stage_of) if s < 0), None)
    if missing is not None:
        raise InputError(f"C1: operator {graph.operators[missing].name!r} is in no stage")
    for s in range(len(plan.stages)):  # does a path leave the stage and come back?
        left: set[int] = set()
        for i, op in enumerate(graph.operators):
            made = [graph.index[name] for name in op.inputs if name in graph.index]
            outside = any(j in left or stage_of[j] == s for j in made) if stage_of[i] != s else False
            if outside:
                left.add(i)
            elif stage_of[i] == s and (back := next((j for j in made if j in left), None)) is not None:
                raise InputError(
                    f"C1: stage {s} is not convex: a path leaves it and comes back by {graph.operators[back].name!r} "
                    f"to {op.name!r}"
                )
    return stage_of


def _dependencies(plan: TrainingPlan, graph: Graph, stage_of: list[int]) -> None:
    """C2: an edge between stages wherever one reads what another makes."""
    have = {(t.source, t.target, t.value) for t in plan.transfers}
    for i, op in enumerate(graph.operators):
        for name in op.inputs:
            if name in graph.index:
                x, y = stage_of[graph.index[name]], stage_of[i]
                if x != y and (x, y, name) not in have:
                    raise InputError(f"C2: stage {y} reads {name!r} of stage {x}, and no transfer brings it")


def _devices(plan: TrainingPlan) -> None:
    """C3: every stage has devices of its own."""
    owner: dict[int, int] = {}
    for s in range(len(plan.stages)):
        ids = plan.mesh(s).device_ids
        if not ids:
            raise InputError(f"C3: stage {s} has no device")
        for device in ids:
            if device in owner:
                raise InputError(f"C3: device {device} is given to stages {owner[device]} and {s}")
            owner[device] = s


def _passes(plan: TrainingPlan, program: Program) -> Passes:
    columns = program.columns
    found: Passes = [[] for _ in plan.stages]
    for at in np.flatnonzero(np.isin(columns.op, (F, B))):
        found[int(columns.stage[at])].append((int(columns.op[at]), int(columns.microbatch[at])))
    return found


def _order_inside(passes: Passes) -> None:
    """C4: forward passes and backward passes by rising microbatch, each forward before its backward."""
    for s, mine in enumerate(passes):
        done = {F: 0, B: 0}
        for op, j in mine:
            if j != done[op]:
                raise InputError(f"C4: stage {s}: {_name(op, j)} comes where {_name(op, done[op])} was to come")
            if op == B and done[F] <= j:
                raise InputError(f"C4: stage {s}: {_name(B, j)} comes before {_name(F, j)}")
            done[op] += 1
        if done[F] != done[B]:
            raise InputError(f"C4: stage {s}: {done[F]} forward passes, {done[B]} backward passes")


def _order_between(
    passes: Passes, sizes: Sequence[int], edges: Sequence[tuple[int, int, bool]], global_batch: int
) -> None:
    """C5: samples go forward before they are read, gradients before they are used; no stages wait for each other."""
    for s, (mine, size) in enumerate(zip(passes, sizes, strict=True)):
        if len(mine) // 2 * size != global_batch:
            raise InputError(
                f"C5: stage {s}: {len(mine) // 2} microbatches of {size} samples are not the batch of {global_batch}"
            )
    before: list[set[int]] = [set() for _ in passes]
    after: list[set[int]] = [set() for _ in passes]
    for source, target, gradient in edges:
        before[target].add(source)
        if gradient:
            after[source].add(target)
    at = [0] * len(passes)
    done = [{F: 0, B: 0} for _ in passes]
    moved = True
    while moved:
        moved = False
        for s, mine in enumerate(passes):
            while at[s] < len(mine) and _waits(mine[at[s]], s, before, after, done, sizes) is None:
                done[s][mine[at[s]][0]] += 1
                at[s] += 1
                moved = True
    for s, mine in enumerate(passes):
        if at[s] < len(mine):
            other = _waits(mine[at[s]], s, before, after, done, sizes)
            raise InputError(
                f"C5: stages {s} and {other} wait for each other: {_name(*mine[at[s]])} of stage {s} cannot come "
                "where it is"
            )


def _waits(
    step: tuple[int, int], s: int, before: list[set[int]], after: list[set[int]], done: list[dict[int, int]],
    sizes: Sequence[int],
) -> int | None:  # fmt: skip
    """A stage that has not yet done what a pass needs; None: there is none."""
    op, j = step
    for other in before[s] if op == F else after[s]:
        if done[other][op] * sizes[other] < (j + 1) * sizes[s]:
            return other
    return None


def _memory(plan: TrainingPlan, passes: Passes, memory_bytes: float | None) -> None:
    """Eq. 3.2: state, activations of the microbatches in flight and temporaries fit."""
    for s, (stage, mine) in enumerate(zip(plan.stages, passes, strict=True)):
        limit = plan.mesh(s).cluster.spec.memory_bytes if memory_bytes is None else memory_bytes
        held = int(np.cumsum([1 if op == F else -1 for op, _ in mine]).max(initial=0))
        needed = stage.state_bytes + held * stage.activation_bytes + stage.work_bytes
        if needed > limit * (1 + 1e-9):  # planners sum the same bytes in another order: rounding alone must not refuse
            raise InputError(
                f"Eq. 3.2: stage {s} needs {needed / GIB:.4g} GiB on a device with {held} microbatches in flight; "
                f"there are {limit / GIB:.4g} GiB"
            )


def _name(op: int, microbatch: int) -> str:
    return f"{'F' if op == F else 'B'}.{microbatch}"
