"""`floats_are`: the number format of what operators make of nothing (ones, ranges, draws): a run's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["floats_are"]


@contextmanager
def floats_are(dtype: str) -> Iterator[None]:
    """Torch's default for floating-point numbers, put back afterwards.

    A degree that is counted in float32 and raised to −1/2 is 6e-8 off in a run in float64, and products of the two are
    refused.
    """
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, dtype))
    try:
        yield
    finally:
        torch.set_default_dtype(before)
