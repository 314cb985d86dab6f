"""Values of fused parameters: taken apart for the graph, and put together for the module."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ..operator import Tensor

if TYPE_CHECKING:
    import torch

__all__ = ["apart", "parts_of", "together"]


def apart(values: Mapping[str, torch.Tensor], tensors: Iterable[Tensor]) -> dict[str, torch.Tensor]:
    """Values by the graph's names: of a parameter that the graph holds in parts, its parts.

    Parameters
    ----------
    values : mapping
        By the module's names.
    tensors : iterable of Tensor
        The graph's parameters.
    """
    found = dict(values)
    for t in tensors:
        if t.part is not None and t.part.of in values:
            whole = values[t.part.of]
            found[t.name] = whole.narrow(t.part.dim, t.part.start, t.shape[t.part.dim]).contiguous()
            found.pop(t.part.of, None)
    return found


def together(values: Mapping[str, torch.Tensor], tensors: Iterable[Tensor]) -> dict[str, torch.Tensor]:
    """Values by the module's names: parts are put together where all of them are there.

    Parameters
    ----------
    values : mapping
        By the graph's names.
    tensors : iterable of Tensor
        The graph's parameters.
    """
    import torch

    found = dict(values)
    for name, parts in parts_of(tensors).items():
        if all(t.name in values for t in parts):
            found[name] = torch.cat([found.pop(t.name) for t in parts], _dim(parts[0]))
    return found


def parts_of(tensors: Iterable[Tensor]) -> dict[str, list[Tensor]]:
    """The module's parameters that a graph holds in parts -> their parts, in the parameter's order."""
    found: dict[str, list[Tensor]] = {}
    for t in tensors:
        if t.part is not None:
            found.setdefault(t.part.of, []).append(t)
    return {name: sorted(parts, key=_start) for name, parts in found.items()}


def _start(t: Tensor) -> int:
    return 0 if t.part is None else t.part.start


def _dim(t: Tensor) -> int:
    return 0 if t.part is None else t.part.dim
