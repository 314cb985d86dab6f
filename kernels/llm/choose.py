"""`LLMKernels`: one set of kernels with one meaning, and the choice of a set for a device."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Protocol

from torch import Tensor

from .reference import kernels as reference

__all__ = ["BACKENDS", "LLMKernels", "kernels_for"]

BACKENDS = ("auto", "torch", "triton")


class PagedDecode(Protocol):
    """See `reference.paged_decode`."""

    def __call__(
        self, q: Tensor, k_cache: Tensor, v_cache: Tensor, block_tables: Tensor, context_lens: Tensor, scale: float
    ) -> Tensor: ...


class PagedDecodePartial(Protocol):
    """See `reference.paged_decode_partial`."""

    def __call__(
        self,
        q: Tensor,
        k_cache: Tensor,
        v_cache: Tensor,
        block_tables: Tensor,
        context_lens: Tensor,
        scale: float,
        splits: int,
    ) -> tuple[Tensor, Tensor, Tensor]: ...


class MergePartials(Protocol):
    """See `reference.merge_partials`."""

    def __call__(self, o: Tensor, m: Tensor, s: Tensor) -> Tensor: ...


class PrefillAttention(Protocol):
    """See `reference.prefill_attention`."""

    def __call__(
        self,
        q: Tensor,
        k_cache: Tensor,
        v_cache: Tensor,
        block_tables: Tensor,
        query_starts: Tensor,
        context_lens: Tensor,
        scale: float,
    ) -> Tensor: ...


class ReshapeAndCache(Protocol):
    """See `reference.reshape_and_cache`."""

    def __call__(self, k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor, slots: Tensor) -> None: ...


class CopyBlocks(Protocol):
    """See `reference.copy_blocks`."""

    def __call__(self, k_cache: Tensor, v_cache: Tensor, pairs: Tensor) -> None: ...


@dataclass(frozen=True, slots=True)
class LLMKernels:
    """The kernels that an LLM engine runs on. All sets mean the same; `reference` says what.

    Parameters
    ----------
    name : {"torch", "triton"}
        Name of the set of kernels.
    paged_decode, paged_decode_partial, merge_partials, prefill_attention, reshape_and_cache, copy_blocks : callable
        As the functions of `meshwright.kernels.llm.reference.kernels`.
    """

    name: str
    paged_decode: PagedDecode
    paged_decode_partial: PagedDecodePartial
    merge_partials: MergePartials
    prefill_attention: PrefillAttention
    reshape_and_cache: ReshapeAndCache
    copy_blocks: CopyBlocks


def kernels_for(device: str, backend: str = "auto") -> LLMKernels:
    """The kernels for a device.

    Parameters
    ----------
    device : str
        Torch device: ``cpu``, ``cuda``, ``cuda:1``.
    backend : {"auto", "torch", "triton"}
        ``auto``: Triton's on CUDA where Triton is installed, else torch's. Triton is imported only if it is taken.

    Raises
    ------
    ValueError
        On an unknown backend, or Triton's where it is not installed or (without its interpreter) on another device.
    """
    if backend not in BACKENDS:
        raise ValueError(f"kernels_for: backend must be one of {', '.join(BACKENDS)} (got {backend!r})")
    kind = device.partition(":")[0]
    if kind not in ("cpu", "cuda"):
        raise ValueError(f"kernels_for: device must be cpu or cuda (got {device!r})")
    installed = find_spec("triton") is not None
    if backend == "triton" and not installed:
        raise ValueError("kernels_for: backend triton needs triton (not installed); pip install triton")
    if backend == "torch" or (backend == "auto" and (kind == "cpu" or not installed)):
        return LLMKernels(
            "torch", reference.paged_decode, reference.paged_decode_partial, reference.merge_partials,
            reference.prefill_attention, reference.reshape_and_cache, reference.copy_blocks,
        )  # fmt: skip
    from .triton.kernels import triton_kernels

    return triton_kernels(kind)
