"""What a case says of one engine, by vLLM's own names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from ..file.units import parse_fraction
from ..limits import MAX_DEVICES, MAX_FACTOR, MAX_SEATS, MAX_TOKENS
from .part import Part

if TYPE_CHECKING:  # help texts need the fields, and no simulator
    from ...simulator.llm.plan.drafts import DraftEntry

__all__ = ["EngineCase", "SpeculativeCase"]

Fraction = Annotated[float, BeforeValidator(parse_fraction)]
Share = Annotated[float, BeforeValidator(parse_fraction), Field(ge=0, le=1)]
Devices = Annotated[int, Field(gt=0, le=MAX_DEVICES)]
OptionCount = Annotated[int, Field(ge=-MAX_TOKENS, le=MAX_TOKENS)]  # schedulers say which they take
OptionShare = Annotated[float, Field(ge=-MAX_FACTOR, le=MAX_FACTOR)]
Seats = Annotated[int, Field(gt=0, le=MAX_SEATS)]
MOST_DRAFTS = 64


class SpeculativeCase(Part):
    """Speculative decoding, by the names of vLLM's ``--speculative-config``; what is accepted is yours to know."""

    method: Literal["mtp", "draft_model", "ngram"] = Field(
        default="mtp",
        description="mtp: the checkpoint's own layer that predicts further tokens; draft_model: another decoder; "
        "ngram: neither",
    )
    num_speculative_tokens: int = Field(
        default=1, gt=0, le=MOST_DRAFTS, description="number of draft tokens of a sequence and step"
    )
    model: str = Field(default="", description="of draft_model: a shipped decoder on the same devices")
    acceptance: Share | tuple[Share, ...] = Field(
        description="share of draft tokens that are accepted, given those before: one, or one for each"
    )
    draft_time: float = Field(default=0.0, ge=0, le=60, description="further seconds of a step for making drafts")

    @model_validator(mode="after")
    def _drafting(self) -> SpeculativeCase:
        if (self.method == "draft_model") != bool(self.model):
            raise ValueError("model: goes with method draft_model, which needs it")
        if isinstance(self.acceptance, tuple) and len(self.acceptance) != self.num_speculative_tokens:
            said = len(self.acceptance)
            raise ValueError(f"acceptance: expected one, or one for each of {self.num_speculative_tokens} (got {said})")
        return self

    def entry(self) -> DraftEntry:
        """As plans say it."""
        from ...simulator.llm.plan.drafts import MTP, DraftEntry

        draft = MTP if self.method == "mtp" else self.model
        return DraftEntry(
            tokens=self.num_speculative_tokens, acceptance=self.acceptance, draft=draft, draft_s=self.draft_time
        )


class EngineCase(Part):
    """One engine, by vLLM's own names; `fixed` puts as many as fit on the cluster, `vllm` tries what else may vary."""

    tensor_parallel_size: Devices = Field(default=1, description="number of devices that share each layer")
    pipeline_parallel_size: Devices = Field(default=1, description="number of pipeline stages")
    decode_context_parallel_size: Devices = Field(
        default=1, description="number of devices that share the KV cache of a decoded request along its tokens"
    )
    data_parallel_size: Devices = Field(
        default=1,
        description="number of ranks with requests of their own that meet at the experts; models without experts: 1",
    )
    enable_expert_parallel: bool = Field(
        default=False, description="whether experts are spread over the engine's devices instead of cut"
    )
    enable_eplb: bool = Field(
        default=False, description="whether ranks bear equally popular experts; of enable_expert_parallel"
    )
    all2all_backend: Literal["allgather_reducescatter", "deepep_high_throughput"] = Field(
        default="allgather_reducescatter",
        description="how tokens reach experts of other ranks; of enable_expert_parallel and data_parallel_size",
    )
    speculative_config: SpeculativeCase | None = Field(
        default=None, description="speculative decoding; if left out, none"
    )
    policy: str = Field(default="vllm-v1", description="scheduler: vllm-v1, orca-max, sarathi, …")
    block_size: Seats = Field(default=16, description="tokens of a KV block")
    max_num_batched_tokens: Seats = Field(default=2048, description="tokens of an iteration at most")
    max_num_seqs: Seats = Field(default=256, description="number of requests that run at once at most")
    enable_chunked_prefill: bool = Field(
        default=True, description="whether a prompt may be read in several iterations, beside decoding"
    )
    enable_prefix_caching: bool = Field(
        default=False, description="whether KV blocks of equal beginnings of prompts are kept and shared"
    )
    gpu_memory_utilization: Annotated[Fraction, Field(gt=0, le=1)] = Field(
        default=0.9, description="share of a device's memory that the engine takes"
    )
    precision: str = Field(default="bf16", description="number format of weights and products: bf16, fp8, …")
    kv_precision: str = Field(default="bf16", description="number format of the KV cache: bf16, fp8, …")
    scheduler: Mapping[str, bool | OptionCount | OptionShare | str | None] = Field(
        default_factory=dict,
        description="further options of the scheduler, by its own names, each a number of requests, a share, … as it "
        "takes them (max_num_active_seqs, max_loras, watermark, …)",
    )
    decode_engines: int = Field(
        default=0,
        ge=0,
        le=MAX_DEVICES,
        description="number of engines that only decode, while the others only read prompts; 0: all do both",
    )
    router: str = Field(default="round_robin", description="which engine gets a request: round_robin, random, …")

    @model_validator(mode="after")
    def _spread(self) -> EngineCase:
        if self.enable_eplb and not self.enable_expert_parallel:
            raise ValueError("enable_eplb: balances experts that are spread; set enable_expert_parallel: true")
        if self.all2all_backend != "allgather_reducescatter" and not (
            self.enable_expert_parallel and self.data_parallel_size > 1
        ):
            raise ValueError(
                "all2all_backend: tokens are sent where ranks with requests of their own meet at experts; set "
                "enable_expert_parallel: true and data_parallel_size"
            )
        if self.decode_engines and self.data_parallel_size > 1:
            raise ValueError("decode_engines: not modelled with data_parallel_size; leave one of them out")
        return self

    @model_validator(mode="after")
    def _drafts(self) -> EngineCase:
        if self.speculative_config is not None:
            for name, told in (("policy", self.policy != "vllm-v1"), ("decode_engines", self.decode_engines > 0),
                               ("pipeline_parallel_size", self.pipeline_parallel_size > 1)):  # fmt: skip
                if told:
                    raise ValueError(f"speculative_config: not modelled with this {name}; leave one of them out")
        return self
