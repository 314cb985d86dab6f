"""`GraphPipeOptions`: what the planner may choose from."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false, reportUnnecessaryComparison=false
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, cast

from ...errors import InputError
from ...profiles.graph.memory import OPTIMIZERS
from ...reprs import Shown
from ...wording import nearest
from ..option_names import options_from
from ..stages.footprint import FOOTPRINTS, Footprint
from ..stages.units import Granularity

__all__ = ["GraphPipeOptions"]

_CHOICES: Mapping[str, tuple[str, ...]] = {
    "granularity": ("layer", "heavy", "operator"),
    "schedule": ("1f1b", "kfkb", "greedy"),
    "topology": ("graph", "chain"),
    "objective": ("iteration", "tps"),
    "optimizer": tuple(OPTIMIZERS),
    "footprint": FOOTPRINTS,
}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class GraphPipeOptions(Shown):
    """Options of `planners.graphpipe.plan`.

    Parameters
    ----------
    granularity : {"layer", "heavy", "operator"}
        What stages are made of; see `group_operators`.
    microbatches : tuple of int, optional
        Microbatch sizes (in samples) that stages may take; by default all powers of two that divide the global batch.
    devices : tuple of int, optional
        Data-parallel degrees; by default all powers of two that form a mesh.
    same_microbatch : bool
        Whether all stages of a plan must have the same microbatch size.
    schedule : {"1f1b", "kfkb", "greedy"}
        "1f1b": one forward and one backward pass in turn. "kfkb": k forward and k backward passes in turn, with a k for
        each stage. "greedy": stages are chosen for 1F1B, and Algorithm 4 then orders their passes.
    ks : tuple of int
        Values of k that kFkB may take.
    topology : {"graph", "chain"}
        "chain" plans a sequential pipeline, all else being equal: the operators stand in one line and each stage waits
        for the one before it.
    objective : {"iteration", "tps"}
        "tps", as in the paper: for each largest microbatch the least bottleneck, and among equals the fewest samples in
        flight. "iteration": plans with fewer in flight and a slower bottleneck are considered as well. In both cases
        the plan with the shortest simulated iteration is returned.
    least_parallel : float
        Parallel parts of the graph are not cut if their work is less than this share of one device's even part. The
        default keeps only parts that can fill a device.
    simulated : int
        Most plans that are simulated, the most promising first. The default is a guess: enough to hold plans of every
        microbatch size.
    memory_fraction : float
        Share of a device's memory that a plan may fill. The default is what Alpa's runtime takes of a device.
    optimizer : str
        Name of the optimiser; it decides the bytes of a parameter's state.
    footprint : {"saved", "flexflow"}
        What a device holds of each sample in flight: what the backward pass reads, or every tensor with its gradient,
        as FlexFlow does (`stages.footprint.tensor_table`).
    overlap : bool
        Whether transfers overlap with computation.

    Raises
    ------
    InputError
        If an option has a value that it may not have.
    """

    granularity: Granularity = "layer"
    microbatches: tuple[int, ...] | None = None
    devices: tuple[int, ...] | None = None
    same_microbatch: bool = False
    schedule: Literal["1f1b", "kfkb", "greedy"] = "1f1b"
    ks: tuple[int, ...] = (1, 2, 4, 8)
    topology: Literal["graph", "chain"] = "graph"
    objective: Literal["iteration", "tps"] = "iteration"
    least_parallel: float = 1.0
    simulated: int = 32
    memory_fraction: float = 0.9
    optimizer: Literal["adam", "sgd", "momentum", "adafactor"] = "adam"
    footprint: Footprint = "saved"
    overlap: bool = False

    def __post_init__(self) -> None:
        for name, known in _CHOICES.items():
            value = getattr(self, name)
            if value not in known:
                near = nearest(str(value), known)
                hint = f"did you mean {near!r}?" if near else f"known: {', '.join(known)}"
                raise InputError(f"graphpipe: {name}: unknown value {value!r}; {hint}")
        for name in ("same_microbatch", "overlap"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"graphpipe: {name}: expected true or false (got {getattr(self, name)!r})")
        for name in ("microbatches", "devices", "ks"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _numbers(name, value))
        if isinstance(self.simulated, bool) or not isinstance(self.simulated, int) or self.simulated < 1:
            raise InputError(f"graphpipe: simulated: expected a positive integer (got {self.simulated!r})")
        for name, most in (("memory_fraction", 1.0), ("least_parallel", math.inf)):
            value = getattr(self, name)
            number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
            if not number or not 0 <= value <= most or (name == "memory_fraction" and value == 0):
                raise InputError(f"graphpipe: {name}: expected a number from 0 to {most} (got {value!r})")
        if self.schedule == "kfkb" and 1 not in self.ks:
            raise InputError(f"graphpipe: ks: expected 1 among them (got {list(self.ks)})")

    @classmethod
    def of(cls, options: GraphPipeOptions | Mapping[str, Any] | None) -> GraphPipeOptions:
        """Options from a mapping.

        Raises
        ------
        InputError
            If a name is unknown; the message suggests the nearest known one.
        """
        return options_from(cls, options, "graphpipe")

    def to_json(self) -> dict[str, Any]:
        """What a plan records, by name."""
        return {k: list(cast("tuple[Any, ...]", v)) if isinstance(v, tuple) else v for k, v in asdict(self).items()}


def _numbers(name: str, value: Any) -> tuple[int, ...]:
    numbers = tuple(cast("list[Any]", value)) if isinstance(value, (list, tuple, range)) else ()
    if not numbers or any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in numbers):
        raise InputError(f"graphpipe: {name}: expected positive integers (got {value!r})")
    if any(n & (n - 1) for n in numbers) and name != "devices":
        # Table 3.2 is stated for powers of two times one number, and of two sizes one must divide the other.
        odd = {n // (n & -n) for n in numbers}
        if len(odd) > 1 or name == "ks":
            raise InputError(
                f"graphpipe: {name}: expected powers of two, or these times one odd number (got {list(numbers)})"
            )
    return tuple(sorted(set(numbers)))
