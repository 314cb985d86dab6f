"""`Conditions`: what happens to a serving system that its profile does not say."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
from dataclasses import dataclass

from ...errors import InputError
from ...reprs import Shown
from ..placement import Placement
from .outages import Outages
from .policy.scaling import Scaling
from .times import ServingTimes

__all__ = ["Conditions"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Conditions(Shown):
    """What really happens in a simulated run.

    Parameters
    ----------
    times : ServingTimes, optional
        What stages, hops and answers take. The controller predicts with the profile and corrects itself by the
        answers, as the real one does. Without them everything takes what the profile says.
    outages : Outages, optional
        When groups are away. Their rows name groups of one placement: they cannot be combined with a schedule.
    scaling : Scaling, optional
        The rule by which groups are started and drained; all serve all the time without it. Of one placement too. With
        it, `outages` say when devices are repaired: a group that ran loads after that, for the rule's `load_s`.
    """

    times: ServingTimes | None = None
    outages: Outages | None = None
    scaling: Scaling | None = None

    def __post_init__(self) -> None:
        if not (self.times is None or isinstance(self.times, ServingTimes)):
            raise InputError(f"conditions: times: expected ServingTimes (got {type(self.times).__name__})")
        if not (self.outages is None or isinstance(self.outages, Outages)):
            raise InputError(f"conditions: outages: expected Outages (got {type(self.outages).__name__})")
        if not (self.scaling is None or isinstance(self.scaling, Scaling)):
            raise InputError(f"conditions: scaling: expected Scaling (got {type(self.scaling).__name__})")

    def check(self, placement: Placement) -> None:
        """Raise `InputError` if they do not fit a placement."""
        if self.times is not None:
            self.times.check(placement)
        if self.outages is not None:
            self.outages.check(placement)
        if self.scaling is not None:
            self.scaling.check(len(placement.groups))
