"""What the compiled LLM engine is given: a policy's options in numbers, and the cost of an iteration."""

from __future__ import annotations

from typing import Any, NamedTuple

from ....jit import inner
from ....profiles.llm.cost.grid import compiled_parts

__all__ = ["BARE", "CALL", "FITTED", "GRID", "LINEAR", "LOOP", "Price", "Rules", "blocks_of", "seconds_of"]

BARE: dict[str, Any] = {"forceinline": True, "cache": False, "_nrt": False}
"""Options of what is inlined: without counts of references, which would cost more than the arithmetic (nothing here
allocates), and kept with its caller."""

CALL: dict[str, Any] = {**BARE, "forceinline": False}
"""For what is called from several places, and not often: each inlined copy would have to be compiled."""

LOOP: dict[str, Any] = {"_nrt": False, "no_cfunc_wrapper": True}
"""Options of a kernel: it allocates nothing, and only Python calls it."""

LINEAR, FITTED, GRID = 0, 1, 2  # kinds of `Price`
_grid_seconds: Any = compiled_parts()["chunked_seconds"]


class Rules(NamedTuple):
    """Options of a policy and of the run, in numbers; what each means is said where they come from."""

    paper: bool  # the rules of vLLM 0.2; else today's
    pool: int  # usable blocks
    size: int
    budget: int
    max_seqs: int
    max_len: int
    limit: int  # longest prompt that vLLM 0.2 takes
    paddings: int
    watermark: int
    threshold: int
    alone: bool  # it holds for a request that is alone, too
    chunked: bool
    whole: bool  # admit only what fits in full
    padded: bool
    fragile: bool  # a preempted request might find its blocks again: give up at a preemption
    concurrency: int  # 0: open loop
    until: float


class Price(NamedTuple):
    """The cost of an iteration: its kind, coefficients, the grid, and the factors on top of it."""

    kind: int
    line: Any
    grid: Any
    top: Any  # `times.OnTop`


@inner(**BARE)
def blocks_of(tokens: int, size: int) -> int:
    """Blocks that so many tokens fill or begin."""
    return -(-tokens // size)


@inner(**BARE)
def seconds_of(
    kind: int, line: Any, grid: Any, decodes: int, context: int, new: Any, before: Any, chunks: int, outputs: int
) -> float:
    """Seconds of an iteration with the first so many chunks of `new` and `before`."""
    if kind == GRID:
        return _grid_seconds(grid, decodes, context, new, before, chunks, outputs)
    tokens = squares = pairs = 0
    for i in range(chunks):
        tokens += new[i]
        pairs += new[i] * before[i] + new[i] * (new[i] + 1) // 2
        squares += new[i] * new[i] + 2 * new[i] * before[i]
    if kind == LINEAR:
        return (
            line[0] + line[1] * (decodes + tokens) + line[2] * context + (line[3] * pairs if line[3] else 0.0)
        ) + line[4] * decodes
    total = 0.0
    if decodes:
        at = 6 if decodes >= line[9] else 3  # `FittedCost` has another line for large batches
        total = total + line[at] + line[at + 1] * context + line[at + 2] * decodes
    if chunks:
        if not decodes:
            total += line[0]
        total = total + line[1] * tokens + line[2] * squares
    return total
