"""`Chart`: a figure of the report, as cards for the page, a picture for slides and a table of what it shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...worlds.look.figures import Style, canvas, png, svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Card", "Chart", "compose"]


@dataclass(frozen=True, slots=True)
class Card:
    """One panel: its title (plain text) and its ``<svg>`` element."""

    title: str
    svg: str


@dataclass(frozen=True)
class Chart:
    """A figure.

    Parameters
    ----------
    name : str
        File stem.
    title : str
        Heading, plain text.
    cards : tuple of Card
        Its panels.
    series : tuple of str
        Planners in its legend.
    note : str
        What a reader must know: intervals, crosses, what is not shown.
    data : DataFrame
        What it shows, tidy.
    png : bytes
        The same in one picture.
    """

    name: str
    title: str
    cards: tuple[Card, ...]
    series: tuple[str, ...]
    note: str
    data: Any
    png: bytes


def compose(
    name: str, title: str, panels: Sequence[tuple[str, str]], draw: Callable[[int, Axes], None], note: str, data: Any,
    looks: Mapping[str, Style],
) -> Chart:  # fmt: skip
    """A chart of panels that `draw` draws: each alone for the page, all together in one picture.

    Parameters
    ----------
    name, title, note, data
        As of `Chart`.
    panels : sequence of (str, str)
        Title of each, and what a reader who does not see it hears.
    draw : callable
        Number of the panel, axes.
    looks : Mapping[str, Style]
        Of the planners in `data`.
    """
    from matplotlib.lines import Line2D

    cards: list[Card] = []
    for i, (text, alt) in enumerate(panels):
        with canvas() as (figure, (ax,)):
            draw(i, ax)
            cards.append(Card(text, svg(figure, f"{name}-{i}", alt)))
    series = tuple(dict.fromkeys(data["planner"]))
    columns = min(3, len(cards))
    beside = min(len(series), 2 * columns if max(map(len, series)) <= 22 else columns)
    with canvas(-(-len(cards) // columns), columns, top=0.22 * -(-len(series) // beside)) as (figure, axes):
        for i, ax in enumerate(axes):
            if i < len(cards):
                draw(i, ax)
                ax.set_title(cards[i].title)
            else:
                ax.set_visible(False)
        handles = [Line2D([], [], color=looks[n].colour, marker=looks[n].mark, label=_clipped(n)) for n in series]
        figure.legend(handles=handles, loc="outside upper center", ncols=beside)
        return Chart(name, title, tuple(cards), series, note, data, png(figure))


def _clipped(text: str, length: int = 40) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
