"""The picture of a comparison: attainment over SLO scale, lines simulated, marks real."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from ....files import write_bytes
from .cells import Comparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw", "save_png"]


def draw(comparison: Comparison, ax: Axes) -> Axes:
    """Draw a comparison; returns `ax`."""
    cells = comparison.to_frame()
    for i, plan in enumerate(dict.fromkeys(cells["plan"])):
        line = comparison.curves[comparison.curves["plan"] == plan]
        mark = cells[cells["plan"] == plan]
        ax.plot(line["slo_scale"], 100 * line["simulated"], color=f"C{i}", label=f"{plan}: expected, 95 %")
        ax.fill_between(
            line["slo_scale"], 100 * line["low"], 100 * line["high"], color=f"C{i}", alpha=0.15, linewidth=0
        )
        # The band is of any moment; a run is judged by what was known of its own, which may lie elsewhere.
        ax.vlines(mark["slo_scale"], mark["low"], mark["high"], color=f"C{i}", linewidth=1.5)
        ax.plot(mark["slo_scale"], mark["real"], "o", color=f"C{i}", label=f"{plan}: real, on its own interval")
    ax.set(xlabel="SLO scale", ylabel="SLO attainment (%)", ylim=(0, 101))
    ax.grid(alpha=0.3)
    ax.legend()
    return ax


def save_png(comparison: Comparison, path: str | Path) -> Path:
    """Write the picture."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    draw(comparison, figure.subplots())
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=150)
    return write_bytes(path, out.getvalue())
