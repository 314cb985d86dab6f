"""`TrainingTimes`: how the times of a training plan vary."""

from __future__ import annotations

from dataclasses import dataclass

from ....profiles.spread import CONSTANT, Spread
from ....reprs import Shown

__all__ = ["TrainingTimes"]


@dataclass(frozen=True, slots=True, repr=False)
class TrainingTimes(Shown):
    """How long devices and messages take, as multiples of what the plan says.

    Parameters
    ----------
    passes : Spread
        Of what devices work on: passes, reduction, update, and what hosts do for messages. Each device has a stream of
        its own.
    messages : Spread
        Of messages, from when their way is free until they are gathered. Each sending mesh has a stream of its own.
    """

    passes: Spread = CONSTANT
    messages: Spread = CONSTANT

    @property
    def constant(self) -> bool:
        """Whether nothing varies."""
        return self.passes.constant and self.messages.constant
