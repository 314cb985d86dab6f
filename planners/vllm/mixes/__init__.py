"""Mixes: models on devices of several types, the cheapest, or with the least power, that reach a target."""

from .aims import AIMS, IDLE_SHARE
from .planner import plan_mixed
from .planning import MixPlanning, MixPoint
from .rate import plan_fleet, plan_highest

__all__ = ["AIMS", "IDLE_SHARE", "MixPlanning", "MixPoint", "plan_fleet", "plan_highest", "plan_mixed"]
