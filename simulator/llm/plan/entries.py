"""What an LLM plan file holds, entry by entry: the checked data that `LLMPlan` is made of."""

from __future__ import annotations

import math
from dataclasses import asdict, fields
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, JsonValue, field_validator

from ....errors import InputError
from ....profiles.llm.cost.kinds.experts import ALL2ALL, All2All
from ....profiles.llm.decoder import DecoderSpec
from ....profiles.llm.experts import MOST_SKEW, SKEW
from ....profiles.llm.named import decoder
from ....profiles.llm.zoo import DECODERS
from ...plan.entries import Entry, Name, Seconds, SparseEntry
from ..policy.catalogue import POLICIES, policy_config
from ..result.objectives import Promises, objectives_of
from .drafts import DraftEntry

__all__ = ["Deployment", "LLMWorkload", "ServedModel", "promised"]

Degree = Annotated[int, Field(gt=0)]
Option = bool | int | float | str | None
Role = Literal["both", "prefill", "decode"]

MEMORY_OPTION = {
    "vllm-v1": "num_blocks", "vllm-0.6": "num_gpu_blocks", "vllm-0.2": "num_gpu_blocks", "sarathi": "num_gpu_blocks",
    "vllm-paper": "num_gpu_blocks",
}  # fmt: skip
"""Policy -> what its options call the KV blocks; the others count `num_slots`, tokens."""


class ServedModel(SparseEntry):
    """A model that the plan serves, and what its users were promised.

    ``shape`` is empty for a shipped decoder; for another it holds the fields of its `DecoderSpec`.
    """

    rare: ClassVar[frozenset[str]] = frozenset({"images", "expert_skew"})

    name: Name = Field(description="what deployments call it")
    decoder: str = Field(default="", description="name of a shipped decoder; empty: the model's own name")
    shape: dict[str, JsonValue] = Field(default_factory=dict, description="fields of DecoderSpec, if it is not shipped")
    slo_ttft_s: float | None = Field(default=None, gt=0, description="limit of the time to first token (s)")
    slo_tpot_s: float | None = Field(default=None, gt=0, description="limit of the time per further token (s)")
    slo: tuple[str, ...] = Field(
        default=(), description="further limits and percentiles, of all requests or of a class: 'p90 ttft <= 1 s'"
    )
    images: tuple[tuple[Degree, Degree], ...] = Field(
        default=(), description="images of every request: height and width (pixels); their tokens are the prompt's"
    )
    expert_skew: float = Field(
        default=SKEW, ge=0, le=MOST_SKEW, description="how unequally its requests' tokens choose experts; 0: all alike"
    )

    @field_validator("slo")
    @classmethod
    def _objectives(cls, said: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(str, objectives_of(said)))

    @classmethod
    def of(cls, spec: DecoderSpec, *, name: str = "", **promises: Any) -> ServedModel:
        """The entry of a decoder; spelt out where it is not a shipped one. `promises` are further fields."""
        shipped = DECODERS.get(spec.name) == spec
        return cls(
            name=name or spec.name,
            decoder=spec.name if shipped and name not in ("", spec.name) else "",
            shape={} if shipped else asdict(spec),
            **promises,
        )

    @property
    def promises(self) -> Promises:
        """What its users were promised."""
        return Promises(self.slo_ttft_s or math.inf, self.slo_tpot_s or math.inf, objectives_of(self.slo))

    @property
    def spec(self) -> DecoderSpec:
        """The decoder.

        Raises
        ------
        InputError
            If it is neither shipped nor spelt out.
        """
        if not self.shape:
            return decoder(self.decoder or self.name)
        known = {f.name for f in fields(DecoderSpec)}
        unknown = [key for key in self.shape if key not in known]
        if unknown:
            raise InputError(f"shape: unknown key {unknown[0]!r}; known: {', '.join(sorted(known))}")
        shape: Any = self.shape
        try:
            return DecoderSpec(**shape)
        except TypeError as error:
            raise InputError(f"shape: {str(error).partition(') ')[2] or error}") from None


def promised(promises: Promises) -> dict[str, Any]:
    """What was promised, as the fields of a `ServedModel` say it."""
    return {
        "slo_ttft_s": promises.ttft_s if math.isfinite(promises.ttft_s) else None,
        "slo_tpot_s": promises.tpot_s if math.isfinite(promises.tpot_s) else None,
        "slo": tuple(map(str, promises.objectives)),
    }


