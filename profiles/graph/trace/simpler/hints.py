"""Modules of torch that look at a mask's values for a hint: traced without looking, the mask being applied as it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["without_hints"]

LOOKS = "_detect_is_causal_mask"
"""Function of torch.nn.modules.transformer that compares a mask with the causal one. The hint that it gives changes no
result: a mask that is causal is read off the traced operators (`tidy`)."""


@contextmanager
def without_hints() -> Iterator[None]:
    """torch.nn.Transformer and its layers take the hint that they are given, and none by themselves."""
    from torch.nn.modules import transformer

    looks = getattr(transformer, LOOKS, None)

    def given(mask: Any, is_causal: bool | None = None, size: int | None = None) -> bool:
        del mask, size
        return bool(is_causal)

    if looks is not None:
        setattr(transformer, LOOKS, given)
    try:
        yield
    finally:
        if looks is not None:
            setattr(transformer, LOOKS, looks)
