"""`SequentialOptions`: what `pipedream` and `piper` may choose from."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ....errors import InputError
from ....profiles.graph.memory import OPTIMIZERS
from ....reprs import Shown
from ...option_names import options_from
from ..footprint import FOOTPRINTS, Footprint
from ..units import Granularity

__all__ = ["SequentialOptions"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SequentialOptions(Shown):
    """Options of the sequential planners.

    Parameters
    ----------
    granularity : {"layer", "heavy", "operator"}
        What stages are made of; see `group_operators`.
    microbatches : tuple of int, optional
        Microbatch sizes (in samples) that are tried; by default all powers of two that divide the global batch.
    devices : tuple of int, optional
        Data-parallel degrees; by default all powers of two that form a mesh.
    memory_fraction : float
        Share of a device's memory that a plan may fill. The default is what Alpa's runtime takes of a device; the rest
        is for what no plan counts: CUDA's context, NCCL's buffers, fragments.
    optimizer : str
        Name of the optimiser; it decides the bytes of a parameter's state.
    footprint : {"saved", "flexflow"}
        What a device holds of each sample in flight: what the backward pass reads, or every tensor with its gradient,
        as FlexFlow does (`footprint.tensor_table`).
    overlap : bool
        Whether transfers overlap with computation.
    ties : int
        Among pipelines with the least bottleneck, so many numbers of stages are tried, from the fewest on, and the one
        whose simulated iteration is the shortest is taken. 1: the fewest stages, before anything is simulated.
    max_states : int
        For Piper: the most downsets that are searched; the default takes seconds. A graph with more is refused with a
        `LimitError`. The authors' program stops at 40,000.

    Raises
    ------
    InputError
        If an option has a value that it may not have.
    """

    granularity: Granularity = "layer"
    microbatches: tuple[int, ...] | None = None
    devices: tuple[int, ...] | None = None
    memory_fraction: float = 0.9
    optimizer: Literal["adam", "sgd", "momentum", "adafactor"] = "adam"
    footprint: Footprint = "saved"
    overlap: bool = False
    ties: int = 1
    max_states: int = 200_000

    def __post_init__(self) -> None:
        for name, known in (
            ("granularity", ("layer", "heavy", "operator")),
            ("optimizer", tuple(OPTIMIZERS)),
            ("footprint", FOOTPRINTS),
        ):
            if getattr(self, name) not in known:
                raise InputError(f"{name}: expected one of {', '.join(known)} (got {getattr(self, name)!r})")
        if not 0 < self.memory_fraction <= 1:
            raise InputError(f"memory_fraction: expected a number above 0, at most 1 (got {self.memory_fraction!r})")
        if self.ties < 1:
            raise InputError(f"ties: expected at least 1 (got {self.ties!r})")
        if self.max_states < 2:
            raise InputError(f"max_states: expected at least 2 (got {self.max_states!r})")
        for name in ("microbatches", "devices"):
            value = getattr(self, name)
            if value is not None:
                numbers = tuple(value)
                if not numbers or any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in numbers):
                    raise InputError(f"{name}: expected positive integers (got {value!r})")
                object.__setattr__(self, name, numbers)

    @classmethod
    def of(cls, options: SequentialOptions | Mapping[str, Any] | None) -> SequentialOptions:
        """Options from a mapping.

        Raises
        ------
        InputError
            If a name is unknown; the message suggests the nearest known one.
        """
        return options_from(cls, options, "options")
