"""`ProfileClock`: seconds of slices of a stage, added up from its measured parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .latency import SliceLatency

__all__ = ["ClockPart", "ProfileClock"]


@dataclass(frozen=True, eq=False)
class ClockPart:
    """A measured part of a stage.

    Parameters
    ----------
    count : int
        How many of this part the stage has.
    forward, backward : SliceLatency
        Seconds of one of them.
    again : bool
        Whether the backward pass computes it again (recomputation).
    """

    count: int
    forward: SliceLatency
    backward: SliceLatency
    again: bool = False

    def ways(self, backward: bool) -> tuple[SliceLatency, ...]:
        """The passes that run in a direction; with recomputation the backward one includes a forward pass."""
        if not backward:
            return (self.forward,)
        return (self.backward, self.forward) if self.again else (self.backward,)


@dataclass(frozen=True, eq=False)
class ProfileClock:
    """Seconds of slices of a stage, from measurements of its parts.

    Parameters
    ----------
    parts : tuple of ClockPart
        The parts of the stage.
    tokens : int
        L, tokens of a sequence.
    """

    parts: tuple[ClockPart, ...]
    tokens: int

    def seconds(self, samples: int, length: int, context: int = 0) -> tuple[float, float]:
        """Forward and backward seconds of one slice."""
        both = [
            sum(p.count * float(x.seconds(length, context, samples)) for p in self.parts for x in p.ways(back))
            for back in (False, True)
        ]
        return both[0], both[1]

    def latencies(self, samples: Sequence[int], unit: int) -> tuple[SliceLatency, SliceLatency]:
        """The sum of the parts' latencies, each by its own Eq. 2.9. The errors are the largest of any part."""
        lengths = np.arange(unit, self.tokens + 1, unit)
        fits: list[SliceLatency] = []
        for back in (False, True):
            run = [(p.count, x) for p in self.parts for x in p.ways(back)]
            base = {b: np.sum([n * x.seconds(lengths, 0, b) for n, x in run], axis=0) for b in samples}
            a = [sum(n * x.context[k] for n, x in run) for k in range(4)]
            tested = [x for _, x in run if x.held_out]
            fits.append(
                SliceLatency(
                    lengths,
                    base,
                    (a[0], a[1], a[2], a[3]),
                    max((x.overhead_error for x in tested), default=float("nan")),
                    max((x.error for x in tested), default=float("nan")),
                    sum(x.held_out for x in tested),
                )
            )
        return fits[0], fits[1]
