"""`Means`: what may be tried of each of the means that a configuration has, and how it may be said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import InputError
from ...reprs import Shown

__all__ = ["ALL", "AXES", "DEGREES", "FREE", "NAMES", "Choices", "Means", "flags", "numbers", "stages", "words"]

DEGREES = ("tp", "pp", "dp", "cp")
NAMES = (
    "tp", "pp", "dp", "microbatch", "interleave", "recompute", "sequence_parallel", "zero", "cp", "context", "ep",
    "etp", "overlap_experts", "shard", "reshard", "schedule", "offload_optimizer", "offload_activations",
    "first_layers", "last_layers",
)  # fmt: skip
"""Columns of a space."""
AXES = ("degrees", *(name for name in NAMES if name not in DEGREES))
"""Axes of a space, in the order in which equally good configurations are preferred: the first of each counts."""
FREE = ("recompute", "offload_optimizer", "offload_activations")
"""Axes on which no rule depends."""
ALL = "all"
"""Said for one of the means: everything that is possible, where leaving it out tries less."""
Choices = int | bool | str | Sequence[int] | Sequence[bool] | Sequence[str] | None
"""What may be tried for one of the means: one value, several, or None for all."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Means(Shown):
    """What may be tried of each of the means; None: all that is possible.

    Parameters
    ----------
    tp, pp, dp : int or several, optional
        Degrees of tensor, pipeline and data parallelism.
    microbatch : int or several, optional
        Samples of a microbatch.
    interleave : int or several, optional
        Model chunks of a stage.
    recompute : str or several, optional
        Activation recomputation: none, selective, full, chosen; left out: the first three.
    sequence_parallel : bool or both, optional
        Whether norms are cut along the sequence.
    zero : int or several, optional
        ZeRO's stages, 0 to 3.
    cp : int or several, optional
        Degrees of context parallelism; left out: 1. "all": those that the sequence allows.
    context : str or several, optional
        How a cut sequence is attended to: ring, all-to-all; left out: ring.
    ep : int or several, optional
        Degrees of expert parallelism; left out: all that divide the experts.
    etp : int or several, optional
        Devices that share one expert, 0: as tp; left out: 1 with experts.
    overlap_experts : bool or both, optional
        Whether tokens travel beside other work; left out: False.
    shard : int or several, optional
        Devices over which ZeRO shards, 0: all replicas; left out: 0. "all": also whole nodes and their doubles.
    reshard : bool or both, optional
        Whether ZeRO 3 gives gathered parameters back after the forward pass; left out: True.
    schedule : str or several, optional
        Pipelines: 1f1b, zb-h1, dualpipe, zb-v; left out: 1f1b.
    offload_optimizer : bool or both, optional
        Whether the optimizer is on the host; left out: False.
    offload_activations : bool or both, optional
        Whether activations may go to the host meanwhile, as many as are needed; left out: False.
    first_layers, last_layers : int or several, optional
        Layers of the first and of the last stage; left out: 0, as many as the others or one less. "all": all numbers.
    """

    tp: Choices = None
    pp: Choices = None
    dp: Choices = None
    microbatch: Choices = None
    interleave: Choices = None
    recompute: Choices = None
    sequence_parallel: Choices = None
    zero: Choices = None
    cp: Choices = None
    context: Choices = None
    ep: Choices = None
    etp: Choices = None
    overlap_experts: Choices = None
    shard: Choices = None
    reshard: Choices = None
    schedule: Choices = None
    offload_optimizer: Choices = None
    offload_activations: Choices = None
    first_layers: Choices = None
    last_layers: Choices = None


def _several(name: str, given: Any) -> list[Any]:
    if isinstance(given, str) or not hasattr(given, "__iter__"):
        return [given]
    found = list(given)
    if not found:
        raise InputError(f"{name}: expected at least one choice (got none)")
    return found


def numbers(name: str, given: Choices, usual: Sequence[int], least: int = 1) -> tuple[int, ...]:
    """Whole numbers, ascending; `usual` where nothing is said."""
    if given is None:
        return tuple(usual)
    found = _several(name, given)
    for value in found:
        if isinstance(value, bool | np.bool_) or not hasattr(value, "__index__") or int(value) < least:
            what = "a positive integer" if least else "an integer >= 0"
            raise InputError(f"{name}: expected {what}, or several (got {value!r})")
    return tuple(sorted({int(value) for value in found}))


def stages(given: Choices) -> tuple[int, ...]:
    """ZeRO's stages, ascending; all where nothing is said."""
    if given is None or (isinstance(given, str) and given == ALL):
        return (0, 1, 2, 3)
    found = _several("zero", given)
    for value in found:
        if isinstance(value, bool | np.bool_) or not hasattr(value, "__index__") or not 0 <= int(value) <= 3:
            raise InputError(f"zero: expected 0, 1, 2 or 3, or several (got {value!r})")
    return tuple(sorted({int(value) for value in found}))


def words(name: str, given: Choices, every: Sequence[str], usual: int | None = None) -> tuple[str, ...]:
    """Words; `usual` is how many of them are tried where nothing is said, None for all."""
    if given is None:
        return tuple(every[:usual])
    if isinstance(given, str) and given == ALL:
        return tuple(every)
    found = _several(name, given)
    for value in found:
        if value not in every:
            raise InputError(f"{name}: expected some of {', '.join(every)} (got {value!r})")
    return tuple(word for word in every if word in found)


def flags(name: str, given: Choices, usual: tuple[bool, ...]) -> tuple[bool, ...]:
    """False, True or both; `usual` where nothing is said."""
    if given is None:
        return usual
    if isinstance(given, str) and given == ALL:
        return (False, True)
    found = _several(name, given)
    for value in found:
        if not isinstance(value, bool | np.bool_):
            raise InputError(f"{name}: expected True, False or both (got {value!r})")
    return tuple(sorted({bool(value) for value in found}))
