"""Figure 18 (vLLM): what the block size does to latency; and what a paged kernel costs, where there is a GPU to ask."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...profiles.llm import IterationCost
from ...simulator.llm import LLMTrace
from ...traces.lengths import ALPACA, SHAREGPT, LengthProfile
from ..claims import Expectation, at_least, at_most, between
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..sensitivity import Sensitivity, Swing
from ..style import BLUE, ORANGE, canvas, outside_legend, plain_ticks
from .servers import SERVERS, HostTime
from .serving_rates import requests, served

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WORKLOADS: dict[str, tuple[LengthProfile, float]] = {"ShareGPT": (SHAREGPT, 2.0), "Alpaca": (ALPACA, 30.0)}
"""Workload -> lengths, requests/s. The paper says "fixed request rates" and not which: those of Fig. 13."""
RATES = (1.0, 1.25, 1.5, 1.6, 1.7, 1.8, 1.9, 2.0)
"""Requests/s of ShareGPT: what the fixed rate may have been."""
BEST = (16, 32, 64, 128)
"""Block sizes that are best on ShareGPT (§5.7.2)."""
OPT = SERVERS["OPT-13B"]
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)

EXPECTED = {
    "sharegpt": Expectation(
        "ShareGPT: blocks of 16 to 128 are best (slowest of these over the fastest of all)", "§5.7.2", "best",
        at_most(1.25, partly=1.6), "{:.2f}×",
    ),
    "alpaca good": Expectation(
        "Alpaca: blocks of 16 and 32 work well (slower of these over the fastest of all)", "§5.7.2", "work well",
        at_most(1.25, partly=1.6), "{:.2f}×",
    ),
    "alpaca large": Expectation(
        "Alpaca: larger blocks degrade the performance significantly (blocks of 256 over 16)", "§5.7.2",
        "significantly", at_least(1.5, partly=1.1), "{:.2f}×",
    ),
    "sixteen": Expectation(
        "16 is small enough to avoid significant internal fragmentation (share of the held slots that is wasted, "
        "ShareGPT)", "§5.7.2", "no significant", at_most(0.04, partly=0.08), "{:.1%}",
    ),
    "kernel": Expectation(
        "attention over blocks takes longer than over contiguous memory (FasterTransformer's kernel)",
        "§5.7.1, Fig. 18a", "20 % to 26 %", between(0.20, 0.26, partly=(0.10, 0.39), beyond="below"), "{:.0%}",
    ),
}  # fmt: skip


def sizes(fast: bool, seed: int, progress: Progress = quiet) -> Frame:
    """One row per workload and block size.

    Returns
    -------
    DataFrame
        Columns workload, block_size, normalized_latency (s/token), batch (requests), wasted (share of the slots held
        that hold no token), preemptions.
    """
    import numpy as np
    import pandas as pd

    cost = OPT.cost()
    durations = {"ShareGPT": 1800.0, "Alpaca": 300.0} if fast else {"ShareGPT": 7200.0, "Alpaca": 1800.0}
    rows: list[dict[str, object]] = []
    for workload, (lengths, rate) in WORKLOADS.items():
        trace = requests(lengths, rate, durations[workload], seed)
        for size in SIZES:
            progress(len(rows), 2 * len(SIZES), f"{workload}, blocks of {size}")
            result = served("vLLM", OPT, trace, cost, block=size)
            lasts = result.iterations.end - result.iterations.start
            held, wasted = (np.dot(lasts, x) for x in (result.iterations.used_tokens, result.iterations.wasted_tokens))
            rows.append(
                {
                    "workload": workload,
                    "block_size": size,
                    "normalized_latency": result.normalized_latency,
                    "batch": result.mean_batch,
                    "wasted": wasted / held,
                    "preemptions": int(result.preemptions.sum()),
                }
            )
    progress(len(rows), len(rows), "")
    return pd.DataFrame(rows)


def worst(trace: LLMTrace, cost: IterationCost) -> float:
    """The slowest of `BEST` over the fastest of all sizes."""
    latency = {n: served("vLLM", OPT, trace, cost, block=n).normalized_latency for n in SIZES}
    return max(latency[n] for n in BEST) / min(latency.values())


def over_rates(duration: float, seed: int) -> Frame:
    """Columns rate (requests/s of ShareGPT), worst (the slowest of `BEST` over the fastest of all sizes)."""
    import pandas as pd

    cost = OPT.cost()
    rows = [{"rate": rate, "worst": worst(requests(SHAREGPT, rate, duration, seed), cost)} for rate in RATES]
    return pd.DataFrame(rows)


def hinges(rates: Frame, duration: float, seed: int) -> Sensitivity:
    """What the claim on ShareGPT hinges on."""
    usual = requests(SHAREGPT, WORKLOADS["ShareGPT"][1], duration, seed)
    even, wide = (requests(replace(SHAREGPT, output_cv=cv), 2.0, duration, seed) for cv in (0.6, 1.2))
    at, cost = rates.set_index("rate").worst, OPT.cost()
    swings = (
        Swing("2 requests/s", "1.5", "1.7", at[1.5], at[1.7]),
        Swing("host time, fitted", "none", "20 ms, 0",
              worst(usual, OPT.cost(HostTime(0.0, 0.0))), worst(usual, OPT.cost(HostTime(0.02, 0.0)))),
        Swing(f"outputs' CV, {SHAREGPT.output_cv:.2f}", "0.6", "1.2", worst(even, cost), worst(wide, cost)),
    )  # fmt: skip
    good = rates.rate[rates.worst <= 1.25]
    needs = f"the paper does not give its rate: up to {good.max():g} requests/s they are within 1.25"
    unit = "slowest of 16 to 128 over the fastest of all"
    return Sensitivity("blocks of 16 to 128 on ShareGPT", 1.0, at[2.0], unit, swings, needs)


def draw(frame: Frame, ax: Axes) -> Axes:
    """Draw latency over block size."""
    for workload, colour in (("ShareGPT", BLUE), ("Alpaca", ORANGE)):
        part = frame[frame.workload == workload]
        ax.plot(part.block_size, part.normalized_latency, marker="o", color=colour, label=workload)
    ax.set(xscale="log", yscale="log", xlabel="tokens in a block", ylabel="s/token")
    plain_ticks(ax, "x", SIZES)
    return ax


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure. Full: two hours of arrivals (Alpaca half an hour); fast: half an hour (five minutes)."""
    session = Session("vllm/fig18", fast, out, seed)
    frame = sizes(fast, seed, progress)
    session.table(frame)
    with canvas(1, 1, width=4.2) as (figure, axes):
        draw(frame, axes[0, 0])
        outside_legend(figure, axes[0, 0])
        session.figure(figure)
    by = frame.set_index(["workload", "block_size"])
    share_gpt, alpaca = by.normalized_latency["ShareGPT"], by.normalized_latency["Alpaca"]
    duration = 1800.0 if fast else 7200.0
    told = hinges(session.table(over_rates(duration, seed), "_rates"), duration, seed)
    small = (
        f"at 2 requests/s blocks of 128 waste what the batch needs; {told.needed}; the paper's small blocks are slow "
        "in the kernel, which is not simulated"
    )
    return session.finish(
        [
            EXPECTED["sharegpt"].judge(share_gpt.loc[list(BEST)].max() / share_gpt.min(), why=small),
            EXPECTED["alpaca good"].judge(alpaca.loc[[16, 32]].max() / alpaca.min(), why=small),
            EXPECTED["alpaca large"].judge(alpaca[256] / alpaca[16]),
            EXPECTED["sixteen"].judge(by.wasted["ShareGPT", 16]),
            EXPECTED["kernel"].needs_gpu("python -m meshwright.kernels.llm.bench"),
        ],
        notes=[
            "memory alone: fragmentation and what it does to the batch; kernels are as fast as the A100's roofline "
            "says, whatever the block size",
            "not judged: small blocks use the GPU badly (5.18b, left end), which is a kernel's, and a GPU must say",
        ],
        sensitivity=[told],
    )


if __name__ == "__main__":
    main("vllm/fig18")
