"""What the points of a study reach: cases that are loaded and checked before any work."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING

from ...worlds import Case
from ..point import Point
from ..questions import cases
from .designs import Grid

if TYPE_CHECKING:
    from ..study import Study

__all__ = ["reach"]

FEW = 100
"""Numbers of an axis that are all looked at before work starts."""


def reach(study: Study) -> list[Case]:
    """Cases that together name every file, device and planner that points of the design can: under each planner the
    base case, in two replications where there are several, and each value of each axis (of an axis with many numbers
    only the ends); whole points where the design pairs values. Then those at the ends of what the questions try, which
    checks that these can be asked.
    """
    named = {axis.path for axis in study.axes if not axis.numeric}
    if isinstance(study.design, Grid):
        rows = [
            ((axis.path, value),)
            for axis in study.axes
            for value in (
                axis.values if axis.path in named or len(axis.values) <= FEW else (axis.values[0], axis.values[-1])
            )
        ]
    else:
        picked = (tuple((p, v) for p, v in values if p in named) for values in (study.design if named else ()))
        rows = list({json.dumps(row): row for row in (*islice(study.design, FEW), *picked)}.values())
    designed = [study.case(Point(0, row, planner)) for planner in study.planners for row in [(), *rows]]
    if study.replications > 1:
        designed += [study.case(Point(0, (), planner, 1)) for planner in study.planners]
    return [*designed, *cases(study)]
