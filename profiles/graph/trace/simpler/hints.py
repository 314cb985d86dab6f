"""Code of torch that looks at values and computes the same without: for a hint, or to check what it is given."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["nobody_traces", "not_for_compilers", "without_hints"]

LOOKS = "_detect_is_causal_mask"
"""Function of torch.nn.modules.transformer that compares a mask with the causal one. The hint that it gives changes no
result: a mask that is causal is read off the traced operators (`tidy`)."""


@contextmanager
def without_hints() -> Iterator[None]:
    """torch.nn.Transformer takes the hint that it is given, and none by itself; distributions check no values; a module
    that is brought to the dtype that it has stays as it is."""
    import torch
    from torch.distributions import Distribution
    from torch.nn.modules import transformer

    looks, checks = getattr(transformer, LOOKS, None), Distribution._validate_args  # pyright: ignore[reportPrivateUsage]
    to = torch.nn.Module.to

    def given(mask: Any, is_causal: bool | None = None, size: int | None = None) -> bool:
        del mask, size
        return bool(is_causal)

    if looks is not None:
        setattr(transformer, LOOKS, given)

    def brought(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self if _is_already(self, args, kwargs) else to(self, *args, **kwargs)

    Distribution.set_default_validate_args(False)
    torch.nn.Module.to = brought
    try:
        yield
    finally:
        torch.nn.Module.to = to
        Distribution.set_default_validate_args(checks)
        if looks is not None:
            setattr(transformer, LOOKS, looks)


def _is_already(module: Any, args: Any, kwargs: Any) -> bool:
    """Whether all of a module has the dtype, and is on the device, that it is to be brought to."""
    import torch

    device, dtype, _, memory_format = torch._C._nn._parse_to(*args, **kwargs)  # pyright: ignore
    parts = [*module.parameters(), *module.buffers()]
    return memory_format is None and all(
        device in (None, x.device) and (dtype in (None, x.dtype) or not (x.is_floating_point() or x.is_complex()))
        for x in parts
    )


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


@contextmanager
def nobody_traces() -> Iterator[None]:
    """Modules hear neither that they are compiled nor that they are traced: masks are made as in a run, or left out."""
    from torch import compiler

    tracing = sys.modules.get("transformers.utils.import_utils")
    places: list[tuple[Any, str, Callable[..., bool]]] = [(compiler, "is_exporting", lambda: False)]
    places += [] if tracing is None else [(tracing, "is_fake_tensor", lambda _: False)]
    before = [(place, name, getattr(place, name)) for place, name, _ in places if hasattr(place, name)]
    with not_for_compilers():
        try:
            for place, name, said in places:
                setattr(place, name, said)
            yield
        finally:
            for place, name, own in before:
                setattr(place, name, own)
