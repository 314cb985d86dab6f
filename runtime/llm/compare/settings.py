"""What a comparison with the real engine serves: schedulers with their options, and requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....errors import InputError
from ....profiles.llm.cost.iteration import TableCost
from ....seeds import generator
from ....simulator.llm import LLMTrace, simulate_llm
from ..measure.job import engine_options

__all__ = [
    "LENGTHS",
    "ON_GPU",
    "SETTINGS",
    "Lengths",
    "Setting",
    "draw_requests",
    "longest_request",
    "requests_of",
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
"""By kind of device: what is served where nobody says."""


def draw_requests(lengths: Lengths, n: int, seed: int) -> tuple[Any, Any, Any]:
    """Prompt and output tokens of `n` requests, and the gaps between them as multiples of the mean gap (Poisson)."""
    stream = generator(seed, "llm", "compare", "requests")
    shape = np.exp(lengths.sigma * stream.standard_normal((2, n)))
    prompt = np.clip(np.rint(lengths.prompt * shape[0]), 1, lengths.longest_prompt).astype(int)
    output = np.clip(np.rint(lengths.output * shape[1]), 2, lengths.longest_output).astype(int)
    return prompt, output, stream.exponential(size=n)


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


def longest_request(lengths: Lengths, trace: LLMTrace | None) -> int:
    """Tokens of the longest request."""
    if trace is None:
        return lengths.longest_prompt + lengths.longest_output
    return int((trace.prompt_tokens + trace.output_tokens).max())


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
    block = 16
    each = -(-longest // block)
    least, most = 2 * each + 2, int(room_tokens // block)
    if most < least:
        raise InputError(f"compare: the device has room for {most} KV blocks, two requests need {least}")
    blocks = setting.blocks if setting.blocks is not None else 2 + setting.seqs * (each + 1)
    blocks = min(max(blocks, least), most)
    options = engine_options(setting.policy, block, blocks, setting.seqs, setting.budget, longest + 1)
    return options if setting.policy == "vllm-0.2" else {**options, "enable_prefix_caching": False}


def requests_of(
    trace: LLMTrace | None, lengths: Lengths, level: float, absolute: bool, duration_s: float, seed: int, policy: str,
    options: dict[str, Any], cost: TableCost,
) -> tuple[LLMTrace, float, str]:  # fmt: skip
    """What a cell serves, its rate, and its name."""
    if trace is not None:
        span = float(trace.arrival[-1])
        return trace, len(trace) / span if span > 0 else float("inf"), "trace"
    rate = level
    if not absolute:
        prompt, output, _ = draw_requests(lengths, 200, seed)
        full = simulate_llm(LLMTrace(np.zeros(200), prompt, output), policy=policy, config=options, cost=cost)
        rate = level * full.request_throughput
    prompt, output, gaps = draw_requests(lengths, max(2, round(rate * duration_s)), seed)
    requests = LLMTrace(np.cumsum(gaps) / rate, prompt, output)
    return requests, rate, f"{rate:.3g}/s" if absolute else f"load {level:g}"
