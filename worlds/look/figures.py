"""Figures as they go into a report: the house's look, as SVG that follows the page's colours, and as PNG."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from ...simulator.palette import CYCLE, MARKS, SETTINGS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["DASHES", "INK", "Style", "canvas", "png", "styles", "svg"]

INK, FAINT, GRID = "#20262e", "#5b6572", "#e3e6ea"
DASHES = ("-", "--", ":")

_SETTINGS: Any = SETTINGS | {
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "grid.color": GRID,
    "text.color": INK,
    "text.parse_math": False,  # a name with $ in it is a name
    "xtick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.color": FAINT,
    "ytick.labelcolor": INK,
    "svg.fonttype": "none",
}

# The page says what these look like, in the light and in the dark.
_VARIABLES = {INK: "var(--ink)", FAINT: "var(--faint)", GRID: "var(--grid)"} | {
    colour.lower(): f"var(--c{i})" for i, colour in enumerate(CYCLE)
}


@dataclass(frozen=True, slots=True)
class Style:
    """How a planner looks in every figure: `index` is its place in the palette, and in the page's ``--c0 … --c7``."""

    index: int
    colour: str
    mark: str


def styles(planners: Sequence[str]) -> dict[str, Style]:
    """Planner -> its look, by its place in the study."""
    n = len(CYCLE)
    # The second round of colours has other shapes, so that no two of 64 look the same.
    return {p: Style(i % n, CYCLE[i % n], MARKS[(i + i // n) % len(MARKS)]) for i, p in enumerate(planners)}


@contextmanager
def canvas(
    rows: int = 1, columns: int = 1, *, width: float = 3.5, height: float = 2.5, top: float = 0.0
) -> Iterator[tuple[Figure, list[Axes]]]:
    """A figure of panels of `width` x `height` inches: at 350 pixels its letters are 12 pixels high.

    `top` inches more are above them, for a legend.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(width * columns, height * rows + top), layout="constrained")
        yield figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def svg(figure: Figure, name: str, alt: str) -> str:
    """A figure as an ``<svg>`` element: text stays text, colours are the page's, the same bytes for the same figure.

    Parameters
    ----------
    figure : Figure
        What to draw.
    name : str
        Tells its ids from those of the page's other figures.
    alt : str
        What a reader who does not see it hears.
    """
    import matplotlib as mpl

    buffer = io.StringIO()
    with mpl.rc_context(_SETTINGS | {"svg.hashsalt": name}), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a letter that DejaVu lacks: the browser has it
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r'<g id="[^"]*"', "<g", text)  # figure_1, axes_1, …: the same in every figure, and used by nobody
    text = re.sub(r'style="[^"]*"', _of_page, text)
    text = re.sub(r' (?:d|x|y|transform)="[^"]*"', _short, text)
    text = re.sub(r"\s*\n\s*", "\n", text)
    start = f'<svg role="img" aria-label="{escape(alt)}" '
    head, _, body = text.removeprefix("<svg").partition(">")
    head = re.sub(r'\s*(xmlns(:xlink)?|version|width|height)="[^"]*"', "", head)
    return f"{start}{head.strip()}>{body.strip()}"


def _of_page(style: re.Match[str]) -> str:
    text = style[0].replace("'DejaVu Sans'", "var(--sans)")
    return re.sub(r"#[0-9a-f]{6}\b", lambda found: _VARIABLES.get(found[0], found[0]), text)


def _short(attribute: re.Match[str]) -> str:
    return re.sub(r"(\.\d\d)\d+", r"\1", attribute[0])


def png(figure: Figure) -> bytes:
    """A figure as PNG, the same bytes for the same figure."""
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        figure.savefig(buffer, format="png", dpi=150, metadata={"Software": None})
    return buffer.getvalue()
