"""What a comparison with the real engine serves: schedulers with their options, and requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....errors import InputError
from ....profiles.llm.iteration import IterationCost
from ....reprs import Shown
from ....seeds import generator
from ....simulator.llm import LLMTrace, simulate_llm
from ....simulator.llm.workload.clients import Clients
from ..measure.job import engine_options
from ..measure.tables import Plan

__all__ = [
    "LENGTHS",
    "ON_GPU",
    "SETTINGS",
    "Lengths",
    "Setting",
    "Traffic",
    "draw_requests",
    "scheduler_options",
    "settings_named",
]


@dataclass(frozen=True, slots=True)
class Setting:
    """A scheduler with its options.

    Parameters
    ----------
    policy : str
        A policy that the engine runs.
    budget : int
        Tokens of a batch.
    seqs : int
        Sequences of a batch.
    blocks : int, optional
        KV blocks; enough for all sequences without it.
    """

    policy: str
    budget: int = 128
    seqs: int = 16
    blocks: int | None = None


SETTINGS = {
    "vllm-v1": Setting("vllm-v1"),
    "vllm-v1-preempting": Setting("vllm-v1", blocks=40),
    "vllm-0.2": Setting("vllm-0.2", budget=320),
}
"""Name -> setting: chunked prefill; the same with too few blocks for the batch; the paper's prompts first."""
ON_GPU = {
    "vllm-v1": Setting("vllm-v1", 2048, 128),
    "vllm-v1-preempting": Setting("vllm-v1", 2048, 128, blocks=800),
    "vllm-0.2": Setting("vllm-0.2", 2048, 128),
}
"""The same on a GPU, where batches are larger."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """Lengths of requests: log-normal around a median, cut off.

    Parameters
    ----------
    prompt, output : int
        Medians, tokens.
    sigma : float
        Standard deviation of the logarithm.
    longest_prompt, longest_output : int
        Where they are cut off.
    """

    prompt: int = 64
    output: int = 32
    sigma: float = 0.6
    longest_prompt: int = 192
    longest_output: int = 96


LENGTHS = {"cpu": Lengths(), "cuda": Lengths(128, 128, 0.8, 1024, 512)}
"""By kind of device: what is served where nobody says. Guesses: short enough that a CPU finishes hundreds in a cell."""


def draw_requests(lengths: Lengths, n: int, seed: int) -> tuple[Any, Any, Any]:
    """Prompt and output tokens of `n` requests, and the gaps between them as multiples of the mean gap (Poisson)."""
    stream = generator(seed, "llm", "compare", "requests")
    shape = np.exp(lengths.sigma * stream.standard_normal((2, n)))
    prompt = np.clip(np.rint(lengths.prompt * shape[0]), 1, lengths.longest_prompt).astype(int)
    output = np.clip(np.rint(lengths.output * shape[1]), 2, lengths.longest_output).astype(int)
    return prompt, output, stream.exponential(size=n)


@dataclass(frozen=True, slots=True, repr=False)
class Traffic(Shown):
    """The requests that a comparison serves.

    Parameters
    ----------
    loads : sequence of float
        Request rates, as shares of the rate that the engine can sustain according to the simulator.
    rate : float, optional
        Requests per second, instead of loads.
    trace : LLMTrace, optional
        Requests to serve, instead of drawn ones.
    lengths : Lengths, optional
        Lengths of drawn requests; by default those of the device in `LENGTHS`.
    duration_s : float
        Seconds over which the requests of a cell arrive.
    clients : Clients, optional
        How drawn requests are sent, at a rate; Poisson if left out.

    Raises
    ------
    InputError
        On no load, or a load, rate or duration that is not above 0.
    """

    loads: Sequence[float] = (0.3, 0.6, 0.9)
    rate: float | None = None
    trace: LLMTrace | None = None
    lengths: Lengths | None = None
    duration_s: float = 20.0
    clients: Clients | None = None

    def __post_init__(self) -> None:
        seconds, levels = self.duration_s, self.levels
        if not levels or any(not 0 < level < float("inf") for level in levels) or not 0 < seconds < float("inf"):
            raise InputError(f"compare: expected loads, rates and seconds above 0 (got {levels} and {seconds})")
        if self.clients is not None and self.clients.rateless:
            raise InputError(f"compare: clients: {self.clients.arrivals} has no rate")

    @property
    def levels(self) -> list[float]:
        """The level of each cell: the rate, or the loads."""
        return [self.rate] if self.rate is not None else list(self.loads)

    def lengths_on(self, device: str) -> Lengths:
        """Lengths of drawn requests on a kind of device."""
        return self.lengths or LENGTHS.get(device) or Lengths()

    def longest(self, device: str) -> int:
        """Tokens of the longest request."""
        if self.trace is not None:
            return int((self.trace.prompt_tokens + self.trace.output_tokens).max())
        lengths = self.lengths_on(device)
        return lengths.longest_prompt + lengths.longest_output

    def most(self, plan: Plan, policy: str, options: dict[str, Any], cost: IterationCost) -> float:
        """Requests per second that can be sustained: the throughput where all requests are there at once.

        200 of them: many batches, so that filling and draining hardly count.
        """
        prompt, output, _ = draw_requests(self.lengths_on(plan.device), 200, plan.seed)
        full = LLMTrace(np.zeros(200), prompt, output)
        return simulate_llm(full, policy=policy, config=options, cost=cost).request_throughput

    def requests(self, level: float, plan: Plan, sustained: float) -> tuple[str, float, LLMTrace]:
        """The name of a level, its rate, and what a cell of it serves, drawn by the plan's seed; a load is a share of
        the rate that can be sustained."""
        if self.trace is not None:
            span = float(self.trace.arrival[-1])
            return "trace", len(self.trace) / span if span > 0 else float("inf"), self.trace
        rate = level if self.rate is not None else level * sustained
        prompt, output, gaps = draw_requests(
            self.lengths_on(plan.device), max(2, round(rate * self.duration_s)), plan.seed
        )
        arrival = np.cumsum(gaps) / rate
        if self.clients is not None:
            arrival = self.clients.columns(len(prompt), rate, plan.seed)["arrival"]
        requests = LLMTrace(arrival, prompt, output)
        return f"{rate:.3g}/s" if self.rate is not None else f"load {level:g}", rate, requests


def settings_named(names: Sequence[str], device: str) -> dict[str, Setting]:
    """Settings by name, for a kind of device.

    Raises
    ------
    InputError
        On no, an unknown or a repeated name.
    """
    for name in names:
        if name not in SETTINGS:
            raise InputError(f"compare: unknown setting {name!r}; expected one of {', '.join(SETTINGS)}")
    if not names or len(set(names)) < len(names):
        raise InputError(f"compare: expected settings, each once (got {', '.join(names) or 'none'})")
    return {name: (SETTINGS if device == "cpu" else ON_GPU)[name] for name in names}


def scheduler_options(setting: Setting, longest: int, room_tokens: float) -> dict[str, Any]:
    """The scheduler's options; prefix caching is off: prompts are drawn at random.

    Parameters
    ----------
    setting : Setting
        Which.
    longest : int
        Tokens of the longest request.
    room_tokens : float
        Tokens whose keys and values the device has room for.

    Raises
    ------
    InputError
        If that is not enough for two requests.
    """
    block = 16  # vLLM's default
    each = -(-longest // block)
    least, most = 2 * each + 2, int(room_tokens // block)
    if most < least:
        raise InputError(f"compare: the device has room for {most} KV blocks, two requests need {least}")
    blocks = setting.blocks if setting.blocks is not None else 2 + setting.seqs * (each + 1)
    blocks = min(max(blocks, least), most)
    options = engine_options(setting.policy, block, blocks, setting.seqs, setting.budget, longest + 1)
    return options if setting.policy == "vllm-0.2" else {**options, "enable_prefix_caching": False}
