"""`Difference`: how far a run of a plan is from the single-device run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...reprs import Shown

if TYPE_CHECKING:
    from .single import SingleRun

__all__ = ["Difference", "difference"]

GRAPH = "the graph on one device"

NOTHING = 1e-6
"""A gradient whose largest element is at most this part of the model's largest gradient element counts as zero: what is
left is rounding, which has no relative error worth stating. Well above float64's rounding, in which runs are compared,
and far below real gradients."""


@dataclass(frozen=True, slots=True, repr=False)
class Difference(Shown):
    """How far a run is from the single-device run.

    Parameters
    ----------
    loss : float
        Largest relative difference of an iteration's loss.
    gradient : float
        Largest difference of a gradient's element, relative to the largest element of that gradient. Gradients that are
        zero but for rounding (that of a key's bias, since softmax does not depend on it) are compared relative to the
        largest gradient element of the model.
    worst : str
        Parameter with that largest difference.
    weight : float
        The same for the weights after the last step. Elements whose gradient is zero but for rounding are left out:
        Adam divides a gradient by its own size, and makes full steps of rounding.
    against : str
        The reference, in words.
    """

    loss: float
    gradient: float
    worst: str
    weight: float
    against: str = GRAPH

    @property
    def largest(self) -> float:
        """The largest of the three; NaN counts as infinite."""
        return max(x if x == x else math.inf for x in (self.loss, self.gradient, self.weight))


def difference(
    losses: Sequence[float], found: Mapping[str, Any], weights: Mapping[str, Any], single: SingleRun,
    against: str = GRAPH,
) -> Difference:  # fmt: skip
    """How far a run's losses, and its gradients and weights by name, are from those of a single device."""
    sizes = {name: float(g.abs().max()) if g.numel() else 0.0 for name, g in single.gradients.items()}
    largest = max(sizes.values(), default=0.0)
    real = {name for name, size in sizes.items() if size > NOTHING * largest}

    def apart(a: Mapping[str, Any], b: Mapping[str, Any], name: str, least: float, counts: Any = True) -> float:
        if name not in a:
            return np.inf
        reference = b[name].numpy()
        scale = max(float(np.abs(reference).max(initial=0.0)), least)
        off = np.abs(a[name] - reference)
        if not np.isfinite(off).all():
            return np.inf
        return float(np.where(counts, off, 0.0).max(initial=0.0)) / (scale or 1.0)

    def moved(name: str) -> Any:
        return np.abs(single.gradients[name].numpy()) > NOTHING * sizes[name]

    gradients = [(apart(found, single.gradients, n, 0.0 if n in real else largest), n) for n in single.gradients]
    after = [apart(weights, single.parameters, n, 0.0, moved(n)) for n in single.parameters if n in real]
    loss = max(abs(a - b) / (abs(b) or 1.0) for a, b in zip(losses, single.losses, strict=True))
    return Difference(loss, *max(gradients, default=(0.0, "")), max(after, default=0.0), against)
