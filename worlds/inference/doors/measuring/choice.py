"""`measured_choice`: which of the planners that measure is asked."""

from __future__ import annotations

from .....profiles.backends.costs import CostTable
from .....runtime.backends import Captured
from ....door import Asked
from ...case import InferenceCase
from ...solve import Choice
from .graph_level import graph_level
from .stretches import stretches

__all__ = ["measured_choice"]


def measured_choice(case: InferenceCase, costs: CostTable, captured: Captured, asked: Asked) -> Choice:
    """The placement of `collage` or `collage-segments`.

    Raises
    ------
    InputError
        If an option is unknown or makes no sense, or no backend is a graph library.
    InfeasibleError
        If there is no placement.
    """
    options = dict(case.planner.options)
    solve = {"collage": graph_level, "collage-segments": stretches}[case.planner.name]
    return solve(case, costs, captured, asked, options)
