"""What may be said at the doors of the sharing world besides the case."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from ..door import Options, Target

__all__ = ["ExportOptions", "PlanOptions", "RunOptions", "SimulateOptions"]

MOST_SEEDS = 1000


class PlanOptions(Options):
    """What may be said besides the case: nothing."""


class SimulateOptions(Options):
    """What may be said besides the case."""

    engine: Literal["auto", "compiled", "simpy"] = Field(
        default="auto", description="compiled, simpy, the reference, or auto: the one that is faster"
    )
    seeds: int | None = Field(
        default=None, ge=2, le=MOST_SEEDS, description="draw the workload under so many seeds: means with intervals"
    )
    per_app: bool = Field(default=False, description="a table by app for each policy")
    timeline: Target = Field(
        default=None, description="write who had which GPU when: .png, .svg, .csv, or .json (Perfetto)"
    )
    dry_run: bool = Field(default=False, description="check the case, say what is in it, and stop")
    bids: Path | None = Field(default=None, description="instead: a file of bids, whose one auction is held")


class RunOptions(Options):
    """What may be said besides the case."""

    time_scale: float = Field(default=100.0, gt=0, description="seconds of the world that pass in a real one")
    slot_steps: float = Field(default=40.0, gt=0, description="what a GPU is here: training steps per second")
    slots_per_core: int = Field(default=2, ge=1, description="GPUs that a core stands in for, at most")
    compare: bool = Field(default=True, description="simulate it too, with the standstills that were measured")


class ExportOptions(Options):
    """What may be said besides the case."""

    to: str = Field(default="", description="target: kueue, slurm or scheduler-plugin")
    namespace: str = Field(default="meshwright", description="Kubernetes namespace")
    at: float | None = Field(
        default=None, ge=0, description="also what is decided at this second of a simulation, as limits"
    )
    force: bool = Field(default=False, description="write into a folder that holds other files")
