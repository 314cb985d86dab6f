"""What a headline hinges on: our figure as each assumption moves alone, as a tornado picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..reprs import Shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Sensitivity", "Swing", "tornado"]


@dataclass(frozen=True, repr=False)
class Swing(Shown):
    """One assumption moved both ways, the others as they are.

    Parameters
    ----------
    assumption : str
        What is assumed, with the value that it has in the figure: "memory of a device, 15 GiB".
    low, high : str
        The two values that it was moved to, as words.
    at_low, at_high : float
        Our figure there; NaN where there is none (no plan fits, say).
    """

    assumption: str
    low: str
    high: str
    at_low: float
    at_high: float

    def reach(self, ours: float) -> float:
        """How far the figure moves at most from `ours`; 0 where neither end has one."""
        return max((abs(x - ours) for x in (self.at_low, self.at_high) if math.isfinite(x)), default=0.0)


@dataclass(frozen=True, repr=False)
class Sensitivity(Shown):
    """A headline beside the assumptions that move it most.

    Parameters
    ----------
    claim : str
        The claim, in short: a panel's title.
    paper, ours : float
        The paper's figure and ours, in `unit`.
    unit : str
        Unit or meaning of both, such as "× PipeDream".
    swings : tuple of Swing
        At least one; shown by how far they move our figure.
    needed : str
        Which range of an assumption gives the paper's figure, in words, or that none of those tried does.
    """

    claim: str
    paper: float
    ours: float
    unit: str
    swings: tuple[Swing, ...]
    needed: str

    def __post_init__(self) -> None:
        if not self.swings or not self.needed:
            raise InputError(f"sensitivity of {self.claim!r}: expected swings, and what the paper's figure needs")
        if not (math.isfinite(self.paper) and math.isfinite(self.ours)):
            raise InputError(f"sensitivity of {self.claim!r}: expected finite figures (got {self.paper}, {self.ours})")

    @property
    def ordered(self) -> tuple[Swing, ...]:
        """The swings, the widest first."""
        return tuple(sorted(self.swings, key=lambda s: -s.reach(self.ours)))

    def to_json(self) -> dict[str, Any]:
        """Plain values; a figure that is not finite becomes None."""
        plain = asdict(self)
        for swing in plain["swings"]:
            for end in ("at_low", "at_high"):
                swing[end] = swing[end] if math.isfinite(swing[end]) else None
        return plain


def draw(found: Sensitivity, ax: Axes) -> Axes:
    """Two bars for each assumption, from our figure to where either setting moves it; dotted: ours, dashed: paper's."""
    from .style import BLACK, BLUE, ORANGE, VERMILLION

    for k, swing in enumerate(found.ordered):
        ends = ((swing.low, swing.at_low, ORANGE), (swing.high, swing.at_high, BLUE))
        for lane, (end, value, colour) in enumerate(ends):
            y, some = k + 0.36 * lane - 0.18, math.isfinite(value)
            if some:
                ax.barh(y, value - found.ours, left=found.ours, height=0.3, color=colour)
            ax.annotate(
                f"{end}: {value:.3g}" if some else f"{end}: none", (max(value, found.ours) if some else found.ours, y),
                xytext=(4, 0), textcoords="offset points", va="center", fontsize=6.5,
            )  # fmt: skip
    ax.axvline(found.ours, color=BLACK, lw=0.8, ls=":")
    ax.axvline(found.paper, color=VERMILLION, lw=1.0, ls="--", zorder=0.5)
    ax.set_yticks(range(len(found.swings)), [s.assumption for s in found.ordered], fontsize=7)
    ax.invert_yaxis()
    low, high = ax.get_xlim()
    ax.set_xlim(low - 0.04 * (high - low), high + 0.3 * (high - low))  # room for what stands right of a bar
    ax.set(title=found.claim)
    ax.set_xlabel(f"{found.unit} (dotted: ours, {found.ours:.3g}; dashed: the paper's, {found.paper:.3g})", fontsize=8)
    return ax


def tornado(found: Sequence[Sensitivity]) -> Figure:
    """A picture of all of them, a panel each, one below the other."""
    from .style import canvas

    with canvas(len(found), 1, width=6.4, height=0.9 + 0.42 * max(len(f.swings) for f in found)) as (figure, axes):
        for one, ax in zip(found, axes[:, 0], strict=True):
            draw(one, ax)
    return figure
