"""`InferenceOptions`: which configurations a serving profile holds, and what the planner may choose from."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
import math
from dataclasses import dataclass
from typing import Literal

from ....errors import InputError
from ....profiles import ParallelConfig
from ....reprs import Shown

__all__ = ["InferenceOptions"]

Partitioner = Literal["auto", "computation", "equal"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class InferenceOptions(Shown):
    """Options of `profile_graph`.

    Parameters
    ----------
    ops : tuple of int
        Intra-op degrees. Above `devices_per_node` they must be whole nodes; their collectives then cross nodes.
    max_devices : int
        Largest op × pp; pipelines have 1, 2, 4, … stages.
    batches : tuple of int
        Batch sizes. Weights stay as they are planned for the smallest; operators may be cut otherwise.
    devices_per_node : int
        Devices of a node.
    data_parallel : bool
        Whether samples, and tokens of a sequence, may be cut, which copies weights to every device. AlpaServe drops it.
    partition : {"auto", "computation", "equal"}
        How `meshwright.profiles.compose` cuts stages.
    single_s : float, optional
        Measured seconds of one request on one device. Operators are scaled, all by one factor, to take as long.
    stage_overhead_s : float
        Seconds of every stage of a pipeline beyond its operators and its send.
    time_limit_s : float
        Time limit of one ILP, seconds.

    Raises
    ------
    InputError
        If a value is out of range.
    """

    ops: tuple[int, ...] = (1, 2, 4, 8)
    max_devices: int = 64
    batches: tuple[int, ...] = (1,)
    devices_per_node: int = 8
    data_parallel: bool = False
    partition: Partitioner = "auto"
    single_s: float | None = None
    stage_overhead_s: float = 0.0
    time_limit_s: float = 60.0

    def __post_init__(self) -> None:
        for name in ("ops", "batches"):
            values = tuple(getattr(self, name))
            if not values or len(set(values)) < len(values) or not all(map(_positive, values)):
                raise InputError(f"inference: {name}: expected different positive integers (got {values})")
            object.__setattr__(self, name, tuple(sorted(values)))
        for name in ("max_devices", "devices_per_node"):
            if not _positive(getattr(self, name)):
                raise InputError(f"inference: {name}: expected a positive integer (got {getattr(self, name)!r})")
        part = [op for op in self.ops if op > self.devices_per_node and op % self.devices_per_node]
        if part:
            raise InputError(
                f"inference: ops: {part[0]} devices are no whole nodes of {self.devices_per_node}; use a multiple of it"
            )
        if self.ops[0] > self.max_devices:
            raise InputError(
                f"inference: max_devices: expected at least ops' least, {self.ops[0]} (got {self.max_devices})"
            )
        if self.partition not in ("auto", "computation", "equal"):
            raise InputError(f"inference: partition: expected auto, computation or equal (got {self.partition!r})")
        if self.single_s is not None and not (math.isfinite(self.single_s) and self.single_s > 0):
            raise InputError(f"inference: single_s: expected seconds > 0 (got {self.single_s})")
        if not (math.isfinite(self.stage_overhead_s) and self.stage_overhead_s >= 0):
            raise InputError(f"inference: stage_overhead_s: expected seconds >= 0 (got {self.stage_overhead_s})")

    def configs(self, most_stages: int) -> tuple[ParallelConfig, ...]:
        """Every op with 1, 2, 4, … stages, up to `max_devices` and the model's units."""
        depths = [2**k for k in range(most_stages.bit_length())]
        return tuple(
            ParallelConfig(op, pp) for op in self.ops for pp in depths if op * pp <= self.max_devices
        )  # fmt: skip


def _positive(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
