"""The most that a case may ask for: beyond these no machine answers, and a typing error is likelier than a wish.

Every field whose value sizes work (devices, models, apps, jobs, requests) is bounded: a study that could not end is
refused before it begins, with the limit.
"""

from __future__ import annotations

from ..profiles.profile_set import MAX_MODELS
from ..simulator.cluster import MAX_DEVICES

__all__ = [
    "LONGEST_RESTART_S", "MAX_APPS", "MAX_DEVICES", "MAX_JOBS", "MAX_LLM_REQUESTS", "MAX_MODELS", "MAX_REQUESTS",
    "MAX_SEATS",
]  # fmt: skip

MAX_REQUESTS = 100_000_000
"""Requests of one case of the serving world, drawn."""

MAX_LLM_REQUESTS = 10_000_000
"""Requests of one case of the LLM world, drawn."""

MAX_SEATS = 1_000_000
"""Requests, or tokens, of an LLM engine's iteration."""

MAX_APPS = 100_000
"""Apps of one case of the sharing world."""

MAX_JOBS = 100_000
"""Jobs of one app."""

LONGEST_RESTART_S = 86_400.0
"""Seconds of a checkpoint, and of a container's start: a day."""
