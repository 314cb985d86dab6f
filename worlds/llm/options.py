"""What may be said at the doors of the LLM world besides the case."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from ..door import Options, Target
from ..limits import MAX_REPEATS, MAX_REQUESTS, MAX_SEATS, MAX_SECONDS, MAX_THREADS, MAX_TOKENS

__all__ = [
    "CompareOptions", "ExportOptions", "MeasureOptions", "PlanOptions", "RunOptions", "SimulateOptions",
]  # fmt: skip

DTYPE = "number format: float32 (cpu), bfloat16 (cuda), float16 or float64; else by the device"


class PlanOptions(Options):
    """What may be said besides the case."""

    workers: int = Field(default=1, ge=1, le=4096, description="processes that search")
    html: Target = Field(default=None, description="write the answer as one HTML page here (one planner)")


class SimulateOptions(Options):
    """What may be said besides the case."""

    engine: Literal["compiled", "simpy"] = Field(default="compiled", description="compiled, or simpy, the reference")
    per_model: bool = Field(default=False, description="a table by model")
    per_group: bool = Field(default=False, description="a table by deployment")


class RunOptions(Options):
    """What may be said besides the case."""

    serve: bool = Field(default=False, description="an OpenAI-compatible endpoint instead of a workload")
    host: str = Field(default="127.0.0.1", description="with serve: address to listen at")
    port: int = Field(default=8000, ge=0, le=65535, description="with serve: port; 0: a free one")
    token_file: Path | None = Field(default=None, description="with serve: file with the token that clients must give")
    tls_cert: Path | None = Field(default=None, description="with serve: TLS certificate chain, PEM")
    tls_key: Path | None = Field(default=None, description="with serve: its private key")
    grace: float | None = Field(
        default=None, ge=0, le=MAX_SECONDS, description="with serve: seconds to finish after SIGTERM; 20"
    )
    on: Literal["auto", "cpu", "cuda"] = Field(default="auto", description="auto, cpu or cuda")
    dtype: str | None = Field(default=None, description=DTYPE)
    threads: int = Field(default=1, ge=1, le=MAX_THREADS, description="torch threads of each process on a CPU")
    num_blocks: int | None = Field(
        default=None, ge=1, le=MAX_REQUESTS, description="blocks of KV memory; else what fits"
    )
    scale: float | None = Field(
        default=None, gt=0, le=100, description="factor on drawn lengths; else so that they fit the model, of a plan 1"
    )
    concurrency: int | None = Field(
        default=None, ge=1, le=MAX_SEATS, description="so many requests at a time, instead of a rate"
    )
    deployment: str | None = Field(default=None, description="of a plan: which of its deployments")
    timeline: Target = Field(default=None, description="write what ran where and when (Perfetto JSON)")
    kills: tuple[Annotated[float, Field(gt=0, le=MAX_SECONDS)], ...] = Field(
        default=(),
        description="seconds at which the engine is killed and started anew",
    )
    repair: float | None = Field(
        default=None, ge=0, le=MAX_SECONDS, description="with kills: seconds until it is started anew; 0"
    )
    png: Target = Field(default=None, description="with kills: draw it beside the simulated one")


class CompareOptions(Options):
    """What may be said besides the case."""

    settings: tuple[str, ...] | None = Field(
        default=None, description="schedulers and memory: vllm-v1, vllm-v1-preempting, vllm-0.2; all if left out"
    )
    loads: tuple[Annotated[float, Field(gt=0)], ...] = Field(
        default=(0.3, 0.6, 0.9), min_length=1, description="shares of the rate that can be sustained"
    )
    on: Literal["cpu", "cuda"] = Field(default="cpu", description="cpu or cuda")
    dtype: str | None = Field(default=None, description=DTYPE)
    profile: Path | None = Field(default=None, description="folder that measure wrote; else measured first")
    clock: Literal["wall", "core"] = Field(
        default="wall", description="wall, or core: the processor time of the engine, on a busy CPU"
    )
    fast: bool = Field(default=False, description="measure fewer sizes and rounds")
    calibrate: bool = Field(default=True, description="serve other requests first, and fit what they show")
    draws: int = Field(default=200, ge=2, le=MAX_REPEATS, description="number of draws of each prediction interval")
    retries: int = Field(
        default=0, ge=0, le=MAX_REPEATS, description="run a cell again if others took the core meanwhile"
    )
    csv: Target = Field(default=None, description="write the table here")
    png: Target = Field(default=None, description="draw it into this file")
    silicon: Path | None = Field(
        default=None, description="instead: measured rows (CSV) of engines; kernels holds a folder per system"
    )
    vllm_run: Path | None = Field(default=None, description="instead: folder of a recorded vLLM run")
    link: str | None = Field(
        default=None, description="of vllm_run: link between devices, GB/s and microseconds (36.5,14), or a device's"
    )


class MeasureOptions(Options):
    """What may be said besides the case."""

    on: Literal["cpu", "cuda"] = Field(default="cpu", description="cpu or cuda")
    dtype: str | None = Field(default=None, description=DTYPE)
    max_tokens: int | None = Field(default=None, ge=1, le=MAX_TOKENS, description="tokens of the largest batch")
    max_seqs: int | None = Field(default=None, ge=1, le=MAX_SEATS, description="sequences of the largest batch")
    max_context: int | None = Field(default=None, ge=1, le=MAX_TOKENS, description="tokens of the longest sequence")
    fast: bool = Field(default=False, description="fewer sizes and rounds")


class ExportOptions(Options):
    """What may be said besides the plan."""

    to: str = Field(default="", description="target: vllm or k8s")
    image: str = Field(default="", description="container image")
    namespace: str = Field(default="meshwright", description="Kubernetes namespace")
    host: tuple[str, ...] = Field(default=(), description="addresses of the nodes, in order")
    port: int = Field(default=8080, ge=1, le=65535, description="port that clients call; engines take those after it")
    on: str = Field(default="auto", description="what a device is: auto, cpu or cuda")
    model_source: Mapping[str, str] = Field(
        default_factory=dict, description="MODEL=NAME-OR-FOLDER of a model's weights"
    )
    force: bool = Field(default=False, description="write into a folder that holds other files")
