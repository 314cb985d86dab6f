"""`planned_graph`: the graph that a training plan is for, found again and checked against the plan."""

from __future__ import annotations

from pathlib import Path

from ....errors import InputError
from ....profiles.graph import Graph, check_loss, in_zoo, load_graph, zoo_graph
from ....profiles.graph.structure import reordered
from ....profiles.graph.token_loops import sequence_length
from .file import TrainingPlan

__all__ = ["check_graph", "check_slices", "in_plan_order", "known_graph", "planned_graph"]


def planned_graph(plan: TrainingPlan, path: str | Path | None = None) -> Graph:
    """The graph of a plan, at the plan's microbatch size, its operators in the plan's order.

    Parameters
    ----------
    plan : TrainingPlan
        The plan. Its model is one of the zoo, or names a graph file.
    path : path, optional
        Where the plan was read from: a graph file that is not found from here is looked for beside it.

    Raises
    ------
    InputError
        If there is no such graph, or it is not the one that was planned.
    """
    graph = plan.own_graph
    if graph is None:
        graph = load_graph(_place(plan.model.graph, path)) if plan.model.graph else zoo_graph(plan.model.name)
    graph = in_plan_order(plan, graph.with_batch(plan.microbatch))
    check_graph(plan, graph)
    return graph


def known_graph(plan: TrainingPlan, path: str | Path | None = None) -> Graph | None:
    """The graph that a plan names, unchecked; None if it is none of the zoo's and no file. As in `planned_graph`."""
    if plan.own_graph is not None:
        return plan.own_graph
    if plan.model.graph:
        place = _place(plan.model.graph, path)
        return load_graph(place) if place.exists() else None
    return zoo_graph(plan.model.name) if in_zoo(plan.model.name) else None


def in_plan_order(plan: TrainingPlan, graph: Graph) -> Graph:
    """The graph with its operators in the order that the plan's stages count in (`ModelEntry.order`).

    Parameters
    ----------
    plan : TrainingPlan
        The plan.
    graph : Graph
        The graph that was planned, in its own order; one that is in the plan's order already comes back as it is.

    Raises
    ------
    InputError
        If the plan's order is none of this graph's operators.
    """
    order = plan.model.order
    if not order or (plan.model.digest and _own_digest(plan, graph) == plan.model.digest != graph.digest):
        return graph
    try:
        return reordered(graph, order)
    except InputError as error:
        raise InputError(f"plan: model.{error}") from None


def _own_digest(plan: TrainingPlan, graph: Graph) -> str:
    """Digest of a graph in the plan's order, as it was in its own."""
    order = plan.model.order
    if len(order) != len(graph.operators):
        return graph.digest
    place = sorted(range(len(order)), key=order.__getitem__)
    try:
        return reordered(graph, place).digest
    except InputError:  # it is in no such order
        return graph.digest


def check_graph(plan: TrainingPlan, graph: Graph) -> None:
    """Refuse a graph that is not the one that was planned, in the plan's order (`in_plan_order`).

    Raises
    ------
    InputError
        If it has no loss, its digest is another, stages leave operators out or run them twice, or name operators that
        it has not.
    """
    check_loss(graph)
    if plan.model.digest and plan.model.digest != _own_digest(plan, graph):
        raise InputError(
            f"plan: was made for another graph {plan.model.name!r} (digest {plan.model.digest[:12]}, this one has "
            f"{graph.digest[:12]}); plan again, or give the graph that was planned"
        )
    count, expected = len(graph.operators), 0
    for s, stage in enumerate(plan.stages):
        if stage.first != expected:
            raise InputError(
                f"plan: stages[{s}].first: expected {expected}, where the stage before ends (got {stage.first})"
            )
        expected = stage.last
        own = {op.name for op in graph.operators[stage.first : stage.last]}
        other = next((name for name in stage.operators if name not in own), None)
        if other is not None:
            raise InputError(f"plan: stages[{s}].operators: {other!r} is none of its operators in {graph.name!r}")
    if expected != count:
        raise InputError(f"plan: the stages run {expected} operators, the graph {graph.name!r} has {count}")
    if plan.transfers:  # a plan that names none leaves them to the graph
        _check_tied(plan, graph)
    check_slices(plan, graph)


def check_slices(plan: TrainingPlan, graph: Graph) -> None:
    """Refuse token slices that are not the graph's sequence.

    Raises
    ------
    InputError
        If lengths do not sum to its tokens, or its samples are no sequences of tokens.
    """
    for number, entry in enumerate(plan.slices):
        length = sequence_length(graph)
        if sum(entry.tokens) != length:
            raise InputError(
                f"plan: slices.{number}.tokens: expected lengths that sum to the {length} tokens of a sample of "
                f"{graph.name!r} (got {sum(entry.tokens)})"
            )


def _check_tied(plan: TrainingPlan, graph: Graph) -> None:
    """A trainable parameter that several stages keep has its gradients added up: a transfer of it says so."""
    tied = {(t.value, s) for t in plan.transfers for s in (t.source, t.target)}
    for tensor in graph.parameters:
        keep = [s for s, stage in enumerate(plan.stages) if tensor.name in stage.parameters]
        untied = [s for s in keep if (tensor.name, s) not in tied]
        if tensor.trainable and len(keep) > 1 and untied:
            raise InputError(
                f"plan: transfers: stages {', '.join(map(str, keep))} keep {tensor.name!r}, and no transfer adds up "
                f"the gradient of stage {untied[0]}; add one whose value is {tensor.name!r}"
            )


def _place(name: str, path: str | Path | None) -> Path:
    """Where a graph file is: from here, or beside the plan."""
    beside = Path(path).parent / name if path is not None else Path(name)
    return beside if beside.exists() else Path(name)
