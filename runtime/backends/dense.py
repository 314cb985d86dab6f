"""`dense`: a callable that is given contiguous tensors only, whatever views it is called with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["dense"]


def dense(run: Callable[..., Any], example: Sequence[Any]) -> Callable[..., tuple[Any, ...]]:
    """`run` with every input made contiguous first; what is contiguous already is passed as it is.

    Inputs that are contiguous in the example are looked at all the same: another backend may hand over a view there.
    """
    if len(example) == 1:
        return lambda one: run(one if one.is_contiguous() else one.contiguous())
    return lambda *given: run(*[one if one.is_contiguous() else one.contiguous() for one in given])