class Deployment(SparseEntry):
    """Equal engines that serve one model.

    An engine is one vLLM server: ``tp x pp x dp`` devices, one scheduler (one per pipeline batch in flight, unless its
    `config` has ``pipeline_parallel_size``), one KV memory. `devices` holds one row per engine, stage by stage; two
    deployments whose engines stand on the same devices share them: the memory is split (their `gpu_memory_utilization`
    add up to 1 at most), iterations take turns.
    """

    rare: ClassVar[frozenset[str]] = frozenset({"share", "speculative", "eplb", "all2all"})

    name: Name
    model: Name = Field(description="name of one of the plan's models")
    replicas: Degree = 1
    tp: Degree = 1
    pp: Degree = 1
    cp: Degree = Field(default=1, description="shards of every sequence, among the tp ranks (vLLM's DCP)")
    dp: Degree = 1
    ep: bool = Field(default=False, description="experts spread over the engine's devices instead of cut")
    eplb: bool = Field(default=False, description="with ep: ranks bear equally popular experts")
    all2all: All2All = Field(
        default=ALL2ALL[0], description="with ep and dp: how tokens reach experts (--all2all-backend)"
    )
    precision: Name = Field(default="bf16", description="of weights and products")
    kv_precision: Name = Field(default="bf16", description="of the KV cache")
    policy: Name = Field(default="vllm-v1", description="scheduler: a name of POLICIES")
    config: dict[str, Option] = Field(
        default_factory=dict, description="the policy's options by the engine's own names, KV memory aside"
    )
    gpu_memory_utilization: float = Field(default=0.9, gt=0, le=1, description="share of each device that it takes")
    num_blocks: Degree = Field(
        description="KV blocks of an engine, all of its cp and dp ranks together (of a contiguous policy: tokens)"
    )
    other_bytes: int = Field(default=0, ge=0, description="memory of a rank beside weights and KV blocks (bytes)")
    role: Role = "both"
    share: float | None = Field(
        default=None, gt=0, le=1, description="share of its model's requests, dealt in turn; if left out, routed"
    )
    speculative: DraftEntry | None = Field(default=None, description="speculative decoding; if left out, none")
    devices: tuple[tuple[Annotated[int, Field(ge=0)], ...], ...] = Field(
        description="for each engine its devices, stage by stage"
    )

    @property
    def devices_per_engine(self) -> int:
        """Devices of one engine."""
        return self.tp * self.pp * self.dp

    @property
    def schedulers(self) -> int:
        """Schedulers that an engine is simulated with: one for each batch in flight, or one that has them all."""
        return 1 if self.config.get("pipeline_parallel_size", 1) != 1 else self.pp

    @property
    def expert_degree(self) -> int:
        """Degree that experts are split by: all ranks of an engine, or 1 where each holds a part of every expert."""
        return self.tp * self.dp if self.ep else 1

    @property
    def block_size(self) -> int:
        """Tokens in a KV block; 1 where memory is contiguous."""
        return int(getattr(self.options, "block_size", 1))

    @property
    def slots(self) -> int:
        """Tokens that an engine's KV memory holds."""
        return self.num_blocks * self.block_size

    @property
    def options(self) -> Any:
        """Options of its policy, KV memory included: `V1Config`, …

        Raises
        ------
        InputError
            On an unknown policy or option, or a value out of its range.
        """
        if self.policy not in POLICIES:
            raise InputError(f"policy: unknown policy {self.policy!r}; expected one of {', '.join(POLICIES)}")
        memory = MEMORY_OPTION.get(self.policy, "num_slots")
        if memory in self.config:
            raise InputError(f"config: {memory} is the plan's num_blocks; leave it out")
        return policy_config(POLICIES[self.policy].config, {memory: self.num_blocks, **self.config})

    def __str__(self) -> str:
        degrees = "".join(
            f" {name.upper()}{getattr(self, name)}" for name in ("tp", "pp", "cp", "dp") if self._is(name)
        )
        spread = (" EP" if self.ep else "") + (" EPLB" if self.eplb else "")
        spread += "" if self.all2all == ALL2ALL[0] else f" {self.all2all}"
        role = "" if self.role == "both" else f", {self.role} only"
        role += "" if self.share is None else f", {self.share:.4g} of the requests"
        role += "" if self.speculative is None else f", {self.speculative}"
        return (
            f"{self.name}: {self.replicas} x {self.model}{degrees or ' TP1'}{spread}{role}, "
            f"{self.policy}, {self.num_blocks} KV blocks each"
        )

    def _is(self, degree: str) -> bool:
        return getattr(self, degree) > 1


class LLMWorkload(Entry):
    """The traffic that was planned for."""

    requests: int = Field(ge=0)
    duration_s: Seconds
    rate_per_s: dict[str, Seconds] = Field(default_factory=dict, description="model -> requests per second")
    mean_prompt_tokens: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    mean_output_tokens: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    max_sequence_tokens: int = Field(default=0, ge=0, description="longest prompt and output together")
    source: str = ""
