"""Which models each group holds: Algorithm 1, its fast form, and what fills the memory that they leave."""

from .fast import fast_selection
from .greedy import greedy_selection
from .room import Room, Selection
from .spare import fill_spare_memory

__all__ = ["Room", "Selection", "fast_selection", "fill_spare_memory", "greedy_selection"]
