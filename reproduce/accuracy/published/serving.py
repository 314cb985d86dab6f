"""Serving: AlpaServe's Table 2, real runs on sixteen V100s."""

from __future__ import annotations

from typing import Any

from ...alpaserve.table2 import attainments
from ..line import Errors, Line
from . import Tell

__all__ = ["lines"]


def lines(seed: int, tell: Tell) -> tuple[Line, ...]:
    """SLO attainment of both placements at every scale; nothing in it is random."""
    frame = attainments(lambda done, total, what: tell(f"alpaserve/table2: {what}"))
    said: dict[str, Any] = {
        "kind": "published", "world": "serving", "model": "alpaserve-v100-table2, the authors' arrivals and constants",
        "on": "16 V100", "date": "2023",
        "source": "AlpaServe (OSDI '23), Table 2; `meshwright reproduce alpaserve/table2`",
    }  # fmt: skip
    return (
        Line(
            what="SLO attainment of AlpaServe and Selective Replication at eight SLO scales, real runs",
            measured_by="Li et al., on their testbed", sample="partly",
            why="the profile of the model was recovered from this very table, so that simulator and planner are "
            "checked, not the profile",
            errors=Errors.of((frame.ours - frame.paper_real).tolist(), "points"), **said,
        ),
        Line(
            what="the same, as the authors' own simulator gave it", measured_by="Li et al., simulated", sample="partly",
            why="as above; the placements are our planner's, which may find other ones than theirs",
            errors=Errors.of((frame.ours - frame.paper_simulated).tolist(), "points"), **said,
        ),
    )  # fmt: skip
