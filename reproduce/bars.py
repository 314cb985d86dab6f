"""Grouped bars over the number of GPUs, as Alpa's figures have them: × where memory ends, boxes for linear scaling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from .report import Frame
from .style import BLACK

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["bars", "linear"]

WIDTH = 0.8
"""Of a whole group of bars, of the distance between two groups."""


def linear(frame: Frame, system: str) -> dict[int, float]:
    """GPUs -> PFLOP/s if one system's figure on the fewest GPUs scaled linearly; empty if it does not fit there."""
    rows = frame[(frame.system == system) & frame.pflops.notna()].sort_values("gpus")
    if rows.empty or rows.gpus.iloc[0] != frame.gpus.min():
        return {}
    each = rows.pflops.iloc[0] / rows.gpus.iloc[0]
    return {int(n): float(each * n) for n in sorted(frame.gpus.unique())}


def bars(
    frame: Frame,
    ax: Axes,
    colours: Mapping[str, str],
    *,
    value: str = "pflops",
    ideal: Mapping[int, float] | None = None,
    ticks: Sequence[str] | None = None,
) -> Axes:
    """A group of bars for each number of GPUs, one for each system of `colours`.

    Parameters
    ----------
    frame : DataFrame
        Columns gpus, system and the value; NaN where it ran out of memory. Points that are not there are left out.
    ax : Axes
        Where to draw.
    colours : mapping
        System -> colour, in the order of the bars.
    value : str
        Column of the height.
    ideal : mapping, optional
        GPUs -> height of the black box around a group: linear scaling.
    ticks : sequence of str, optional
        Labels of the groups; by default the number of GPUs.
    """
    groups = sorted(frame.gpus.unique())
    width = WIDTH / len(colours)
    top = max([frame[value].max(), *(ideal or {}).values()])
    for k, (system, colour) in enumerate(colours.items()):
        rows = frame[frame.system == system].set_index("gpus")[value]
        at = [g - WIDTH / 2 + (k + 0.5) * width for g in range(len(groups))]
        height = [float(rows.get(n, 0.0)) for n in groups]
        ax.bar(at, [0.0 if h != h else h for h in height], width * 0.9, color=colour, label=system)
        for x, h in zip(at, height, strict=True):
            if h != h:  # NaN: out of memory
                ax.text(x, top * 0.01, "×", color=colour, ha="center", va="bottom", fontweight="bold")
    for g, n in enumerate(groups):
        if ideal and n in ideal:
            box = ([g - WIDTH / 2, g - WIDTH / 2, g + WIDTH / 2, g + WIDTH / 2], [0, ideal[n], ideal[n], 0])
            ax.plot(*box, color=BLACK, linewidth=0.8)
    ax.set_xticks(range(len(groups)), [f"{n}" for n in groups] if ticks is None else list(ticks))
    ax.set(xlabel="GPUs", ylim=(0, top * 1.08))
    return ax
