"""Mixes: models on devices of several types, the cheapest, or with the least power, that reach a target."""

from .aims import AIMS, IDLE_SHARE
from .planner import plan_mixed
from .planning import MixPlanning, MixPoint

__all__ = ["AIMS", "IDLE_SHARE", "MixPlanning", "MixPoint", "plan_mixed"]
