"""Measure the best that a device can do: copy bandwidth and matrix-multiplication rate."""

from __future__ import annotations

import torch

from .timing import time_callable

__all__ = ["copy_bandwidth", "matmul_peak"]


def copy_bandwidth(device: str = "cpu", *, n_bytes: int = 2**26, budget_s: float = 0.5) -> float:
    """Best memory bandwidth of a large copy, in bytes per second, read plus written.

    Parameters
    ----------
    device : str
        Torch device.
    n_bytes : int
        Size of the copied buffer. It must exceed the caches; the default of 64 MiB does on CPUs and on GPUs up to the
        H100 (50 MB).
    budget_s : float
        Seconds to spend.
    """
    source = torch.ones(n_bytes // 4, dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    timing = time_callable(lambda: target.copy_(source), device, warmup=2, repeats=50, budget_s=budget_s)
    return 2.0 * source.numel() * source.element_size() / timing.min_s


def matmul_peak(device: str = "cpu", *, dtype: str = "float32", size: int = 1024, budget_s: float = 0.5) -> float:
    """Best rate of a large square matrix product, in FLOP per second.

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
