"""What the compiled LLM engine is given: a policy's options in numbers, and the cost of an iteration."""

from __future__ import annotations

from types import FunctionType
from typing import Any, NamedTuple, cast

import numba

from ....profiles.llm.cost.grid import JIT, compiled

__all__ = ["BARE", "CALL", "FITTED", "GRID", "LINEAR", "Price", "Rules", "seconds_of"]

# Inlined and without counts of references, which would cost more than the arithmetic: nothing here allocates. What is
# inlined is cached with its caller.
_WRAPPERS = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # nobody calls it from Python: not to be compiled
BARE: dict[str, Any] = {**JIT, "cache": False, "forceinline": True, "_nrt": False, **_WRAPPERS}
CALL: dict[str, Any] = {**BARE, "forceinline": False}
"""For what is called from several places, and not often: each inlined copy would have to be compiled."""
_bare: Any = numba.njit(**BARE)


def _grid_seconds() -> Any:
    """`cost_grid.iteration_seconds` to inline."""
    scope: dict[str, Any] = dict(cast("Any", compiled()).py_func.__globals__)
    for name, function in list(scope.items()):
        plain: Any = getattr(function, "py_func", None)
        if plain is not None:
            scope[name] = _bare(FunctionType(plain.__code__, scope, name, plain.__defaults__))
    return scope["iteration_seconds"]


GRID_SECONDS: Any = _grid_seconds()
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
    alone: bool  # it holds for a request that is alone, too
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


@_bare
def seconds_of(
    kind: int, line: Any, grid: Any, decodes: int, context: int, new: Any, before: Any, outputs: int
) -> float:
    if kind == GRID:
        return GRID_SECONDS(grid, decodes, context, new, before, outputs)
    tokens = squares = pairs = 0
    for i in range(len(new)):
        tokens += new[i]
        pairs += new[i] * before[i] + new[i] * (new[i] + 1) // 2
        squares += new[i] * new[i] + 2 * new[i] * before[i]
    if kind == LINEAR:
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
