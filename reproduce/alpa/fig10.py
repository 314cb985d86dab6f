"""Figure 10 (Alpa; thesis 3.10): how planning time grows with the model and the cluster, for GPT-3."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from ...planners.alpa import AlpaOptions
from ..claims import Claim, Expectation, at_most, between
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..style import BLUE, canvas, plain_ticks
from .clock import timed_plan
from .systems import FAMILIES, OPTIONS, cluster_of, graph_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MICROBATCHES = {1: 64, 4: 64, 8: 64, 16: 128, 32: 128, 64: 256}
"""GPUs -> B: a single run with B provided, as in §3.8.4; values from the authors' benchmark."""

EXPECTED = {
    "growth": Expectation(
        "time grows linearly with model and cluster: exponent of the number of GPUs, from 4 to the most (the models "
        "grow with it)", "§3.8.4, Fig. 10", "1", between(0.85, 1.15, partly=(0.5, 1.5), beyond="below"), "{:.2f}",
        timed=True,
    ),
    "faster": Expectation(
        "the largest model on 64 GPUs: our seconds over the paper's 2,393, of which 2,387 are compiling and profiling",
        "Table 5", "1", at_most(1.0), "{:.4f}", kind="identity", timed=True,
    ),
}  # fmt: skip


def times(fast: bool, progress: Progress = quiet) -> Frame:
    """One row a size: seconds of planning by part (fast: up to 16 GPUs)."""
    import pandas as pd

    gpt = FAMILIES["gpt"]
    sizes = [n for n in gpt.models if n <= (16 if fast else 64)]
    rows: list[dict[str, float | str]] = []
    for k, n in enumerate(sizes):
        progress(k, len(sizes), f"{gpt.models[n]} on {n} GPUs")
        b = MICROBATCHES[n]
        clock = timed_plan(graph_of("gpt", n, gpt.batch // b), cluster_of(n), gpt.batch, b, AlpaOptions(**OPTIONS))
        rows.append(
            {
                "gpus": n,
                "model": gpt.models[n],
                "microbatches": b,
                "pricing_s": clock.pricing_s,
                "solving_s": clock.solving_s,
                "dp_s": clock.dp_s,
                "rest_s": clock.rest_s,
                "total_s": clock.total_s,
            }
        )
    progress(len(sizes), len(sizes), "")
    return pd.DataFrame(rows)


def exponent(frame: Frame) -> float:
    """Slope of log seconds over log GPUs, least squares."""
    import numpy as np

    part = frame[frame.gpus >= 4]
    return float(np.polyfit(np.log(part.gpus), np.log(part.total_s), 1)[0]) if len(part) > 1 else math.nan


def judged(frame: Frame) -> list[Claim]:
    """Judge the claims that the measured sizes decide."""
    claims = [EXPECTED["growth"].judge(exponent(frame))]
    if 64 in set(frame.gpus):
        total = float(frame[frame.gpus == 64].total_s.iloc[0])
        claims.append(EXPECTED["faster"].judge(total / 2393.26, shown=f"{total:.1f} s"))
    return claims


def draw(frame: Frame, ax: Axes) -> Axes:
    """Seconds over GPUs, both logarithmic."""
    ax.plot(frame.gpus, frame.total_s, marker="o", color=BLUE)
    for n, s, name in zip(frame.gpus, frame.total_s, frame.model, strict=True):
        ax.annotate(
            str(name).split("-")[1].upper(), (n, s), textcoords="offset points", xytext=(-5, 6), ha="right", fontsize=7
        )
    ax.set(xscale="log", yscale="log", xlabel="GPUs", ylabel="seconds", title="Planning")
    plain_ticks(ax, "x", tuple(frame.gpus))
    plain_ticks(
        ax,
        "y",
        tuple(t for t in (1, 2, 5, 10, 20, 50, 100, 200) if frame.total_s.min() / 2 < t < 2 * frame.total_s.max()),
    )
    return ax


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure. Fast: up to 16 GPUs. Nothing in it is random but the machine's load."""
    session = Session("alpa/fig10", fast, out, seed)
    frame = session.table(times(fast, progress))
    with canvas(1, 1, width=3.8, height=2.8) as (figure, axes):
        draw(frame, axes[0, 0])
        session.figure(figure)
    return session.finish(judged(frame), notes=NOTES)


NOTES = (
    "one process; the paper compiles with distributed workers and profiles on GPUs, ours prices from a cost model",
    "wall-clock seconds: they differ between machines and runs",
)

if __name__ == "__main__":
    main("alpa/fig10")
