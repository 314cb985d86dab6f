"""What an LLM plan file holds, entry by entry: the checked data that `LLMPlan` is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue

from ....errors import InputError
from ....profiles.llm.decoder import DecoderSpec, decoder
from ....profiles.llm.zoo import DECODERS
from ...plan.entries import ClusterEntry, Entry, Name, Problem, Seconds
from ..policy.catalogue import POLICIES, policy_config

__all__ = ["Deployment", "LLMWorkload", "ServedModel", "contradictions"]

Degree = Annotated[int, Field(gt=0)]
Option = bool | int | float | str | None
Role = Literal["both", "prefill", "decode"]

MEMORY_OPTION = {"vllm-v1": "num_blocks", "vllm-0.2": "num_gpu_blocks", "sarathi": "num_gpu_blocks"}
"""Policy -> what its options call the KV blocks; the others count `num_slots`, tokens."""


class ServedModel(Entry):
    """A model that the plan serves, and what its users were promised.

    ``shape`` is empty for a shipped decoder; for another it holds the fields of its `DecoderSpec`.
    """

    name: Name = Field(description="what deployments call it")
    decoder: str = Field(default="", description="name of a shipped decoder; empty: the model's own name")
    shape: dict[str, JsonValue] = Field(default_factory=dict, description="fields of DecoderSpec, if it is not shipped")
    slo_ttft_s: float | None = Field(default=None, gt=0, description="limit of the time to first token (s)")
    slo_tpot_s: float | None = Field(default=None, gt=0, description="limit of the time per further token (s)")

    @classmethod
    def of(
        cls, spec: DecoderSpec, *, name: str = "", slo_ttft_s: float | None = None, slo_tpot_s: float | None = None
    ) -> ServedModel:
        """The entry of a decoder; spelt out where it is not a shipped one."""
        shipped = DECODERS.get(spec.name) == spec
        return cls(
            name=name or spec.name,
            decoder=spec.name if shipped and name not in ("", spec.name) else "",
            shape={} if shipped else asdict(spec),
            slo_ttft_s=slo_ttft_s,
            slo_tpot_s=slo_tpot_s,
        )

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


class Deployment(Entry):
    """Equal engines that serve one model.

    An engine is one vLLM server: ``tp x pp x dp`` devices, one scheduler (one per pipeline batch in flight), one
    KV memory. `devices` holds one row per engine, stage by stage; two deployments whose engines stand on the same
    devices share them: the memory is split (their `gpu_memory_utilization` add up to 1 at most), iterations take turns.
    """

    name: Name
    model: Name = Field(description="name of one of the plan's models")
    replicas: Degree = 1
    tp: Degree = 1
    pp: Degree = 1
    cp: Degree = Field(default=1, description="shards of every sequence, among the tp ranks (vLLM's DCP)")
    dp: Degree = 1
    ep: bool = Field(default=False, description="experts spread over the engine's devices instead of cut")
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
    devices: tuple[tuple[Annotated[int, Field(ge=0)], ...], ...] = Field(
        description="for each engine its devices, stage by stage"
    )

    @property
    def devices_per_engine(self) -> int:
        """Devices of one engine."""
        return self.tp * self.pp * self.dp

    @property
    def expert_degree(self) -> int:
        """Degree that experts are split by: all ranks of an engine, or 1 where each holds a part of every expert."""
        return self.tp * self.dp if self.ep else 1

    @property
    def block_size(self) -> int:
        """Tokens in a KV block; 1 where memory is contiguous."""
        return int(getattr(self.options, "block_size", 1))

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
        role = "" if self.role == "both" else f", {self.role} only"
        return (
            f"{self.name}: {self.replicas} x {self.model}{degrees or ' TP1'}{' EP' if self.ep else ''}{role}, "
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


def contradictions(
    cluster: ClusterEntry | None, models: Sequence[ServedModel | None], deployments: Sequence[Deployment | None]
) -> list[Problem]:
    """What is wrong between entries that are each right by themselves.

    Entries that could not be read are None, and what needs them is not checked.
    """
    found: list[Problem] = []
    names: dict[str, int] = {}
    for m, model in enumerate(models):
        if model is None:
            continue
        if model.name in names:
            found.append((("models", m, "name"), f"{model.name!r} is models[{names[model.name]}] already"))
        names.setdefault(model.name, m)
        try:
            _ = model.spec
        except InputError as error:
            found.append((("models", m), str(error)))
    known = None if None in models else names
    seen: dict[str, int] = {}
    for d, each in enumerate(deployments):
        if each is None:
            continue
        if each.name in seen:
            found.append((("deployments", d, "name"), f"{each.name!r} is deployments[{seen[each.name]}] already"))
        seen.setdefault(each.name, d)
        if known is not None and each.model not in known:
            shown = ", ".join(list(known)[:8])
            found.append((("deployments", d, "model"), f"unknown model {each.model!r}; the plan lists {shown}"))
        found += [(("deployments", d, *where), what) for where, what in _own(each, cluster)]
    found += _roles(deployments)
    if None not in deployments:
        found += _sharing([d for d in deployments if d is not None])
    return found


def _own(each: Deployment, cluster: ClusterEntry | None) -> list[Problem]:
    """What is wrong with one deployment."""
    found: list[Problem] = []
    if each.tp % each.cp:
        found.append((("cp",), f"expected a divisor of tp {each.tp}, whose ranks hold the shards (got {each.cp})"))
    try:
        _ = each.options
    except InputError as error:
        found.append((("config",), str(error)))
    if len(each.devices) != each.replicas:
        found.append((("devices",), f"expected a row for each of {each.replicas} engines (got {len(each.devices)})"))
    for i, row in enumerate(each.devices):
        if len(row) != each.devices_per_engine:
            found.append((("devices", i), f"an engine has {each.devices_per_engine} devices (got {len(row)})"))
        if len(set(row)) != len(row):
            found.append((("devices", i), f"a device stands twice in one engine (got {list(row)})"))
        if cluster is not None:
            count = cluster.nodes * cluster.devices_per_node
            found += [
                (("devices", i, j), f"device {x} does not exist; the cluster has 0 … {count - 1}")
                for j, x in enumerate(row)
                if x >= count
            ]
    return found


def _roles(deployments: Sequence[Deployment | None]) -> list[Problem]:
    """Prefill engines need decode engines of the same model, and the other way round."""
    found: list[Problem] = []
    roles: dict[str, set[str]] = {}
    for each in deployments:
        if each is not None:
            roles.setdefault(each.model, set()).add(each.role)
    for d, each in enumerate(deployments):
        if each is None or each.role == "both":
            continue
        other = "decode" if each.role == "prefill" else "prefill"
        if other not in roles[each.model] and None not in deployments:
            found.append((("deployments", d, "role"), f"{each.model!r} has no deployment with role {other!r}"))
        if "both" in roles[each.model]:
            found.append((("deployments", d, "role"), f"{each.model!r} is also served by engines with role 'both'"))
    return found


def _sharing(deployments: Sequence[Deployment]) -> list[Problem]:
    """Engines share all of their devices or none, and their memory adds up."""
    found: list[Problem] = []
    owner: dict[int, frozenset[int]] = {}
    share: dict[frozenset[int], float] = {}
    for d, each in enumerate(deployments):
        for i, row in enumerate(each.devices):
            group = frozenset(row)
            where = ("deployments", d, "devices", i)
            other = next((owner[x] for x in row if x in owner and owner[x] != group), None)
            if other is not None:
                found.append((where, f"shares some but not all devices with an engine on {sorted(other)}"))
            for x in row:
                owner.setdefault(x, group)
            share[group] = share.get(group, 0.0) + each.gpu_memory_utilization
            if share[group] > 1 + 1e-9:  # 0.3 + 0.3 + 0.4 is above 1 by an ulp
                found.append((where, f"the engines on {sorted(group)} take {share[group]:.3g} of the memory together"))
    return found
