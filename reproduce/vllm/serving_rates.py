"""The setting of the vLLM thesis' §5.6: OPT models on A100s, five systems, and the request rate that each sustains.

An iteration takes what `iteration_cost` says of an A100 of which nothing was measured: its roofline, at 70 % of the
data sheet in matrices and 80 % elsewhere, all-reduces over NVLink, no host overhead. One constant stretches it: a
share of that speed, calibrated on vLLM's batch of 30.42 (Fig. 13a). Everything else is predicted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from ...errors import InputError
from ...profiles import device
from ...profiles.llm import NO_OVERHEADS, Iteration, IterationCost, decoder, iteration_cost
from ...seeds import generator
from ...simulator.llm import LLMResult, LLMTrace, SimulateOptions, SwapCost, simulate_llm
from ...traces.lengths import SHAREGPT, LengthProfile

__all__ = [
    "SERVERS",
    "SYSTEMS",
    "Curve",
    "PromptsApart",
    "Server",
    "calibrated_share",
    "capacity",
    "curve",
    "requests",
    "served",
]

GIB = 2**30
BLOCK = 16
"""Tokens in a block: vLLM's default (§5.7.2)."""
BATCH = 30.42
"""Requests that vLLM batches on ShareGPT at 2 requests/s with OPT-13B (Fig. 13a)."""
TIMES = (0.4, 0.7, 0.85, 1.0, 1.15, 1.3, 1.6, 2.0, 3.0)
"""Rates of a curve, as multiples of what the system finishes while requests always wait."""


@dataclass(frozen=True, slots=True)
class Server:
    """A row of Table 1.

    Parameters
    ----------
    model : str
        The model's name.
    device : str
        Name of its GPUs' type.
    gpus : int
        Number of GPUs, which is the degree of tensor parallelism.
    kv_gib : int
        Memory for keys and values on all of them, GiB.
    """

    model: str
    device: str
    gpus: int
    kv_gib: int

    @property
    def slots(self) -> int:
        """Tokens whose keys and values fit."""
        return self.kv_gib * GIB // decoder(self.model).kv_bytes_per_token()

    def cost(self, share: float) -> IterationCost:
        """Seconds of an iteration on devices that compute and read at `share` of the speed their roofline says.

        Raises
        ------
        InputError
            On a share outside (0, 1].
        """
        if not 0 < share <= 1:
            raise InputError(f"share: expected a share of the speed in (0, 1] (got {share})")
        sheet = device(self.device)
        reached = replace(
            sheet,
            peak_flops=share * sheet.peak_flops,
            memory_bandwidth_bytes_per_s=share * sheet.memory_bandwidth_bytes_per_s,
        )
        return iteration_cost(decoder(self.model), reached, tp=self.gpus, overheads=NO_OVERHEADS)


SERVERS: Mapping[str, Server] = MappingProxyType(
    {
        "OPT-13B": Server("opt-13b", "a100-40gb", 1, 12),
        "OPT-66B": Server("opt-66b", "a100-40gb", 4, 21),
        "OPT-175B": Server("opt-175b", "a100-80gb", 8, 264),
    }
)
"""Table 1."""

SYSTEMS: Mapping[str, str] = MappingProxyType(
    {
        "FasterTransformer": "fastertransformer",
        "Orca (Max)": "orca-max",
        "Orca (Pow2)": "orca-pow2",
        "Orca (Oracle)": "orca-oracle",
        "vLLM": "vllm-0.2",
    }
)
"""System -> its policy."""


@dataclass(frozen=True, slots=True)
class PromptsApart:
    """A cost under which prompts that join decodes take an iteration of their own.

    Parameters
    ----------
    cost : IterationCost
        The cost of either.
    """

    cost: IterationCost

    def seconds(self, iteration: Iteration) -> float:
        """Seconds of an iteration."""
        if not (iteration.prefill and iteration.decodes):
            return self.cost.seconds(iteration)
        ended = iteration.outputs - iteration.decodes
        decodes = Iteration((), iteration.decodes, iteration.context, iteration.decodes)
        return self.cost.seconds(Iteration(iteration.prefill, outputs=ended)) + self.cost.seconds(decodes)


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
        A key of `SYSTEMS`.
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
    policy = SYSTEMS[system]
    if policy == "vllm-0.2":
        memory = {"num_gpu_blocks": server.slots // block, "block_size": block}
        swap = SwapCost.of(decoder(server.model), block, tp=server.gpus)
    else:
        memory, swap = {"num_slots": server.slots}, None
    config = {**memory, "max_model_len": 2048, **options}
    return simulate_llm(
        trace, policy=policy, config=config, cost=cost, options=SimulateOptions(swap=swap, padded=True, until=until)
    )


def capacity(system: str, server: Server, lengths: LengthProfile, cost: IterationCost, seed: int) -> float:
    """Requests that a system finishes a second while requests always wait: from the 100th to the 400th."""
    # 700, 100 and 400 are guesses: the first requests fill the batch, the last ones empty it, and both ends are left
    # out.
    drawn = lengths.sample(700, seed)
    result = served(system, server, LLMTrace(np.zeros(700), drawn.prompt, drawn.output), cost)
    done = np.sort(result.finish)
    return float(300 / (done[399] - done[99]))


def calibrated_share(seed: int, duration: float = 3600.0) -> float:
    """The share of its roofline's speed at which an A100 has vLLM batch 30.42 requests (ShareGPT, 2 requests/s).

    Raises
    ------
    InputError
        If no share in [0.4, 1] gives it.
    """
    from scipy.optimize import brentq

    server, trace = SERVERS["OPT-13B"], requests(SHAREGPT, 2.0, duration, seed)

    def off(share: float) -> float:
        result = served("vLLM", server, trace, server.cost(share))
        end = duration
        # The first sixth is left out, as in Fig. 13: batches fill up there. The share is a guess.
        inside = np.clip(result.iterations.end, end / 6, end) - np.clip(result.iterations.start, end / 6, end)
        return float((result.iterations.running * inside).sum()) / (end - end / 6) / BATCH - 1

    try:
        # Above 1 is faster than the data sheet; 0.4 is a guess, a share that good kernels are never below.
        return float(brentq(off, 0.4, 1.0, xtol=0.001))  # pyright: ignore
    except ValueError:
        raise InputError(f"calibration: no share in [0.4, 1] gives vLLM a batch of {BATCH}") from None


def curve(
    system: str, server: Server, lengths: LengthProfile, cost: IterationCost, duration: float, seed: int, limit: float
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
    """
    most = capacity(system, server, lengths, cost, seed)
    rate: list[float] = []
    latency: list[float] = []
    for times in TIMES:
        rate.append(times * most)
        trace = requests(lengths, rate[-1], duration, seed)
        latency.append(served(system, server, trace, cost).normalized_latency)
        # Beyond the limit the curve is only steeper, and simulating an overloaded system takes longest.
        if latency[-1] > limit:
            break
    return Curve(np.array(rate), np.array(latency))
