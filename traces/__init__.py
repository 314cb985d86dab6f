"""Traces: request logs. Readers, generators, fitting and resampling."""

from .trace import Trace

__all__ = ["Trace"]
