"""Bars and legends that Collage's figures share; under each picture stands where it was measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..report import Frame
from ..style import GREY, outside_legend
from .campaign.records import Campaign

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["grouped", "origin", "signed"]

WIDTH = 0.84
"""Of a group of bars, of the distance between two groups."""


def grouped(
    frame: Frame, ax: Axes, groups: Sequence[str], colours: Mapping[str, str], *, value: str, labels: Sequence[str]
) -> Axes:
    """A group of bars for each of `groups`, a bar for each series of `colours`; × where it does not run.

    Parameters
    ----------
    frame : DataFrame
        Columns group, series and the value.
    ax : Axes
        Where to draw.
    groups : sequence of str
        In order.
    colours : mapping
        Series -> colour, in the order of the bars.
    value : str
        Column of the height.
    labels : sequence of str
        What the groups are called.
    """
    width = WIDTH / len(colours)
    heights = {(row.group, row.series): float(getattr(row, value)) for row in frame.itertuples()}
    for k, (series, colour) in enumerate(colours.items()):
        at = [g - WIDTH / 2 + (k + 0.5) * width for g in range(len(groups))]
        height = [heights.get((group, series), math.nan) for group in groups]
        ax.bar(at, [0.0 if math.isnan(h) else h for h in height], width * 0.92, color=colour, label=series)
        for x, h in zip(at, height, strict=True):
            if math.isnan(h):
                ax.text(x, 0.0, "×", color=colour, ha="center", va="bottom", fontsize=7)
    ax.set_xticks(range(len(groups)), list(labels))
    return ax


def signed(figure: Figure, ax: Axes, campaign: Campaign, fast: bool, *, columns: int) -> None:
    """A legend above, and below where the numbers are from."""
    outside_legend(figure, ax, ncols=columns, fontsize=7.5)
    origin(figure, campaign, fast)


def origin(figure: Figure, campaign: Campaign, fast: bool) -> None:
    """Where the numbers are from, below the picture; the fast version reads what was measured elsewhere."""
    figure.supxlabel(campaign.made.said + ", not on this machine" * fast, fontsize=6.5, color=GREY)
