"""What may be said at the doors of the LLM world besides the case."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from ..door import Options

__all__ = ["ExportOptions", "PlanOptions", "SimulateOptions"]


class PlanOptions(Options):
    """What may be said besides the case."""

    workers: int = Field(default=1, ge=1, le=4096, description="processes that search")


class SimulateOptions(Options):
    """What may be said besides the case."""

    engine: Literal["compiled", "simpy"] = Field(default="compiled", description="compiled, or simpy, the reference")
    per_model: bool = Field(default=False, description="a table by model")
    per_group: bool = Field(default=False, description="a table by deployment")


class ExportOptions(Options):
    """What may be said besides the plan."""

    to: str = Field(default="", description="target: vllm or k8s")
    image: str = Field(default="", description="container image")
    namespace: str = Field(default="meshwright", description="Kubernetes namespace")
    host: tuple[str, ...] = Field(default=(), description="addresses of the nodes, in order")
    port: int = Field(default=8080, ge=1, le=65535, description="port that clients call; engines take those after it")
    device: str = Field(default="auto", description="what a device is: auto, cpu or cuda")
    model_source: Mapping[str, str] = Field(
        default_factory=dict, description="MODEL=NAME-OR-FOLDER of a model's weights"
    )
    force: bool = Field(default=False, description="write into a folder that holds other files")
