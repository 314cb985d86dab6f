"""`LLMPlan`: which engines serve which language models on which devices; planned, simulated, exported and run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, JsonValue, ValidationError, model_validator

from ....errors import InputError
from ....profiles.hardware import DeviceSpec
from ....profiles.llm.capacity import CapacityOptions, KVCapacity, kv_capacity
from ...cluster import Cluster
from ...mixed import MixedCluster
from ...plan.clusters import cluster_entry, cluster_of
from ...plan.entries import ClusterEntry, PlannerEntry, Problem, SparseEntry
from ...plan.file import PlanFile
from ...plan.reader import piece, pieces, problem_line
from ..policy.router import ROUTERS
from .between import contradictions
from .drafts import MTP
from .entries import Deployment, LLMWorkload, ServedModel

__all__ = ["Deployment", "LLMPlan", "LLMWorkload", "ServedModel"]

WEIGHTS = {name: name for name in ("fp8", "fp8_block", "nvfp4", "float32")} | {"int8_wo": "int8", "int4_wo": "int4"}
"""Precision of the products -> of the weights in memory; float16 (or bfloat16: as many bytes) for the others."""


class LLMPlan(PlanFile, SparseEntry):
    """How language models are served: deployments on a cluster, a router, and what is expected of them.

    Read one with `LLMPlan.load`; `LLMPlan.of` builds one from the simulator's objects.
    """

    noun: ClassVar[str] = "an LLM plan"
    schema_id: ClassVar[str] = "urn:meshwright:schema:llm-plan:1"
    rare: ClassVar[frozenset[str]] = frozenset({"case", "pools"})

    kind: Literal["meshwright/llm-plan"] = "meshwright/llm-plan"
    version: Literal[1] = 1
    cluster: ClusterEntry
    pools: tuple[ClusterEntry, ...] = Field(
        default=(), description="further devices, of other types; numbered on after those of the cluster"
    )
    models: tuple[ServedModel, ...] = Field(min_length=1)
    deployments: tuple[Deployment, ...] = Field(min_length=1)
    router: str = Field(default="round_robin", description="who gets a request: a name of ROUTERS")
    workload: LLMWorkload | None = None
    case: dict[str, JsonValue] = Field(
        default={}, description="the case that it was planned for, as a file says it, without the planner"
    )
    planner: PlannerEntry
    cost_source: str = Field(default="", description="what the iterations' times rest on")
    predicted: dict[str, float] = Field(default_factory=dict, description="simulated metric -> value")
    predicted_per_model: dict[str, dict[str, float]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _consistent(self) -> LLMPlan:
        problems = [*_router(self.router), *contradictions((self.cluster, *self.pools), self.models, self.deployments)]
        if problems:
            raise ValueError("; ".join(f"{'.'.join(map(str, loc))}: {what}" for loc, what in problems))
        return self

    @classmethod
    def of(
        cls,
        cluster: Cluster | MixedCluster,
        models: tuple[ServedModel, ...],
        deployments: tuple[Deployment, ...],
        *,
        planner: PlannerEntry,
        router: str = "round_robin",
        workload: LLMWorkload | None = None,
        cost_source: str = "",
        predicted: Mapping[str, float] | None = None,
        predicted_per_model: Mapping[str, Mapping[str, float]] | None = None,
    ) -> LLMPlan:
        """Put deployments and their circumstances together.

        Raises
        ------
        InputError
            If they contradict each other, or a metric cannot stand in JSON (NaN, infinity); all that is wrong at once.
        """
        first, *others = map(cluster_entry, MixedCluster.of(cluster).pools)
        try:
            return cls(
                cluster=first,
                pools=tuple(others),
                models=models,
                deployments=deployments,
                router=router,
                workload=workload,
                planner=planner,
                cost_source=cost_source,
                predicted=dict(predicted or {}),
                predicted_per_model={name: dict(said) for name, said in (predicted_per_model or {}).items()},
            )
        except ValidationError as error:
            raise InputError("\n".join(f"plan: {problem_line(e)}" for e in error.errors())) from None

    @property
    def cluster_spec(self) -> Cluster:
        """The cluster as the simulator's object; of several pools the first."""
        return cluster_of(self.cluster)

    @property
    def mixed(self) -> MixedCluster:
        """All devices as the simulator's object."""
        return MixedCluster(tuple(map(cluster_of, (self.cluster, *self.pools))))

    def device_of(self, deployment: Deployment) -> DeviceSpec:
        """The device type on which a deployment's engines stand."""
        mixed = self.mixed
        return mixed.pools[mixed.pool_of(deployment.devices[0][0])].spec

    @property
    def used_by_type(self) -> dict[DeviceSpec, int]:
        """Device type -> how many of it an engine stands on; types that none uses are left out."""
        mixed = self.mixed
        found: dict[DeviceSpec, int] = {}
        for x in self.used_devices:
            spec = mixed.pools[mixed.pool_of(x)].spec
            found[spec] = found.get(spec, 0) + 1
        return found

    @property
    def used_devices(self) -> tuple[int, ...]:
        """Devices that an engine stands on, ascending."""
        return tuple(sorted({x for d in self.deployments for row in d.devices for x in row}))

    @property
    def price_per_hour(self) -> float:
        """Price of the devices used, per hour; 0 where that of one of their types is not known."""
        used = self.used_by_type
        return sum(n * spec.price_per_hour for spec, n in used.items()) if all(s.price_per_hour for s in used) else 0.0

    @property
    def watts(self) -> float:
        """Board power of the devices used, watts: more than they take; 0 where that of one type is not known."""
        used = self.used_by_type
        return sum(n * spec.watts for spec, n in used.items()) if all(s.watts for s in used) else 0.0

    def model(self, name: str) -> ServedModel:
        """One of the models.

        Raises
        ------
        InputError
            If the plan serves no such model.
        """
        for model in self.models:
            if model.name == name:
                return model
        raise InputError(f"model: unknown model {name!r}; the plan serves {', '.join(m.name for m in self.models)}")

    def deployments_of(self, model: str) -> tuple[Deployment, ...]:
        """The deployments that serve a model."""
        return tuple(d for d in self.deployments if d.model == model)

    def capacity(self, deployment: Deployment) -> KVCapacity:
        """What `kv_capacity` says of a rank of a deployment; the plan's `num_blocks` may be below it.

        Raises
        ------
        InputError
            On degrees that do not divide.
        InfeasibleError
            If it does not fit.
        """
        return kv_capacity(
            self.model(deployment.model).spec,
            self.device_of(deployment).memory_bytes,
            tp=deployment.tp,
            pp=deployment.pp,
            utilization=deployment.gpu_memory_utilization,
            block_size=deployment.block_size,
            weights=WEIGHTS.get(deployment.precision, "float16"),
            kv=WEIGHTS.get(deployment.kv_precision, "float16"),
            options=CapacityOptions(
                deployment.cp,
                deployment.dp,
                deployment.expert_degree,
                other_bytes=deployment.other_bytes,
                windows=bool(deployment.config.get("window_groups")),
                mtp=deployment.speculative is not None and deployment.speculative.draft == MTP,
            ),
        )

    def _headline(self) -> str:
        names = ", ".join(m.name for m in self.models[:2]) + (" …" if len(self.models) > 2 else "")
        engines = sum(d.replicas for d in self.deployments)
        devices = " + ".join(f"{n} x {spec.name}" for spec, n in self.used_by_type.items())
        where = f"{engines} engine{'s' if engines > 1 else ''} on {devices}"
        return f"{self.planner.name}: {names} by {where}{self._expected()}"

    @classmethod
    def between(cls, data: Mapping[str, Any]) -> list[Problem]:
        """What is wrong between the entries of a parsed file, as far as they can be read one by one."""
        router = data.get("router", "round_robin")
        return [
            *(_router(router) if isinstance(router, str) else []),
            *contradictions(
                [piece(ClusterEntry, data.get("cluster")), *pieces(ClusterEntry, data.get("pools", ()))],
                pieces(ServedModel, data.get("models")),
                pieces(Deployment, data.get("deployments")),
            ),
        ]

    def explain(self) -> str:
        """The plan in words: who decided what for which traffic, what it holds in memory, what is expected of it."""
        from .words import explain

        return explain(self)


def _router(name: str) -> list[Problem]:
    if name in ROUTERS:
        return []
    return [(("router",), f"unknown router {name!r}; expected one of {', '.join(ROUTERS)}")]
