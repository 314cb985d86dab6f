"""The setting of vLLM's Figs. 14 to 17: many sequences from a prompt, common prefixes, rounds of chat.

The servers, the cost of an iteration and its two constants are those of `serving_rates`: fitted to vLLM's two batches
of Fig. 13, and to nothing else. Sequences that share blocks share memory only: the kernel reads keys and values of each
sequence for itself, as vLLM's does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...profiles.llm import decoder
from ...profiles.llm.iteration import IterationCost
from ...seeds import generator
from ...simulator.llm import LLMResult, LLMTrace, SimulateOptions, SwapCost, simulate_llm
from ...simulator.llm.decoding.genealogy import Survivors
from ...traces.lengths import LengthProfile
from ..report import Frame
from ..style import BLACK, GREY
from . import serving_rates
from .servers import LLAMA, SERVERS, Server
from .serving_rates import LATER, UNLIMITED, Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "BASIC",
    "LIMIT",
    "LLAMA",
    "OPT",
    "SYSTEMS",
    "Method",
    "arrivals",
    "capacity",
    "curve",
    "draw",
    "measure",
    "serve",
    "sustained",
]

LIMIT = 0.25
"""Seconds per token up to which a rate counts as sustained. The paper says "similar latencies"."""
TIMES = (0.6, 0.85, 1.0, 1.15, 1.4, 1.8, 2.5, 4.0, 8.0)
"""Rates of a curve, as multiples of what the system finishes while requests always wait."""
BLOCK = 16
"""Tokens in a block: vLLM's default (§5.7.2)."""
HOST_BLOCKS = 4096
"""Blocks that vLLM may swap to the host: four times its own memory's, more than it ever swaps."""

OPT = SERVERS["OPT-13B"]

SYSTEMS = {
    "Orca (Max)": "orca-max",
    "Orca (Pow2)": "orca-pow2",
    "Orca (Oracle)": "orca-oracle",
    "vLLM": "vllm-paper",
}
"""System -> its policy."""


@dataclass(frozen=True, slots=True)
class Method:
    """How sequences are made from a prompt.

    Parameters
    ----------
    sequences : int
        Number of sequences.
    beam : bool
        Whether they are beams.
    """

    sequences: int = 1
    beam: bool = False

    def __str__(self) -> str:
        if self.sequences == 1:
            return "basic"
        return f"beam search (k={self.sequences})" if self.beam else f"parallel sampling (n={self.sequences})"

    def trace(self, arrival: Any, prompt: Any, output: Any) -> LLMTrace:
        """Make a trace in which all requests ask for this method."""
        n = len(arrival)
        return LLMTrace(arrival, prompt, output, best_of=np.full(n, self.sequences), beam=np.full(n, self.beam))


BASIC = Method()

Run = Callable[[LLMTrace, float | None], LLMResult]
"""Requests, when to stop (seconds) -> result."""
At = Callable[[float, float], LLMTrace]
"""Requests per second, seconds of arrivals -> requests."""
AT_ONCE = 1e9
"""Requests per second at which all arrive together."""
COLOURS = {**serving_rates.COLOURS, "vLLM V1": BLACK}
MARKS = {"Orca (Max)": "v", "Orca (Pow2)": "^", "Orca (Oracle)": "s", "vLLM": "o"}


def arrivals(lengths: LengthProfile, rate: float, duration: float, seed: int, method: Method = BASIC) -> LLMTrace:
    """Poisson arrivals for some seconds; the same lengths and gaps, scaled, at every rate, for every method."""
    n = max(1, math.ceil(rate * duration))
    gaps = generator(seed, "decoding", lengths.name).exponential(1.0, n)
    drawn = lengths.sample(n, seed)
    return method.trace(np.cumsum(gaps) / rate, drawn.prompt, drawn.output)


