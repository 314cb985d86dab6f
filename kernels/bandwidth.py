"""What a device can do at best: copy bandwidth and matrix-multiplication rate, measured."""

from __future__ import annotations

import torch

from .timing import time_callable

__all__ = ["copy_bandwidth", "matmul_peak"]


def copy_bandwidth(device: str = "cpu", *, n_bytes: int = 2**26, budget_s: float = 0.5) -> float:
    """Memory bandwidth of a large copy at its best, bytes per second (read plus written).

    Parameters
    ----------
    device : str
        Torch device.
    n_bytes : int
        Size of the copied buffer; must exceed the caches to mean anything.
    budget_s : float
        Seconds to spend.
    """
    source = torch.ones(n_bytes // 4, dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    timing = time_callable(lambda: target.copy_(source), device, warmup=2, repeats=50, budget_s=budget_s)
    return 2.0 * source.numel() * source.element_size() / timing.min_s


def matmul_peak(device: str = "cpu", *, dtype: str = "float32", size: int = 1024, budget_s: float = 0.5) -> float:
    """Rate of a large square matrix product at its best, FLOP per second.

    Parameters
    ----------
    device, dtype : str
        Torch device and type.
    size : int
        Rows and columns.
    budget_s : float
        Seconds to spend.
    """
    a = torch.ones(size, size, dtype=getattr(torch, dtype), device=device)
    b = torch.ones_like(a)
    out = torch.empty_like(a)
    timing = time_callable(lambda: torch.matmul(a, b, out=out), device, warmup=2, repeats=50, budget_s=budget_s)
    return 2.0 * size**3 / timing.min_s
