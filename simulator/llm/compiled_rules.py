"""What the compiled LLM engine is given: a policy's options in numbers, and the cost of an iteration."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba

from ...profiles.llm.cost_grid import JIT, compiled

__all__ = ["FITTED", "GRID", "LINEAR", "Price", "Rules", "seconds_of"]

# Inlined, since a call with many arrays counts the references of each.
_inline: Any = numba.njit(forceinline=True, **JIT)
_grid: Any = compiled()
GRID_SECONDS: Any = _inline(_grid.py_func)
LINEAR, FITTED, GRID = 0, 1, 2  # kinds of `Price`


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
    chunked: bool
    whole: bool  # admit only what fits in full
    padded: bool
    fragile: bool  # a preempted request might find its blocks again: give up at a preemption
    concurrency: int  # 0: open loop
    until: float


class Price(NamedTuple):
    """The cost of an iteration: its kind, coefficients, and the grid."""

    kind: int
    line: Any
    grid: Any


@_inline
def seconds_of(p: Any, decodes: int, context: int, new: Any, before: Any, outputs: int) -> float:
    line = p.line
    if p.kind == GRID:
        return GRID_SECONDS(p.grid, decodes, context, new, before, outputs)
    tokens = squares = pairs = 0
    for i in range(len(new)):
        tokens += new[i]
        pairs += new[i] * before[i] + new[i] * (new[i] + 1) // 2
        squares += new[i] * new[i] + 2 * new[i] * before[i]
    if p.kind == LINEAR:
        return (
            line[0] + line[1] * (decodes + tokens) + line[2] * context + (line[3] * pairs if line[3] else 0.0)
        ) + line[4] * decodes
    total = 0.0
    if decodes:
        at = 6 if decodes >= line[9] else 3
        total = total + line[at] + line[at + 1] * context + line[at + 2] * decodes
    if len(new):
        if not decodes:
            total += line[0]
        total = total + line[1] * tokens + line[2] * squares
    return total
