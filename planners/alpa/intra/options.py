"""`IntraOptions`: the options of the intra-operator pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ....errors import InputError

__all__ = ["IntraOptions", "Recompute"]

Recompute = Literal["none", "selective", "full"]


@dataclass(frozen=True, slots=True)
class IntraOptions:
    """Options of `solve_stage`, `score` and `interval_costs`.

    Parameters
    ----------
    memory_bytes : float
        Bytes per device for state, activations in flight and temporaries; 0: no bound.
    in_flight : int
        Microbatches whose activations are held at once (under 1F1B, the stages after this one + 1).
    microbatches : int
        B: what happens once an iteration counts 1/B in the objective.
    force_batch : bool
        Map axis 0 to the batch (or, in operators on experts, to the experts) wherever there is one.
    zero : {0, 2, 3}
        0: gradients and optimiser states are kept as the weights are. 2: cut along all axes that repeat the weight,
        which turns the all-reduce of its gradient into a reduce-scatter and an all-gather of the new weights (§4.2,
        post-ILP rewriting). 3: the weights are kept cut as well and gathered where they are used.
    reduce_every_microbatch : bool
        Whether gradients are summed over devices after each microbatch. If not, each device accumulates them as its
        operators make them (whole if the weight is whole), and they are summed once an iteration.
    recompute : {"none", "selective", "full"}
        What the backward pass computes again: nothing, attention cores (two products of activations and the softmax
        between them), or every repeated layer.
    sequence_parallel : bool
        Sums may be reduce-scattered into any dimension of the result instead of all-reduced; norms and the like between
        two tensor-parallel regions then work on parts.
    overlap : bool
        Whether the gradient reduction overlaps with the backward pass of the last microbatch. The plan's `reduce_s` is
        then only the rest that it cannot hide; the objective still counts all of it.
    data_parallel : bool
        Whether samples may be cut. False: no axis cuts a loop that grows with the samples, nor, in an operator that
        reads parameters, a loop that none of them has (the tokens of a sequence): either copies the weights to every
        device. Serving leaves copies to its placement (AlpaServe §4.1).
    compute : {"model", "zero"}
        Whether the objective counts computation (by the cost model), or only communication as in the paper.
    optimizer : {"adam", "sgd", "momentum", "adafactor"}
        The optimiser whose states are kept.
    time_limit_s : float
        Time limit of one ILP.

    Raises
    ------
    InputError
        If a number is out of range or a word unknown.
    """

    memory_bytes: float = 0.0
    in_flight: int = 1
    microbatches: int = 1
    force_batch: bool = False
    zero: Literal[0, 2, 3] = 0
    reduce_every_microbatch: bool = False
    recompute: Recompute = "none"
    sequence_parallel: bool = False
    overlap: bool = False
    data_parallel: bool = True
    compute: Literal["model", "zero"] = "model"
    optimizer: Literal["adam", "sgd", "momentum", "adafactor"] = "adam"
    time_limit_s: float = 60.0

    def __post_init__(self) -> None:
        if self.force_batch and not self.data_parallel:
            raise InputError(
                "IntraOptions: force_batch maps an axis to the batch, so data_parallel must be true (got false)"
            )
        for name in ("in_flight", "microbatches"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"IntraOptions.{name}: expected a positive integer (got {value!r})")
        if not self.memory_bytes >= 0:
            raise InputError(f"IntraOptions.memory_bytes: expected bytes ≥ 0, 0 for no bound (got {self.memory_bytes})")
        if not self.time_limit_s > 0:
            raise InputError(f"IntraOptions.time_limit_s: expected seconds > 0 (got {self.time_limit_s})")
        words: dict[str, tuple[int | str, ...]] = {
            "zero": (0, 2, 3),
            "recompute": ("none", "selective", "full"),
            "compute": ("model", "zero"),
            "optimizer": ("adam", "sgd", "momentum", "adafactor"),
        }
        for name, known in words.items():
            if getattr(self, name) not in known:
                known_text = ", ".join(map(str, known))
                raise InputError(f"IntraOptions.{name}: expected one of {known_text} (got {getattr(self, name)!r})")

    @property
    def per_iteration(self) -> float:
        """Weight in the objective of one gradient reduction: how often it happens, over B."""
        return 1.0 if self.reduce_every_microbatch else 1.0 / self.microbatches
