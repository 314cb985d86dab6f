"""Machines that fail and come back: at random, by a script, node by node."""

from .process import Downtimes, Failures
from .script import ScriptedFailure, events_of, read_script

__all__ = ["Downtimes", "Failures", "ScriptedFailure", "events_of", "read_script"]
