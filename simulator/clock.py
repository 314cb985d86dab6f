"""The clock of every SimPy model: events at exact times, and an order among what happens at one instant.

SimPy schedules by delays. It adds ``time - now`` to ``now``, which is not always ``time``: an event an ulp early is an
event before another that it should follow. Here an event happens at the very float that was asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush

import simpy

__all__ = ["Clock"]

HAPPENS = 1
"""SimPy's own priority of an event."""


class Clock(simpy.Environment):
    """Simulated seconds."""

    def at(self, event: simpy.Event, time: float, priority: float = HAPPENS, value: object = None) -> simpy.Event:
        """Let `event` happen at exactly `time`; what happens at one instant happens in order of priority."""
        event._ok, event._value = True, value
        heappush(self._queue, (time, priority, next(self._eid), event))  # type: ignore[misc]
        return event

    def until(self, time: float, priority: float = HAPPENS) -> simpy.Event:
        """An event at exactly `time`."""
        return self.at(self.event(), time, priority)

    def call(self, function: Callable[[], None], time: float, priority: float = HAPPENS) -> None:
        """Call a function at exactly `time`."""
        event = self.until(time, priority)
        assert event.callbacks is not None
        event.callbacks.append(lambda _: function())
