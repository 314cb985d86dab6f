"""The paged KV cache of one process: device blocks of every layer, a swap space on the host, and moves between them."""

from __future__ import annotations

# torch is typed in part.
# pyright: standard
import torch
from torch import Tensor

from ....errors import InputError
from ....kernels.llm import LLMKernels

__all__ = ["KVCache"]


class KVCache:
    """Keys and values of all layers.

    Parameters
    ----------
    layers, blocks, block_size, kv_heads, head_dim : int
        Sizes; ``block_size`` tokens of a block are on this process.
    host_blocks : int
        Blocks of the swap space.
    dtype, device
        Of the tensors.

    Raises
    ------
    InputError
        If the device has no room for it.
    """

    def __init__(
        self,
        layers: int,
        blocks: int,
        block_size: int,
        kv_heads: int,
        head_dim: int,
        *,
        host_blocks: int = 0,
        dtype: torch.dtype = torch.float32,
        device: str | torch.device = "cpu",
    ) -> None:
        self.device = torch.device(device)
        shape = (blocks, block_size, kv_heads, head_dim)
        try:
            self.layers = [
                (
                    torch.zeros(shape, dtype=dtype, device=self.device),
                    torch.zeros(shape, dtype=dtype, device=self.device),
                )
                for _ in range(layers)
            ]
        except (torch.OutOfMemoryError, RuntimeError) as error:
            need = 2 * layers * blocks * block_size * kv_heads * head_dim * torch.empty(0, dtype=dtype).element_size()
            raise InputError(
                f"KV cache: {blocks} blocks of {block_size} tokens need {need / 2**30:.3g} GiB, which {device} "
                f"has not; lower the number of blocks ({type(error).__name__})"
            ) from None
        pinned = self.device.type == "cuda"
        self.host: list[tuple[Tensor, Tensor]] = []
        if host_blocks:
            space = (host_blocks, *shape[1:])
            self.host = [
                (torch.zeros(space, dtype=dtype, pin_memory=pinned), torch.zeros(space, dtype=dtype, pin_memory=pinned))
                for _ in range(layers)
            ]

    def swap_out(self, pairs: Tensor) -> None:
        """Move blocks to the host; pairs of device and host block, shape (n, 2)."""
        source, target = pairs[:, 0], pairs[:, 1].cpu()
        for own, host in zip(self.layers, self.host, strict=True):
            for device_part, host_part in zip(own, host, strict=True):
                host_part.index_copy_(0, target, device_part.index_select(0, source).cpu())

    def swap_in(self, pairs: Tensor) -> None:
        """Move blocks to the device; pairs of host and device block."""
        source, target = pairs[:, 0].cpu(), pairs[:, 1]
        for own, host in zip(self.layers, self.host, strict=True):
            for device_part, host_part in zip(own, host, strict=True):
                device_part.index_copy_(0, target, host_part.index_select(0, source).to(self.device))

    def copy(self, pairs: Tensor, kernels: LLMKernels) -> None:
        """Copy blocks on the device (copy-on-write); pairs of source and target."""
        for keys, values in self.layers:
            kernels.copy_blocks(keys, values, pairs)
