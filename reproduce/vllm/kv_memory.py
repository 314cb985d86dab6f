"""The setting of vLLM's Figs. 2 and 13: OPT-13B on an A100, four memory managers, two sets of lengths.

Which requests fit is decided by the lengths and the allocators alone. How long an iteration takes matters only where
requests arrive by the clock; the model of it has one constant: every iteration reads the weights, and the keys and
values of its decodes, at a share of the A100's memory bandwidth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ...errors import InputError
from ...profiles.llm import decoder
from ...profiles.llm.iteration import Iteration, IterationCost
from ...profiles.llm.linear import LinearCost
from ...seeds import generator
from ...simulator.llm.memory.accounting import MemoryUse, memory_use
from ...simulator.llm.policy.catalogue import POLICIES
from ...simulator.llm.policy.request import LLMRequest
from ...traces.lengths import LengthProfile

__all__ = [
    "SLOTS",
    "SYSTEMS",
    "Average",
    "PromptsApart",
    "bandwidth_cost",
    "calibrate",
    "poisson",
    "saturated",
    "serve",
]

GIB = 2**30
MODEL = decoder("opt-13b")
KV_GIB = 12
"""Table 1: memory for the KV cache of OPT-13B."""
SLOTS = KV_GIB * GIB // MODEL.kv_bytes_per_token()
BANDWIDTH = 1.555e12
"""Memory bandwidth of an A100 40 GB, bytes/s (NVIDIA's data sheet)."""
BLOCK = 16
"""Tokens in a block: vLLM's default (§5.7.2)."""

SYSTEMS = {
    "Orca (Max)": ("orca-max", {"num_slots": SLOTS}),
    "Orca (Pow2)": ("orca-pow2", {"num_slots": SLOTS}),
    "Orca (Oracle)": ("orca-oracle", {"num_slots": SLOTS}),
    "vLLM": ("vllm-0.2", {"num_gpu_blocks": SLOTS // BLOCK, "block_size": BLOCK}),
}
"""System -> its policy and the policy's options; the rest are vLLM 0.2.7's defaults."""

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


def bandwidth_cost(efficiency: float) -> LinearCost:
    """Seconds of an iteration that reads at `efficiency` times the A100's bandwidth.

    Raises
    ------
    InputError
        On an efficiency outside (0, 1].
    """
    if not 0 < efficiency <= 1:
        raise InputError(f"efficiency: expected a share of the bandwidth in (0, 1] (got {efficiency})")
    rate = efficiency * BANDWIDTH
    return LinearCost(base_s=MODEL.weight_bytes() / rate, context_s=MODEL.kv_bytes_per_token() / rate)


@dataclass(frozen=True, slots=True)
class PromptsApart:
    """A cost under which prompts that join a batch take one reading of the weights more: an iteration of their own.

    Parameters
    ----------
    cost : LinearCost
        The cost of everything else.
    """

    cost: LinearCost

    def seconds(self, iteration: Iteration) -> float:
        """Seconds of an iteration."""
        joined = iteration.prefill and iteration.decodes
        return self.cost.seconds(iteration) + (self.cost.base_s if joined else 0.0)


def saturated(profile: LengthProfile, seed: int, n: int = 100_000) -> Iterator[LLMRequest]:
    """Requests that all wait from the start."""
    drawn = profile.sample(n, seed)
    for k, (prompt, output) in enumerate(zip(drawn.prompt.tolist(), drawn.output.tolist(), strict=True)):
        yield LLMRequest(k, prompt, output)


def poisson(profile: LengthProfile, rate: float, duration: float, seed: int) -> Iterator[LLMRequest]:
    """Requests that arrive at random, `rate` a second, for `duration` seconds."""
    rng = generator(seed, "arrivals", profile.name)
    n = int(rate * duration + 10 * math.sqrt(rate * duration) + 10)
    arrivals = rng.exponential(1 / rate, n).cumsum()
    drawn = profile.sample(n, seed)
    rows = zip(arrivals.tolist(), drawn.prompt.tolist(), drawn.output.tolist(), strict=True)
    for k, (arrival, prompt, output) in enumerate(rows):
        if arrival >= duration:
            return
        yield LLMRequest(k, prompt, output, arrival)


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


def calibrate(target: float, batch: Callable[[float], float]) -> float:
    """The share of the bandwidth at which the batch is `target`, to 0.002: the batch falls as the bandwidth rises.

    Parameters
    ----------
    target : float
        The batch to reach.
    batch : callable
        Share of the bandwidth -> batch, on the same requests each time.

    Raises
    ------
    InputError
        If no share in [0.4, 0.9] gives it.
    """
    from scipy.optimize import brentq

    try:
        return float(brentq(lambda share: batch(share) / target - 1, 0.4, 0.9, xtol=0.002))  # pyright: ignore
    except ValueError:
        raise InputError(f"calibration: no share of the bandwidth in [0.4, 0.9] gives a batch of {target:g}") from None
