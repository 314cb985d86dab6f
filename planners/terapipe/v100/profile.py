"""`v100_profile`: write the seconds of a `V100Cell` as a slice profile, with which plans can be made (Eq. 2.9)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....errors import InputError
from ..slice_profile import PartTimes, SliceProfile
from .cell import CALIBRATED, V100Cell, V100Layout, V100Rates

__all__ = ["v100_profile"]

_PAIRS = 16
"""Number of lengths, and of contexts, at which the overhead of context is given: as in the authors' published
program."""


def v100_profile(
    hidden: int,
    *,
    op: int = 1,
    tokens: int = 2048,
    unit: int = 8,
    samples: Sequence[int] = (1, 2, 4, 8),
    model: str = "",
    rates: V100Rates = CALIBRATED,
) -> SliceProfile:
    """A slice profile of one layer of a GPT on V100s.

    Parameters
    ----------
    hidden : int
        H, the model's hidden size.
    op : int
        GPUs of a node that share the layer.
    tokens, unit : int
        L, and the multiples of tokens for which times without context are given; divides L.
    samples : sequence of int
        Numbers of sequences in a slice; by default those that plans try.
    model : str
        Name of the model in the profile; by default ``gpt-<H>``.
    rates : V100Rates
        The rates of the GPUs.

    Raises
    ------
    InputError
        If the unit does not divide the sequence, or no node can be cut so.
    """
    if unit < 1 or tokens % unit:
        raise InputError(f"v100_profile: unit: expected a divisor of {tokens} tokens (got {unit})")
    cell = V100Cell(V100Layout(layers=8, hidden=hidden, data=1, pipe=8, op=op), tokens, rates)
    lengths = np.arange(unit, tokens + 1, unit)
    some = np.unique(np.linspace(unit, tokens, _PAIRS).round().astype(int) // unit * unit)
    pairs = [(i, j) for i in some for j in some if i + j <= tokens]
    length = np.array([*lengths, *(i for i, _ in pairs)])
    context = np.array([*(0 for _ in lengths), *(j for _, j in pairs)])
    columns: list[tuple[int, int, int, float, float]] = []
    for b in samples:
        forward, backward = cell.layer(length, context, b)
        columns += zip([b] * len(length), *(x.tolist() for x in (length, context, forward, backward)), strict=True)
    block = PartTimes(**dict(zip(PartTimes.model_fields, map(tuple, zip(*columns, strict=True)), strict=True)))
    return SliceProfile(
        model=model or f"gpt-{hidden}",
        tokens=tokens,
        op=op,
        device="v100-16gb",
        source="counted, at rates fitted to latencies of TeraPipe's paper (planners.terapipe.v100); not measured",
        parts={"block": block},
    )
