"""What a training plan holds, entry by entry: model, meshes, stages with their operators, transfers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, cast

from pydantic import BeforeValidator, Field

from ...plan.entries import Entry, Name, Seconds, SparseEntry

if TYPE_CHECKING:
    from ....profiles.graph import Operator

__all__ = [
    "MeshEntry", "ModelEntry", "OperatorEntry", "SliceEntry", "StageEntry", "TrafficOf", "TransferEntry",
]  # fmt: skip

Bytes = Seconds
"""A number of bytes, at least 0."""


TrafficOf = Literal["forward", "backward_input", "backward_weight", "reduce", "update"]


def _two(value: Any) -> Any:
    if not isinstance(value, list | tuple):
        return value
    sizes = tuple(cast("list[Any]", value))  # a validator that runs before must make JSON's list a tuple itself
    if len(sizes) != 2:
        raise ValueError(f"a logical mesh is two-dimensional; expected two sizes (got {list(sizes)})")
    return sizes


class ModelEntry(SparseEntry):
    """The model that is trained."""

    rare: ClassVar[frozenset[str]] = frozenset({"module", "order"})

    name: Name
    digest: str = Field(default="", description="SHA-256 of the graph that was planned")
    graph: str = Field(default="", description="graph file, where the model is none of the zoo's")
    module: str = Field(default="", description="FILE.py:NAME of the module that the graph was traced from")
    dtype: str = "float16"
    optimizer: Literal["adam", "sgd", "momentum", "adafactor"] = "adam"
    order: tuple[int, ...] = Field(
        default=(),
        description="topological order of the graph's operators that stages count in; empty: the graph's own",
    )


class MeshEntry(SparseEntry):
    """A rectangle of devices."""

    rare: ClassVar[frozenset[str]] = frozenset({"cluster"})

    hosts: int = Field(gt=0)
    devices: int = Field(gt=0)
    first_host: int = Field(default=0, ge=0)
    first_device: int = Field(default=0, ge=0)
    cluster: int = Field(default=0, ge=0, description="0: cluster; 1, 2, …: that of further_clusters")


class OperatorEntry(SparseEntry):
    """How one operator is run on its stage's logical mesh."""

    rare: ClassVar[frozenset[str]] = frozenset({"fallback"})

    axes: tuple[str, str] = Field(description="loop that each mesh axis cuts; empty: none, the axis repeats the work")
    result: str = Field(description="sharding spec of the result, such as S0RS1; of a view or norm too")
    operands: tuple[str, ...] = Field(description="sharding spec that each operand is brought to")
    fallback: Literal["", "replicated", "batch"] = Field(
        default="",
        description="of a call of torch that no other kind of operator says: every device does all of it, or it is cut "
        "over the batch; empty: the operator is none",
    )

    @classmethod
    def of(cls, op: Operator, axes: tuple[str, str], result: str, operands: Sequence[str]) -> OperatorEntry:
        """How an operator is run: the loops that mesh axes cut, specs of its result and operands."""
        fallback: Literal["", "replicated", "batch"] = ""
        if op.kind == "call":
            fallback = "batch" if any(axes) else "replicated"
        return cls(axes=axes, result=result, operands=tuple(operands), fallback=fallback)


class SliceEntry(Entry):
    """`count` microbatches that are cut into the same token slices (TeraPipe)."""

    samples: int = Field(gt=0, description="samples of one microbatch, all replicas of a data-parallel mesh together")
    tokens: tuple[Annotated[int, Field(gt=0)], ...] = Field(min_length=1, description="tokens of each slice, in order")
    count: int = Field(default=1, gt=0, description="how many such microbatches follow each other")


class StageEntry(SparseEntry):
    """One pipeline stage: consecutive operators on one mesh. Times are those of one microbatch, per device."""

    rare: ClassVar[frozenset[str]] = frozenset(
        {"microbatch", "k", "warmup", "order", "slice_forward_s", "slice_backward_s", "traffic"}
    )

    mesh: int = Field(ge=0, description="index into meshes; several stages share one where the schedule interleaves")
    logical: Annotated[tuple[int, int], BeforeValidator(_two)] = Field(description="shape of the logical mesh")
    first: int = Field(ge=0, description="first operator, in the order of model.order")
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
    traffic: dict[TrafficOf, tuple[Seconds, ...]] = Field(
        default_factory=dict[TrafficOf, tuple[Seconds, ...]],
        description="seconds of each pass (reduce, update: once an iteration) for which its collectives keep links "
        "busy: ports of devices, adapters of nodes, uplinks of each level of the cluster",
    )
    microbatch: int = Field(
        default=0, ge=0, description="samples of one microbatch of this stage; 0: global_batch / microbatches"
    )
    k: int = Field(default=1, gt=0, description="kfkb: backward passes, then forward passes, in turn")
    warmup: int = Field(
        default=-1,
        ge=-1,
        description="kfkb: forward passes before the first backward; -1: the fewest that keep it busy",
    )
    order: str = Field(default="", description="explicit: the stage's passes, such as '4F 1B 1F 1B 1F 3B'")
    slice_forward_s: tuple[tuple[Seconds, ...], ...] = Field(
        default=(), description="for each entry of slices, seconds of each slice's forward pass"
    )
    slice_backward_s: tuple[tuple[Seconds, ...], ...] = Field(
        default=(), description="likewise of its backward pass, to inputs and weights"
    )


class TransferEntry(Entry):
    """A tensor that one stage makes and another reads."""

    source: int = Field(ge=0, description="stage that makes it")
    target: int = Field(ge=0, description="stage that reads it")
    value: Name
    bytes: Bytes = Field(description="of the whole tensor, one microbatch of the source")
    source_spec: str = ""
    target_spec: str = ""
    gradient: bool = Field(default=True, description="whether a gradient of its size comes back")
