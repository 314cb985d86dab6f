"""Footnote 3 (Themis): agents that start from crude estimates of the slowdown, and measure it when they run."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...claims import Claim, Expectation, at_least, between
from ...figures import main
from ...report import Frame, Progress, Report, Session, quiet
from ...style import BLUE, GREY, ORANGE, canvas
from ..experiments.intensive import CLUSTER_NOTE
from ..experiments.points import ITERATION_SPREAD, NOTES, Point, competing, frame_of, seeds_of, shown

BELIEFS = ("known", "assumed", "learned")

FIRST = 100
"""Draws from here on: the rules below were written after a look at draws 0 to 9."""

METRICS = {"max_rho": "max ρ", "mean_completion_s": "average completion time", "gpu_hours": "GPU time"}

WHERE = "§4.3.1, footnote 3"
EXPECTED = {
    **{
        metric: Expectation(
            f"{named}: learned over known (errors in early estimates do not have a significant effect)", WHERE,
            "about 1", between(2 - limit, limit, partly=(3 - 2 * limit, 2 * limit - 1)), "{:.3f}",
        )
        for (metric, named), limit in zip(METRICS.items(), (1.05, 1.02, 1.02), strict=True)
    },
    "worth": Expectation(
        "average completion time: start values for ever, over learned (learning is worth something; no number printed)",
        WHERE, "above 1", at_least(1.01, partly=1.0), "{:.3f}",
    ),
    "worst": Expectation(
        "max ρ: start values for ever, over learned (no number printed)", WHERE, "above 1",
        at_least(1.01, partly=1.0), "{:.3f}",
    ),
}  # fmt: skip


def ratios(frame: Frame, metric: str, one: str, other: str) -> list[float]:
    """A metric under one kind of belief over that under another, draw by draw."""
    wide = frame.pivot(index="seed", columns="belief", values=metric)
    return (wide[one] / wide[other]).tolist()


def judged(frame: Frame) -> list[Claim]:
    """Judge each claim by the median over draws."""
    asked = [(metric, metric, "learned", "known") for metric in METRICS]
    asked += [("worth", "mean_completion_s", "assumed", "learned"), ("worst", "max_rho", "assumed", "learned")]
    claims: list[Claim] = []
    for name, metric, one, other in asked:
        found = ratios(frame, metric, one, other)
        claims.append(
            EXPECTED[name].judge(
                float(np.median(found)), shown=shown(found, "{:.3f}"), why="slowdowns of most models are assumed"
            )
        )
    return claims


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure. Fast: two draws instead of ten."""
    session = Session("themis/note3", fast, out, seed)
    seeds = [s + FIRST for s in seeds_of(seed, 2 if fast else 10)]
    points = [Point("themis", 2, s, heterogeneous=True, belief=belief) for s in seeds for belief in BELIEFS]
    frame = session.table(frame_of(points, progress))
    with canvas(1, 3, width=7.0, height=2.6) as (figure, axes):
        for ax, (metric, named) in zip(axes[0], METRICS.items(), strict=True):
            for at, (belief, colour) in enumerate(zip(BELIEFS[1:], (ORANGE, BLUE), strict=True)):
                found = ratios(frame, metric, belief, "known")
                ax.plot(np.full(len(found), at), found, "o", color=colour, markersize=3, alpha=0.7)
                ax.plot([at - 0.2, at + 0.2], [np.median(found)] * 2, color=colour)
            ax.axhline(1.0, color=GREY, linewidth=0.6)
            ax.set(xticks=range(2), xticklabels=BELIEFS[1:], xlim=(-0.5, 1.5), ylabel=f"{named}, over known")
        session.figure(figure)
    spread = f"an iteration's time spreads by {ITERATION_SPREAD:.0%} of its mean, independently from one to the next"
    draws = f"draws {FIRST} and up of the workload: the rules were written after a look at the first ten"
    return session.finish(judged(frame), notes=(*NOTES, CLUSTER_NOTE, competing(points), spread, draws))


if __name__ == "__main__":
    main("themis/note3")
