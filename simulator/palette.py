"""One look for every figure: colours that colour-blind readers can tell apart, and matplotlib's settings."""

from __future__ import annotations

from typing import Any

__all__ = ["BLACK", "BLUE", "CYCLE", "GREEN", "GREY", "MARKS", "ORANGE", "PURPLE", "SETTINGS", "SKY", "VERMILLION"]

# Okabe and Ito's palette (Color Universal Design, 2008).
BLUE, VERMILLION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY, GREY, BLACK = "#E69F00", "#56B4E9", "#7F7F7F", "#222222"

CYCLE = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, GREY, BLACK)
"""Colours in the order in which series take them."""

MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
"""Markers in the same order: shape says what colour says."""

SETTINGS: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#555555",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.7,
    "xtick.color": "#333333",
    "ytick.color": "#333333",
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 4,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
}
"""matplotlib's rc settings."""
