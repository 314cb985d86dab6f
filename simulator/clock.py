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
"""The priority that SimPy gives an ordinary event (`simpy.events.NORMAL`), so that its own events mix with ours."""


class Clock(simpy.Environment):
    """A SimPy environment whose time is simulated seconds, with events at absolute times."""

    def at(self, event: simpy.Event, time: float, priority: float = HAPPENS, value: object = None) -> simpy.Event:
        """Schedule `event` at exactly `time`. Events of one instant happen in order of priority, the lowest first."""
        # What Event.succeed and Environment.schedule do, without the sum ``now + (time - now)``. SimPy's queue sorts by
        # (time, priority, counter), so that events equal in both happen in the order in which they were scheduled.
        event._ok, event._value = True, value
        heappush(self._queue, (time, priority, next(self._eid), event))  # type: ignore[misc]
        return event

    def until(self, time: float, priority: float = HAPPENS) -> simpy.Event:
        """A new event that happens at exactly `time`."""
        return self.at(self.event(), time, priority)

    def call(self, function: Callable[[], None], time: float, priority: float = HAPPENS) -> None:
        """Call `function` at exactly `time`."""
        event = self.until(time, priority)
        assert event.callbacks is not None
        event.callbacks.append(lambda _: function())
