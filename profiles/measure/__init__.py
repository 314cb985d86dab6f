"""Measure models, messages and devices on this machine.

Begin with `models` (`measure`). `pool` starts one worker process for each device, `worker` is what each does, `comm`
times messages, `compose` makes a profile of the samples, and `record` describes the result.
"""

from __future__ import annotations

from .models import measure, take_measurement

__all__ = ["measure", "take_measurement"]
