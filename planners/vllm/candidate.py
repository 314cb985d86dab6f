"""What a planner chooses for one model: an engine's shape and options, how many of them, how requests find them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from ...profiles.llm.cost.kinds.experts import ALL2ALL, All2All
from ...reprs import Shown
from ...simulator.llm.plan.drafts import DraftEntry
from ...simulator.llm.plan.entries import MEMORY_OPTION, Deployment, Option
from ...simulator.llm.policy.catalogue import POLICIES

__all__ = ["Candidate", "EngineShape"]


@dataclass(frozen=True, slots=True, repr=False)
class EngineShape(Shown):
    """One engine: its parallelism, its options, its memory.

    Parameters
    ----------
    tp, pp, cp : int
        Degrees of tensor, pipeline and context parallelism; ``tp * pp * dp`` devices.
    policy : str
        Its scheduler, a name of `POLICIES`.
    block_size : int
        Tokens in a KV block.
    batched_tokens, seqs : int
        ``max_num_batched_tokens`` and ``max_num_seqs``.
    chunked_prefill, prefix_caching : bool
        Whether prompts may be split over steps; whether equal prefixes are kept once.
    utilization : float
        ``gpu_memory_utilization``, a share of each device's memory.
    max_model_len : int
        Tokens that a sequence may have.
    num_blocks : int
        KV blocks that fit beside weights and activations, on all ranks together; tokens under policies with contiguous
        memory.
    precision, kv_precision : str
        Of weights and of the KV cache.
    other_bytes : int
        Bytes of a device that activations and the runtime take.
    ep : bool
        Whether experts are spread over the engine's devices instead of cut.
    speculative : DraftEntry, optional
        Its drafts, if it decodes speculatively.
    windows : (int, int, int)
        ``sliding_window, full_groups, window_groups`` of the scheduler (`V1Config`): the model's.
    more : tuple of (str, value)
        Further options of the scheduler, by its own names.
    dp : int
        Ranks with requests of their own that meet at the experts.
    eplb : bool
        Whether ranks bear equally popular experts.
    all2all : str
        How tokens reach experts of other ranks.
    """

    tp: int
    pp: int
    cp: int
    policy: str
    block_size: int
    batched_tokens: int
    seqs: int
    chunked_prefill: bool
    prefix_caching: bool
    utilization: float
    max_model_len: int
    num_blocks: int
    precision: str = "bf16"
    kv_precision: str = "bf16"
    other_bytes: int = 0
    ep: bool = False
    windows: tuple[int, int, int] = (0, 1, 0)
    speculative: DraftEntry | None = None
    more: tuple[tuple[str, Option], ...] = ()
    dp: int = 1
    eplb: bool = False
    all2all: All2All = ALL2ALL[0]

    @property
    def devices(self) -> int:
        """Devices of one engine."""
        return self.tp * self.pp * self.dp

    @property
    def degrees(self) -> tuple[int, int, int, int, bool]:
        """What an engine is cut into: ``tp, pp, cp, dp, ep``."""
        return self.tp, self.pp, self.cp, self.dp, self.ep

    @property
    def splits(self) -> bool:
        """Whether such engines can do prompts alone, or decodes."""
        return self.policy == "vllm-v1" and not self.windows[0] and self.speculative is None

    @property
    def config(self) -> dict[str, Option]:
        """The policy's options, KV memory aside."""
        chosen: dict[str, Option] = {
            "max_model_len": self.max_model_len, "max_num_seqs": self.seqs, "block_size": self.block_size,
            "max_num_batched_tokens": self.batched_tokens, "chunk_size": self.batched_tokens,
            "enable_chunked_prefill": self.chunked_prefill, "enable_prefix_caching": self.prefix_caching,
        }  # fmt: skip
        if self.windows[0]:
            names = ("sliding_window", "full_groups", "window_groups")
            chosen |= dict(zip(names, self.windows, strict=True))
        known = {option.name for option in fields(POLICIES[self.policy].config)}  # chunk_size is Sarathi's name for it
        return {name: value for name, value in chosen.items() if name in known} | dict(self.more)

    def deployment(self, name: str, model: str, devices: Sequence[Sequence[int]], role: Any = "both") -> Deployment:
        """As many of these engines as there are rows of devices."""
        return Deployment(
            name=name, model=model, replicas=len(devices), tp=self.tp, pp=self.pp, cp=self.cp, ep=self.ep,
            precision=self.precision, kv_precision=self.kv_precision, policy=self.policy, config=self.config,
            gpu_memory_utilization=self.utilization, num_blocks=self.num_blocks, other_bytes=self.other_bytes,
            role=role, speculative=self.speculative, devices=tuple(tuple(row) for row in devices), dp=self.dp,
            eplb=self.eplb, all2all=self.all2all,
        )  # fmt: skip

    def __str__(self) -> str:
        said = f"TP{self.tp}" + (f" PP{self.pp}" if self.pp > 1 else "") + (f" CP{self.cp}" if self.cp > 1 else "")
        said += (f" DP{self.dp}" if self.dp > 1 else "") + (" EP" if self.ep else "") + (" EPLB" if self.eplb else "")
        said += "" if self.all2all == ALL2ALL[0] else f" {self.all2all}"
        said += "" if self.policy == "vllm-v1" else f" {self.policy}"
        if self.policy in MEMORY_OPTION:
            said += f", {self.batched_tokens} tokens a step"
        extra = [
            f"{self.seqs} sequences",
            *([self.precision] if self.precision != "bf16" else []),
            *([f"{self.kv_precision} KV cache"] if self.kv_precision != "bf16" else []),
            *(["whole prompts"] if not self.chunked_prefill else []),
            *(["prefix caching"] if self.prefix_caching else []),
            *([str(self.speculative)] if self.speculative is not None else []),
            *([f"blocks of {self.block_size}"] if self.block_size != 16 else []),
            *([f"{self.utilization:g} of memory"] if self.utilization != 0.9 else []),
        ]
        return f"{said}, {', '.join(extra)}"


@dataclass(frozen=True, slots=True, repr=False)
class Candidate(Shown):
    """A way to serve one model.

    Parameters
    ----------
    engine : EngineShape
        Each of its engines.
    replicas : int
        Engines that serve whole requests; of disaggregated ones those for prompts.
    decode : int
        Engines for decodes; 0: prompts and decodes are together.
    router : str
        Who gets a request.
    """

    engine: EngineShape
    replicas: int
    decode: int = 0
    router: str = "round_robin"

    @property
    def engines(self) -> int:
        """Engines in all."""
        return self.replicas + self.decode

    @property
    def devices(self) -> int:
        """Devices in all."""
        return self.engines * self.engine.devices

    def deployments(self, model: str, devices: Sequence[Sequence[int]]) -> tuple[Deployment, ...]:
        """The deployments, on one row of devices per engine."""
        if not self.decode:
            return (self.engine.deployment(model, model, devices),)
        return (
            self.engine.deployment(f"{model} prefill", model, devices[: self.replicas], "prefill"),
            self.engine.deployment(f"{model} decode", model, devices[self.replicas :], "decode"),
        )

    def __str__(self) -> str:
        count = f"{self.replicas} x" if not self.decode else f"{self.replicas} prefill + {self.decode} decode x"
        routed = f", {self.router}" if self.router != "round_robin" and self.engines > 1 else ""
        return f"{count} {self.engine}{routed}"
