"""Figure 18 (vLLM): what the block size does to latency; and what a paged kernel costs, where there is a GPU to ask."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ...traces.lengths import ALPACA, SHAREGPT, LengthProfile
from ..claims import Expectation, at_least, at_most, between
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..style import BLUE, ORANGE, canvas, outside_legend, plain_ticks
from .serving_rates import SERVERS, requests, served

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WORKLOADS: dict[str, tuple[LengthProfile, float]] = {"ShareGPT": (SHAREGPT, 2.0), "Alpaca": (ALPACA, 30.0)}
"""Workload -> lengths, requests/s. The paper says "fixed request rates" and not which: those of Fig. 13."""
CALM = 1.5
"""Requests/s of ShareGPT at which no block size is near its capacity: what else the fixed rate may have been."""
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

    server = SERVERS["OPT-13B"]
    cost = server.cost()
    durations = {"ShareGPT": 1800.0, "Alpaca": 300.0} if fast else {"ShareGPT": 7200.0, "Alpaca": 1800.0}
    rows: list[dict[str, object]] = []
    for workload, (lengths, rate) in WORKLOADS.items():
        trace = requests(lengths, rate, durations[workload], seed)
        for size in SIZES:
            progress(len(rows), 2 * len(SIZES), f"{workload}, blocks of {size}")
            result = served("vLLM", server, trace, cost, block=size)
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


def worst(rate: float, duration: float, seed: int) -> float:
    """ShareGPT at another rate: latency with blocks of 128, over that with blocks of 1."""
    server = SERVERS["OPT-13B"]
    trace = requests(SHAREGPT, rate, duration, seed)
    large, small = (served("vLLM", server, trace, server.cost(), block=size).normalized_latency for size in (128, 1))
    return large / small


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
    calm = worst(CALM, 1800.0 if fast else 7200.0, seed)
    small = (
        "the paper does not give its rate, and at 2 requests/s blocks of 128 waste what the batch needs: at "
        f"{CALM:g} requests/s it is {calm:.2f}×; the paper's small blocks are slow in the kernel, which is not "
        "simulated"
    )
    return session.finish(
        [
            EXPECTED["sharegpt"].judge(share_gpt.loc[[16, 32, 64, 128]].max() / share_gpt.min(), why=small),
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
    )


if __name__ == "__main__":
    main("vllm/fig18")
