"""`new_tokens`: how many tokens of a request a step computes, and how many it need not."""

from __future__ import annotations

from ...memory.caching_pool import CachingPool
from .options import Vllm06Config
from .state import Budget, Vllm06Request

__all__ = ["new_tokens"]


def new_tokens(
    config: Vllm06Config, pool: CachingPool, request: Vllm06Request, budget: Budget, chunked: bool
) -> tuple[int, int]:
    """Tokens that a step computes for a request, and those of it that the prefix cache holds.

    Parameters
    ----------
    config : Vllm06Config
        Options.
    pool : CachingPool
        Blocks of the device.
    request : Vllm06Request
        What it has, and what of it is computed. How much is cached is looked up once and kept, until its blocks are
        freed.
    budget : Budget
        What is left of the step.
    chunked : bool
        Whether the first of the two is cut to that.
    """
    fresh, cached = 1, 0
    if not request.decoding:
        fresh = request.length - request.computed
        if config.enable_prefix_caching:
            if request.found is None:
                request.found = pool.known(request.contents) * config.block_size
            cached = max(0, request.found - request.computed)
            fresh -= cached
        if not fresh and cached:
            fresh, cached = 1, cached - 1  # without a computed token there would be none to sample from
    if not chunked:
        return fresh, cached
    # Where blocks are found again by their content chunks end with blocks; decodes are cut so, too.
    whole = config.block_size if config.enable_prefix_caching else 1
    return min(fresh, budget.left // whole * whole), cached
