"""What may be said at the doors of the serving world besides the case."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from ..door import Options, Target
from ..limits import MAX_DEVICES, MAX_FACTOR, MAX_REPEATS, MAX_SECONDS

__all__ = ["CompareOptions", "ExportOptions", "MeasureOptions", "PlanOptions", "RunOptions", "SimulateOptions"]

Device = Literal["auto", "cpu", "cuda"]
Count = Annotated[int, Field(ge=1, le=MAX_DEVICES)]
DEVICE = "what a device is: auto (by the plan), cpu (a core) or cuda"


class PlanOptions(Options):
    """What may be said besides the case: nothing yet."""


class SimulateOptions(Options):
    """What may be said besides the case."""

    engine: Literal["compiled", "simpy"] = Field(default="compiled", description="compiled, or simpy, the reference")
    per_model: bool = Field(default=False, description="a table by model")
    per_group: bool = Field(default=False, description="a table by group")
    timeline: Target = Field(default=None, description="write what ran where and when (Perfetto JSON; one plan)")
    png: Target = Field(default=None, description="draw latencies and utilization into this file")


class RunOptions(Options):
    """What may be said besides the case."""

    on: Device = Field(default="auto", description=DEVICE)
    per_model: bool = Field(default=False, description="a table by model")
    timeline: Target = Field(default=None, description="write what ran where and when (Perfetto JSON)")
    png: Target = Field(
        default=None,
        description="draw attainment over time, real and simulated, into this file (with failures)",
    )
    windows: int = Field(
        default=20, ge=1, le=MAX_REPEATS, description="number of windows of time that are compared (with failures)"
    )
    startup_timeout: float = Field(
        default=180.0, gt=0, le=MAX_SECONDS, description="seconds that the workers may take to start"
    )


class CompareOptions(Options):
    """What may be said besides the case."""

    slo_scales: tuple[Annotated[float, Field(gt=0, le=MAX_FACTOR)], ...] = Field(
        min_length=1, default=(0.5, 1, 1.5, 2, 3, 4, 5, 10), description="SLO scales, a row for each"
    )
    on: Device = Field(default="auto", description=DEVICE)
    calibrate: bool = Field(default=True, description="measure each placement once it runs; else the profile alone")
    retries: int = Field(
        default=0, ge=0, le=MAX_REPEATS, description="run a cell again if others took the workers' cores meanwhile"
    )
    rehearsal: float | None = Field(
        default=None,
        gt=0,
        le=MAX_SECONDS,
        description="seconds of other requests before the cells, to learn what to predict with; else as the trace's",
    )
    csv: Target = Field(default=None, description="write the table here")
    png: Target = Field(default=None, description="draw attainment over SLO scale into this file")


class MeasureOptions(Options):
    """What may be said besides the models."""

    on: Literal["cpu", "cuda"] = Field(default="cpu", description="cpu (one core is one device) or cuda")
    batches: tuple[Count, ...] = Field(default=(1, 2, 4), min_length=1, description="batch sizes, numbers of requests")
    op: tuple[Count, ...] = Field(
        default=(1, 2), min_length=1, description="intra-operator degrees, numbers of devices"
    )
    pp: tuple[Count, ...] = Field(default=(1, 2), min_length=1, description="inter-operator degrees, numbers of stages")
    seconds: float | None = Field(
        default=None, gt=0, le=MAX_SECONDS, description="seconds per model, 15, or 5 with fast; of a plan, per round"
    )
    fast: bool = Field(default=False, description="fewer rounds")
    rounds: int | None = Field(
        default=None, ge=1, le=MAX_REPEATS, description="number of rounds of requests, of a plan; 4, or 2 with fast"
    )
    bandwidths: str = Field(
        default="",
        description="FOLDER: measure how fast weights load instead: this folder's disk, memory, loopback",
    )


class ExportOptions(Options):
    """What may be said besides the plan."""

    to: str = Field(default="", description="target: torchrun, k8s, ray-serve, triton or vllm")
    image: str = Field(default="", description="container image")
    namespace: str = Field(default="meshwright", description="Kubernetes namespace")
    host: tuple[str, ...] = Field(default=(), description="addresses of the nodes, in order")
    port: int = Field(default=8080, ge=1, le=65535, description="port that clients call; groups take those after it")
    on: str = Field(default="auto", description="what a device is: auto, cpu or cuda")
    model_source: Mapping[str, str] = Field(
        default_factory=dict, description="MODEL=NAME-OR-FOLDER of a model's weights (vllm)"
    )
    force: bool = Field(default=False, description="write into a folder that holds other files")
