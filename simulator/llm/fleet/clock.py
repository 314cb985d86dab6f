"""The clock of LLM simulations: SimPy's, with an order among what happens at one instant."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush

import simpy

__all__ = ["ARRIVES", "DECIDES", "ENDS", "FAILS", "MOVES", "SCALES", "Clock"]

ENDS, FAILS, MOVES, ARRIVES, SCALES, DECIDES = range(1, 7)
"""At one instant iterations end, engines fail and come back, transfers end, requests arrive, engines are added or
taken away, and then engines decide."""


class Clock(simpy.Environment):
    """Simulated seconds."""

    def at(self, event: simpy.Event, time: float, priority: int) -> simpy.Event:
        """Let `event` happen at exactly `time`; what happens at one instant happens in order of priority."""
        event._ok, event._value = True, None
        heappush(self._queue, (time, priority, next(self._eid), event))  # type: ignore[misc]
        return event

    def call(self, function: Callable[[], None], time: float, priority: int) -> None:
        """Call a function at `time`."""
        event = self.at(self.event(), time, priority)
        assert event.callbacks is not None
        event.callbacks.append(lambda _: function())
