"""What models, messages and devices take on this machine."""

from __future__ import annotations

from .models import measure, take_measurement

__all__ = ["measure", "take_measurement"]
