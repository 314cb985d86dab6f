"""Speculative decoding in numbers: whose drafts they are, and their streams."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...decoding.speculative import Speculative, SpeculativeScheduler
from ...policy.catalogue import Policy
from .tables import NO_DRAFTS, Drafts

__all__ = ["drafts_of", "streams_of"]


def drafts_of(policy: Policy) -> Speculative | None:
    """The drafts of a policy; None of one without."""
    scheduler: Any = policy.scheduler
    if isinstance(scheduler, partial) and scheduler.func is SpeculativeScheduler:
        return scheduler.keywords["speculative"]
    return None


def streams_of(policy: Policy, n: int) -> Drafts:
    """Which drafts of n requests are accepted."""
    from ..streams import entropy_of, keys_of

    drafts = drafts_of(policy)
    if drafts is None:
        return NO_DRAFTS
    scheduler: Any = policy.scheduler
    keys = keys_of(("llm", "speculative", row) for row in range(n))
    seed = entropy_of(scheduler.keywords["seed"])
    return Drafts(np.array(drafts.chances), seed, keys, np.zeros((n, 5), dtype=np.uint64))
