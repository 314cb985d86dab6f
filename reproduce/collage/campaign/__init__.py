"""One campaign: all that Collage's figures need, measured on one machine, in one document."""

from .records import Campaign, Contest, Planning, Steps
from .store import SHIPPED, load

__all__ = ["SHIPPED", "Campaign", "Contest", "Planning", "Steps", "load"]
