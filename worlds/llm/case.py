"""What a case of the LLM world says: cluster, model, engine, traffic, planner."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, cast

from pydantic import BeforeValidator, Field, field_validator, model_validator

from ..file.units import parse_fraction
from ..limits import (
    MAX_DEVICES,
    MAX_FACTOR,
    MAX_LLM_REQUESTS,
    MAX_PRICE,
    MAX_RATE,
    MAX_REPEATS,
    MAX_SECONDS,
    MIN_FACTOR,
)
from ..world import CIRCUMSTANCE, Case
from .clients import ClientsCase
from .conditions.parts import FailuresCase, LoadingCase, ScalingCase
from .conditions.spread import StepSpreadCase
from .engine import EngineCase
from .part import Part

if TYPE_CHECKING:  # help texts need the fields, and no simulator
    from ...simulator.llm.result.objectives import Promises

__all__ = ["EngineCase", "LLMCase", "LLMClusterCase", "LLMPlannerCase", "LLMWorkloadCase", "StepSpreadCase"]

Fraction = Annotated[float, BeforeValidator(parse_fraction)]
Rate = Annotated[float, Field(gt=0, le=MAX_RATE)]
Seconds = Annotated[float, Field(gt=0, le=MAX_SECONDS)]
Factor = Annotated[float, Field(ge=MIN_FACTOR, le=MAX_FACTOR)]
Devices = Annotated[int, Field(gt=0, le=MAX_DEVICES)]


def _joined(said: Any) -> Any:
    """Two numbers, as a list that a file or a flag holds, are the text that says them."""
    if not isinstance(said, list):
        return said
    pair = cast("list[Any]", said)
    return ",".join(map(str, pair)) if len(pair) == 2 else pair


Link = Annotated[str, BeforeValidator(_joined)]


class LLMClusterCase(Part):
    """The devices. `devices` fill nodes of `devices_per_node` as `Cluster.of` says."""

    devices: Devices = Field(description="number of devices")
    devices_per_node: Devices = Field(default=8, description="number of devices in a node")
    device: str = Field(default="h100-80gb", description="device type: a shipped one, or a file that describes one")
    price_per_hour: Annotated[float | None, CIRCUMSTANCE] = Field(
        default=None, ge=0, le=MAX_PRICE, description="price of one device-hour; else the type's"
    )
    pools: Mapping[str, Devices] = Field(
        default_factory=dict, description="further devices, of other types: device type, or a file -> number of devices"
    )
    link: Annotated[Link | Mapping[str, Link] | None, CIRCUMSTANCE] = Field(
        default=None,
        description="link between devices of a node, GB/s and microseconds (36.5,14), or a shipped device's; one for "
        "each device type, or of cluster.device; else the type's",
    )

    @field_validator("link")
    @classmethod
    def _links(cls, said: str | Mapping[str, str] | None) -> str | Mapping[str, str] | None:
        from .links import link_given

        for text in said.values() if isinstance(said, Mapping) else () if said is None else (said,):
            link_given(text)
        return said


SHAPING = ("cv", "requests", "duration", "split", "lengths", "classes")
"""What shapes generated traffic alone."""


class LLMWorkloadCase(Part):
    """The traffic and its limits."""

    slo_words: ClassVar[str] = "× the limits that are given"

    rate: Rate | None = Field(default=None, description="requests per second, generated traffic")
    cv: Factor = Field(default=1.0, description="coefficient of variation of inter-arrival times, a ratio; 1: Poisson")
    requests: Annotated[int, Field(gt=0, le=MAX_LLM_REQUESTS)] | None = Field(
        default=None, description="number of generated requests, all models together; else those of the duration"
    )
    duration: Seconds | None = Field(
        default=None,
        description="seconds of generated traffic; else 120 s, at least 2,000 requests, at most 20,000",
    )
    split: str | Mapping[str, float] | tuple[float, ...] = Field(
        default="uniform", description="shares of several models: uniform, power_law:EXPONENT, or one for each"
    )
    lengths: str = Field(default="sharegpt", description="sharegpt, alpaca, or a file with prompt and output tokens")
    trace: str | None = Field(
        default=None,
        description="measured traffic: Azure LLM, BurstGPT, Mooncake, a result of vLLM's bench, or a table",
    )
    clients: ClientsCase = ClientsCase()
    rate_scale: Factor = Field(
        default=1.0, description="factor that multiplies the rate; a trace is squeezed in time by it"
    )
    cv_scale: Factor = Field(default=1.0, description="factor that multiplies the CV of generated traffic")
    slo_ttft: Seconds | None = Field(default=None, description="limit of the time to first token, seconds")
    slo_tpot: Seconds | None = Field(default=None, description="limit of the time per further token, seconds")
    slo: tuple[str, ...] = Field(
        default=(),
        description="further limits and percentiles: [CLASS:] [pNN] ttft, tpot, itl or e2e <= so many s or ms, "
        "such as p90 ttft <= 1 s or chat: p99 itl <= 50 ms",
    )
    classes: Mapping[str, Annotated[Fraction, Field(ge=0, le=1)]] = Field(
        default_factory=dict, description="class of generated requests -> its share; a trace has a column class"
    )
    slo_scale: Factor = Field(default=1.0, description="factor that multiplies all limits")
    images: tuple[str, ...] = Field(
        default=(),
        description="images of every request, height x width in pixels, as 1120x1120; their tokens are the prompt's "
        "(of sharegpt and alpaca, which are texts, they are added)",
    )
    expert_skew: float = Field(
        default=0.7, ge=0, le=10,
        description="how unequally tokens choose experts: standard deviation of the logarithm of their popularity, a "
        "ratio; 0: all alike",
    )  # fmt: skip

    @model_validator(mode="after")
    def _one_source(self) -> LLMWorkloadCase:
        if self.rate is not None and self.trace is not None:
            raise ValueError("give one of rate (generated traffic) and trace (a file)")
        shaped = [
            n for n in ("cv", "requests", "duration", "split", "lengths", "classes") if n in self.model_fields_set
        ]
        if self.requests is not None and self.duration is not None:
            raise ValueError("give one of requests and duration")
        if self.trace is not None and shaped:
            raise ValueError(f"{shaped[0]}: shapes generated traffic, but a trace is given; leave it out")
        if self.trace is not None and self.cv_scale != 1:
            raise ValueError("cv_scale: changes generated traffic only, and a trace is given")
        return self

    @model_validator(mode="after")
    def _sent(self) -> LLMWorkloadCase:
        c, how = self.clients, self.clients.arrivals
        if (how == "closed") != (c.concurrency is not None):
            why = "closed arrivals need it: how many clients?" if how == "closed" else "goes with arrivals closed"
            raise ValueError(f"clients.concurrency: {why}")
        if c.think and how != "closed":
            raise ValueError("clients.think: goes with arrivals closed")
        if c.front_end_s is not None and c.front_end in ("engine", "unknown"):
            raise ValueError("clients.front_end_s: goes with front_end separate or in_process")
        if self.trace is not None and (how not in (None, "at_once", "closed") or c.output_cv is not None):
            raise ValueError("clients: a trace says when requests come and how long they are; leave that out")
        if c.rateless and (self.rate is not None or self.duration is not None or self.rate_scale != 1):
            raise ValueError(f"clients.arrivals: {how} has no rate; give requests alone, or a trace")
        if c.rateless and self.trace is None and self.requests is None:
            raise ValueError(f"clients.arrivals: {how} has no rate; say how many requests")
        if how not in (None, "gamma") and self.cv * self.cv_scale != 1:
            raise ValueError(f"cv: is of gamma arrivals (got arrivals {how})")
        return self

    @field_validator("images")
    @classmethod
    def _sizes(cls, said: tuple[str, ...]) -> tuple[str, ...]:
        from ...profiles.llm.tower import images_of

        images_of(said)
        return said

    @model_validator(mode="after")
    def _promised(self) -> LLMWorkloadCase:
        named = {o.kind for o in self.promises.objectives} - {""} if self.slo else set[str]()
        if self.classes and not (all(x > 0 for x in self.classes.values()) and _is_one(sum(self.classes.values()))):
            raise ValueError(f"classes: expected shares above 0 that add up to 1 (got {dict(self.classes)})")
        unknown = sorted(named - set(self.classes)) if self.trace is None else []
        if unknown:
            known = f"classes are {', '.join(self.classes)}" if self.classes else "there are no classes; give shares"
            raise ValueError(f"slo: no request is of class {unknown[0]!r}: {known}")
        return self

    @property
    def promises(self) -> Promises:
        """What the users of every model are promised, scaled."""
        from ...simulator.llm.result.objectives import Promises

        return self.promises_over(Promises(math.inf, math.inf, ()))

    def promises_over(self, own: Promises) -> Promises:
        """What the users of a model are promised that has limits of its own where nothing else is said, scaled."""
        from ...simulator.llm.result.objectives import Promises, objectives_of

        said = objectives_of(self.slo) or own.objectives
        return Promises(self.slo_ttft or own.ttft_s, self.slo_tpot or own.tpot_s, said).scaled(self.slo_scale)


def _is_one(total: float) -> bool:
    return abs(total - 1) <= 1e-6  # shares are written with a few digits


class LLMPlannerCase(Part):
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
    objective: Literal["goodput", "devices", "cost", "energy", "rate"] = Field(
        default="goodput",
        description="most good requests; fewest devices, lowest cost or power that attain target; the highest rate",
    )
    target: Annotated[Fraction, Field(gt=0, le=1)] = Field(
        default=0.99, description="share of requests within both limits that all objectives but goodput ask for"
    )


class LLMCase(Case):
    """One case of the LLM world: a model on a cluster under traffic.

    A replication draws the same gaps and lengths for every engine, planner and limit. Another rate stretches the same
    gaps in time.
    """

    cluster: LLMClusterCase
    model: Annotated[str | Annotated[tuple[str, ...], Field(min_length=1)], CIRCUMSTANCE] = Field(
        default="llama-3.1-8b", description="a shipped decoder, or a config.json; several share the cluster"
    )
    kernels: Annotated[str | Mapping[str, str] | None, CIRCUMSTANCE] = Field(
        default=None,
        description="folder of kernel tables of cluster.device, or one for each device type; else its roofline",
    )
    workload: Annotated[LLMWorkloadCase, CIRCUMSTANCE] = LLMWorkloadCase()
    engine: EngineCase = EngineCase()  # planner `vllm` takes what is said, `fixed` all of it
    planner: LLMPlannerCase = LLMPlannerCase()
    warmup: Annotated[int, CIRCUMSTANCE] = Field(
        default=0,
        ge=0,
        le=MAX_LLM_REQUESTS,
        description="number of requests left out of the metrics at the beginning and at the end",
    )

    failures: Annotated[FailuresCase, CIRCUMSTANCE] = FailuresCase()
    loading: Annotated[LoadingCase, CIRCUMSTANCE] = LoadingCase()
    scaling: Annotated[ScalingCase, CIRCUMSTANCE] = ScalingCase()
    times: Annotated[Literal["mean", "drawn"], CIRCUMSTANCE] = Field(
        default="mean",
        description="of simulate: mean: a step takes its cost; drawn: it varies, and an interval is given",
    )
    draws: Annotated[int, CIRCUMSTANCE] = Field(
        default=100, ge=2, le=MAX_REPEATS, description="number of draws of times or failures, for the interval"
    )
    spread: Annotated[StepSpreadCase | None, CIRCUMSTANCE] = Field(
        default=None, description="how drawn times vary; if left out, as kernels were measured to"
    )

    @model_validator(mode="after")
    def _varies(self) -> LLMCase:
        if self.times == "mean" and self.spread is not None:
            raise ValueError("spread: is of drawn times; set times: drawn")
        return self

    @model_validator(mode="after")
    def _mixed(self) -> LLMCase:
        if not self.cluster.pools:
            return self
        if self.planner.name == "fixed":
            raise ValueError("cluster.pools: planner fixed puts its engine on one device type; set planner vllm")
        if self.planner.options.get("share"):
            raise ValueError("cluster.pools: models that share devices are planned on one type; leave out share")
        if self.planner.objective == "rate" and len(self.models) > 1:
            raise ValueError("planner.objective: rate is looked for of one model on several types; leave out pools")
        return self

    @property
    def tables(self) -> Mapping[str, str]:
        """Device type, as it is named -> folder of its kernel tables."""
        said = self.kernels
        return said if isinstance(said, Mapping) else {} if said is None else {self.cluster.device: said}

    @property
    def models(self) -> tuple[str, ...]:
        """The models, as they are named."""
        return (self.model,) if isinstance(self.model, str) else self.model
