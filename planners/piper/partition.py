"""`piper_partition`: Piper's own planner on its own instances (Tarnawski et al., NeurIPS '21, §4).

The stages of a pipeline are differences of downsets. Each has a tensor-parallel degree t, a data-parallel degree d and
an option for each of its nodes. A stage's time per microbatch (TPS) is

    (Σ edge bytes · 2 / d + 4 (d − 1) W / (d N)) / bandwidth + Σ seconds / d.

A device of it needs Σ a · ⌈s / d⌉ + b bytes, where s is the sum of the data-parallel degrees of the stage and of all
stages after it.
"""

from __future__ import annotations

# Compiled functions have no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportCallIssue=false
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import InfeasibleError, InputError
from ...reprs import Shown
from .instance import PiperInstance, PiperOption
from .kernel import candidates, least_sums, most_in_flight, stage_steps
from .problem import PiperProblem, PiperStage, Recompute

__all__ = ["PiperPartition", "PiperStage", "piper_partition", "piper_value"]

NEAR = 1e-13  # some hundred rounding errors: sums of the same seconds in another order count as equal


@dataclass(frozen=True, slots=True, repr=False)
class PiperPartition(Shown):
    """The pipeline that Piper finds.

    Parameters
    ----------
    stages : tuple of PiperStage
        The stages in order.
    seconds : float
        Seconds of the slowest stage for one microbatch.
    devices : int
        Number of devices that are used.
    downsets, stages_considered : int
        Size of the problem that was searched.
    """

    stages: tuple[PiperStage, ...]
    seconds: float
    devices: int
    downsets: int
    stages_considered: int


