"""`TeraPipeOptions`: what the planner may choose from."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
import difflib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, cast

from ...errors import InputError
from ...reprs import Shown
from ..option_names import options_from

__all__ = ["TeraPipeOptions"]

_CHOICES: Mapping[str, tuple[str, ...]] = {
    "slicing": ("dp", "uniform", "none"),
    "schedule": ("auto", "terapipe", "terapipe_1f1b"),
    "recompute": ("none", "selective", "full", "auto"),
    "context": ("linear", "exact"),
    "resharding": ("send_recv", "scatter_gather", "local_all_gather"),
    "optimizer": ("adam", "sgd", "momentum", "adafactor"),
}
AUTO_UNITS = 128
"""Most units of a sequence by default: 16 tokens each for 2,048. Coarser than the paper's 8 tokens, which take longer
to price and change plans little (the optimum is flat)."""
AUTO_SAMPLES = (1, 2, 4, 8)
"""Numbers of sequences that may go together by default. A guess: more fill GPUs no better once a slice does."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TeraPipeOptions(Shown):
    """Options of `planners.terapipe.plan`.

    Parameters
    ----------
    data, pipe, op : int, optional
        Number of data-parallel replicas, of pipeline stages, and of devices that share each operator (within a node).
        A degree that is not given is chosen: all combinations that use the whole cluster and fit are simulated.
    slicing : {"dp", "uniform", "none"}
        "dp": slices of samples and tokens by the dynamic programme. "uniform": the best equal slices (§2.5.2). "none":
        whole sequences, as in GPipe ("w/o TeraPipe").
    tokens : tuple of int, optional
        Fixed lengths of the slices of every microbatch, instead of a search; they must sum to the sequence.
    granularity : int
        Tokens of a unit; slices are multiples of it. 0: at most 128 units for a sequence.
    samples : tuple of int, optional
        Numbers of sequences of one replica that may go through the pipeline together; by default 1, 2, 4 and 8.
    epsilon : float
        ε of §2.3.3, in seconds; 0 is exact.
    schedule : {"auto", "terapipe", "terapipe_1f1b"}
        "terapipe": all slices forward, then all backward, which keeps the activations of the whole batch.
        "terapipe_1f1b": gradient accumulation in 1F1B order, which keeps those of few microbatches. "auto": the faster
        of those that fit.
    recompute : {"none", "selective", "full", "auto"}
        Activation recomputation; "auto" takes the least that fits.
    context : {"linear", "exact"}
        The overhead of context in the search: Eq. 2.9, fitted to a few pairs, or the cost model's own for all pairs
        (slow). The seconds that a plan reports for its slices are exact in both cases.
    slice_profile : SliceProfile or path, optional
        Measured seconds of slices (`meshwright measure training --model MODEL`), in place of the cost model's.
    memory_fraction : float
        Share of a device's memory that a plan may fill. The default is what Alpa's runtime takes of a device.
    overlap : bool
        Whether transfers between stages overlap with computation. If not, they are part of a slice's time, as in the
        paper (Eq. 2.4).
    resharding : {"send_recv", "scatter_gather", "local_all_gather"}
        How tensors move between meshes.
    optimizer : {"adam", "sgd", "momentum", "adafactor"}
        Name of the optimiser; it decides the bytes of a parameter's state.

    Raises
    ------
    InputError
        If an option has a value that it may not have.
    """

    data: int | None = None
    pipe: int | None = None
    op: int | None = None
    slicing: Literal["dp", "uniform", "none"] = "dp"
    tokens: tuple[int, ...] | None = None
    granularity: int = 0
    samples: tuple[int, ...] | None = None
    epsilon: float = 0.0
    schedule: Literal["auto", "terapipe", "terapipe_1f1b"] = "auto"
    recompute: Literal["none", "selective", "full", "auto"] = "auto"
    context: Literal["linear", "exact"] = "linear"
    slice_profile: Any = None
    memory_fraction: float = 0.9
    overlap: bool = False
    resharding: Literal["send_recv", "scatter_gather", "local_all_gather"] = "local_all_gather"
    optimizer: Literal["adam", "sgd", "momentum", "adafactor"] = "adam"

    def __post_init__(self) -> None:
        for name, known in _CHOICES.items():
            value = getattr(self, name)
            if value not in known:
                near = difflib.get_close_matches(str(value), known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
                raise InputError(f"terapipe: {name}: unknown value {value!r}; {hint}")
        for name in ("data", "pipe", "op"):
            if getattr(self, name) is not None and not _positive(getattr(self, name)):
                raise InputError(f"terapipe: {name}: expected a positive integer (got {getattr(self, name)!r})")
        for name in ("tokens", "samples"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _integers(name, getattr(self, name)))
        if not (_positive(self.granularity) or self.granularity == 0):
            raise InputError(f"terapipe: granularity: expected tokens, or 0 for auto (got {self.granularity!r})")
        if not isinstance(self.overlap, bool):
            raise InputError(f"terapipe: overlap: expected true or false (got {self.overlap!r})")
        if not (_number(self.epsilon) and self.epsilon >= 0):
            raise InputError(f"terapipe: epsilon: expected seconds >= 0 (got {self.epsilon!r})")
        if not (_number(self.memory_fraction) and 0 < self.memory_fraction <= 1):
            raise InputError(f"terapipe: memory_fraction: expected more than 0, up to 1 (got {self.memory_fraction!r})")
        if self.tokens is not None and self.slicing != "dp":
            raise InputError(f"terapipe: tokens: given slices are not to be chosen; leave out slicing {self.slicing!r}")

    @classmethod
    def of(cls, options: TeraPipeOptions | Mapping[str, Any] | None) -> TeraPipeOptions:
        """Options from a mapping.

        Raises
        ------
        InputError
            If a name is unknown; the message suggests the nearest known one.
        """
        return options_from(cls, options, "terapipe")

    def to_json(self) -> dict[str, Any]:
        """The options as a plan records them."""
        plain = asdict(self)
        profile = plain.pop("slice_profile")
        for name in ("tokens", "samples"):
            plain[name] = None if plain[name] is None else list(plain[name])
        return plain if profile is None else plain | {"slice_profile": str(self.slice_profile)}

    def unit(self, tokens: int) -> int:
        """Tokens of one unit of a sequence.

        Raises
        ------
        InputError
            If they do not divide it.
        """
        if self.granularity:
            from .latency import units

            units(tokens, self.granularity)
            return self.granularity
        return next(u for u in range(1, tokens + 1) if tokens % u == 0 and tokens // u <= AUTO_UNITS)

    def together(self, batch: int) -> tuple[int, ...]:
        """Numbers of samples that may go together, for a replica's batch.

        Raises
        ------
        InputError
            If no such groups make up the batch.
        """
        wanted = AUTO_SAMPLES if self.samples is None else self.samples
        found = tuple(sorted({b for b in wanted if b <= batch}))
        if not found:
            raise InputError(f"terapipe: samples: {min(wanted)} together are more than a replica's batch of {batch}")
        return found


def _positive(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _integers(name: str, value: Any) -> tuple[int, ...]:
    many = cast("list[Any] | tuple[Any, ...]", value) if isinstance(value, (list, tuple)) else ()
    found: tuple[Any, ...] = (value,) if isinstance(value, int) else tuple(many)
    if not found or not all(_positive(x) for x in found):
        raise InputError(f"terapipe: {name}: expected positive integers, such as [1, 2, 4] (got {value!r})")
    return found
