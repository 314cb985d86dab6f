"""Schedules of stages that each have microbatches of their own: kFkB (GraphPipe, §3.6), and orders given by hand."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from ..program.columns import B, F
from . import kernels as schedule_kernels
from .pipeline import Order, Pipeline

__all__ = ["explicit", "in_flight_samples", "kfkb", "order_of", "warmups"]

_compiled: Any = schedule_kernels  # numba functions have no types


def in_flight_samples(after: int, b_x: int, k_x: int, b_y: int, k_y: int) -> int:
    """Samples that stage x must have in flight before stage y, at least, to keep y busy (GraphPipe, Table 3.2).

    The ten rows of the table, which are of powers of two, are one formula: with X = k_x · b_x, Y = k_y · b_y and
    m = max(b_x, b_y), X − gcd(X, Y) + m more than y has, and another m where m < min(X, Y). X − gcd(X, Y) is what x
    has sent in its turns, at worst, when y still wants more before it gives a gradient back.

    Parameters
    ----------
    after : int
        Samples that y has in flight.
    b_x, k_x, b_y, k_y : int
        Samples of a microbatch, and microbatches in turn, of each. Of `b_x` and `b_y` one divides the other.

    Returns
    -------
    int
        Not always whole microbatches of x.
    """
    x, y, m = k_x * b_x, k_y * b_y, max(b_x, b_y)
    return after + x - math.gcd(x, y) + (2 * m if m < min(x, y) else m)


def warmups(pipeline: Pipeline) -> tuple[int, ...]:
    """For each stage, the forward passes before its first backward: those given, else by Table 3.2.

    A last stage has k microbatches in flight; any other what the most demanding of its successors asks for.
    """
    # Only ratios of microbatch sizes matter: with the least common multiple as the batch all of them are whole.
    base = math.lcm(*pipeline.counts)
    size = [base // n for n in pipeline.counts]  # samples of a microbatch, but for a factor
    after: list[list[int]] = [[] for _ in size]
    for source, target in pipeline.edges:
        after[source].append(target)
    flying = [0] * len(size)
    warm = [0] * len(size)
    for s in sorted(range(len(size)), key=pipeline.depth.__getitem__):  # successors first
        b, k = size[s], pipeline.k[s]
        need = (in_flight_samples(flying[t], b, k, size[t], pipeline.k[t]) for t in after[s])
        most = max(need, default=k * b)
        warm[s] = min(pipeline.counts[s], -(-most // b)) if pipeline.warmup[s] < 0 else pipeline.warmup[s]
        flying[s] = most if pipeline.warmup[s] < 0 else warm[s] * b
    return tuple(warm)


def kfkb(pipeline: Pipeline) -> list[Order]:
    """Some forward passes, then k backward and k forward in turn, then what is left; 1F1B where k is 1.

    Raises
    ------
    InputError
        If a stage's warm-up is shorter than the backward passes that follow it.
    """
    warm = warmups(pipeline)
    orders: list[Order] = []
    for (s,) in pipeline.stages:
        n, k = pipeline.counts[s], pipeline.k[s]
        if not min(n, k) <= warm[s] <= n:
            raise InputError(
                f"schedule kfkb: stage {s}: expected {min(n, k)} … {n} forward passes before the first {k} backward "
                f"(got a warm-up of {warm[s]})"
            )
        passes = np.zeros((n, 3), dtype=np.int32)
        passes[:, 0], passes[:, 1] = s, np.arange(n)
        orders.append(_compiled.in_turn(passes, passes, warm[s], k))
    return orders


_RUN = re.compile(r"(\d*)([FB])")


def order_of(text: str, microbatches: int) -> npt.NDArray[np.int8]:
    """The passes of a stage, such as ``"4F 1B 1F 4B"``, as codes of F and B, shape (2 · microbatches,).

    Raises
    ------
    InputError
        If it is none, holds more or fewer passes than the stage has microbatches, or a backward before its forward.
    """
    words = text.split()
    runs = [_RUN.fullmatch(word) for word in words]
    bad = next(
        (w for w, run in zip(words, runs, strict=True) if run is None or run[1].strip("0") == "" != run[1]), None
    )
    if bad is not None or not words:
        said = "nothing" if bad is None else repr(bad)
        raise InputError(f"order: expected runs of passes such as '4F 1B 1F 4B' (got {said})")
    codes = {"F": F, "B": B}
    counts = [int(run[1] or 1) for run in runs if run is not None]
    have = {op: sum(n for n, run in zip(counts, runs, strict=True) if run is not None and run[2] == op) for op in "FB"}
    if have != {"F": microbatches, "B": microbatches}:
        raise InputError(
            f"order: expected {microbatches} forward and as many backward passes (got {have['F']} F and {have['B']} B)"
        )
    passes = np.repeat(np.array([codes[run[2]] for run in runs if run is not None], dtype=np.int8), counts)
    left = np.cumsum(np.where(passes == F, 1, -1))
    for at in np.flatnonzero(left < 0)[:1].tolist():
        j = int(np.sum(passes[:at] == B))
        raise InputError(f"order: backward pass {j} comes before its forward pass; put {j + 1} F before it")
    return passes


def explicit(pipeline: Pipeline) -> list[Order]:
    """Every stage in the order that is given for it; each kind of pass by rising microbatch.

    Raises
    ------
    InputError
        If an order is missing or is none.
    """
    orders: list[Order] = []
    for (s,) in pipeline.stages:
        if len(pipeline.order) != pipeline.n_stages:
            raise InputError(
                f"schedule explicit: expected an order for each of {pipeline.n_stages} stages "
                f"(got {len(pipeline.order)})"
            )
        try:
            passes = order_of(pipeline.order[s], pipeline.counts[s])
        except InputError as error:
            raise InputError(f"schedule explicit: stage {s}: {error}") from None
        rows = np.zeros((len(passes), 4), dtype=np.int32)
        rows[:, 0], rows[:, 1] = passes, s
        for op in (F, B):
            rows[passes == op, 2] = np.arange(pipeline.counts[s])
        orders.append(rows)
    return orders
