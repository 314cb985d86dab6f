"""Figures 11 and 12 as one: GPU time of the whole workload, for each policy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...claims import Claim, Expectation, at_most
from ...report import Frame, Progress, Report, Session
from ...style import BLACK, canvas
from .assumptions import Headline, all_policies, of_policy, sensitivities
from .points import COLOURS, NOTES, POLICIES, Point, competing, frame_of, over_themis, seeds_of, shown
from .rules import ratio

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["EXPECTED", "draw", "judged", "make"]

EXPECTED = {
    "similar": Expectation(
        "Workload 1: the policies' largest GPU time over the smallest (similar)", "§6.2, Fig. 11", "about 1",
        at_most(1.05, partly=1.1), "{:.3f}×",
    ),
    "gandiva": Expectation(
        "Workload 2: Gandiva's GPU time over Themis'", "§6.2, Fig. 12", "1.048×", ratio(1.048),
        "{:.3f}×",
    ),
    "slaq": Expectation(
        "Workload 2: SLAQ's GPU time over Themis'", "§6.2, Fig. 12", "250 % more (or 2.5×)", ratio(2.5),
        "{:.3f}×",
    ),
    "best": Expectation(
        "Workload 2: other policies that take less GPU time than Themis", "Fig. 12", "0", at_most(0), "{:.0f}"
    ),
}  # fmt: skip

HEADLINES = tuple(
    Headline(f"{said}'s GPU time", "× Themis'", paper, of_policy(policy, "gpu_hours"), all_policies(Point("themis", 2)))
    for policy, said, paper in (("gandiva", "Gandiva", 1.048), ("slaq", "SLAQ", 2.5))
)

WHY = (
    "tested on the eight draws, one thing moved alone. Workload 1: if restarts cost nothing, the policies are 1.031 "
    "[1.028, 1.034] apart, and 1.058 [1.056, 1.062] if leases end apart: where all end at once more jobs move, and "
    "each pays the paper's 35 s. Workload 2: Optimus that asks once takes 1.080 [1.068, 1.087] times Themis' GPU time; "
    "GPU by GPU it restarts its jobs less. With slowdowns beyond 1 six times Table 1's, SLAQ takes 1.64 [1.59, "
    "1.79] times as much, Gandiva 1.20 [1.16, 1.29]"
)


def judged(frame: Frame, workload: int) -> list[Claim]:
    """Judge the claims, each by the median over seeds."""
    ratios = over_themis(frame, "gpu_hours")
    if workload == 1:
        wide = frame.pivot(index="seed", columns="policy", values="gpu_hours")
        values = (wide.max(axis=1) / wide.min(axis=1)).tolist()
        return [EXPECTED["similar"].judge(float(np.median(values)), shown=f"{shown(values, '{:.3f}')}×", why=WHY)]
    below = [p for p in ratios if np.median(ratios[p]) < 1]
    more = ", ".join(f"{p} {np.median(ratios[p]):.3f}" for p in below)
    return [
        *(
            EXPECTED[p].judge(float(np.median(ratios[p])), shown=f"{shown(ratios[p], '{:.3f}')}×", why=WHY)
            for p in ("gandiva", "slaq")
        ),
        EXPECTED["best"].judge(len(below), shown=f"{len(below)} ({more})" if below else "0", why=WHY),
    ]


def draw(frame: Frame, ax: Axes) -> Axes:
    """Bars of means over seeds; the lines are the work itself, without slowdown or restarts."""
    groups = frame.groupby("policy")
    ax.bar(POLICIES, [groups.gpu_hours.mean()[p] for p in POLICIES], color=[COLOURS[p] for p in POLICIES])
    ax.axhline(frame.work_hours.mean(), color=BLACK, lw=0.8, ls=":")
    ax.set(ylabel="GPU time (hours)")
    ax.tick_params(axis="x", labelrotation=30)
    return ax


def make(name: str, workload: int, fast: bool, out: Path, seed: int, progress: Progress) -> Report:
    """Make one of the figures."""
    session = Session(name, fast, out, seed)
    seeds = seeds_of(seed, 2 if fast else 8)
    points = [Point(p, workload, s) for s in seeds for p in POLICIES]
    frame = session.table(frame_of(points, progress))
    with canvas(1, 1, width=4.0, height=2.8) as (figure, axes):
        draw(frame, axes[0, 0])
        session.figure(figure)
    few = seeds[: 1 if fast else 4]
    crowded = frame_of([Point(p, workload, s, contention=4) for s in few for p in POLICIES], progress)
    session.table(crowded, "_contended")
    said = "; ".join(f"{p} {np.median(ratios):.3f}" for p, ratios in over_themis(crowded, "gpu_hours").items())
    notes = ("dotted: the work itself, on one GPU each", f"on a quarter of the cluster, GPU time over Themis': {said}")
    more = sensitivities(HEADLINES, seeds[:2], progress) if workload == 2 and not fast else ()
    return session.finish(judged(frame, workload), notes=(*NOTES, competing(points), *notes), sensitivity=more)
