"""How wrong the cost of an iteration may be: a band from what each of its parts rests on.

Parts that rest on the same kind of evidence are taken to err together, kinds independently. The bands are meant to hold
nine times of ten.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from ..tables.grid import EXTRAPOLATED, INTERPOLATED, KINDS, MEASURED, Grid
from .parts import Part

__all__ = ["ROOFLINE", "WIDTHS", "Band", "band", "interpolation_error"]

ROOFLINE = 0.30
"""Of kernels by the roofline alone. The only rows at hand (Llama-3.1-70B in fp8 on H100s, whose tables its efficiencies
are from) err less: all 45 within 16 % in TPOT, 44 within 30 % in TTFT. Of other devices it is a guess."""
WIDTHS = {
    KINDS[MEASURED]: 0.07,
    KINDS[INTERPOLATED]: 0.07,
    KINDS[EXTRAPOLATED]: ROOFLINE,
    "overhead": 0.5,
    "fitted": 0.1,
}
"""What a part rests on -> its band, a share. Measured tables: 42 of the same 45 rows lie within 7 % in TPOT.
Host times between versions and machines, and fitted lines: guesses."""
LEAST = 0.01


@dataclass(frozen=True, slots=True)
class Band:
    """A band around a predicted time.

    Parameters
    ----------
    share : float
        Half its width, as a share of the time.
    shares : mapping of str to float
        What parts rest on -> how much of the time does.
    """

    share: float
    shares: Mapping[str, float]

    def explain(self) -> str:
        """One line."""
        rests = sorted(self.shares.items(), key=lambda item: -item[1])
        said = ", ".join(f"{part:.0%} {basis}" for basis, part in rests if part >= LEAST)
        return f"± {self.share:.0%}: {said}"


def band(parts: Iterable[Part], interpolation: float = 0.0) -> Band:
    """The band of a sum of parts.

    Parameters
    ----------
    parts : iterable of Part
        As `TableCost.explain` gives them.
    interpolation : float
        How far tables err between their points (`interpolation_error`); adds to what measured points err by.
    """
    seconds: dict[str, float] = {}
    for part in parts:
        seconds[part.basis] = seconds.get(part.basis, 0.0) + part.seconds
    whole = sum(seconds.values())
    if not whole:
        return Band(0.0, {})
    widths = WIDTHS | {KINDS[INTERPOLATED]: math.hypot(WIDTHS[KINDS[INTERPOLATED]], interpolation)}
    # Points and what lies between them are of one table: they err together.
    together: dict[str, float] = {}
    for basis, part in seconds.items():
        kind = KINDS[MEASURED] if basis == KINDS[INTERPOLATED] else basis
        together[kind] = together.get(kind, 0.0) + widths[basis] * part / whole
    return Band(math.hypot(*together.values()), {basis: part / whole for basis, part in seconds.items()})


def interpolation_error(grids: Iterable[Grid]) -> float:
    """How far tables err where every second point of an axis is left out: nine of ten are nearer, in the median table.

    The real grid is twice as fine, so that this is an upper bound.
    """
    found: list[float] = []
    for grid in grids:
        errors = [grid.held_out(axis) for axis in range(len(grid.axes)) if len(grid.axes[axis]) > 2]
        told = np.abs(np.concatenate(errors)) if errors else np.zeros(0)
        if len(told):
            found.append(float(np.quantile(told, 0.9)))
    return float(np.median(found)) if found else 0.0
