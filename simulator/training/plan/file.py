"""`TrainingPlan`: how one model is trained on a cluster: stages, meshes, sharding specs, schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

from pydantic import Field, PrivateAttr, ValidationError, model_validator

from ....errors import InputError
from ....wording import dotted
from ...cluster import Cluster
from ...mesh import Mesh
from ...plan.clusters import cluster_entry, cluster_of
from ...plan.entries import ClusterEntry, PlannerEntry, Problem, SparseEntry
from ...plan.file import PlanFile
from ...plan.reader import piece, pieces, problem_line
from .checks import contradictions, mesh_of
from .entries import MeshEntry, ModelEntry, OperatorEntry, SliceEntry, StageEntry, TransferEntry
from .passes import counts_of
from .service import ServiceEntry, service_problems

if TYPE_CHECKING:
    from ....profiles.graph import Graph

__all__ = ["MeshEntry", "ModelEntry", "OperatorEntry", "SliceEntry", "StageEntry", "TrainingPlan", "TransferEntry"]


class TrainingPlan(PlanFile, SparseEntry):
    """How one model is trained. Planners emit it, the simulator times it, exporters translate it, the runtime runs it.

    Read one with `TrainingPlan.load`; build one with `TrainingPlan.of`.
    """

    noun: ClassVar[str] = "a training plan"
    schema_id: ClassVar[str] = "urn:meshwright:schema:training-plan:1"
    rare: ClassVar[frozenset[str]] = frozenset({"further_clusters", "links", "buckets", "slices", "service"})

    kind: Literal["meshwright/training-plan"] = "meshwright/training-plan"
    version: Literal[1] = 1
    cluster: ClusterEntry
    further_clusters: tuple[ClusterEntry, ...] = Field(
        default=(), description="of other devices, whose meshes say so; joined by the slower one's network"
    )
    model: ModelEntry
    global_batch: int = Field(gt=0, description="samples of one iteration")
    microbatches: int = Field(gt=0)
    schedule: str = Field(default="1f1b", description="gpipe, 1f1b, interleaved_1f1b, zb_h1, …")
    resharding: Literal["send_recv", "scatter_gather", "local_all_gather"] = "local_all_gather"
    overlap: bool = Field(default=False, description="whether transfers between stages run beside computation")
    links: Literal["apart", "shared"] = Field(
        default="apart", description="whether collectives and messages on one link slow each other in simulations"
    )
    buckets: int = Field(
        default=0, ge=0, description="buckets of gradients reduced beside the last backward pass; 0: after it"
    )
    meshes: tuple[MeshEntry, ...] = Field(min_length=1)
    stages: tuple[StageEntry, ...] = Field(min_length=1)
    transfers: tuple[TransferEntry, ...] = ()
    slices: tuple[SliceEntry, ...] = Field(
        default=(), description="token slices of the microbatches, in the order in which they are fed (terapipe)"
    )
    service: ServiceEntry | None = Field(default=None, description="what was measured while the plan ran")
    planner: PlannerEntry
    cost_source: str = Field(default="", description="what the times rest on")
    predicted: dict[str, float] = Field(default_factory=dict, description="metric -> value")

    _graph: Graph | None = PrivateAttr(default=None)

    @property
    def own_graph(self) -> Graph | None:
        """The graph that was planned, where it is none of the zoo's and stands in no file yet."""
        return self._graph

    def with_graph(self, graph: Graph, module: str = "") -> TrainingPlan:
        """The plan with its graph, which `save` writes beside it; and what the graph was traced from."""
        made = self.model_copy(update={"model": self.model.model_copy(update={"module": module})} if module else {})
        made._graph = graph
        return made

    def save(self, path: str | Path) -> Path:
        """Write the plan as JSON, whole; before it a graph of its own, as ``NAME.graph.json`` beside it."""
        if self._graph is None:
            return super().save(path)
        from ....profiles.graph import save_graph

        beside = Path(path).with_name(f"{Path(path).stem}.graph.json")
        save_graph(self._graph, beside)
        named = self.model_copy(update={"model": self.model.model_copy(update={"graph": beside.name})})
        named._graph = None
        return named.save(path)

    @model_validator(mode="after")
    def _consistent(self) -> TrainingPlan:
        batch = (self.global_batch, self.microbatches)
        entries = ((self.cluster, *self.further_clusters), self.meshes, self.stages, self.transfers)
        problems = contradictions(*entries, batch, self.schedule, self.slices, self.model.order)
        problems += service_problems(self.service, len(self.meshes), len(self.stages))
        if problems:
            raise ValueError(_said(problems))
        return self

    @classmethod
    def of(
        cls, cluster: Cluster | Sequence[Cluster], *, predicted: Mapping[str, float] | None = None, **entries: Any
    ) -> TrainingPlan:
        """Put the entries together. Several clusters are numbered as meshes name them.

        Raises
        ------
        InputError
            If they contradict each other; all that is wrong at once.
        """
        first, *others = [cluster] if isinstance(cluster, Cluster) else cluster
        if others:
            entries["further_clusters"] = tuple(map(cluster_entry, others))
        try:
            return cls(cluster=cluster_entry(first), predicted=dict(predicted or {}), **entries)
        except ValidationError as error:
            raise InputError("\n".join(f"plan: {problem_line(e)}" for e in error.errors())) from None

    @property
    def cluster_spec(self) -> Cluster:
        """The (first) cluster as the simulator's object."""
        return cluster_of(self.cluster)

    @property
    def clusters(self) -> tuple[Cluster, ...]:
        """All clusters, as meshes number them."""
        return tuple(map(cluster_of, (self.cluster, *self.further_clusters)))

    @property
    def microbatch(self) -> int:
        """Samples of one microbatch, where a stage or `slices` do not say another number."""
        return self.global_batch // self.microbatches

    @property
    def microbatches_of(self) -> tuple[int, ...]:
        """Microbatches of each stage."""
        return counts_of(self.schedule, (self.global_batch, self.microbatches), self.stages)

    def microbatch_of(self, stage: int) -> int:
        """Samples of one microbatch of a stage."""
        return self.stages[stage].microbatch or self.microbatch

    def mesh(self, stage: int) -> Mesh:
        """The devices of a stage."""
        return mesh_of(self.meshes[self.stages[stage].mesh], self.clusters)

    def _headline(self) -> str:
        devices = sum(m.hosts * m.devices for m in self.meshes)
        kinds = " and ".join(entry.device.name for entry in (self.cluster, *self.further_clusters))
        where = f"{len(self.stages)} stages on {devices} x {kinds}"
        batch = f"{self.schedule}, batch {self.global_batch} in {self.microbatches} microbatches"
        return f"{self.planner.name}: {self.model.name} in {where}, {batch}{self._expected(1)}"

    @classmethod
    def between(cls, data: Mapping[str, Any]) -> list[Problem]:
        """What is wrong between the entries of a parsed file, as far as they can be read one by one."""
        batch = [data.get(key) for key in ("global_batch", "microbatches")]
        schedule = data.get("schedule", "1f1b")
        model = piece(ModelEntry, data.get("model"))
        counts = [x for x in batch if isinstance(x, int) and not isinstance(x, bool)]
        meshes, stages = (data.get(key) for key in ("meshes", "stages"))
        many = (len(cast("list[Any]", x)) if isinstance(x, list | tuple) else 0 for x in (meshes, stages))
        service = piece(ServiceEntry, data.get("service"))
        return service_problems(service, *many) + contradictions(
            (piece(ClusterEntry, data.get("cluster")), *pieces(ClusterEntry, data.get("further_clusters"))),
            pieces(MeshEntry, data.get("meshes")),
            pieces(StageEntry, data.get("stages")),
            pieces(TransferEntry, data.get("transfers")),
            (counts[0], counts[1]) if len(counts) == 2 else None,
            schedule if isinstance(schedule, str) else None,
            pieces(SliceEntry, data.get("slices")),
            () if model is None else model.order,
        )

    def explain(self, graph: Graph | None = None, *, operators: Literal["none", "heavy", "all"] = "heavy") -> str:
        """The plan in words: stages, what dominates, and how each operator is run, repeated layers folded.

        Parameters
        ----------
        graph : Graph, optional
            The graph that was planned: says which loops are samples, and lists layers by their numbers.
        operators : {"none", "heavy", "all"}
            Which operators to list. With no graph all are, for nobody knows which are heavy.
        """
        from .words import explain

        return explain(self, graph, operators=operators)


def _said(problems: list[Problem]) -> str:
    return "; ".join(f"{dotted(loc)}: {what}" if loc else what for loc, what in problems)
