"""`TrainingPlan`: how one model is trained on a cluster: stages, meshes, sharding specs, schedule."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from ...errors import InputError
from ...files import write_text
from ..cluster import Cluster
from ..mesh import Mesh
from ..plan import layout
from ..plan_build import cluster_entry, cluster_of
from ..plan_entries import ClusterEntry, Entry, Name, PlannerEntry, Seconds
from ..plan_reader import problem_line, read

__all__ = ["MeshEntry", "ModelEntry", "OperatorEntry", "StageEntry", "TrainingPlan", "TransferEntry"]

KIND = "meshwright/training-plan"
VERSION = 1
SCHEMA_ID = "urn:meshwright:schema:training-plan:1"

Bytes = Seconds
"""A number of bytes, at least 0."""


class ModelEntry(Entry):
    """The model that is trained."""

    name: Name
    digest: str = Field(default="", description="SHA-256 of the graph that was planned")
    graph: str = Field(default="", description="graph file, where the model is none of the zoo's")
    dtype: str = "float16"
    optimizer: Literal["adam", "sgd"] = "adam"


class MeshEntry(Entry):
    """A rectangle of devices."""

    hosts: int = Field(gt=0)
    devices: int = Field(gt=0)
    first_host: int = Field(default=0, ge=0)
    first_device: int = Field(default=0, ge=0)


class OperatorEntry(Entry):
    """How one operator is run on its stage's logical mesh."""

    axes: tuple[str, str] = Field(description="loop that each mesh axis cuts; empty: none, the axis repeats the work")
    result: str = Field(description="sharding spec of the result, such as S0RS1; of a view or norm too")
    operands: tuple[str, ...] = Field(description="sharding spec that each operand is brought to")


class StageEntry(Entry):
    """One pipeline stage: consecutive operators on one mesh. Times are those of one microbatch, per device."""

    mesh: int = Field(ge=0, description="index into meshes; several stages share one where the schedule interleaves")
    logical: tuple[int, int] = Field(description="shape of the logical mesh")
    first: int = Field(ge=0, description="first operator of the graph")
    last: int = Field(gt=0, description="one past the last operator")
    forward_s: Seconds
    backward_input_s: Seconds = Field(description="backward pass to the inputs, recomputation included")
    backward_weight_s: Seconds = Field(default=0.0, description="backward pass to the weights")
    reduce_s: Seconds = Field(default=0.0, description="gradient reduction, once an iteration")
    update_s: Seconds = Field(default=0.0, description="optimiser step and gathering, once an iteration")
    state_bytes: Bytes = Field(description="weights, gradients, optimiser state on one device")
    activation_bytes: Bytes = Field(description="kept for the backward pass of one microbatch on one device")
    work_bytes: Bytes = Field(default=0.0, description="largest temporary beside them")
    flops: float = Field(default=0.0, ge=0, description="forward FLOPs of one microbatch, the whole stage")
    recompute: Literal["none", "selective", "full"] = "none"
    operators: dict[str, OperatorEntry] = Field(default_factory=dict, description="operator -> how it is run")
    parameters: dict[str, str] = Field(default_factory=dict, description="parameter -> sharding spec it is kept in")
    optimizer_states: dict[str, str] = Field(
        default_factory=dict, description="parameter -> spec of gradient and optimiser state where it differs (ZeRO)"
    )
    collectives: dict[str, int] = Field(
        default_factory=dict,
        description="planned collectives: '<pass>.<collective>' -> count per microbatch or iteration",
    )


class TransferEntry(Entry):
    """A tensor that one stage makes and another reads."""

    source: int = Field(ge=0, description="stage that makes it")
    target: int = Field(ge=0, description="stage that reads it")
    value: Name
    bytes: Bytes = Field(description="of the whole tensor, one microbatch")
    source_spec: str = ""
    target_spec: str = ""
    gradient: bool = Field(default=True, description="whether a gradient of its size comes back")


