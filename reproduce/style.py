"""One look for every figure: colours that colour-blind readers can tell apart, legends outside the data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ..simulator.palette import BLACK, BLUE, CYCLE, GREEN, GREY, ORANGE, PURPLE, SETTINGS, SKY, VERMILLION

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "BLACK",
    "BLUE",
    "COLOURS",
    "GREEN",
    "GREY",
    "MARKERS",
    "ORANGE",
    "PURPLE",
    "VERMILLION",
    "canvas",
    "lighter",
    "lines",
    "outside_legend",
    "plain_ticks",
]

COLOURS: Mapping[str, str] = {
    "AlpaServe": BLUE,
    "model parallel": BLUE,
    "inter-op": BLUE,
    "automatic": BLUE,
    "Selective Replication": VERMILLION,
    "replication": VERMILLION,
    "simple": VERMILLION,
    "Clockwork++": GREEN,
    "intra-op": GREEN,
    "manual": SKY,
    "computation": GREY,
    "communication": ORANGE,
    "uneven partition": PURPLE,
    "Round robin": PURPLE,
    "Greedy placement": ORANGE,
    "Greedy placement + group partitioning": BLUE,
}
"""Series -> colour: a system has the same colour in every figure."""

MARKERS: Mapping[str, str] = {
    "AlpaServe": "o",
    "model parallel": "o",
    "inter-op": "o",
    "Selective Replication": "s",
    "replication": "s",
    "Clockwork++": "^",
    "intra-op": "^",
    "Round robin": "D",
    "Greedy placement": "v",
    "Greedy placement + group partitioning": "o",
}


@contextmanager
def canvas(
    rows: int = 1, columns: int = 1, *, width: float = 3.4, height: float = 2.6, **options: Any
) -> Iterator[tuple[Figure, np.ndarray]]:
    """A figure of `rows` × `columns` panels in the house style, `width` × `height` inches each.

    Yields
    ------
    figure : Figure
    axes : ndarray of Axes, shape (rows, columns)
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(SETTINGS):  # pyright: ignore[reportArgumentType]
        figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
        yield figure, figure.subplots(rows, columns, squeeze=False, **options)


def lines(
    frame: Any,
    ax: Axes,
    *,
    x: str,
    y: str,
    series: str = "system",
    spread: str | None = None,
    order: tuple[str, ...] | None = None,
) -> Axes:
    """A line for each value of the column `series`, with a band of ± the column `spread` around it."""
    names = tuple(dict.fromkeys(frame[series])) if order is None else order
    for i, name in enumerate(names):
        part = frame[frame[series] == name].sort_values(x)
        label = str(name)
        colour = COLOURS.get(label, CYCLE[i % len(CYCLE)])
        ax.plot(part[x], part[y], label=label, color=colour, marker=MARKERS.get(label, "o"))
        if spread is not None and part[spread].notna().any():
            low, high = part[y] - part[spread], part[y] + part[spread]
            ax.fill_between(part[x], low, high, color=colour, alpha=0.18, linewidth=0)
    return ax


def plain_ticks(ax: Axes, which: str, values: tuple[float, ...]) -> None:
    """Put plain numbers, not powers of ten, on a logarithmic axis (`which` is "x" or "y")."""
    axis = ax.xaxis if which == "x" else ax.yaxis
    axis.set_ticks(list(values), [f"{v:g}" for v in values])
    axis.minorticks_off()


def lighter(colour: str, share: float = 0.5) -> tuple[float, float, float]:
    """A colour mixed with `share` of white."""
    from matplotlib.colors import to_rgb

    red, green, blue = (c + (1.0 - c) * share for c in to_rgb(colour))
    return red, green, blue


def outside_legend(figure: Figure, ax: Axes, **options: Any) -> None:
    """One legend for the whole figure, above the panels, with the entries of `ax`."""
    handles, labels = ax.get_legend_handles_labels()
    columns = options.pop("ncols", min(len(labels), 4))
    figure.legend(handles, labels, loc="outside upper center", ncols=columns, **options)
