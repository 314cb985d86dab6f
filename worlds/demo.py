"""What a world shows in `meshwright demo`: a script of its own, from a measurement to a real run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import InputError
from .door import quiet

__all__ = ["DemoAsked", "Shown"]


@dataclass(frozen=True, slots=True)
class DemoAsked:
    """What somebody wants to see.

    Parameters
    ----------
    out : Path
        Folder for what is left behind.
    devices : int
        Cores of this machine that stand for devices; at least 1.
    seconds : float
        Length of each real run; more than 0.
    slo_scales : tuple of float
        Of the real runs that have deadlines; more than 0 each.
    seed : int
        Of traffic, planners and weights.
    say : callable
        Told each step, in a line, as it begins.
    progress : callable
        Told what is being done meanwhile.

    Raises
    ------
    InputError
        On what is no such number.
    """

    out: Path
    devices: int = 2
    seconds: float = 20.0
    slo_scales: tuple[float, ...] = (1.5, 3.0, 6.0)
    seed: int = 0
    say: Callable[[str], None] = print
    progress: Callable[[str], None] = quiet

    def __post_init__(self) -> None:
        if self.devices < 1 or not self.seconds > 0:
            said = f"{self.devices} and {self.seconds}"
            raise InputError(f"demo: devices, seconds: expected at least 1 and more than 0 (got {said})")
        if not self.slo_scales or not all(scale > 0 for scale in self.slo_scales):
            raise InputError(f"demo: slo_scales: expected one or more, each more than 0 (got {self.slo_scales})")


@dataclass(frozen=True, slots=True)
class Shown:
    """What a world's script found.

    Parameters
    ----------
    document : mapping
        For machines, as JSON can hold it.
    text : str
        A table for people; empty where what was said is all.
    written : tuple of Path
        The files that are worth opening.
    """

    document: Mapping[str, Any] = field(default_factory=dict[str, Any])
    text: str = ""
    written: tuple[Path, ...] = ()
