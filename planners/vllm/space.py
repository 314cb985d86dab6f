"""What the planner may choose from: engine shapes, their options, how many, how requests find them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, cast

from pydantic import ValidationError

from ...errors import InputError
from ...profiles.llm.cost.iteration import PRECISIONS
from ...reprs import Shown
from ...simulator.llm.plan.drafts import DraftEntry
from ...simulator.llm.plan.entries import MEMORY_OPTION, Deployment, Option
from ...simulator.llm.policy.catalogue import POLICIES
from ...simulator.llm.policy.router import ROUTERS

__all__ = ["Candidate", "EngineShape", "SearchSpace"]

SPLITS = ("no", "also", "only")


@dataclass(frozen=True, slots=True, repr=False)
class SearchSpace(Shown):
    """The values of each option that are tried, in every combination that fits.

    Parameters
    ----------
    tp, pp, cp : sequence of int
        Degrees of tensor, pipeline and context parallelism of an engine.
    expert_parallel : sequence of bool
        Of models of experts on several devices: whether these are spread over the devices instead of cut.
    policies : sequence of str
        Schedulers: names of `POLICIES`.
    block_sizes : sequence of int
        Tokens in a KV block.
    batched_tokens, seqs : sequence of int
        ``max_num_batched_tokens`` and ``max_num_seqs``.
    chunked_prefill : sequence of bool
        Of vllm-v1: whether prompts may be split over steps.
    prefix_caching : sequence of bool
        Of vllm-v1; True is tried only where requests share prefixes.
    utilizations : sequence of float
        ``gpu_memory_utilization``.
    routers : sequence of str
        Who gets a request, where there are several engines.
    precision, kv_precision : str or sequence of str
        Of weights and of the KV cache. Several are traded against each other by time and memory alone: what quality a
        format costs is not known here.
    speculative : sequence of DraftEntry or None
        Speculative decoding: each of these, and None for none. A mapping is taken for the fields of a `DraftEntry`.
    disaggregate : {"no", "also", "only"}
        Whether prompts and decodes may (or must) be on engines of their own; every ratio is tried, with equal engines.

    Raises
    ------
    InputError
        On an empty choice, or a value out of its range.
    """

    tp: Sequence[int] = (1, 2, 4, 8)
    pp: Sequence[int] = (1, 2)
    cp: Sequence[int] = (1,)
    expert_parallel: Sequence[bool] = (False, True)
    policies: Sequence[str] = ("vllm-v1",)
    block_sizes: Sequence[int] = (16,)
    batched_tokens: Sequence[int] = (512, 2048, 8192)
    seqs: Sequence[int] = (256,)
    chunked_prefill: Sequence[bool] = (True,)
    prefix_caching: Sequence[bool] = (False, True)
    utilizations: Sequence[float] = (0.9,)
    routers: Sequence[str] = ("round_robin",)
    precision: str | Sequence[str] = "bf16"
    kv_precision: str | Sequence[str] = "bf16"
    speculative: Sequence[DraftEntry | None] = (None,)
    disaggregate: str = "no"

    def __post_init__(self) -> None:
        for field in fields(self):
            value: Any = getattr(self, field.name)
            if isinstance(value, str):
                continue
            if not isinstance(value, Sequence) or not value:
                raise InputError(f"space: {field.name}: expected one value or more (got {value!r})")
            each = cast("Sequence[Any]", value)
            if field.name == "speculative":
                each = [_draft(one) for one in each]
            object.__setattr__(self, field.name, tuple(dict.fromkeys(each)))
        for name in ("tp", "pp", "cp", "block_sizes", "batched_tokens", "seqs"):
            for value in getattr(self, name):
                if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                    raise InputError(f"space: {name}: expected integers >= 1 (got {value!r})")
        for name, known in (("policies", POLICIES), ("routers", ROUTERS)):
            for value in getattr(self, name):
                if value not in known:
                    raise InputError(f"space: {name}: unknown {value!r}; expected some of {', '.join(known)}")
        for name, formats in (("precision", self.precisions), ("kv_precision", self.kv_precisions)):
            for value in formats:
                if value not in PRECISIONS:
                    raise InputError(f"space: {name}: expected some of {', '.join(PRECISIONS)} (got {value!r})")
        for value in self.utilizations:
            if not 0 < value <= 1:
                raise InputError(f"space: utilizations: expected shares in (0, 1] (got {value})")
        if self.disaggregate not in SPLITS:
            raise InputError(f"space: disaggregate: expected one of {', '.join(SPLITS)} (got {self.disaggregate!r})")

    @property
    def precisions(self) -> tuple[str, ...]:
        """Formats of the weights."""
        return (self.precision,) if isinstance(self.precision, str) else tuple(self.precision)

    @property
    def kv_precisions(self) -> tuple[str, ...]:
        """Formats of the KV cache."""
        return (self.kv_precision,) if isinstance(self.kv_precision, str) else tuple(self.kv_precision)


def _draft(said: Any) -> DraftEntry | None:
    """Drafts as they are given: an entry, its fields, or none.

    Raises
    ------
    InputError
        On anything else, or a field that is wrong.
    """
    if said is None or isinstance(said, DraftEntry):
        return said
    try:
        return DraftEntry.model_validate(said)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "drafts"
        raise InputError(f"space: speculative: {where}: {first['msg']} (got {first['input']!r:.60})") from None


@dataclass(frozen=True, slots=True, repr=False)
class EngineShape(Shown):
    """One engine: its parallelism, its options, its memory.

    Parameters
    ----------
    tp, pp, cp : int
        Degrees of tensor, pipeline and context parallelism; ``tp * pp`` devices.
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
        KV blocks that fit beside weights and activations; tokens under policies with contiguous memory.
    precision, kv_precision : str
        Of weights and of the KV cache.
    other_bytes : int
        Bytes of a device that activations and the runtime take.
    ep : bool
        Whether experts are spread over the tensor-parallel devices instead of cut.
    speculative : DraftEntry, optional
        Its drafts, if it decodes speculatively.
    windows : (int, int, int)
        ``sliding_window, full_groups, window_groups`` of the scheduler (`V1Config`): the model's.
    more : tuple of (str, value)
        Further options of the scheduler, by its own names.
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

    @property
    def devices(self) -> int:
        """Devices of one engine."""
        return self.tp * self.pp

    @property
    def degrees(self) -> tuple[int, int, int, bool]:
        """What an engine is cut into: ``tp, pp, cp, ep``."""
        return self.tp, self.pp, self.cp, self.ep

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
            role=role, speculative=self.speculative, devices=tuple(tuple(row) for row in devices),
        )  # fmt: skip

    def __str__(self) -> str:
        said = f"TP{self.tp}" + (f" PP{self.pp}" if self.pp > 1 else "") + (f" CP{self.cp}" if self.cp > 1 else "")
        said += " EP" if self.ep else ""
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
