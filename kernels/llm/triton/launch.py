"""What every launch of a Triton kernel asks about its tensors and their device."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
import triton
from torch import Tensor

from .cache import write_kernel

__all__ = ["capability", "check_type", "interpreted", "launching_on", "precision", "processors", "rows"]

TYPES = (torch.float16, torch.bfloat16, torch.float32)

INTERPRETER_PROCESSORS = 4
"""Stands for a device's multiprocessors under the interpreter, so that long contexts are cut there too."""


def interpreted() -> bool:
    """Whether kernels run under Triton's interpreter (TRITON_INTERPRET=1 before Triton was imported)."""
    return not isinstance(write_kernel, triton.JITFunction)


def precision(x: Tensor) -> str:
    """How products of fp32 are taken: as fp32, not as the matrix units' shortened form."""
    return "ieee" if x.dtype == torch.float32 else "tf32"


def launching_on(x: Tensor) -> AbstractContextManager[object]:
    """Makes the device of `x` the one that kernels are launched on."""
    return torch.cuda.device(x.device) if x.is_cuda else nullcontext()


def rows(x: Tensor) -> Tensor:
    """`x` if its last axis has no gaps, else a copy."""
    return x if x.stride(-1) == 1 else x.contiguous()


def check_type(where: str, x: Tensor) -> None:
    """A type that the kernels take.

    Raises
    ------
    ValueError
        On another.
    """
    if x.dtype not in TYPES:
        raise ValueError(f"{where}: Triton's kernel takes float16, bfloat16 or float32 (got {x.dtype}); take torch's")


def processors(x: Tensor) -> int:
    """Multiprocessors of the device of `x`."""
    return torch.cuda.get_device_properties(x.device).multi_processor_count if x.is_cuda else INTERPRETER_PROCESSORS


def capability(x: Tensor) -> int:
    """Compute capability of the device of `x`, as 80, 90, …; 90 under the interpreter."""
    if not x.is_cuda:
        return 90
    major, minor = torch.cuda.get_device_capability(x.device)
    return 10 * major + minor
