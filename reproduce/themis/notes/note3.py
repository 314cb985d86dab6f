"""Footnote 3 (Themis): agents that start from crude estimates of the slowdown, and measure it when they run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from ...claims import Claim, Expectation, at_least, between
from ...figures import main
from ...report import Frame, Progress, Report, Session, quiet
from ...sensitivity import Sensitivity, Swing
from ...style import BLUE, GREY, ORANGE, canvas
from ..experiments.assumptions import needed
from ..experiments.intensive import CLUSTER_NOTE
from ..experiments.points import ITERATION_SPREAD, NOTES, Point, competing, frame_of, seeds_of, shown

Belief = Literal["known", "assumed", "learned"]
BELIEFS: tuple[Belief, ...] = ("known", "assumed", "learned")

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


WHY = (
    "footnote 3's start values are near the models' slowdowns, most of which are themselves assumed around them. "
    "Tested on draws 100 to 109: where distance costs three times as much beyond nothing, start values for ever take "
    "1.055 [1.040, 1.068] times learning's completion time, 1.038 [1.032, 1.050] times its GPU time, and have 1.02 "
    "[0.96, 1.25] times its max ρ, which is noise"
)
SWING = ("slowdown beyond 1, ×1 (Table 1)", ("×0.5", {"excess": 0.5}), ("×3", {"excess": 3.0}))


def worth(seeds: Sequence[int], moved: Mapping[str, float], progress: Progress) -> float:
    """Completion time of start values for ever over that of learning, the median of draws."""
    frame = frame_of([replace(p, **moved) for p in points_of(seeds, BELIEFS[1:])], progress)
    return float(np.median(ratios(frame, "mean_completion_s", "assumed", "learned")))


def points_of(seeds: Sequence[int], beliefs: Sequence[Belief] = BELIEFS) -> list[Point]:
    """Workload 2 under Themis on the cluster of mixed machines."""
    return [Point("themis", 2, s, heterogeneous=True, belief=belief) for s in seeds for belief in beliefs]


def sensitivity(seeds: Sequence[int], progress: Progress) -> Sensitivity:
    """What learning is worth, by how much distance costs. The paper prints no number: worth nothing is 1."""
    what, *ends = SWING
    low, high = (worth(seeds, moved, progress) for _, moved in ends)
    swing = Swing(what, ends[0][0], ends[1][0], low, high)
    ours = worth(seeds, {}, progress)
    claim, unit = "start values for ever, over learned: completion time", "× (above 1: learning is worth something)"
    return Sensitivity(claim, 1.0, ours, unit, (swing,), needed(1.01, ours, (swing,)))


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
                float(np.median(found)), shown=shown(found, "{:.3f}"), why=WHY if one == "assumed" else ""
            )
        )
    return claims


def run(fast: bool, out: Path, seed: int, progress: Progress = quiet) -> Report:
    """Make the figure. Fast: two draws instead of ten."""
    session = Session("themis/note3", fast, out, seed)
    seeds = [s + FIRST for s in seeds_of(seed, 2 if fast else 10)]
    points = points_of(seeds)
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
    more = () if fast else (sensitivity(seeds, progress),)
    notes = (*NOTES, CLUSTER_NOTE, competing(points), spread, draws)
    return session.finish(judged(frame), notes=notes, sensitivity=more)


if __name__ == "__main__":
    main("themis/note3")
