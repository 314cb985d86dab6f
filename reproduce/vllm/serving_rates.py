"""The setting of the vLLM thesis' §5.6: OPT models on A100s, five systems, and the request rate that each sustains.

`servers` has the GPUs and what an iteration costs. All systems have the same cost, none has a limit on its sequences
but memory, and none but FasterTransformer, whose batches are static, computes padding.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from ...errors import InputError
from ...profiles.llm import IterationCost, decoder
from ...seeds import generator
from ...simulator.llm import LLMResult, LLMTrace, SimulateOptions, SwapCost, simulate_llm
from ...traces.lengths import LengthProfile
from ..style import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILLION
from .servers import Server

__all__ = [
    "COLOURS",
    "LATER",
    "SYSTEMS",
    "Curve",
    "batch",
    "capacity",
    "curve",
    "requests",
    "served",
]

BLOCK = 16
"""Tokens in a block: vLLM's default (§5.7.2)."""
UNLIMITED = 4096
"""Sequences that may run: more than fit any memory here. The paper names no limit; vLLM 0.1.0 was released with 256."""
TIMES = (0.4, 0.7, 0.85, 1.0, 1.15, 1.3, 1.6, 2.0, 3.0)
"""Rates of a curve, as multiples of what the system finishes while requests always wait."""


SYSTEMS: Mapping[str, str] = MappingProxyType(
    {
        "FasterTransformer": "fastertransformer",
        "Orca (Max)": "orca-max",
        "Orca (Pow2)": "orca-pow2",
        "Orca (Oracle)": "orca-oracle",
        "vLLM": "vllm-paper",
    }
)
"""System -> its policy."""
LATER = "vLLM 0.2"
"""What was later released: prompts in iterations of their own, padded."""
COLOURS: Mapping[str, str] = MappingProxyType(
    {
        "FasterTransformer": GREY,
        "Orca (Max)": ORANGE,
        "Orca (Pow2)": GREEN,
        "Orca (Oracle)": VERMILLION,
        "vLLM": BLUE,
        LATER: PURPLE,
    }
)
"""A system has the same colour in every figure."""


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Normalized latency over the request rate.

    Parameters
    ----------
    rate, latency : ndarray of float64
        Requests per second, rising; seconds per token.
    """

    rate: np.ndarray
    latency: np.ndarray

    def sustained(self, limit: float) -> float:
        """The highest rate up to which the latency is at most `limit` s/token, between two rates on a logarithmic line.

        Raises
        ------
        InputError
            If the curve lies above the limit, or below it, everywhere.
        """
        above = np.flatnonzero(self.latency > limit)
        if not len(above) or above[0] == 0:
            raise InputError(
                f"curve: does not cross {limit:g} s/token between {self.rate[0]:g} and {self.rate[-1]:g}/s"
            )
        k = int(above[0])
        x, y = np.log(self.rate[k - 1 : k + 1]), np.log(self.latency[k - 1 : k + 1])
        return float(np.exp(np.interp(math.log(limit), y, x)))


def requests(lengths: LengthProfile, rate: float, duration: float, seed: int) -> LLMTrace:
    """Poisson requests for so many seconds; the same lengths and the same gaps, scaled, at every rate."""
    # Ten standard deviations above the mean of a Poisson count: enough gaps to fill the time, and cut at its end.
    n = int(rate * duration + 10 * math.sqrt(rate * duration) + 10)
    arrival = np.cumsum(generator(seed, "serving rates", lengths.name).exponential(1.0, n)) / rate
    drawn, m = lengths.sample(n, seed), max(1, int(np.searchsorted(arrival, duration)))
    return LLMTrace(arrival[:m], drawn.prompt[:m], drawn.output[:m])


def served(
    system: str,
    server: Server,
    trace: LLMTrace,
    cost: IterationCost,
    *,
    block: int = BLOCK,
    until: float | None = None,
    **options: Any,
) -> LLMResult:
    """Serve a trace with one system, until all requests have finished.

    Parameters
    ----------
    system : str
        A key of `SYSTEMS`, or `LATER`.
    server : Server
        The GPUs.
    trace : LLMTrace
        The requests that arrive.
    cost : IterationCost
        Seconds of an iteration.
    block : int
        Tokens in a block of vLLM's.
    until : float, optional
        Stop at this time, seconds.
    **options
        More options of the policy.
    """
    policy = "vllm-0.2" if system == LATER else SYSTEMS[system]
    if policy.startswith("vllm"):
        memory = {"num_gpu_blocks": server.slots // block, "block_size": block}
        swap = SwapCost.of(decoder(server.model), block, tp=server.gpus)
    else:
        memory, swap = {"num_slots": server.slots}, None
    config = {**memory, "max_model_len": 2048, "max_num_seqs": UNLIMITED, **options}
    asked = SimulateOptions(swap=swap, padded=True, until=until)
    return simulate_llm(trace, policy=policy, config=config, cost=cost, options=asked, engine="compiled")


def batch(result: LLMResult, start: float, end: float) -> float:
    """Requests that run, averaged over the time from `start` to `end` (s)."""
    inside = np.clip(result.iterations.end, start, end) - np.clip(result.iterations.start, start, end)
    return float((result.iterations.running * inside).sum()) / (end - start)


def capacity(
    system: str, server: Server, lengths: LengthProfile, cost: IterationCost, seed: int, **options: Any
) -> float:
    """Requests that a system finishes a second while requests always wait: from the 1000th to the 3000th.

    Parameters
    ----------
    system, server, lengths, cost, seed
        As in `curve`.
    **options
        More options of the policy.
    """
    # 4000, 1000 and 3000 are guesses: the first requests fill the batch, the last ones empty it, and both ends are left
    # out. The largest batch has some 700 requests (OPT-175B, Alpaca).
    drawn = lengths.sample(4000, seed)
    result = served(system, server, LLMTrace(np.zeros(4000), drawn.prompt, drawn.output), cost, **options)
    done = np.sort(result.finish)
    return float(2000 / (done[2999] - done[999]))


def curve(
    system: str,
    server: Server,
    lengths: LengthProfile,
    cost: IterationCost,
    duration: float,
    seed: int,
    limit: float,
    **options: Any,
) -> Curve:
    """Normalized latency of a system over rates around what it can finish, until it is above `limit`.

    Parameters
    ----------
    system : str
        A key of `SYSTEMS`.
    server : Server
        The GPUs.
    lengths : LengthProfile
        Distribution of the requests' lengths.
    cost : IterationCost
        Seconds of an iteration.
    duration : float
        Seconds of arrivals at each rate; all of them are served.
    seed : int
        Seed of arrivals and lengths.
    limit : float
        Seconds per token.
    **options
        More options of the policy.
    """
    most = capacity(system, server, lengths, cost, seed, **options)
    rate: list[float] = []
    latency: list[float] = []
    for times in TIMES:
        rate.append(times * most)
        trace = requests(lengths, rate[-1], duration, seed)
        latency.append(served(system, server, trace, cost, **options).normalized_latency)
        # Beyond the limit the curve is only steeper, and simulating an overloaded system takes longest.
        if latency[-1] > limit:
            break
    return Curve(np.array(rate), np.array(latency))
