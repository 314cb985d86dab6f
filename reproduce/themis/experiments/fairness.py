"""Figures 9 and 10 as one: how ρ is distributed over apps, for each policy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...claims import Claim, Expectation, at_most
from ...report import Frame, Progress, Report, Session
from ...sensitivity import Sensitivity
from ...style import BLACK, canvas, outside_legend
from .assumptions import Headline, all_policies, best_other, sensitivities, worst_other
from .points import COLOURS, NOTES, POLICIES, Point, competing, frame_of, measured, over_themis, seeds_of, shown
from .rules import ratio

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["EXPECTED", "judged", "make", "spread"]

EXPECTED = {
    "least": Expectation(
        "max ρ of the best other policy over Themis'", "§6.2", "2.2×", ratio(2.2), "{:.2f}×"
    ),
    "most": Expectation(
        "max ρ of the worst other policy over Themis'", "§6.2", "3.25×", ratio(3.25), "{:.2f}×"
    ),
    "narrow": Expectation(
        "other policies whose ρ are spread less than Themis' (90th over 10th percentile)", "§6.2", "0", at_most(0),
        "{:.0f}",
    ),
}  # fmt: skip


def headlines(workload: int) -> tuple[Headline, ...]:
    """What §6.2 prints, in one of the workloads."""
    points = all_policies(Point("themis", workload))
    return (
        Headline("the best other policy's max ρ", "× Themis'", 2.2, best_other("max_rho"), points),
        Headline("the worst other policy's max ρ", "× Themis'", 3.25, worst_other("max_rho"), points),
    )


WHY = (
    "tested on the eight draws: Optimus that asks each app once, and gives it all that it can use, as the text can be "
    "read, has 2.70 [2.43, 3.75] times Themis' max ρ in Workload 1 and 1.57 [1.37, 1.97] in Workload 2; GPU by GPU it "
    "gives all apps nearly the same number. In Workload 2 the largest ρ may be the first app's, which is alone, under "
    "every policy: with 16 apps there at the start, too, SRTF and SRSF are the next, at 1.34 [1.07, 1.48] and 1.36 "
    "[1.06, 1.38] in Workload 1 and 1.40 [1.25, 1.58] and 1.18 [1.05, 1.34] in Workload 2. "
    "Sensitivities are in the full version"
)


def spread(rho: tuple[float, ...]) -> float:
    """Ratio of the 90th to the 10th percentile."""
    low, high = np.quantile(np.array(rho), [0.1, 0.9])
    return float(high / low)


def judged(frame: Frame) -> list[Claim]:
    """Judge the claims, each by the median over seeds."""
    ratios = over_themis(frame, "max_rho")
    best = min(ratios, key=lambda p: float(np.median(ratios[p])))
    worst = max(ratios, key=lambda p: float(np.median(ratios[p])))
    spreads = frame.groupby("policy").spread.median()
    below = [p for p in POLICIES if spreads[p] < spreads["themis"]]
    return [
        EXPECTED[key].judge(float(np.median(ratios[p])), shown=f"{shown(ratios[p])}× ({p})", why=WHY)
        for key, p in (("least", best), ("most", worst))
    ] + [
        EXPECTED["narrow"].judge(
            len(below), why=WHY,
            shown=f"{len(below)} (" + ", ".join(f"{p} {spreads[p]:.2f}" for p in ("themis", *below)) + ")",
        )
    ]  # fmt: skip


def draw(points: list[Point], ax: Axes) -> Axes:
    """Distribution functions of ρ, all seeds together; where sharing pays is left of 1."""
    for policy, colour in COLOURS.items():
        rho = np.sort([r for p in points if p.policy == policy for r in measured(p).rho])
        ax.step(rho, np.arange(1, len(rho) + 1) / len(rho), where="post", color=colour, label=policy)
    ax.axvline(1.0, color=BLACK, lw=0.6, ls=":")
    ax.set(xscale="log", xlabel="finish-time fairness ρ", ylabel="share of apps")
    return ax


def make(name: str, workload: int, fast: bool, out: Path, seed: int, progress: Progress) -> Report:
    """Make one of the figures."""
    session = Session(name, fast, out, seed)
    seeds = seeds_of(seed, 2 if fast else 8)
    points = [Point(p, workload, s) for s in seeds for p in POLICIES]
    frame = frame_of(points, progress)
    frame["spread"] = [spread(measured(p).rho) for p in points]
    session.table(frame)
    few = seeds[: 1 if fast else 4]
    crowded = frame_of([Point(p, workload, s, contention=4) for s in few for p in POLICIES], progress)
    session.table(crowded, "_contended")
    more = "; ".join(f"{p} {np.median(ratios):.2f}" for p, ratios in over_themis(crowded, "max_rho").items())
    notes = [*NOTES, competing(points), _medians(frame), f"on a quarter of the cluster, max ρ over Themis': {more}"]
    sensitivity: tuple[Sensitivity, ...] = ()
    if not fast:
        sensitivity = sensitivities(headlines(workload), seeds[:2], progress)
    if workload == 2 and not fast:
        other = frame_of([Point(p, 2, s, doubling=False) for s in few for p in POLICIES], progress)
        session.table(other, "_same_gpus")
        notes.append("with the same GPUs in all phases: " + _medians(other))
    with canvas(1, 1, width=4.6, height=3.0) as (figure, axes):
        outside_legend(figure, draw(points, axes[0, 0]))
        session.figure(figure)
    return session.finish(judged(frame), notes=notes, sensitivity=sensitivity)


def _medians(frame: Frame) -> str:
    table = frame.groupby("policy")[["max_rho", "fair_share", "jain"]].median()
    return "max ρ, share with ρ ≤ 1, Jain's index of 1/ρ: " + "; ".join(
        f"{p} {table.max_rho[p]:.2f}, {table.fair_share[p]:.0%}, {table.jain[p]:.2f}" for p in POLICIES
    )
