"""What may be said at the doors of the serving world besides the case."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field

from ..door import Options

__all__ = ["ExportOptions", "PlanOptions", "SimulateOptions"]


class PlanOptions(Options):
    """What may be said besides the case: nothing yet."""


class SimulateOptions(Options):
    """What may be said besides the case."""

    engine: Literal["compiled", "simpy"] = Field(default="compiled", description="compiled, or simpy, the reference")
    dispatch: Literal["shortest_queue", "earliest_finish", "earliest_free"] | None = Field(
        default=None, description="who gets a request; the plan's if left out"
    )
    max_batch: int | None = Field(default=None, ge=1, description="largest dynamic batch; the plan's if left out")
    admission: bool | None = Field(default=None, description="reject hopeless requests; the plan's if left out")
    overhead: float | None = Field(
        default=None, ge=0, description="seconds added to every finish; the plan's if left out"
    )
    per_model: bool = Field(default=False, description="a table by model")
    per_group: bool = Field(default=False, description="a table by group")
    timeline: Path | None = Field(default=None, description="write what ran where and when (Perfetto JSON; one plan)")
    png: Path | None = Field(default=None, description="draw latencies and utilization into this file")


class ExportOptions(Options):
    """What may be said besides the plan."""

    to: str = Field(default="", description="target: torchrun, k8s, ray-serve, triton or vllm")
    image: str = Field(default="", description="container image")
    namespace: str = Field(default="meshwright", description="Kubernetes namespace")
    host: tuple[str, ...] = Field(default=(), description="addresses of the nodes, in order")
    port: int = Field(default=8080, ge=1, le=65535, description="port that clients call; groups take those after it")
    device: str = Field(default="auto", description="what a device is: auto, cpu or cuda")
    model_source: Mapping[str, str] = Field(
        default_factory=dict, description="MODEL=NAME-OR-FOLDER of a model's weights (vllm)"
    )
    force: bool = Field(default=False, description="write into a folder that holds other files")
