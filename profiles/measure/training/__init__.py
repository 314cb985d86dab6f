"""Measure what training plans are made of: operators by shape, collectives by kind, size and group.

Begin with `take` (`measure_training`). `shapes` lists what planners ask for, `laps` and `collectives` are what each
worker does.
"""

from __future__ import annotations

from .take import Asked, measure_training

__all__ = ["Asked", "measure_training"]
