"""The setting of vLLM's Fig. 2: OPT-13B on an A100, four memory managers, requests that always wait.

Which requests fit is decided by the lengths and the allocators alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ...errors import InputError
from ...profiles.llm import decoder
from ...profiles.llm.iteration import IterationCost
from ...simulator.llm.memory.accounting import MemoryUse, memory_use
from ...simulator.llm.policy.catalogue import POLICIES
from ...simulator.llm.policy.request import LLMRequest
from ...traces.lengths import LengthProfile

__all__ = [
    "SLOTS",
    "SYSTEMS",
    "Average",
    "saturated",
    "serve",
]

GIB = 2**30
MODEL = decoder("opt-13b")
KV_GIB = 12
"""Table 1: memory for the KV cache of OPT-13B."""
SLOTS = KV_GIB * GIB // MODEL.kv_bytes_per_token()
BLOCK = 16
"""Tokens in a block: vLLM's default (§5.7.2)."""

SYSTEMS = {
    "Orca (Max)": ("orca-max", {"num_slots": SLOTS}),
    "Orca (Pow2)": ("orca-pow2", {"num_slots": SLOTS}),
    "Orca (Oracle)": ("orca-oracle", {"num_slots": SLOTS}),
    "vLLM": ("vllm-paper", {"num_gpu_blocks": SLOTS // BLOCK, "block_size": BLOCK}),
}
"""System -> its policy and the policy's options."""

BACKLOG = 256
"""Waiting requests that a policy is shown at most: it looks at its queue's head only."""
EVERY = 8
"""Memory is counted in one step of so many."""


@dataclass(frozen=True, slots=True)
class Average:
    """Time averages over a window.

    Parameters
    ----------
    batch : float
        Requests in the batch.
    memory : MemoryUse
        Where the slots went.
    seconds : float
        Length of the window.
    finished : int
        Requests that finished in it.
    """

    batch: float
    memory: MemoryUse
    seconds: float
    finished: int


def saturated(profile: LengthProfile, seed: int, n: int = 100_000) -> Iterator[LLMRequest]:
    """Requests that all wait from the start."""
    drawn = profile.sample(n, seed)
    for k, (prompt, output) in enumerate(zip(drawn.prompt.tolist(), drawn.output.tolist(), strict=True)):
        yield LLMRequest(k, prompt, output)


def serve(system: str, requests: Iterable[LLMRequest], cost: IterationCost, window: tuple[float, float]) -> Average:
    """Run a system on requests in order of arrival, and average over a window of time.

    Parameters
    ----------
    system : str
        A key of `SYSTEMS`.
    requests : iterable of LLMRequest
        In order of arrival.
    cost : IterationCost
        Seconds of an iteration.
    window : (float, float)
        Where to average, seconds; the run ends with it.
    """
    name, options = SYSTEMS[system]
    policy = POLICIES[name]
    scheduler: Any = policy.scheduler(policy.config(**options))
    coming = iter(requests)
    following = next(coming, None)
    now, steps, finished, batch = 0.0, 0, 0, 0.0
    parts: list[MemoryUse] = []
    weights: list[float] = []
    start, end = window
    while now < end:
        while following is not None and following.arrival <= now and len(scheduler.waiting) < BACKLOG:
            scheduler.add(following)
            following = next(coming, None)
        step = scheduler.schedule()
        work = policy.work(scheduler, step, True)
        if work.iteration is None:
            idle = end if following is None else min(following.arrival, end)
            if idle <= now:
                raise InputError(f"{system}: nothing runs at {now:g} s though requests wait")
            inside, taken = max(0.0, idle - max(now, start)), idle
        else:
            taken = now + cost.seconds(work.iteration)
            inside = max(0.0, min(taken, end) - max(now, start))
        batch += inside * work.running
        if inside and (not parts or steps % EVERY == 0):
            parts.append(memory_use(scheduler))
            weights.append(inside)
        now, steps = taken, steps + 1
        done = scheduler.complete(step)
        finished += len(done) if now >= start else 0
    return Average(batch / (end - start), MemoryUse.mean(parts, weights), end - start, finished)
