"""The picture of a comparison with the real engine: the difference of every judged figure, cell by cell."""

from __future__ import annotations

# matplotlib and pandas are typed in part.
# pyright: standard
import io
from pathlib import Path
from typing import TYPE_CHECKING

from ....files import write_bytes
from .cell import JUDGED, WITHIN
from .cells import EngineComparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_engine", "save_engine_png"]

EDGE = 3 * WITHIN
"""Differences beyond this are drawn at the edge, so that one bad cell does not flatten all others."""


def draw_engine(found: EngineComparison, ax: Axes) -> Axes:
    """Draw the differences as points over cells, the goal as a band; returns `ax`."""
    frame = found.to_frame()
    names = [f"{cell.model}\n{cell.setting}\n{cell.level}" for cell in found.cells]
    for i, figure in enumerate(JUDGED):
        gaps = 100 * frame[frame["figure"] == figure]["difference"].clip(-EDGE, EDGE)
        at = [k + 0.12 * (i - (len(JUDGED) - 1) / 2) for k in range(len(names))]
        ax.plot(at, gaps, "o", color=f"C{i}", label=figure)
    ax.axhspan(-100 * WITHIN, 100 * WITHIN, color="0.9", zorder=0)
    ax.axhline(0, color="0.5", lw=0.8)
    ax.set(ylabel="simulated over real, minus 1 (%)", ylim=(-100 * EDGE - 1, 100 * EDGE + 1))
    ax.set_xticks(range(len(names)), names, fontsize=6)
    ax.grid(alpha=0.3, axis="y")
    ax.legend(ncols=len(JUDGED), fontsize=7)
    return ax


def save_engine_png(found: EngineComparison, path: str | Path) -> Path:
    """Write the picture."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(max(7.0, 0.8 * len(found.cells)), 4.5), layout="constrained")
    draw_engine(found, figure.subplots())
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=150)
    return write_bytes(path, out.getvalue())
