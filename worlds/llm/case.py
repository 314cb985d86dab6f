"""What a case of the LLM world says: cluster, model, engine, traffic, planner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from ..file.units import parse_fraction
from ..limits import MAX_DEVICES, MAX_LLM_REQUESTS, MAX_SEATS
from ..world import CIRCUMSTANCE, Case

__all__ = ["EngineCase", "LLMCase", "LLMClusterCase", "LLMPlannerCase", "LLMWorkloadCase"]

Fraction = Annotated[float, BeforeValidator(parse_fraction)]
Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(gt=0)]
Devices = Annotated[int, Field(gt=0, le=MAX_DEVICES)]
Seats = Annotated[int, Field(gt=0, le=MAX_SEATS)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class LLMClusterCase(_Part):
    """The devices. `devices` fill nodes of `devices_per_node` as `Cluster.of` says."""

    devices: Devices = Field(description="number of devices")
    devices_per_node: Devices = Field(default=8, description="devices in a node")
    device: str = Field(default="h100-80gb", description="device type")
    price_per_hour: Annotated[float | None, CIRCUMSTANCE] = Field(
        default=None, ge=0, description="of one device; else the type's"
    )


class LLMWorkloadCase(_Part):
    """The traffic and its limits."""

    rate: Positive | None = Field(default=None, description="requests per second, generated traffic")
    cv: Positive = Field(default=1.0, description="coefficient of variation of inter-arrival times; 1: Poisson")
    requests: Annotated[int, Field(gt=0, le=MAX_LLM_REQUESTS)] | None = Field(
        default=None, description="generated requests, all models together; else those of the duration"
    )
    duration: Positive | None = Field(
        default=None,
        description="seconds of generated traffic; else 120 s, at least 2,000 requests, at most 20,000",
    )
    split: str | Mapping[str, float] | tuple[float, ...] = Field(
        default="uniform", description="shares of several models: uniform, power_law:EXPONENT, or one for each"
    )
    lengths: str = Field(default="sharegpt", description="sharegpt, alpaca, or a file with prompt and output tokens")
    trace: str | None = Field(default=None, description="measured traffic: a file of Azure's or Mooncake's form")
    rate_scale: Positive = Field(default=1.0, description="multiplies the rate; a trace is squeezed in time by it")
    cv_scale: Positive = Field(default=1.0, description="multiplies the CV of generated traffic")
    slo_ttft: Positive | None = Field(default=None, description="limit of the time to first token, seconds")
    slo_tpot: Positive | None = Field(default=None, description="limit of the time per further token, seconds")
    slo_scale: Positive = Field(default=1.0, description="multiplies both limits")

    @model_validator(mode="after")
    def _one_source(self) -> LLMWorkloadCase:
        if self.rate is not None and self.trace is not None:
            raise ValueError("give one of rate (generated traffic) and trace (a file)")
        shaped = [n for n in ("cv", "requests", "duration", "split", "lengths") if n in self.model_fields_set]
        if self.requests is not None and self.duration is not None:
            raise ValueError("give one of requests and duration")
        if self.trace is not None and shaped:
            raise ValueError(f"{shaped[0]}: shapes generated traffic, but a trace is given; leave it out")
        if self.trace is not None and self.cv_scale != 1:
            raise ValueError("cv_scale: changes generated traffic only, and a trace is given")
        return self


class EngineCase(_Part):
    """One engine, by vLLM's own names; planner `fixed` puts as many of them on the cluster as fit."""

    tensor_parallel_size: Devices = 1
    pipeline_parallel_size: Devices = 1
    decode_context_parallel_size: Devices = 1
    policy: str = Field(default="vllm-v1", description="scheduler")
    block_size: Seats = 16
    max_num_batched_tokens: Seats = 2048
    max_num_seqs: Seats = 256
    enable_chunked_prefill: bool = True
    enable_prefix_caching: bool = False
    gpu_memory_utilization: Annotated[Fraction, Field(gt=0, le=1)] = 0.9
    precision: str = Field(default="bf16", description="of weights and products")
    kv_precision: str = Field(default="bf16", description="of the KV cache")
    decode_engines: int = Field(
        default=0,
        ge=0,
        le=MAX_DEVICES,
        description="so many of the engines only decode, the others only read prompts; 0: all do both",
    )
    router: str = Field(default="round_robin", description="who gets a request")


class LLMPlannerCase(_Part):
    """Who plans: `fixed` takes the engine as it is, `vllm` searches one."""

    name: Literal["vllm", "fixed"] = Field(
        default="vllm", description="vllm searches the engines; fixed puts as many of engine on the cluster as fit"
    )
    label: str = Field(default="", description="how the study calls it; by default its name")
    options: Mapping[str, Any] = Field(
        default_factory=dict,
        description="of `vllm`: fields of its SearchSpace (tp, batched_tokens, …) and of its Effort (eta, seeds, …); "
        "share=true lets models share devices",
    )
    objective: Literal["goodput", "devices", "rate"] = Field(
        default="goodput",
        description="most good requests; fewest devices that attain target; the highest rate that does",
    )
    target: Annotated[Fraction, Field(gt=0, le=1)] = Field(
        default=0.99, description="share of requests within both limits that objective devices or rate asks for"
    )


class LLMCase(Case):
    """One case of the LLM world: a model on a cluster under traffic.

    A replication draws the same gaps and lengths for every engine, planner and limit. Another rate stretches the same
    gaps in time.
    """

    cluster: LLMClusterCase
    model: Annotated[str | tuple[str, ...], CIRCUMSTANCE] = Field(
        default="llama-3.1-8b", description="a shipped decoder, or a config.json; several share the cluster"
    )
    kernels: Annotated[str | None, CIRCUMSTANCE] = Field(
        default=None, description="folder of kernel tables; else the device's roofline"
    )
    workload: Annotated[LLMWorkloadCase, CIRCUMSTANCE] = LLMWorkloadCase()
    engine: EngineCase = EngineCase()  # of planner `fixed`
    planner: LLMPlannerCase = LLMPlannerCase()
    warmup: Annotated[int, CIRCUMSTANCE] = Field(
        default=0, ge=0, description="requests left out of the metrics at the beginning and at the end"
    )

    @property
    def models(self) -> tuple[str, ...]:
        """The models, as they are named."""
        return (self.model,) if isinstance(self.model, str) else self.model
