"""Drawing of results: one look for every world. A figure is data first; each function here takes axes and columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .palette import CYCLE, SETTINGS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_cdf", "draw_steps", "panels"]

MOST_LINES = len(CYCLE)
"""Lines of one panel: as many as there are colours that can be told apart."""
POINTS = 2000
"""Points of one line: more than a panel has pixels, so that thinning cannot be seen."""

Floats = npt.NDArray[np.float64]


@contextmanager
def panels(
    *heights: float, columns: int = 1, width: float = 9.0, title: str = ""
) -> Iterator[tuple[Figure, list[Axes]]]:
    """A figure in the house's look: a row of panels for each of `heights` (inches).

    Yields
    ------
    figure : Figure
    axes : list of Axes
        Row after row.
    """
    import matplotlib.pyplot as plt  # tells a notebook how a figure is shown, although pyplot does not hold this one
    from matplotlib.figure import Figure

    look: Any = SETTINGS
    with plt.rc_context(look):
        figure = Figure(figsize=(width, sum(heights) + 0.3), layout="constrained")
        grid: Any = figure.subplots(len(heights), columns, squeeze=False, gridspec_kw={"height_ratios": heights})
        if title:
            figure.suptitle(title, fontsize=9.5)
        yield figure, list(grid.ravel())


def draw_cdf(ax: Axes, lines: Mapping[str, npt.ArrayLike], label: str) -> Axes:
    """Share of the values up to each; NaN are left out. Of many lines the largest sets are drawn; returns the axes."""
    values = {name: np.asarray(line, dtype=np.float64) for name, line in lines.items()}
    known = {name: np.sort(line[np.isfinite(line)]) for name, line in values.items()}
    chosen = sorted((n for n in known if len(known[n])), key=lambda n: -len(known[n]))[:MOST_LINES]
    for colour, name in zip(CYCLE, chosen, strict=False):
        x = known[name]
        # Equally spaced ranks, the ends included: the curve of a million values needs no million points.
        rank = np.unique(np.linspace(0, len(x) - 1, min(len(x), POINTS)).astype(np.int64))
        ax.step(x[rank], (rank + 1) / len(x), where="post", color=colour, label=name)
    ax.set(xlabel=label, ylabel="share up to", ylim=(0.0, 1.02))
    return _legend(ax, len(chosen))


def draw_steps(ax: Axes, edges: Floats, lines: Mapping[str, npt.ArrayLike], label: str) -> Axes:
    """Values that hold from each of `edges` (seconds) to the next; returns the axes."""
    for colour, (name, line) in zip(CYCLE, lines.items(), strict=False):
        ax.step(edges, np.asarray(line, dtype=np.float64), where="post", color=colour, label=name)
    ax.set(xlabel="time (s)", ylabel=label)
    return _legend(ax, len(lines))


def _legend(ax: Axes, lines: int) -> Axes:
    if lines:
        ax.legend(fontsize=7, ncols=2)
    return ax
