"""Whether a backend's callable computes what eager does: on 3 random inputs, views among them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["DRAWS", "Wrong", "disagreement", "drawn"]

DRAWS = 3
"""Random inputs that a unit is tried on."""


class Wrong(Exception):
    """What a callable gives is no result at all: of another number, shape or type, or it changes what it was given."""


def drawn(real: Any, generator: Any, view: bool) -> Any:
    """A random tensor like a real one: its values drawn from it, its strides, or those of a view that was turned.

    Drawing from real values keeps what operators need: indices in their range, variances that are positive.

    Parameters
    ----------
    real : torch.Tensor
        What stood there when the network ran.
    generator : torch.Generator
        Of the draw.
    view : bool
        Give a transposed view where the tensor has two dimensions.
    """
    import torch

    flat = real.reshape(-1)
    picked = flat[torch.randint(len(flat), (len(flat),), generator=generator)] if len(flat) else flat
    if view and real.dim() >= 2:
        turned = (*real.shape[:-2], real.shape[-1], real.shape[-2])
        return picked.reshape(turned).transpose(-1, -2)
    out = torch.empty_strided(real.shape, _apart(real), dtype=real.dtype)
    return out.copy_(picked.reshape(real.shape))


def disagreement(run: Callable[..., Any], eager: Callable[..., Any], real: Sequence[Any], seed: int) -> float:
    """Largest difference from eager over the largest value, over `DRAWS` inputs.

    Raises
    ------
    Wrong
        If the results are not of the number, shapes and types of eager's, the callable changes its inputs, or writes
        the results of a later call into those of an earlier one.
    """
    import torch

    worst, earlier = 0.0, list[tuple[Any, Any]]()
    for draw in range(DRAWS):
        generator = torch.Generator().manual_seed(seed * DRAWS + draw)
        given = [drawn(one, generator, view=draw == 1) for one in real]
        before = [one.clone() for one in given]
        expected = eager(*given)
        found = run(*given)
        if any(not torch.equal(one, copy) for one, copy in zip(given, before, strict=True) if _ordinary(copy)):
            raise Wrong("it changes its inputs")
        if not isinstance(found, tuple | list) or len(found) != len(expected):
            raise Wrong(f"it gives {_counted(found)}, expected a tuple of {len(expected)} tensors")
        for one, other in zip(found, expected, strict=True):
            worst = max(worst, _difference(one, other))
        if any(not torch.equal(one, copy) for one, copy in earlier if _ordinary(copy)):
            raise Wrong("a later call changes the results of an earlier one; give new tensors")
        earlier = [(one, one.clone()) for one in found]
    return worst


def _difference(found: Any, expected: Any) -> float:
    import torch

    if not isinstance(found, torch.Tensor) or found.shape != expected.shape or found.dtype != expected.dtype:
        got = f"{tuple(found.shape)} {found.dtype}" if isinstance(found, torch.Tensor) else type(found).__name__
        raise Wrong(f"a result is {got}, expected {tuple(expected.shape)} {expected.dtype}")
    if not expected.is_floating_point():
        return 0.0 if torch.equal(found, expected) else math.inf
    known = torch.isfinite(expected)
    odd = ~known
    if odd.any() and not torch.equal(torch.nan_to_num(found[odd]), torch.nan_to_num(expected[odd])):
        return math.inf
    if not known.any():
        return 0.0
    largest = expected[known].abs().max().item()
    apart = (found[known].double() - expected[known].double()).abs().max().item()
    if math.isnan(apart):
        return math.inf
    return apart / largest if largest else (0.0 if apart == 0 else math.inf)


def _apart(real: Any) -> Any:
    """Strides of a tensor; those of a contiguous one where elements of the real one share memory (expanded)."""
    shared = any(stride == 0 and extent > 1 for stride, extent in zip(real.stride(), real.shape, strict=True))
    return real.contiguous().stride() if shared else real.stride()


def _ordinary(tensor: Any) -> bool:
    return not tensor.is_floating_point() or bool((tensor == tensor).all())


def _counted(found: Any) -> str:
    return f"{len(found)} results" if isinstance(found, tuple | list) else type(found).__name__
