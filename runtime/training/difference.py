"""`Difference`: how far a run of a plan is from the single-device run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .single import SingleRun

__all__ = ["Difference", "difference"]

NOTHING = 1e-6
"""A gradient that is smaller than this part of the model's largest is zero but for rounding."""


@dataclass(frozen=True, slots=True)
class Difference:
    """How far a run is from the single-device run.

    Parameters
    ----------
    loss : float
        Largest relative difference of an iteration's loss.
    gradient : float
        Largest difference of a gradient's element, over the largest element of that gradient. Gradients that are zero
        but for rounding (of a key's bias, on which no softmax depends) are held against the largest of the model.
    worst : str
        Parameter of that gradient.
    weight : float
        The same of the weights after the last step, where the gradient is none of those: Adam makes steps of rounding.
    """

    loss: float
    gradient: float
    worst: str
    weight: float


def difference(
    losses: Sequence[float], found: Mapping[str, Any], weights: Mapping[str, Any], single: SingleRun
) -> Difference:
    """How far losses, and gradients and weights by name, are from those of a single device."""
    sizes = {name: float(g.abs().max()) for name, g in single.gradients.items()}
    largest = max(sizes.values(), default=0.0)
    real = {name for name, size in sizes.items() if size > NOTHING * largest}

    def apart(a: Mapping[str, Any], b: Mapping[str, Any], name: str, least: float) -> float:
        if name not in a:
            return np.inf
        reference = b[name].numpy()
        scale = max(float(np.abs(reference).max()), least)
        return float(np.abs(a[name] - reference).max()) / (scale or 1.0)

    gradients = [(apart(found, single.gradients, n, 0.0 if n in real else largest), n) for n in single.gradients]
    after = [apart(weights, single.parameters, n, 0.0) for n in single.parameters if n in real]
    loss = max(abs(a - b) / (abs(b) or 1.0) for a, b in zip(losses, single.losses, strict=True))
    return Difference(loss, *max(gradients, default=(0.0, "")), max(after, default=0.0))
