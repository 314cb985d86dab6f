"""Code of torch that looks at values and computes the same without: for a hint, or to check what it is given."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["not_for_compilers", "without_hints"]

LOOKS = "_detect_is_causal_mask"
"""Function of torch.nn.modules.transformer that compares a mask with the causal one. The hint that it gives changes no
result: a mask that is causal is read off the traced operators (`tidy`)."""


@contextmanager
def without_hints() -> Iterator[None]:
    """torch.nn.Transformer takes the hint that it is given, and none by itself; distributions check no values."""
    from torch.distributions import Distribution
    from torch.nn.modules import transformer

    looks, checks = getattr(transformer, LOOKS, None), Distribution._validate_args  # pyright: ignore[reportPrivateUsage]

    def given(mask: Any, is_causal: bool | None = None, size: int | None = None) -> bool:
        del mask, size
        return bool(is_causal)

    if looks is not None:
        setattr(transformer, LOOKS, given)
    Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        Distribution.set_default_validate_args(checks)
        if looks is not None:
            setattr(transformer, LOOKS, looks)


@contextmanager
def not_for_compilers() -> Iterator[None]:
    """Modules that ask whether they are compiled hear that they are not: some make a mask only where they are not."""
    import torch

    before = torch.compiler.is_compiling
    torch.compiler.is_compiling = lambda: False
    try:
        yield
    finally:
        torch.compiler.is_compiling = before
