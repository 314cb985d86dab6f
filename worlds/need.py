"""What a world needs of a machine: tried by `meshwright doctor`, one part after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Need"]


@dataclass(frozen=True, slots=True)
class Need:
    """One part of a world that works on a machine, or does not.

    Parameters
    ----------
    name : str
        What is tried.
    works : callable
        Tries it within a second or two; gives a word about it, or raises whatever goes wrong.
    must : bool
        Whether Meshwright is of no use without it: the exit code of `doctor` then says so.
    """

    name: str
    works: Callable[[], str]
    must: bool = False
