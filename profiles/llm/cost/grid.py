"""`CostGrid`: an iteration's cost as arrays, and the one function over them that Python and numba run alike."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["NOTHING", "CostGrid", "attention_seconds", "compiled", "compiled_parts", "fullest", "iteration_seconds"]

Floats = NDArray[np.float64]
NOTHING: Floats = np.zeros(0)
NOTHING.setflags(write=False)


class CostGrid(NamedTuple):
    """An iteration's cost as arrays; what `iteration_seconds` and its compiled twin take.

    Parameters
    ----------
    dense : array
        Seconds of everything that depends on tokens alone, by tokens (index).
    head : array
        Seconds of the output head and sampling, by outputs (index).
    decode_x, decode_y, decode : array
        Attention of decodes over (sequences, mean context).
    prefill_x, prefill_y, prefill : array
        Attention of equal prompts over (prompts, pairs of tokens of one).
    mixed_new, mixed_before, mixed_decodes, mixed_context, mixed : array
        Attention of one chunk beside decodes; empty where that was not measured.
    scheduler_s, per_sequence_s : float
        Host time of a step, and per sequence.
    host_decode_s, host_pieces_s, host_eager_s : float
        Host time to launch a step of decodes in a graph, a step in pieces of graphs, a step without graphs.
    graph_tokens : int
        Most tokens that run in graphs; 0 without graphs.
    overlapped : bool
        Whether host time hides behind the device.
    chunk_s : float
        What each chunk after the first adds to the attention of all layers whatever its size.
    ranks : int
        Ranks with requests of their own that step together (data-parallel attention); 1 for an engine by itself.
    experts : array
        With several ranks: seconds of what they compute together, by the tokens of all (index); empty without.
    request_s : float
        Host time to take a request in, with its first chunk (engines of one rank).
    beside : float
        How many times their own time decodes take in attention where a chunk is in the same call.
    tower_s : float
        Seconds of the tower that sees a request's images, in the step of its first chunk.
    """

    dense: Floats
    head: Floats
    decode_x: Floats
    decode_y: Floats
    decode: Floats
    prefill_x: Floats
    prefill_y: Floats
    prefill: Floats
    mixed_new: Floats
    mixed_before: Floats
    mixed_decodes: Floats
    mixed_context: Floats
    mixed: Floats
    scheduler_s: float
    per_sequence_s: float
    host_decode_s: float
    host_pieces_s: float
    host_eager_s: float
    graph_tokens: int
    overlapped: bool
    chunk_s: float = 0.0
    ranks: int = 1
    experts: Floats = NOTHING
    request_s: float = 0.0
    beside: float = 1.0
    tower_s: float = 0.0


def _line(table: Floats, at: int) -> float:
    """Read a table at an index; beyond its end it goes on with the slope of its last half."""
    last = len(table) - 1
    if at <= last:
        return table[at]
    # Half of the table, not its last step: that one may be the jump of one kernel to its next tile.
    half = last // 2
    return table[last] + (at - last) * (table[last] - table[half]) / (last - half)


def _cell(axis: Floats, at: float) -> int:
    """The cell that holds `at`; the first or last where none does."""
    low = 0
    high = len(axis) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if axis[middle] <= at:
            low = middle
        else:
            high = middle
    return low


def _surface(x_axis: Floats, y_axis: Floats, seconds: Floats, x: float, y: float) -> float:
    """Affine in both coordinates inside; launch-bound below; in proportion to x * y beyond (the edge's efficiency)."""
    hx = min(max(x, x_axis[0]), x_axis[-1])
    hy = min(max(y, y_axis[0]), y_axis[-1])
    i = _cell(x_axis, hx)
    j = _cell(y_axis, hy)
    i2 = min(i + 1, len(x_axis) - 1)
    j2 = min(j + 1, len(y_axis) - 1)
    u = (hx - x_axis[i]) / (x_axis[i2] - x_axis[i]) if i2 > i else 0.0
    v = (hy - y_axis[j]) / (y_axis[j2] - y_axis[j]) if j2 > j else 0.0
    low = seconds[i, j] * (1 - v) + seconds[i, j2] * v
    high = seconds[i2, j] * (1 - v) + seconds[i2, j2] * v
    ratio = max(x, hx) / hx * (max(y, hy) / hy)
    return (low * (1 - u) + high * u) * ratio


def _weight(axis: Floats, i: int, at: float) -> float:
    """Position of `at` within cell `i`, from 0 to 1; 0 below the grid, above 1 beyond it (the edge's slope goes on)."""
    return max(0.0, (at - axis[i]) / (axis[i + 1] - axis[i]))


def _mixed(g: CostGrid, new: float, before: float, decodes: float, context: float) -> float:
    """Attention of one chunk beside decodes: affine in each of the four coordinates."""
    a = _cell(g.mixed_new, new)
    b = _cell(g.mixed_before, before)
    c = _cell(g.mixed_decodes, decodes)
    d = _cell(g.mixed_context, context)
    wa = _weight(g.mixed_new, a, new)
    wb = _weight(g.mixed_before, b, before)
    wc = _weight(g.mixed_decodes, c, decodes)
    wd = _weight(g.mixed_context, d, context)
    total = 0.0
    for i in range(2):
        for j in range(2):
            for k in range(2):
                share = (wa if i else 1 - wa) * (wb if j else 1 - wb) * (wc if k else 1 - wc)
                total += share * (1 - wd) * g.mixed[a + i, b + j, c + k, d]
                total += share * wd * g.mixed[a + i, b + j, c + k, d + 1]
    return total


def attention_seconds(g: CostGrid, decodes: int, context: int, new: Any, before: Any) -> float:
    """Seconds of attention, all layers: of the chunks and of the decodes, or of both in one call where measured."""
    return _attention(g, decodes, context, new, before, len(new))


def _attention(g: CostGrid, decodes: int, context: int, new: Any, before: Any, chunks: int) -> float:
    # Counts are told as floats: of integers numba would compile every surface a second time.
    mean = context / decodes if decodes else 0.0
    if chunks and len(g.mixed_new):
        # Further chunks add what they add to the smallest call beside the same decodes.
        beside = float(decodes)
        least = _mixed(g, g.mixed_new[0], 0.0, beside, mean)
        total = _mixed(g, float(new[0]), float(before[0]), beside, mean) + (chunks - 1) * g.chunk_s
        for i in range(1, chunks):
            total += max(0.0, _mixed(g, float(new[i]), float(before[i]), beside, mean) - least)
        return total
    total = 0.0
    if decodes:
        total += _surface(g.decode_x, g.decode_y, g.decode, float(decodes), mean) * (g.beside if chunks else 1.0)
    together = float(chunks)
    for i in range(chunks):
        n = float(new[i])
        length = n + before[i]
        whole = length * (length + 1) / 2
        own = n * (n + 1) / 2
        seconds = _surface(g.prefill_x, g.prefill_y, g.prefill, together, whole) * ((own + n * before[i]) / whole)
        if before[i]:
            # Never faster than the chunk alone, nor than one decode that reads the same keys and values.
            seconds = max(seconds, _surface(g.prefill_x, g.prefill_y, g.prefill, together, own))
            seconds = max(seconds, _surface(g.decode_x, g.decode_y, g.decode, together, length))
        total += seconds / chunks
    return total


def fullest(ranks: int, decodes: int, new: Any) -> tuple[int, float]:
    """Tokens of the fullest of several ranks, and its share of the prompts' tokens.

    Decodes are spread evenly; of the prompts' tokens the fullest rank has its even share, or the longest chunk.
    """
    return _fullest(ranks, decodes, new, len(new))


def _fullest(ranks: int, decodes: int, new: Any, chunks: int) -> tuple[int, float]:
    total = 0
    longest = 0
    for i in range(chunks):
        total += new[i]
        longest = max(longest, new[i])
    share = max(1.0 / ranks, longest / total) if total else 0.0
    return -(-decodes // ranks) + math.ceil(total * share), share


def _together(g: CostGrid, decodes: int, context: int, new: Any, before: Any, chunks: int, outputs: int) -> float:
    """Seconds of a step of several ranks that wait for each other: it takes as long as the fullest rank."""
    tokens, share = _fullest(g.ranks, decodes, new, chunks)
    mine = -(-decodes // g.ranks)
    read = -(-context // g.ranks)
    attention = _attention(g, mine, read, new, before, 0) if mine else 0.0
    # Experts see the tokens of all ranks, not the fullest rank's alone.
    gathered = decodes
    if chunks:
        attention += share * (_attention(g, mine, read, new, before, chunks) - attention)
        for i in range(chunks):
            gathered += new[i]
    if tokens <= g.graph_tokens:
        gathered = g.ranks * tokens  # graphs run padded to one size
    device = _line(g.dense, tokens) + _line(g.head, -(-outputs // g.ranks)) + attention
    if len(g.experts):
        device += _line(g.experts, gathered)
    begun = 0
    for i in range(chunks):
        if before[i] == 0:
            begun += 1
    device += -(-begun // g.ranks) * g.tower_s  # requests come to ranks in turn
    if tokens > g.graph_tokens:
        launch = g.host_eager_s
    elif chunks:
        launch = g.host_pieces_s
    else:
        launch = g.host_decode_s
    host = g.scheduler_s + g.per_sequence_s * (mine + chunks * share)
    if g.overlapped:
        return max(device, launch + host)
    return max(device, launch) + host


def iteration_seconds(g: CostGrid, decodes: int, context: int, new: Any, before: Any, outputs: int) -> float:
    """Seconds of one iteration.

    Parameters
    ----------
    g : CostGrid
        The cost.
    decodes, context : int
        Sequences that decode, and the tokens that they read together.
    new, before : array or sequence of int
        Per prefill chunk: its tokens, and the tokens before it.
    outputs : int
        Sequences that need the output head.
    """
    return chunked_seconds(g, decodes, context, new, before, len(new), outputs)


def chunked_seconds(g: CostGrid, decodes: int, context: int, new: Any, before: Any, chunks: int, outputs: int) -> float:
    """`iteration_seconds` of the first so many `chunks` of longer columns: what kernels call, without making slices."""
    tokens = decodes
    for i in range(chunks):
        tokens += new[i]
    if tokens == 0:
        return 0.0
    if g.ranks > 1:
        return _together(g, decodes, context, new, before, chunks, outputs)
    device = _line(g.dense, tokens) + _line(g.head, outputs) + _attention(g, decodes, context, new, before, chunks)
    if tokens > g.graph_tokens:
        launch = g.host_eager_s
    elif chunks:
        launch = g.host_pieces_s
    else:
        launch = g.host_decode_s
    host = g.scheduler_s + g.per_sequence_s * (decodes + chunks)
    for i in range(chunks):
        if before[i] == 0:
            host += g.request_s
            device += g.tower_s
    if g.overlapped:
        return max(device, launch + host)
    return max(device, launch) + host


@cache
def compiled_parts() -> dict[str, Any]:
    """The functions of this file for kernels, by name: inlined where they are called, and without counts of references,
    which would cost more than the arithmetic (nothing here allocates)."""
    from ....jit import inner

    names = (
        "_line", "_cell", "_surface", "_weight", "_mixed", "_attention", "_fullest", "_together", "chunked_seconds",
    )  # fmt: skip
    scope: dict[str, Any] = {"math": math, "__name__": __name__}
    for name in names:
        scope[name] = inner(_rescoped(globals()[name], scope), forceinline=True, cache=False, _nrt=False)
    return scope


@cache
def compiled() -> Callable[..., Any]:
    """`iteration_seconds` compiled by numba; takes the same arguments, callable from compiled code."""
    from ....jit import kernel

    return kernel(_rescoped(iteration_seconds, compiled_parts()))


def _rescoped(function: Any, scope: dict[str, Any]) -> Any:
    """The same code, whose calls go to the compiled helpers in `scope`."""
    import types

    return types.FunctionType(function.__code__, scope, function.__name__, function.__defaults__)
