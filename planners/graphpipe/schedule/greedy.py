"""The greedy scheduler (Algorithm 4): orders of passes with the least time, and among these the fewest in flight.

It schedules the stages from the last to the first. At each step it asks whether the stage would still end as early as
possible if a backward pass came next and 1F1B followed, given the schedules of all stages after it. If so, a backward
pass comes next, else a forward pass (Theorem 3.1).
"""

from __future__ import annotations

from itertools import groupby

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from .greedy_kernel import BACKWARD, FORWARD, greedy
from .stage_graph import StageGraph

__all__ = ["greedy_passes", "greedy_schedules", "order_text", "passes_in_flight"]

Bytes = npt.NDArray[np.int8]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def greedy_schedules(
    global_batch: int,
    microbatches: Ints,
    seconds: Floats,
    successors: tuple[tuple[int, ...], ...],
    *,
    eager: bool = True,
) -> list[Bytes]:
    """Order the passes of every stage by Algorithm 4; 0 is a forward pass, 1 a backward pass.

    Parameters
    ----------
    global_batch : int
        B, samples of one iteration.
    microbatches : ndarray of int, shape (n_stages,)
        Samples of one microbatch, for each stage.
    seconds : ndarray, shape (n_stages, 2)
        Seconds of a forward and of a backward pass of one microbatch.
    successors : tuple of tuple of int
        Successors of each stage; stages are in topological order.
    eager : bool
        How a schedule is continued to test whether a backward pass may come next. False: by 1F1B, as Algorithm 4 is
        printed. True: as `greedy_kernel.greedy` describes. Backward passes then never come later, and with unequal
        microbatches the stages before need fewer samples in flight.

    Raises
    ------
    InputError
        If a microbatch does not divide the batch, or two stages exchange values and neither's microbatch divides the
        other's.
    """
    b = np.asarray(microbatches, np.int64)
    for s, size in enumerate(b.tolist()):
        if size < 1 or global_batch % size:
            raise InputError(f"greedy: stage {s}: microbatches of {size} do not divide the batch of {global_batch}")
        for t in successors[s]:
            if t <= s:
                raise InputError(f"greedy: stage {s}: successor {t} does not come later; give a topological order")
            if size % b[t] and b[t] % size:
                raise InputError(
                    f"greedy: stages {s} and {t}: of microbatches of {size} and {b[t]} none divides the other"
                )
    counts = global_batch // b
    found: list[Bytes] = [np.zeros(0, np.int8)] * len(b)
    for s in reversed(range(len(b))):
        below = sorted(_after(successors, s))
        place = {t: k for k, t in enumerate(below)}
        orders = np.zeros((len(below), 2 * int(counts[below].max())), np.int8)
        for t in below[1:]:
            orders[place[t], : 2 * int(counts[t])] = found[t]
        pairs = [(place[x], place[y]) for x in below for y in successors[x]]
        edges = np.array(pairs, np.int64).reshape(-1, 2)
        greedy(orders, counts[below], b[below], np.ascontiguousarray(seconds[below], np.float64), edges, eager)
        found[s] = orders[0, : 2 * int(counts[s])].copy()
    return found


def greedy_passes(stages: StageGraph) -> list[Bytes]:
    """Order the passes of every stage of a graph of stages."""
    b = np.array([s.config.microbatch for s in stages.stages], np.int64)
    seconds = np.array([s.seconds[:2] for s in stages.stages])
    return greedy_schedules(stages.global_batch, b, seconds, stages.successors)


def order_text(passes: Bytes) -> str:
    """Passes as run lengths, such as ``"4F 1B 1F 4B"``."""
    names = {FORWARD: "F", BACKWARD: "B"}
    return " ".join(f"{len(list(run))}{names[op]}" for op, run in groupby(passes.tolist()))


def passes_in_flight(passes: Bytes) -> int:
    """Most microbatches in flight: the forward pass has begun and the backward pass has not ended."""
    running = np.cumsum(np.where(passes == FORWARD, 1, -1))
    return int(running.max(initial=0))


def _after(successors: tuple[tuple[int, ...], ...], stage: int) -> set[int]:
    """A stage and all that come after it."""
    found, stack = set[int](), [stage]
    while stack:
        s = stack.pop()
        if s not in found:
            found.add(s)
            stack += successors[s]
    return found
