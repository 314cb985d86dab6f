"""What GraphPipe's lead over PipeDream hinges on: a GPU's memory, swept, and other assumptions, each moved alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from ...simulator.palette import CYCLE
from ..report import Frame, Progress, quiet
from ..sensitivity import Sensitivity, Swing
from ..style import VERMILLION, plain_ticks
from .points import measure, measure_all, over
from .setting import USABLE_GIB, Setting
from .systems import Point

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["BUDGETS", "Lead", "budgets", "crossings", "draw_budgets", "sensitivity"]

BUDGETS = (USABLE_GIB, 6.0, 3.0, 2.0, 1.5, 1.2, 1.0, 0.8, 0.6)
"""GiB of a GPU that a plan may fill: from all that there is to where no pipeline fits."""
PAIR = ("GraphPipe", "PipeDream")
HOST_S = 200e-6
"""Seconds a pass for the host, where they are moved: a guess at what launching a task of a distributed runtime may
take; kernels of the case study take 30 to 500 µs."""


@dataclass(frozen=True, slots=True)
class Lead:
    """GraphPipe's throughput over PipeDream's for a model, the largest over numbers of GPUs.

    Parameters
    ----------
    claim : str
        The claim, in short.
    paper : float
        The paper's figure.
    model : str
        Name in the zoo, without its number of branches.
    branches : int
        Its branches.
    batches : mapping
        Number of GPUs -> samples of an iteration.
    """

    claim: str
    paper: float
    model: str
    branches: int
    batches: Mapping[int, int]

    def at(self, setting: Setting, batch: float = 1.0) -> float:
        """The lead in a setting, with mini-batches multiplied by `batch`; NaN where PipeDream has no plan."""
        found: list[float] = []
        for gpus, samples in self.batches.items():
            mine, other = (
                measure(Point(s, self.model, self.branches, gpus, int(samples * batch), None, setting))["samples_per_s"]
                for s in PAIR
            )
            found.append(mine / other)
        return max((x for x in found if math.isfinite(x)), default=math.nan)


def budgets(lead: Lead, swept: Sequence[float], progress: Progress = quiet) -> Frame:
    """Both systems with less and less memory: a row for each, GPUs and GiB."""
    return measure_all(
        (
            Point(s, lead.model, lead.branches, gpus, samples, None, Setting(usable_gib=gib))
            for gpus, samples in lead.batches.items()
            for gib in swept
            for s in PAIR
        ),
        progress,
    )


def crossings(frame: Frame, paper: float) -> str:
    """Where the lead passes the paper's figure as memory shrinks, in words."""
    said: list[str] = []
    for gpus, part in frame.groupby("gpus"):
        lead = sorted(over(part, *PAIR, by="usable_gib").items(), reverse=True)
        where = next((f"{b:g} to {a:g} GiB" for (a, x), (b, y) in pairwise(lead) if x < paper <= y), "")
        most = max((x for _, x in lead), default=math.nan)
        said.append(f"{gpus} GPUs: {where or f'nowhere, {most:.2f}× at most'}")
    return "; ".join(said)


def sensitivity(lead: Lead, least_gib: float, swept: Frame, progress: Progress = quiet) -> Sensitivity:
    """Each assumption moved alone.

    Parameters
    ----------
    lead : Lead
        The headline.
    least_gib : float
        The small memory that is tried.
    swept : DataFrame
        The lead over memory, of `budgets`.
    progress : callable
        Told of every step.
    """
    base = Setting()
    ways: Sequence[tuple[str, str, str, tuple[Setting, float] | None, tuple[Setting, float] | None]] = (
        (
            f"memory of a GPU, {USABLE_GIB:g} GiB", f"{least_gib:g} GiB", "27 GiB",
            (replace(base, usable_gib=least_gib), 1.0), (replace(base, usable_gib=2 * USABLE_GIB), 1.0),
        ),
        (
            "of a sample in flight, all tensors and gradients", "what backward reads", "all",
            (replace(base, footprint="saved"), 1.0), None,
        ),
        ("data parallelism, allowed", "none", "allowed", (replace(base, one_device=True), 1.0), None),
        ("host time of a pass, 0", "0", f"{HOST_S * 1e6:g} µs", None, (replace(base, host_s=HOST_S), 1.0)),
        (
            "network of a node, 12.5 GB/s", "half", "double",
            (replace(base, network=0.5), 1.0), (replace(base, network=2.0), 1.0),
        ),
        ("mini-batch, as printed", "half", "double", (base, 0.5), (base, 2.0)),
    )  # fmt: skip
    ours = lead.at(base)
    swings: list[Swing] = []
    for k, (assumption, low, high, at_low, at_high) in enumerate(ways):
        progress(k, len(ways), f"{lead.model}: {assumption}")
        ends = [ours if way is None else lead.at(*way) for way in (at_low, at_high)]
        swings.append(Swing(assumption, low, high, *ends))
    reached = [
        f"{s.assumption}: {end} gives {value:.2f}×"
        for s in swings
        for end, value in ((s.low, s.at_low), (s.high, s.at_high))
        if value >= lead.paper
    ]
    needed = (
        f"{lead.paper:g}× lies at these GiB of a GPU: {crossings(swept, lead.paper)}; moved alone, it is reached by "
    )
    needed += "; ".join(reached) or "none of these"
    return Sensitivity(lead.claim, lead.paper, ours, "GraphPipe's throughput over PipeDream's", tuple(swings), needed)


def draw_budgets(frame: Frame, ax: Axes, paper: float, title: str, colours: Iterable[str] = CYCLE) -> Axes:
    """The lead over memory, a line for each number of GPUs; dashed: the paper's. Lines end where PipeDream does."""
    for (gpus, part), colour, marker in zip(frame.groupby("gpus"), colours, "os^D", strict=False):
        lead = over(part, *PAIR, by="usable_gib")
        ax.plot(list(lead), list(lead.values()), color=colour, marker=marker, label=f"{gpus} GPUs")
    ax.axhline(paper, color=VERMILLION, lw=1, ls="--", label=f"paper, {paper:g}×")
    ax.axhline(1.0, color="0.6", lw=1, ls=":")
    ax.set(xscale="log", xlabel="memory of a GPU that a plan may fill (GiB)", ylabel="GraphPipe over PipeDream")
    ax.set_title(title)
    plain_ticks(ax, "x", tuple(sorted({float(x) for x in frame.usable_gib})))
    ax.tick_params(axis="x", labelsize=7)
    return ax
