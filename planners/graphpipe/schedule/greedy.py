"""The greedy scheduler (Algorithm 4): orders of passes with the least time, and of these the fewest in flight.

Stages are taken from the last to the first. A backward pass is put in wherever the stage, continued by 1F1B, still ends
as early as it can, given the schedules of all stages after it; else a forward pass (Theorem 3.1).
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
    """The passes of every stage: 0 forward, 1 backward.

    Parameters
    ----------
    global_batch : int
        B.
    microbatches : ndarray of int, shape (n_stages,)
        Samples of a microbatch of each.
    seconds : ndarray, shape (n_stages, 2)
        Of a forward and a backward pass of one microbatch.
    successors : tuple of tuple of int
        Of each; stages are in topological order.
    eager : bool
        How a schedule is continued to see whether a backward pass may come next. False: by 1F1B, as Algorithm 4 is
        printed. True: see `greedy_kernel.greedy`; backward passes come as early then or earlier, and where
        microbatches are unequal stages before it need fewer in flight.

    Raises
    ------
    InputError
        If a microbatch does not divide the batch, or of two stages that exchange something neither divides the other.
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
    """The passes of every stage of a plan."""
    b = np.array([s.config.microbatch for s in stages.stages], np.int64)
    seconds = np.array([s.seconds[:2] for s in stages.stages])
    return greedy_schedules(stages.global_batch, b, seconds, stages.successors)


def order_text(passes: Bytes) -> str:
    """Passes as run lengths, such as ``"4F 1B 1F 4B"``."""
    names = {FORWARD: "F", BACKWARD: "B"}
    return " ".join(f"{len(list(run))}{names[op]}" for op, run in groupby(passes.tolist()))


def passes_in_flight(passes: Bytes) -> int:
    """Most microbatches whose forward pass is done or under way and whose backward pass has not ended."""
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
