"""`Chart`: a figure of the report, as cards for the page, a picture for slides and a table of what it shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Card", "Chart"]


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
