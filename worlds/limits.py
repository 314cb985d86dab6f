"""The most that a case may ask for: beyond these no machine answers, and a typing error is likelier than a wish.

Every field whose value sizes work (devices, models, apps, jobs, requests) is bounded: a study that could not end is
refused before it begins, with the limit.
"""

from __future__ import annotations

__all__ = [
    "LONGEST_RESTART_S", "MAX_APPS", "MAX_BATCH", "MAX_BYTES", "MAX_BYTES_PER_S", "MAX_DEVICES", "MAX_FACTOR",
    "MAX_JOBS", "MAX_LAYERS", "MAX_LLM_REQUESTS", "MAX_MODELS", "MAX_PRICE", "MAX_RACKS", "MAX_RATE", "MAX_REPEATS",
    "MAX_REQUESTS", "MAX_SAMPLES", "MAX_SEATS", "MAX_SECONDS", "MAX_SEED", "MAX_THREADS", "MAX_TOKENS", "MAX_WIDTH",
    "MIN_BYTES", "MIN_FACTOR",
]  # fmt: skip

MAX_DEVICES = 100_000
"""Devices of a cluster: what `simulator.cluster` refuses, known here without importing the simulator."""

MAX_MODELS = 100_000
"""Models that are served: what `profiles` refuses, known here without importing them."""

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

MAX_RACKS = 1_000_000
"""Numbers of racks, which may be any below it."""

LONGEST_RESTART_S = 86_400.0
"""Seconds of a checkpoint, and of a container's start: a day."""

MAX_BATCH = 10_000_000
"""Samples of an iteration: what `planners.batches` refuses, known here without importing planners."""

MAX_SECONDS = 1e10
"""Seconds of anything that a case says: three centuries."""

MAX_REPEATS = 100_000
"""Rounds, iterations and retries of one real run: a day of the fastest."""

MAX_THREADS = 1024
"""Threads of one process: torch dies, without a word, where a machine cannot start as many as it is told."""

MAX_SEED = 2**63 - 1
"""Seeds: what compiled kernels hold in a signed word, and every reader of JSON and databases too."""

MAX_RATE = 1e9
"""Requests per second: more than all devices of the world answer."""

MIN_FACTOR = 1e-6
"""The least that a field multiplies something by."""

MAX_FACTOR = 1e6
"""The most that a field multiplies something by."""

MAX_PRICE = 1e6
"""Price of one device-hour, in any currency."""

MIN_BYTES = 2**20
"""The least memory of a device: a mebibyte. Less is a number without its unit."""

MAX_BYTES = 2**50
"""The most memory of a device: a pebibyte."""

MAX_BYTES_PER_S = 1e15
"""The fastest link, bytes per second."""

MAX_TOKENS = 10_000_000
"""Tokens of one sample."""

MAX_SAMPLES = 10**18
"""Samples, or tokens, of a whole training run."""

MAX_LAYERS = 10_000
"""Layers of a model, and its experts."""

MAX_WIDTH = 1_000_000
"""Widths of a model: hidden size, heads, vocabulary in tens."""