class TrainingPlan(Entry):
    """How one model is trained. Planners emit it, the simulator times it, exporters translate it, the runtime runs it.

    Read one with `TrainingPlan.load`; build one with `TrainingPlan.of`.
    """

    kind: Literal["meshwright/training-plan"] = KIND
    version: Literal[1] = VERSION
    cluster: ClusterEntry
    model: ModelEntry
    global_batch: int = Field(gt=0, description="samples of one iteration")
    microbatches: int = Field(gt=0)
    schedule: str = Field(default="1f1b", description="gpipe, 1f1b, interleaved_1f1b, zb_h1, …")
    resharding: Literal["send_recv", "scatter_gather", "local_all_gather"] = "local_all_gather"
    overlap: bool = Field(default=False, description="whether transfers between stages run beside computation")
    meshes: tuple[MeshEntry, ...] = Field(min_length=1)
    stages: tuple[StageEntry, ...] = Field(min_length=1)
    transfers: tuple[TransferEntry, ...] = ()
    planner: PlannerEntry
    cost_source: str = Field(default="", description="what the times rest on")
    predicted: dict[str, float] = Field(default_factory=dict, description="metric -> value")

    @model_validator(mode="after")
    def _consistent(self) -> TrainingPlan:
        problems = list(_contradictions(self))
        if problems:
            raise ValueError("; ".join(problems))
        return self

    @classmethod
    def of(cls, cluster: Cluster, *, predicted: Mapping[str, float] | None = None, **entries: Any) -> TrainingPlan:
        """Put the entries together.

        Raises
        ------
        InputError
            If they contradict each other; all that is wrong at once.
        """
        try:
            return cls(cluster=cluster_entry(cluster), predicted=dict(predicted or {}), **entries)
        except ValidationError as error:
            raise InputError("\n".join(f"plan: {problem_line(e)}" for e in error.errors())) from None

    @property
    def cluster_spec(self) -> Cluster:
        """The cluster as the simulator's object."""
        return cluster_of(self.cluster)

    @property
    def microbatch(self) -> int:
        """Samples of one microbatch."""
        return self.global_batch // self.microbatches

    def mesh(self, stage: int) -> Mesh:
        """The devices of a stage."""
        entry = self.meshes[self.stages[stage].mesh]
        return Mesh(self.cluster_spec, entry.hosts, entry.devices, entry.first_host, entry.first_device)

    def to_json(self) -> str:
        """The plan as JSON text, the same bytes for the same plan."""
        return layout(self.model_dump(mode="json"), "") + "\n"

    def save(self, path: str | Path) -> Path:
        """Write the plan as JSON, whole."""
        return write_text(path, self.to_json())

    @classmethod
    def from_json(cls, text: str, where: str = "plan") -> TrainingPlan:
        """Read a plan from JSON text; `where` names it in errors."""
        return read(text, where, cls, KIND, VERSION, key="kind")

    @classmethod
    def load(cls, path: str | Path) -> TrainingPlan:
        """Read a plan.

        Raises
        ------
        InputError
            If the file is missing, is no plan, or contradicts itself; all errors at once, a line each.
        """
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise InputError(f"{path}: cannot read the plan: {error.strerror or error}") from None
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: not a training plan: not UTF-8 text (byte {error.start})") from None
        return cls.from_json(text, str(path))


def _contradictions(plan: TrainingPlan) -> list[str]:
    problems: list[str] = []
    cluster = cluster_of(plan.cluster)
    if plan.global_batch % plan.microbatches:
        problems.append(f"microbatches: {plan.microbatches} do not divide the global batch of {plan.global_batch}")
    used: dict[int, int] = {}
    for m, entry in enumerate(plan.meshes):
        try:
            ids = Mesh(cluster, entry.hosts, entry.devices, entry.first_host, entry.first_device).device_ids
        except InputError as error:
            problems.append(f"meshes.{m}: {error}")
            continue
        taken = next((d for d in ids if d in used), None)
        if taken is not None:
            problems.append(f"meshes.{m}: device {taken} is in mesh {used[taken]} already")
        used.update(dict.fromkeys(ids, m))
    for s, stage in enumerate(plan.stages):
        if stage.mesh >= len(plan.meshes):
            problems.append(f"stages.{s}.mesh: there are {len(plan.meshes)} meshes (got {stage.mesh})")
            continue
        entry = plan.meshes[stage.mesh]
        if stage.logical[0] * stage.logical[1] != entry.hosts * entry.devices:
            problems.append(
                f"stages.{s}.logical: {stage.logical} is no view of {entry.hosts} x {entry.devices} devices"
            )
        if stage.first >= stage.last:
            problems.append(f"stages.{s}: expected first < last (got {stage.first} and {stage.last})")
    for t, transfer in enumerate(plan.transfers):
        if max(transfer.source, transfer.target) >= len(plan.stages) or transfer.source == transfer.target:
            ends = f"{transfer.source} and {transfer.target}"
            problems.append(f"transfers.{t}: expected two of {len(plan.stages)} stages (got {ends})")
    return problems
