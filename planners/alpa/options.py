"""`AlpaOptions`: what the planner may choose from. Defaults are the paper's."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false, reportUnnecessaryComparison=false
import difflib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from ...errors import InputError
from ...reprs import Shown
from ..option_names import options_from
from .inter.memory import SCHEDULES

__all__ = ["AlpaOptions"]

_CHOICES: Mapping[str, tuple[str, ...]] = {
    "clustering": ("dp", "equal_operator"),
    "submeshes": ("all", "power_of_two"),
    "stages": ("any", "equal_layer", "one", "one_device"),
    "schedule": SCHEDULES,
    "recompute": ("none", "selective", "full", "auto"),
    "resharding": ("send_recv", "scatter_gather", "local_all_gather"),
    "optimizer": ("adam", "sgd", "momentum", "adafactor"),
}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AlpaOptions(Shown):
    """Options of `planners.alpa.plan`.

    Parameters
    ----------
    n_layers : int, optional
        L of the operator clustering; see `default_layers` for the default.
    delta : float
        δ of Eq. 6: by which share a layer's FLOPs may exceed the average. The paper gives no value; 0.5 is a guess that
        lets layers hold whole blocks.
    clustering : {"dp", "equal_operator"}
        Eq. 6, or the baseline of §8.3.
    submeshes : {"all", "power_of_two"}
        Shapes of submeshes: the paper's, or with numbers of nodes that are powers of two.
    logical : tuple of (int, int), optional
        Logical mesh shapes to consider, whichever way round; by default all.
    stages : {"any", "equal_layer", "one", "one_device"}
        Which stages the programme may form: any; as many layers in each (§8.3); one alone, "intra-op only"; each on one
        device, "inter-op only".
    schedule : {"1f1b", "gpipe", "interleaved_1f1b", "zb_h1"}
        Pipeline schedule. It decides how many microbatches a stage holds (Eq. 5).
    interleave : int
        Virtual stages per mesh; above 1 with the interleaved schedule only.
    epsilon : float
        ε of Algorithm 1, seconds: the plan is at most B · ε from the optimum. 0: exact.
    memory_fraction : float
        Share of a device's memory that a plan may fill. The rest is for the framework's own context, communication
        buffers and fragmentation; 0.9 is what the paper's XLA runtime takes.
    recompute : {"none", "selective", "full", "auto"}
        Activation recomputation of every stage; auto: chosen per stage by the dynamic programme, none where memory
        does not ask for it.
    zero : {0, 2, 3}
        Weight-update sharding: 2, the paper's post-ILP rewriting, cuts gradients and optimiser states along all axes
        that repeat a weight; 3 the weights too; 0 neither. With 0 and 2 the ILP may still store a weight cut.
    force_batch : bool
        Map axis 0 of every logical mesh to the batch, as the authors' code does.
    sequence_parallel : bool
        Whether norms and element-wise operators between tensor-parallel ones may be cut along the sequence.
    cross_stage : bool or "auto"
        Whether the stage programme counts the transfers between stages; the paper does not. "auto" plans both ways and
        takes the plan whose simulated iteration is shorter.
    overlap : bool
        Whether transfers between stages overlap with computation.
    resharding : {"send_recv", "scatter_gather", "local_all_gather"}
        How tensors move between meshes (§6).
    optimizer : {"adam", "sgd", "momentum", "adafactor"}
        Name of the optimiser; it decides the bytes of a parameter's state.
    solve_s : float
        Seconds for the exact ILP of each large chosen stage, if the prices of memory leave a gap. By default it is not
        tried, because the plan would then depend on the speed of the machine.
    workers : int
        Processes that price submeshes. The plan does not depend on it.

    Raises
    ------
    InputError
        If an option has a value that it may not have.
    """

    n_layers: int | None = None
    delta: float = 0.5
    clustering: Literal["dp", "equal_operator"] = "dp"
    submeshes: Literal["all", "power_of_two"] = "all"
    logical: tuple[tuple[int, int], ...] | None = None
    stages: Literal["any", "equal_layer", "one", "one_device"] = "any"
    schedule: Literal["1f1b", "gpipe", "interleaved_1f1b", "zb_h1"] = "1f1b"
    interleave: int = 1
    epsilon: float = 0.0
    memory_fraction: float = 0.9
    recompute: Literal["none", "selective", "full", "auto"] = "auto"
    zero: Literal[0, 2, 3] = 2
    force_batch: bool = False
    sequence_parallel: bool = False
    cross_stage: bool | Literal["auto"] = False
    overlap: bool = False
    resharding: Literal["send_recv", "scatter_gather", "local_all_gather"] = "local_all_gather"
    optimizer: Literal["adam", "sgd", "momentum", "adafactor"] = "adam"
    solve_s: float = 0.0
    workers: int = 1

    def __post_init__(self) -> None:
        for name, known in _CHOICES.items():
            value = getattr(self, name)
            if value not in known:
                near = difflib.get_close_matches(str(value), known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
                raise InputError(f"alpa: {name}: unknown value {value!r}; {hint}")
        if self.cross_stage != "auto" and not isinstance(self.cross_stage, bool):
            raise InputError(f"alpa: cross_stage: expected true, false or auto (got {self.cross_stage!r})")
        for name in ("force_batch", "sequence_parallel", "overlap"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"alpa: {name}: expected true or false (got {getattr(self, name)!r})")
        for name in ("interleave", "workers", "n_layers"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise InputError(f"alpa: {name}: expected a positive integer (got {value!r})")
        ranges = [(name, 0.0, math.inf) for name in ("delta", "epsilon", "solve_s")] + [("memory_fraction", 0.0, 1.0)]
        for name, least, most in ranges:
            value = getattr(self, name)
            number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
            if not number or not least <= value <= most or (name == "memory_fraction" and value == 0):
                raise InputError(f"alpa: {name}: expected a number from {least} to {most} (got {value!r})")
        if self.zero not in (0, 2, 3):
            raise InputError(f"alpa: zero: expected 0, 2 or 3 (got {self.zero!r})")
        if (self.interleave > 1) != (self.schedule == "interleaved_1f1b"):
            raise InputError(
                f"alpa: interleave {self.interleave} does not go with schedule {self.schedule!r}; "
                "several virtual stages per mesh need interleaved_1f1b, and it needs at least 2"
            )
        if self.logical is not None:
            object.__setattr__(self, "logical", _shapes(self.logical))

    @classmethod
    def of(cls, options: AlpaOptions | Mapping[str, Any] | None) -> AlpaOptions:
        """Options from a mapping.

        Raises
        ------
        InputError
            If a name is unknown; the message suggests the nearest known one.
        """
        return options_from(cls, options, "alpa")

    def to_json(self) -> dict[str, Any]:
        """What a plan records: the options that can change the decision, by name."""
        plain = {k: v for k, v in asdict(self).items() if k != "workers"}
        if self.logical is not None:
            plain["logical"] = [list(shape) for shape in self.logical]
        return plain


def _shapes(value: Any) -> tuple[tuple[int, int], ...]:
    """Logical shapes as pairs of positive sizes."""
    try:
        shapes = tuple((int(a), int(b)) for a, b in value)
    except (TypeError, ValueError):
        shapes = ()
    if not shapes or any(min(shape) < 1 for shape in shapes):
        raise InputError(f"alpa: logical: expected shapes of two dimensions, such as [[2, 4], [8, 1]] (got {value!r})")
    return shapes
