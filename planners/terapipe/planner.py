"""`plan`: TeraPipe's planner: equal cells in a pipeline of token slices, with data and tensor parallelism."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from ...errors import InputError
from ...profiles.graph import CostModel, Graph, check_loss, roofline
from ...simulator.cluster import Cluster
from ...simulator.training.plan.file import TrainingPlan
from ...simulator.training.result.iteration import TrainingResult
from ...simulator.training.simulate import simulate_training
from ..batches import check_batch
from .emit import Origin, emit
from .layouts import layouts
from .options import TeraPipeOptions
from .search import COARSE, Candidate, Search

__all__ = ["plan"]

Progress = Callable[[str], None]


def plan(
    graph: Graph,
    cluster: Cluster,
    *,
    global_batch: int,
    microbatches: int | None = None,
    options: TeraPipeOptions | Mapping[str, Any] | None = None,
    costs: CostModel | None = None,
    planner: str = "terapipe",
    progress: Progress | None = None,
) -> TrainingPlan:
    """Choose degrees of parallelism and slices of samples and tokens, for the shortest simulated iteration.

    Parameters
    ----------
    graph : Graph
        A decoder of repeated blocks, at any batch size.
    cluster : Cluster
        The devices; the plan uses all of them.
    global_batch : int
        Sequences of one iteration.
    microbatches : int, optional
        Number of groups of sequences that go through the pipeline one after another, all of one size. By default it is
        chosen, and groups may differ in size.
    options : TeraPipeOptions or mapping, optional
        What the planner may choose from.
    costs : CostModel, optional
        Seconds of operators; by default a roofline of the cluster's devices.
    planner : str
        Name of the planner, as the plan records it.
    progress : callable, optional
        Called with a line of text at each step.

    Raises
    ------
    InputError
        If the problem makes no sense: the graph cannot be computed slice by slice, or given degrees do not divide.
    InfeasibleError
        If no plan fits into memory. The message says what would.
    """
    started = time.perf_counter()
    chosen = TeraPipeOptions.of(options)
    _check(graph, cluster, global_batch, microbatches)
    search = Search(graph, cluster, global_batch, microbatches, chosen, costs or roofline(cluster.spec))
    found: list[Candidate] = []
    ways = layouts(graph, cluster, chosen, global_batch)
    for layout in ways:
        if progress is not None:
            progress(f"slicing for {layout}")
        found += search.candidates(layout, search.unit if len(ways) == 1 else search.coarse)
    if not found:
        raise search.why()
    if search.coarse != search.unit and len(ways) > 1:
        near = min(x.chosen.seconds for x in found) * (1 + COARSE)
        found = [search.refined(x) if x.chosen.seconds <= near else x for x in found]
    best: tuple[TrainingPlan, TrainingResult, Candidate] | None = None
    # The most promising first: its simulated time then rules out most others unsimulated.
    for candidate in sorted(found, key=lambda x: x.chosen.seconds):
        # Under 1F1B only the busiest stage's computation is a lower bound: forward and backward passes interleave.
        least = candidate.chosen.seconds if candidate.schedule == "terapipe" else candidate.chosen.busy_s
        if best is not None and least >= best[1].seconds:
            continue  # the simulated iteration has the update and shared links beside this
        if progress is not None:
            progress(f"simulating {candidate.pipeline.layout}")
        layout = candidate.pipeline.layout
        made = emit(
            search.pricer.sized(layout.data),
            cluster,
            candidate.pipeline,
            candidate.chosen,
            chosen,
            cells=search.whole(candidate),
            schedule=candidate.schedule,
            recompute=candidate.recompute,
            origin=Origin(
                planner,
                started,
                search.evaluations,
                search.source,
                {"data": layout.data, "pipe": layout.pipe, "op": layout.op, "slices": candidate.chosen.how},
            ),
        )
        result = simulate_training(made)
        if float(result.peak_bytes.max()) > search.memory:
            search.tight.append((float(result.peak_bytes.max()), candidate.pipeline.layout))
        elif best is None or result.seconds < best[1].seconds:
            best = (made, result, candidate)
    if best is None:
        raise search.why()
    return _finished(*best, started)


def _finished(made: TrainingPlan, result: TrainingResult, of: Candidate, started: float) -> TrainingPlan:
    predicted = {
        "seconds": of.chosen.seconds + _once(made, result) if of.schedule == "terapipe" else result.seconds,
        "pflops": result.pflops,
        "mfu": result.mfu,
        "samples_per_s": result.samples_per_s,
        "bubble": result.bubble,
        "peak_bytes": float(result.peak_bytes.max()),
        "simulated_s": result.seconds,
        "forward_s": of.chosen.forward_s,
        "backward_s": of.chosen.backward_s,
        "searched_s": of.chosen.searched_s,
    }
    for name, value in (("overhead_error", of.chosen.overhead_error), ("slice_error", of.chosen.error)):
        if math.isfinite(value):
            predicted[name] = value
    who = made.planner.model_copy(update={"seconds": time.perf_counter() - started})
    return made.model_copy(update={"predicted": predicted, "planner": who})


def _once(made: TrainingPlan, result: TrainingResult) -> float:
    """Seconds after the last backward pass, which is the first stage's: tied gradients, reduction, update.

    Stages that share no parameter with the first one do theirs while it is still in its backward passes.
    """
    first = made.stages[0]
    own, ends = first.reduce_s + first.update_s, [0.0]
    for (what, source, target), link in result.links.links.items():
        if what != "tied" or 0 not in (source, target):
            continue
        if target == 0:
            own += float(link.gather_s)
            continue
        own += 0.0 if made.overlap else float(link.seconds)
        other = made.stages[target]
        ends.append(float(link.seconds) + float(link.gather_s) + other.reduce_s + other.update_s)
    return max(own, *ends)


def _check(graph: Graph, cluster: Cluster, batch: int, microbatches: int | None) -> None:
    if not isinstance(graph, Graph):
        raise InputError(f"terapipe: graph: expected a training graph (got {type(graph).__name__})")
    check_loss(graph)
    if not isinstance(cluster, Cluster):
        raise InputError(f"terapipe: cluster: expected a Cluster (got {type(cluster).__name__})")
    check_batch(batch, "terapipe: ")
    if microbatches is not None and (
        isinstance(microbatches, bool) or not isinstance(microbatches, int) or microbatches < 1
    ):
        raise InputError(f"terapipe: microbatches: expected a positive integer (got {microbatches!r})")
    if microbatches is not None and batch % microbatches:
        raise InputError(f"terapipe: microbatches: {microbatches} do not divide the global batch of {batch}")
