"""`ServingTimes`: what stages, hops and answers really take in one simulated run, beside what a profile predicts."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
from dataclasses import dataclass

from ...errors import InputError
from ...profiles.spread import Variation
from ...reprs import Shown
from ...traces.trace import Trace
from ..draws import Draws, draw
from ..placement import Placement

__all__ = ["ServingTimes", "devices_of", "draw_times", "times_of"]

AFTER_S = 60.0
"""Seconds that draws go on after the last arrival; what is served still later meets the first factors again. A
guess."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ServingTimes(Shown):
    """Factors on the profile's times, drawn for one run.

    The j-th job that a group is sent (a request or a batch; counted from 0, retries included) makes one visit to each
    device of the group. A visit of a stage that starts at s takes the profile's latency times the largest of
    ``stages.ratio(device, s, j)`` over the devices of the stage, times ``stages.rested(s - e)`` where e is when the
    stage's last visit ended (the beginning of the run, or of the group's life, if there was none). A hop that begins at
    s takes the profile's hop times ``hops.ratio(group, s, j)``; the answer of a job that leaves the last stage at s is
    there after the overhead times ``answers.ratio(group, s, j)``. Where a schedule changes the placement, a device's
    visits are counted on.

    Parameters
    ----------
    stages : Draws
        A stream for each device number of the placement.
    hops, answers : Draws, optional
        A stream for each group; factors of 1 if not given.
    """

    stages: Draws
    hops: Draws | None = None
    answers: Draws | None = None

    def __post_init__(self) -> None:
        for name in ("stages", "hops", "answers"):
            given = getattr(self, name)
            if not (isinstance(given, Draws) or (given is None and name != "stages")):
                raise InputError(f"times: {name}: expected Draws (got {type(given).__name__})")

    def check(self, placement: Placement) -> None:
        """Raise `InputError` unless there is a stream for every device and every group."""
        needed = devices_of(placement)
        if len(self.stages) < needed:
            raise InputError(f"times: stages: expected a stream for each of {needed} devices (got {len(self.stages)})")
        for name, given in (("hops", self.hops), ("answers", self.answers)):
            if given is not None and len(given) < len(placement.groups):
                raise InputError(
                    f"times: {name}: expected a stream for each of {len(placement.groups)} groups (got {len(given)})"
                )


def draw_times(variation: Variation, placement: Placement, horizon_s: float, seed: int) -> ServingTimes:
    """The times of one run of about `horizon_s` seconds, the same for a device in whatever group it is."""
    groups = len(placement.groups)
    return ServingTimes(
        draw(variation.stages, devices_of(placement), horizon_s, seed, "stages", resting=True),
        None if variation.hops.constant else draw(variation.hops, groups, horizon_s, seed, "hops"),
        None if variation.answers.constant else draw(variation.answers, groups, horizon_s, seed, "answers"),
    )


def times_of(variation: Variation, placement: Placement, trace: Trace, seed: int) -> ServingTimes | None:
    """The times of one run of a trace; None if they do not vary."""
    return None if variation.constant else draw_times(variation, placement, trace.duration + AFTER_S, seed)


def devices_of(placement: Placement) -> int:
    """One more than the largest device number."""
    return 1 + max(d for group in placement.groups for d in group.devices or ())
