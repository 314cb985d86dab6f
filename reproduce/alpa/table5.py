"""Table 5 (Alpa; thesis 3.5): what planning GPT-39B on 64 GPUs consists of."""

from __future__ import annotations

import math
from pathlib import Path

from ...planners.alpa import AlpaOptions
from ..claims import Claim, Expectation, at_least, at_most
from ..figures import main
from ..report import Frame, Progress, Report, Session, quiet
from ..style import BLUE, GREY, canvas
from .clock import Clock, timed_plan
from .fig10 import MICROBATCHES
from .systems import FAMILIES, OPTIONS, cluster_of, graph_of

EXPECTED = {
    "total": Expectation("planning takes (s)", "Table 5", "2393.26 s", at_most(2393.26), "{:.1f} s"),
    "pricing": Expectation(
        "most of it is enumerating stage-mesh pairs and costing them (share)", "§3.8.4", "99.7 %",
        at_least(0.8, partly=0.5), "{:.0%}",
    ),
    "dp": Expectation(
        "the stage programme and all else take (s)", "Table 5", "1.65 + 4.47 s", at_most(6.12, partly=12.0),
        "{:.2f} s",
    ),
}  # fmt: skip


def rows(clock: Clock) -> Frame:
    """The table, ours beside the paper's."""
    import pandas as pd

    steps = (
        ("compilation and profiling (ours: pricing)", 1582.66 + 804.48, clock.pricing_s),
        ("solving the chosen stages exactly", math.nan, clock.solving_s),
        ("stage construction DP and other", 1.65 + 4.47, clock.rest_s),
        ("total", 2393.26, clock.total_s),
    )
    return pd.DataFrame(steps, columns=["step", "paper_s", "ours_s"])


def judged(clock: Clock, fast: bool) -> list[Claim]:
    """Judge the claims; the total is judged for the full model only."""
    claims = [
        EXPECTED["pricing"].judge((clock.pricing_s + clock.solving_s) / clock.total_s),
        EXPECTED["dp"].judge(clock.rest_s),
    ]
    return claims if fast else [EXPECTED["total"].judge(clock.total_s), *claims]


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the table. Fast: GPT-6.7B on 16 GPUs. Nothing in it is random but the machine's load."""
    session = Session("alpa/table5", fast, out, seed)
    gpt, n = FAMILIES["gpt"], 16 if fast else 64
    progress(0, 1, f"{gpt.models[n]} on {n} GPUs")
    b = MICROBATCHES[n]
    clock = timed_plan(graph_of("gpt", n, gpt.batch // b), cluster_of(n), gpt.batch, b, AlpaOptions(**OPTIONS))
    progress(1, 1, "")
    frame = session.table(rows(clock))
    with canvas(1, 1, width=4.6, height=1.9) as (figure, axes):
        ax, at = axes[0, 0], range(len(frame))
        ax.barh([y + 0.2 for y in at], frame.ours_s, 0.38, color=BLUE, label="ours")
        ax.barh([y - 0.2 for y in at], frame.paper_s, 0.38, color=GREY, label="paper (39B on 64)")
        ax.set_yticks(list(at), list(frame.step))
        ax.set(xscale="log", xlabel="seconds", title=f"{gpt.models[n]} on {n} GPUs")
        ax.invert_yaxis()
        ax.legend(fontsize=7)
        session.figure(figure)
    return session.finish(judged(clock, fast), notes=(f"{b} microbatches, one process; wall-clock seconds",))


if __name__ == "__main__":
    main("alpa/table5")
