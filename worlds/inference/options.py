"""What may be said at the doors of the inference world besides the case."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from ..door import Options, Target
from ..limits import MAX_BATCH, MAX_REPEATS, MAX_SECONDS

__all__ = [
    "CompareOptions", "ExportOptions", "MeasureOptions", "PlanOptions", "RunOptions", "SimulateOptions",
]  # fmt: skip

Samples = Annotated[int, Field(ge=1, le=MAX_BATCH)]


class PlanOptions(Options):
    """What may be said besides the case."""

    kept: Path | None = Field(default=None, description="file that keeps costs between plans; else one of its own")
    rounds: int = Field(default=15, ge=5, le=MAX_REPEATS, description="rounds in which what was chosen is timed again")
    again: bool = Field(
        default=True, description="measure what was chosen beside each single backend, and take the fastest"
    )


class SimulateOptions(Options):
    """What may be said besides the plan."""

    timeline: Target = Field(default=None, description="write what runs when, by backend (Perfetto JSON; one plan)")
    png: Target = Field(default=None, description="draw the groups, by backend, into this file (one plan)")


class RunOptions(Options):
    """What may be said besides the plan."""

    rounds: int = Field(default=15, ge=1, le=MAX_REPEATS, description="calls that are timed, after warm-up")
    timeline: Target = Field(default=None, description="write what ran when, by backend (Perfetto JSON)")


class CompareOptions(Options):
    """What may be said besides the plans."""

    rounds: int = Field(default=15, ge=5, le=MAX_REPEATS, description="rounds in which all plans run, in turn")
    csv: Target = Field(default=None, description="write the table here")


class MeasureOptions(Options):
    """What may be said besides the case, or the plan."""

    kept: Path | None = Field(default=None, description="file that keeps costs between runs; else one of its own")
    batches: tuple[Samples, ...] = Field(
        default=(1, 2, 4, 8), description="of a plan: batches whose latency makes a profile for the serving world"
    )
    rounds: int = Field(default=15, ge=5, le=MAX_REPEATS, description="of a plan: rounds of each batch")
    timeout: float = Field(
        default=60.0, gt=0, le=MAX_SECONDS, description="seconds that one backend may take for one unit before it is "
        "given up",
    )  # fmt: skip


class ExportOptions(Options):
    """What may be said besides the plan."""

    to: str = Field(default="", description="target: folder")
    force: bool = Field(default=False, description="write into a folder that holds other files")
