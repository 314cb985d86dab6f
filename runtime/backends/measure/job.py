"""What a measuring process is told to do."""

from __future__ import annotations

from dataclasses import dataclass

from ..transfer import Stored
from .options import MeasureOptions

__all__ = ["Job", "Layout", "Unit"]


@dataclass(frozen=True, slots=True)
class Unit:
    """A group on a backend that is to be compiled, checked and timed.

    Parameters
    ----------
    number : int
        By which parent and process speak of it.
    backend : str
        Its name.
    places : tuple of int
        Sets of nodes (bits) at which it occurs.
    """

    number: int
    backend: str
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """A conversion that is to be timed: a shape, its type, and the layout that it is converted to."""

    shape: tuple[int, ...]
    dtype: str
    to: str


@dataclass(frozen=True, slots=True)
class Job:
    """All that is to be measured.

    Parameters
    ----------
    network : Stored
        The captured module, without its tensors.
    backends : dict of str to bytes
        Name -> the backend, pickled; it is unpickled when it is first needed.
    units : tuple of Unit
        What to compile, check and time.
    contexts : tuple of str
        Backends whose context cost is wanted.
    layouts : tuple of Layout
        Conversions whose cost is wanted.
    options : MeasureOptions
        How to measure.
    """

    network: Stored
    backends: dict[str, bytes]
    units: tuple[Unit, ...]
    contexts: tuple[str, ...]
    layouts: tuple[Layout, ...]
    options: MeasureOptions
