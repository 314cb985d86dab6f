"""Who holds which GPUs at an instant of a simulation: a decision, to be written down elsewhere."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from ....simulator.sharing import SharingResult

__all__ = ["Holding", "holdings_at"]


@dataclass(frozen=True, slots=True)
class Holding:
    """What an app holds.

    Parameters
    ----------
    app : int
        Its number.
    gpus : tuple of int
        Its GPUs, ascending.
    machines : mapping of int to int
        Machine -> how many of them are there.
    """

    app: int
    gpus: tuple[int, ...]
    machines: dict[int, int]


def holdings_at(result: SharingResult, at_s: float) -> tuple[Holding, ...]:
    """What apps hold at an instant, those that hold anything, by number: the GPUs that their jobs have.

    Grants do not tell: an app loses GPUs at the end of a lease or with a machine, and gives back what it cannot use.

    Parameters
    ----------
    result : SharingResult
        Of the SimPy model: the compiled engine does not note down what jobs have.
    at_s : float
        The instant, seconds.

    Raises
    ------
    InputError
        If nobody holds GPUs then, or the result is the compiled engine's.
    """
    if not (math.isfinite(at_s) and at_s >= 0):
        raise InputError(f"export: at: expected finite seconds >= 0 (got {at_s})")
    if not result.spells and result.grants:
        raise InputError("export: at: the compiled engine does not note down what jobs have; simulate with 'simpy'")
    held: dict[int, list[int]] = defaultdict(list)
    for spell in result.spells:
        if spell.start_s <= at_s < spell.end_s:
            held[spell.app] += spell.gpus
    if not held:
        first = min((g.at_s for g in result.grants), default=math.nan)
        raise InputError(
            f"export: at: no app holds GPUs at {at_s:g} s under {result.policy}; the first grant is at {first:g} s, "
            f"the last app ends at {result.makespan_s:g} s"
        )
    return tuple(_holding(app, held[app], result.world.cluster.machine_of) for app in sorted(held))


def _holding(app: int, gpus: Sequence[int], machine: npt.NDArray[np.int64]) -> Holding:
    counts = Counter(int(machine[g]) for g in gpus)
    return Holding(app, tuple(sorted(gpus)), dict(sorted(counts.items())))