def piper_partition(
    instance: PiperInstance,
    *,
    devices: int | None = None,
    microbatches: int | None = None,
    memory_bytes: float | None = None,
    bandwidth: float | None = None,
    data_parallel: bool = True,
    tensor_parallel: bool = True,
    recompute: Recompute = "any",
    max_downsets: int = 200_000,
) -> PiperPartition:
    """Find the pipeline with the least bottleneck, and among those one with the least sum of data-parallel degrees.

    Options of nodes are chosen by the authors' rule (`stage_steps`), which does not always find the best choice.

    Parameters
    ----------
    instance : PiperInstance
        The planning problem.
    devices, microbatches, memory_bytes, bandwidth : optional
        Values to use instead of the instance's.
    data_parallel, tensor_parallel : bool
        Whether degrees above 1 are allowed.
    recompute : {"any", "never", "always"}
        Whether nodes that have an option "activation recomp" may, must not or must use it.
    max_downsets : int
        Most downsets; a problem with more is refused with a `LimitError`. The authors' program stops at 40,000.

    Raises
    ------
    InputError
        If a value is unknown or not positive.
    InfeasibleError
        If nothing fits in memory.
    LimitError
        If there are more downsets than `max_downsets`: whether there is a plan is not known.
    """
    if recompute not in ("any", "never", "always"):
        raise InputError(f"piper: recompute: expected any, never or always (got {recompute!r})")
    count, batch = devices or instance.devices, microbatches or instance.microbatches
    memory, rate = memory_bytes or instance.memory_bytes, bandwidth or instance.bandwidth
    if min(count, batch) < 1 or not min(memory, rate) > 0:
        raise InputError("piper: expected positive devices, microbatches, memory and bandwidth")
    problem = PiperProblem.of(instance, recompute, tensor_parallel, count, max_downsets)
    states, n = problem.states, len(instance.nodes)
    low, high = states.pairs(np.zeros((n, 1)), np.zeros(n), (1,), np.inf, 1)
    # The programme reads all stages that end at one state in a row.
    order = np.lexsort((low, high))
    low, high = low[order], high[order]
    heads = np.searchsorted(high, np.arange(len(states.members) + 1))
    bound = min(count, batch)
    time, upto, start, weights = stage_steps(low, high, states.members, *problem.arrays, rate, memory, bound)
    steps = (time[: start[-1]], upto[: start[-1]], start, weights)
    degrees = np.array([d for d in range(1, count + 1) if batch % d == 0][: None if data_parallel else 1], np.int64)
    tensor = np.array(problem.tensor, np.int64)
    rest = (*steps, tensor, degrees, count, batch, rate)

    def sums(threshold: float) -> npt.NDArray[np.int32]:
        return least_sums(threshold, low, heads, *rest)

    seconds = _least(steps[0], sums, (steps[0], steps[2], steps[3], tensor, degrees, count, batch, rate), bound)
    if seconds is None:
        gib = memory / 2**30
        raise InfeasibleError(
            f"piper: nothing fits: no pipeline of {n} nodes on {count} devices of {gib:.4g} GiB with {batch} "
            "microbatches; use more devices, or devices with more memory"
        )
    best = sums(seconds * (1 + NEAR))
    chosen = _follow(best, seconds * (1 + NEAR), low, heads, rest)
    found: list[PiperStage] = []
    for pair, t, d, total in chosen:
        nodes = [v for v in range(n) if states.members[high[pair], v] and not states.members[low[pair], v]]
        y = -(-total // d)
        found.append(
            problem.stage(nodes, t, d, y, int(steps[1][_step(steps, pair * len(tensor) + t, y)]), rate, memory)
        )
    used = sum(s.tensor_parallel * s.data_parallel for s in found)
    return PiperPartition(tuple(found), seconds, used, len(states.members), len(low))


def piper_value(
    instance: PiperInstance, stages: Sequence[PiperStage], *, microbatches: int, memory_bytes: float, bandwidth: float
) -> float:
    """Bottleneck (TPS) of given stages by the paper's formula; inf if one does not fit into memory.

    Raises
    ------
    InputError
        If a node is in no stage or in two, or an edge goes backwards.
    """
    nodes = {node.number: node for node in instance.nodes}
    stage_of = {v: k for k, stage in enumerate(stages) for v in stage.nodes}
    if sorted(v for stage in stages for v in stage.nodes) != sorted(nodes):
        raise InputError("piper: stages: expected every node in one stage")
    back = next(((a, b) for a, b, _ in instance.edges if stage_of[a] > stage_of[b]), None)
    if back is not None:
        raise InputError(f"piper: stages: the edge {back[0]} -> {back[1]} goes to an earlier stage")
    worst, total = 0.0, sum(stage.data_parallel for stage in stages)
    for k, stage in enumerate(stages):
        d, t = stage.data_parallel, stage.tensor_parallel
        picked: dict[int, PiperOption] = {
            v: next(o for o in nodes[v].options[t] if o.name == name)
            for v, name in zip(stage.nodes, stage.options, strict=True)
        }
        moved = sum(
            2 * (c + picked[a].sync_backward[b]) for a, b, c in instance.edges if stage_of[a] == k != stage_of[b]
        )
        moved += sum(
            2 * (c + picked[b].sync_forward[a]) for a, b, c in instance.edges if stage_of[b] == k != stage_of[a]
        )
        weights = sum(o.parameter_bytes for o in picked.values())
        if sum(o.memory_a * -(-total // d) + o.memory_b for o in picked.values()) > memory_bytes * (1 + NEAR):
            return float("inf")
        total -= d
        reduce = 4 * (d - 1) * weights / d / microbatches
        worst = max(worst, (moved / d + reduce) / bandwidth + sum(o.seconds for o in picked.values()) / d)
    return worst


def _least(times: npt.NDArray[np.float64], sums: Any, rest: tuple[Any, ...], bound: int) -> float | None:
    """The least bottleneck: bisected as a number first, then among the values that it can take."""
    if not len(times) or sums(np.inf)[-1, -1] > bound:
        return None
    low, high = 0.0, float(times.max()) * 2
    while sums(high)[-1, -1] > bound:
        low, high = high, high * 2
    values = np.empty(0)
    # 60 halvings exhaust a float; the loop ends far earlier, but for thousands of equal bottlenecks
    for _ in range(60):
        middle = (low + high) / 2
        if sums(middle)[-1, -1] <= bound:
            high = middle
        else:
            low = middle
        # Within a per mille few values are left, as a rule; listing them all from the start would take gigabytes.
        if high - low < high * 1e-3:
            values = np.unique(candidates(low * (1 - NEAR), high * (1 + NEAR), *rest))
            # A guess: up to so many, the rest is 17 more steps. None means that rounding hid them, and halving goes
            # on.
            if 0 < len(values) < 100_000:
                break
    first, last = 0, len(values) - 1
    while first < last:
        at = (first + last) // 2
        first, last = (first, at) if sums(values[at] * (1 + NEAR))[-1, -1] <= bound else (at + 1, last)
    return float(values[last])


def _follow(
    best: npt.NDArray[np.int32], threshold: float, low: Any, heads: Any, rest: tuple[Any, ...]
) -> list[tuple[int, int, int, int]]:
    """The stages behind the table, first stage first: pair, index of t, d, and the sum of degrees from it to the
    end."""
    tensor, devices = rest[4], rest[6]
    state = len(best) - 1
    k = int(np.flatnonzero(best[state] == best[state, devices])[0])
    found: list[tuple[int, int, int, int]] = []
    while state:
        total = int(best[state, k])
        step = next(_steps_to(best, low, rest, range(int(heads[state]), int(heads[state + 1])), k, total, threshold))
        found.append((*step, total))
        state, k = int(low[step[0]]), k - int(tensor[step[1]]) * step[2]
    return found


def _steps_to(
    best: npt.NDArray[np.int32], low: Any, rest: tuple[Any, ...], pairs: range, k: int, total: int, threshold: float
) -> Iterator[tuple[int, int, int]]:
    """Stages with which a pipeline on k devices with this sum of degrees may begin."""
    time, upto, start, weights, tensor, degrees, _, batch, rate = rest
    for pair in pairs:
        for t in range(len(tensor)):
            at = pair * len(tensor) + t
            for d in degrees[tensor[t] * degrees <= k].tolist():
                if int(best[low[pair], k - tensor[t] * d]) + d == total and total <= d * most_in_flight(
                    threshold, d, time, upto, start[at], start[at + 1], weights[at], batch, rate
                ):
                    yield pair, t, d


def _step(steps: tuple[Any, ...], at: int, y: int) -> int:
    """Index of the step that applies to y microbatches in flight."""
    return int(steps[2][at] + np.searchsorted(steps[1][steps[2][at] : steps[2][at + 1]], y))
