"""What GraphPipe's lead over PipeDream hinges on: assumptions, each moved alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..report import Frame, Progress, quiet
from ..sensitivity import Sensitivity, Swing
from .lead import Lead
from .setting import USABLE_GIB, Setting
from .sweeps import AXES, crossings

__all__ = ["sensitivity"]

_BASE = Setting()


@dataclass(frozen=True, slots=True)
class _Way:
    """One assumption and the two ends that it is moved to; None: an end is what the figures have.

    The ends are a setting and how many times the mini-batch is multiplied.
    """

    assumption: str
    low: str
    high: str
    at_low: tuple[Setting, float] | None
    at_high: tuple[Setting, float] | None


def _ways(least_gib: float) -> Sequence[_Way]:
    host, rows = AXES["host_s"].values[3], AXES["half_rows"].values[2]

    def alone(**moved: object) -> tuple[Setting, float]:
        return replace(_BASE, **moved), 1.0  # pyright: ignore[reportArgumentType]

    return (
        _Way(f"memory of a GPU, {USABLE_GIB:g} GiB", f"{least_gib:g} GiB", "all", alone(usable_gib=least_gib), None),
        _Way(
            "of a sample in flight, all tensors and gradients", "what backward reads", "all", alone(footprint="saved"),
            None,
        ),
        _Way("host time of a pass, 0", "0", f"{host * 1e6:g} µs", None, alone(host_s=host)),
        _Way("rows at which a product has half of its speed, 0", "0", f"{rows:g}", None, alone(half_rows=rows)),
        _Way("order that is cut, branch by branch", "that", "level by level", None, alone(by_level=True)),
        _Way("chains of one bottleneck, the fastest simulated", "the shortest", "fastest", alone(ties=1), None),
        _Way("data parallelism, allowed", "none", "allowed", alone(one_device=True), None),
        _Way("network of a node, 12.5 GB/s", "a quarter", "double", alone(network=0.25), alone(network=2.0)),
        _Way("mini-batch, as printed", "half", "double", (_BASE, 0.5), (_BASE, 2.0)),
    )  # fmt: skip


def sensitivity(lead: Lead, least_gib: float, swept: Frame, progress: Progress = quiet) -> Sensitivity:
    """Move each assumption alone.

    Parameters
    ----------
    lead : Lead
        The headline.
    least_gib : float
        The small memory that is tried.
    swept : DataFrame
        The lead over ranges of assumptions, of `sweeps`.
    progress : callable
        Told of every step.
    """
    ours = lead.at(_BASE)
    swings: list[Swing] = []
    ways = _ways(least_gib)
    for k, way in enumerate(ways):
        progress(k, len(ways), f"{lead.claim}: {way.assumption}")
        ends = [ours if end is None else lead.at(*end) for end in (way.at_low, way.at_high)]
        swings.append(Swing(way.assumption, way.low, way.high, *ends))
    reached = [
        f"{s.assumption}: {end} gives {value:.2f}×"
        for s in swings
        for end, value in ((s.low, s.at_low), (s.high, s.at_high))
        if value >= lead.paper
    ]
    needed = f"{lead.paper:g}× lies at {crossings(swept, lead.paper)}; of the ends shown, it is reached by "
    needed += "; ".join(reached) or "none"
    return Sensitivity(lead.claim, lead.paper, ours, "GraphPipe over PipeDream", tuple(swings), needed)
