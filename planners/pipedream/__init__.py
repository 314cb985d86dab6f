"""PipeDream (Narayanan et al., SOSP '19): a linearised graph, cut into stages that are replicated.

There are two ways in. `planner` (`pipedream`) plans a training graph on the same costs as GraphPipe, to compare the
two. `partition` (`pipedream_partition`) is the authors' own optimiser on the authors' own profile format (`profile`,
`states`, `kernel`), so that their published results can be reproduced.
"""

from __future__ import annotations

from .partition import PipeDreamPartition, PipeDreamStage, pipedream_partition
from .planner import pipedream
from .profile import PipeDreamProfile, ProfiledLayer

__all__ = [
    "PipeDreamPartition", "PipeDreamProfile", "PipeDreamStage", "ProfiledLayer", "pipedream", "pipedream_partition",
]  # fmt: skip
