"""Sequential pipelines (PipeDream, Piper) on GraphPipe's stage costs: the least bottleneck, exactly.

The objective is Eq. 3.1 of the paper: the least, over pipelines, of the largest TPS of a stage. The schedule is
synchronous 1F1B, under which the s-th stage from the end holds the activations of s microbatches.

The published dynamic programmes keep the best bottleneck for every number of devices. Here the bottleneck is bisected
over the values that it can take, and the programme only counts devices. That is one dimension less, and stages that are
too slow drop out at once. The result is the same, because the bottleneck of a pipeline is the TPS of one of its stages.
"""

from __future__ import annotations

# Compiled functions have no types.
# pyright: reportUnknownVariableType=false
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

import numpy as np
import numpy.typing as npt

from ....errors import InfeasibleError
from ....profiles.graph import CostModel, Graph
from ....simulator.cluster import Cluster
from ....simulator.plan.entries import PlannerEntry
from ....simulator.training.plan.file import TrainingPlan
from ....simulator.training.simulate import simulate_training
from ..costs import SetCosts, StageCosts, stage_mesh
from ..plan import ChosenStage, stage_plan
from ..units import group_operators
from .kernel import fewest_devices, fewest_stages, shortest_sums
from .options import SequentialOptions

__all__ = ["Stages", "least_bottleneck", "least_bottlenecks", "plan_sequential"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
GIB = 2**30
_MANY = 2**40  # stands for "any number of microbatches"; a float holds it exactly, unlike the largest int64


@dataclass(frozen=True, eq=False)
class Stages:
    """All candidate stages of a pipeline, each a pair of states (see `kernel`).

    Parameters
    ----------
    low, high : ndarray of int64, shape (n_pairs,)
        The two states of each stage; stages are in ascending order of the higher one.
    n_states : int
        Number of states.
    costs : SetCosts, arrays of shape (n_pairs,)
        Costs of each stage.
    units : callable
        Takes the pairs of a pipeline, first stage first, and returns the units of each stage, in order.
    """

    low: Ints
    high: Ints
    n_states: int
    costs: SetCosts
    units: Callable[[list[int]], list[tuple[int, ...]]]


Candidates = Callable[[StageCosts, int], tuple[Stages, float]]


@dataclass(frozen=True, slots=True)
class Found:
    """The best pipeline for one microbatch size."""

    bottleneck_s: float
    stages: tuple[ChosenStage, ...] = field(repr=False)


def least_bottleneck(
    costs: StageCosts, stages: Stages, microbatch: int, memory_bytes: float, n_devices: int, known_s: float = np.inf
) -> Found | None:
    """The first of `least_bottlenecks`: the one with the fewest stages."""
    found = least_bottlenecks(costs, stages, microbatch, memory_bytes, n_devices, known_s)
    return found[0] if found else None


def least_bottlenecks(
    costs: StageCosts, stages: Stages, microbatch: int, memory_bytes: float, n_devices: int, known_s: float = np.inf,
    ties: int = 1,
) -> tuple[Found, ...]:  # fmt: skip
    """Pipelines with the least bottleneck for one microbatch size; none if nothing fits.

    The first has the fewest stages, which hold the fewest samples, the others one stage more each. Among pipelines of
    as many stages it is the one with the least sum of stage times. Both shorten the warm-up, which the bottleneck alone
    does not see.

    Parameters
    ----------
    costs : StageCosts
        Costs of stages.
    stages : Stages
        The candidate stages.
    microbatch : int
        b, the same for all stages.
    memory_bytes : float
        Bytes that a device may hold.
    n_devices : int
        Number of devices; a plan may leave some idle.
    known_s : float
        A bottleneck that some pipeline of these stages is known to reach; slower stages are dropped. inf: none known.
    ties : int
        Numbers of stages that are tried, from the fewest on.
    """
    count = costs.global_batch // microbatch
    degrees: list[int] = [d for d in costs.devices if d <= n_devices and costs.column(microbatch, d) >= 0]
    if not degrees:
        return ()
    seconds = np.stack([costs.tps(stages.costs, microbatch, d) for d in degrees], axis=1)
    held = np.stack([_held(stages.costs, microbatch, d, memory_bytes) for d in degrees], axis=1)
    # The margin keeps the known pipeline itself, whose bottleneck was summed in another order.
    usable = (held >= 1) & (seconds <= known_s * (1 + 1e-9)) & np.isfinite(seconds)
    rows = np.flatnonzero(usable.any(axis=1))
    start = np.searchsorted(stages.high[rows], np.arange(stages.n_states + 1))
    rest = (stages.low[rows], start, seconds[rows], held[rows], np.array(degrees), n_devices)
    bounds = (min(n_devices, costs.n_units), count)

    def feasible(threshold: float) -> bool:
        # Two cheap tests with one dimension less decide most thresholds before the exact one has to.
        if fewest_devices(threshold, *rest, 1) > n_devices:
            return False  # not even if every stage were the last
        enough = fewest_devices(threshold, *rest, min(bounds)) <= n_devices  # even if every stage were the first
        return enough or fewest_stages(threshold, *rest, *bounds) > 0

    each = costs.seconds.sum(axis=0)[:, [costs.column(microbatch, d) for d in degrees]] / microbatch
    least = float((each * np.array(degrees, float)).min(axis=1).sum()) / n_devices  # all devices busy, nothing else
    # The margin keeps a bottleneck that equals the bound, which was summed in another order.
    values = np.unique(seconds[usable & (seconds >= least * (1 - 1e-9))])
    if not values.size or not feasible(values[-1]):
        return ()
    first, last = 0, len(values) - 1
    while first < last:
        middle = (first + last) // 2
        first, last = (first, middle) if feasible(values[middle]) else (middle + 1, last)
    number = fewest_stages(values[last], *rest, *bounds)
    most = min(number + ties - 1, bounds[0])
    pairs: Ints
    chosen: Ints
    pairs, chosen = shortest_sums(values[last], *rest, most, count)
    found: list[Found] = []
    for n in range(number, most + 1):
        if pairs[n, 0] >= 0:
            units, picks = stages.units(rows[pairs[n, :n]].tolist()), [int(k) for k in chosen[n, :n]]
            made = tuple(ChosenStage(u, degrees[k], microbatch) for u, k in zip(units, picks, strict=True))
            found.append(Found(float(values[last]), made))
    return tuple(found)


def plan_sequential(
    graph: Graph, cluster: Cluster, *, global_batch: int, options: SequentialOptions, costs: CostModel | None,
    name: str, candidates: Candidates, progress: Callable[[str], None] | None = None,
) -> TrainingPlan:  # fmt: skip
    """Plan for every microbatch size, and return the plan whose simulated iteration is the shortest.

    Parameters
    ----------
    graph, cluster, global_batch
        The model, its devices, and the samples of one iteration.
    options : SequentialOptions
        Options of the search, such as microbatch sizes and memory.
    costs : CostModel, optional
        Seconds of operators; by default a roofline of the cluster's devices.
    name : str
        Name of the planner, for the plan and for messages.
    candidates : callable
        Takes the stage costs and a microbatch size; returns the stages that this planner considers, and a bottleneck
        that is known to be possible (inf: none).
    progress : callable, optional
        Called with a line of text at each step.

    Raises
    ------
    InputError
        If the graph cannot be scaled to the batch.
    InfeasibleError
        If nothing fits in memory.
    """
    started = time.perf_counter()
    sizes = options.microbatches or _powers(global_batch)
    degrees = options.devices or [
        d for d in _powers(1 << cluster.n_devices.bit_length()) if d <= cluster.n_devices and stage_mesh(cluster, d)
    ]
    priced = StageCosts.of(
        graph, cluster, global_batch=global_batch, microbatches=sizes, devices=degrees,
        units=group_operators(graph, options.granularity), costs=costs, optimizer=options.optimizer,
        overlap=options.overlap,
    ).held_as(options.footprint)  # fmt: skip
    memory = cluster.spec.memory_bytes * options.memory_fraction
    record = {key: v if isinstance(v, (str, float, int)) else v and list(v) for key, v in asdict(options).items()}
    plans: list[TrainingPlan] = []
    evaluated = 0
    for b in priced.microbatches:
        stages, known = candidates(priced, b)
        evaluated += len(stages.low)
        for found in least_bottlenecks(priced, stages, b, memory, cluster.n_devices, known, options.ties):
            if progress is not None:
                said = f"{len(found.stages)} stages, {found.bottleneck_s:.4g} s per sample"
                progress(f"{name}: microbatches of {b}: {said}")
            entry = PlannerEntry(name=name, options=record | {"microbatch": b}, evaluations=0, seconds=0.0)
            told = {"tps": found.bottleneck_s}
            made = stage_plan(priced, found.stages, planner=entry, sequential=True, predicted=told)
            plans.append(_timed(made, found))
    if not plans:
        raise InfeasibleError(_why(graph, cluster, priced, memory, name))
    # Of equally fast plans the first one tried: `min` keeps it.
    best = min(plans, key=lambda plan: plan.predicted["seconds"])
    spent = time.perf_counter() - started
    entry = best.planner.model_copy(update={"seconds": spent, "evaluations": evaluated})
    return best.model_copy(update={"planner": entry})


def _held(sets: SetCosts, microbatch: int, devices: int, memory_bytes: float) -> Ints:
    """How many microbatches' activations fit; −1 where not even the state does."""
    share = microbatch / devices
    room = memory_bytes - sets.state_bytes - sets.work_bytes * share
    with np.errstate(divide="ignore", invalid="ignore"):
        # The margin is a few rounding errors: an exact fit must not lose a microbatch to a quotient of 2.9999….
        fit = np.floor(room / (sets.activation_bytes * share) * (1 + 1e-12))
    fit = np.where(sets.activation_bytes > 0, np.minimum(fit, _MANY), _MANY)
    return np.where(room >= 0, fit, -1).astype(np.int64)


def _powers(n: int) -> tuple[int, ...]:
    """Powers of two that divide n."""
    return tuple(2**k for k in range(n.bit_length()) if n % 2**k == 0)


def _timed(plan: TrainingPlan, found: Found) -> TrainingPlan:
    result = simulate_training(plan)
    said = {
        "tps": found.bottleneck_s,
        "seconds": result.seconds,
        "samples_per_s": plan.global_batch / result.seconds,
        "stages": float(len(plan.stages)),
        "depth": float(len(plan.stages)),
    }
    return plan.model_copy(update={"predicted": said})


def _why(graph: Graph, cluster: Cluster, costs: StageCosts, memory: float, name: str) -> str:
    """Why nothing fits: the heaviest unit alone is too large for a device, or the whole model's state for all."""
    masks = np.eye(costs.n_units, dtype=bool)
    b, d = min(((b, d) for b in costs.microbatches for d in costs.devices if costs.column(b, d) >= 0), key=_ratio)
    each = costs.memory(costs.of_sets(masks), b, d, b)
    heavy = int(each.argmax())
    first = graph.operators[costs.units[heavy][0]].name
    if each[heavy] > memory:
        return (
            f"{name}: {graph.name!r} does not fit on {cluster}: the unit of {first!r} needs {each[heavy] / GIB:.4g} "
            f"GiB on a device, which may use {memory / GIB:.4g} GiB; use devices with more memory, or finer units"
        )
    total = float(costs.of_sets(np.ones((1, costs.n_units), bool)).state_bytes[0])
    return (
        f"{name}: no pipeline of {graph.name!r} on {cluster} fits the memory: its state is {total / GIB:.4g} GiB, a "
        f"device may use {memory / GIB:.4g} GiB beside activations; use more devices, or devices with more memory"
    )


def _ratio(pair: tuple[int, int]) -> tuple[float, int]:
    return pair[0] / pair[1], pair[0]