def serve(
    system: str,
    server: Server,
    trace: LLMTrace,
    cost: IterationCost,
    *,
    survivors: Survivors | None = None,
    until: float | None = None,
    **options: Any,
) -> LLMResult:
    """Serve a trace with one system.

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
    survivors : Survivors, optional
        See `simulate_llm`.
    until : float, optional
        Stop then, seconds.
    **options
        More options of the policy.
    """
    policy, swap = "vllm-0.2" if system == LATER else SYSTEMS[system], None
    if policy.startswith("vllm"):
        memory = {"num_gpu_blocks": server.slots // BLOCK, "block_size": BLOCK, "num_cpu_blocks": HOST_BLOCKS}
        swap = SwapCost.of(decoder(server.model), BLOCK, tp=server.gpus)
    else:
        memory = {"num_slots": server.slots}
    config = {**memory, "max_model_len": 2048, "max_num_seqs": UNLIMITED, **options}
    return simulate_llm(
        trace,
        policy=policy,
        config=config,
        cost=cost,
        options=SimulateOptions(swap=swap, padded=True, survivors=survivors, until=until),
        engine="compiled",
    )


def capacity(run: Run, at: At, seconds: float) -> float:
    """Requests that finish per second while others always wait, after a third of the time.

    Parameters
    ----------
    run : callable
        Requests and when to stop -> result.
    at : callable
        Requests per second, seconds -> requests.
    seconds : float
        When to stop.
    """
    n = 256
    while True:
        result = run(at(AT_ONCE, n / AT_ONCE), seconds)
        if np.isnan(result.scheduled).any():  # somebody waits to the end: the batch was never short of requests
            break
        n *= 4
    finish = result.finish
    # The first third is left out: batches fill up there, and no long request has finished yet. The share is a guess.
    return int(((finish > seconds / 3) & (finish <= seconds)).sum()) / (2 / 3 * seconds)


def curve(run: Run, at: At, most: float, seconds: float, times: tuple[float, ...] = TIMES) -> Curve:
    """Normalized latency over rates around what a system can finish, until it is above twice `LIMIT`.

    Parameters
    ----------
    run : callable
        Requests and when to stop -> result.
    at : callable
        Requests per second, seconds -> requests.
    most : float
        Requests per second that finish while others always wait.
    seconds : float
        Seconds of arrivals.
    times : tuple of float
        Multiples of `most`.
    """
    points: list[tuple[float, float]] = []
    for ratio in times:
        points.append((ratio * most, run(at(ratio * most, seconds), None).normalized_latency))
        if points[-1][1] > 2 * LIMIT:
            break
    return Curve(np.array([p[0] for p in points]), np.array([p[1] for p in points]))


def measure(runs: Mapping[str, Run], at: At, seconds: float, progress: Callable[[str], None]) -> Frame:
    """Curves of several systems on the same requests.

    Parameters
    ----------
    runs : mapping
        System -> how it is run.
    at : callable
        Requests per second, seconds -> requests.
    seconds : float
        Seconds of arrivals of a point, and of the run that finds the capacity.
    progress : callable
        Told of each system.

    Returns
    -------
    DataFrame
        Columns system, capacity (requests/s while others always wait), sustained (requests/s up to `LIMIT`), rate
        (requests/s), latency (s/token).
    """
    import pandas as pd

    parts: list[Frame] = []
    for system, run in runs.items():
        progress(system)
        most = capacity(run, at, seconds)
        found = curve(run, at, most, seconds)
        rows = {"rate": found.rate, "latency": found.latency}
        parts.append(pd.DataFrame({"system": system, "capacity": most, "sustained": found.sustained(LIMIT), **rows}))
    return pd.concat(parts, ignore_index=True)


def sustained(frame: Frame, column: str = "sustained") -> Frame:
    """The rate of each system of a `measure`."""
    return frame.groupby("system", sort=False)[column].first()


def draw(frame: Frame, ax: Axes, title: str) -> Axes:
    """Draw latency over rate, a line for each system."""
    for system, part in frame.groupby("system", sort=False):
        ax.plot(part.rate, part.latency, label=system, color=COLOURS.get(system, GREY), marker=MARKS.get(system, "d"))
    ax.axhline(LIMIT, color=GREY, linewidth=0.8, linestyle=":")
    ax.set(xlabel="requests/s", ylabel="normalized latency (s/token)", title=title, ylim=(0, 4 * LIMIT), xlim=(0, None))
    return ax
