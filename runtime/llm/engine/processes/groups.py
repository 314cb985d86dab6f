"""`Groups`: the processes that share a model over torch.distributed: tensor-parallel rows, cache-parallel columns."""

from __future__ import annotations

# torch is typed in part.
# pyright: standard
import os
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor

from .....errors import InputError
from .....kernels.collective import all_reduce_over, finish
from .....kernels.llm import LLMKernels
from .....kernels.llm.cache_parallel import Share
from ..model import Attend, Decoder, PagedAttention
from ..options import EngineConfig
from ..weights import Weights
from .split_attention import SplitAttention

if TYPE_CHECKING:
    from ..runner import Memory

__all__ = ["Groups"]


class Groups:
    """Process groups of one rank; rank ``shard * tp + part``.

    Parameters
    ----------
    options : EngineConfig
        `tp` and `cp`, the device and the longest wait.
    rank : int
        Which process this is.
    store : str
        File that the processes meet at, on a file system that all of them see.

    Raises
    ------
    InputError
        If this process has a default process group of its own.
    """

    def __init__(self, options: EngineConfig, rank: int, store: str) -> None:
        if dist.is_initialized():
            raise InputError(
                "engine: torch.distributed is already initialised in this process; an engine with tp or cp above 1 "
                "needs it for itself: close the other engine, or use a process of its own"
            )
        self.options, self.rank = options, rank
        interface = os.environ.get("GLOO_SOCKET_IFNAME")
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
        wait = timedelta(seconds=options.timeout_s)
        try:
            dist.init_process_group(
                "nccl" if options.cuda else "gloo",
                init_method=f"file://{store}",
                rank=rank,
                world_size=options.world,
                timeout=wait,
            )
            tp, cp = options.tp, options.cp
            rows = [dist.new_group([shard * tp + part for part in range(tp)], wait) for shard in range(cp)]
            columns = [dist.new_group([shard * tp + part for shard in range(cp)], wait) for part in range(tp)]
        finally:
            if interface is None:
                os.environ.pop("GLOO_SOCKET_IFNAME", None)
        self.shard, self.part = divmod(rank, tp)
        self.row: Any = rows[self.shard]
        self.column: Any = columns[self.part]

    def decoder(self, weights: Weights, kernels: LLMKernels, scale: float, memory: Memory) -> Decoder:
        """This rank's share of a model."""
        options = self.options
        attend: Attend = PagedAttention(kernels, scale)
        if options.cp > 1:
            attend = SplitAttention(
                kernels, scale, memory.block_size, Share(self.shard, options.cp), self.gather_shards
            )
        split = options.tp > 1
        return Decoder(
            weights,
            attend,
            memory.longest,
            add_up=all_reduce_over(self.row) if split else None,
            join=self.join_logits if weights.head_split else None,
        )

    def gather_shards(self, own: Tensor) -> Tensor:
        """Everybody's tensor of the same sequence shards, stacked."""
        return self._gather(own, self.options.cp, self.column)

    def join_logits(self, own: Tensor) -> Tensor:
        """Logits of the whole vocabulary from the ranks' shares."""
        return torch.cat(list(self._gather(own, self.options.tp, self.row)), -1)

    def _gather(self, own: Tensor, n: int, group: Any) -> Tensor:
        every = torch.empty((n, *own.shape), dtype=own.dtype, device=own.device)
        work = dist.all_gather(list(every), own.contiguous(), group=group, async_op=True)
        finish(work, every)
        return every

    def close(self) -> None:
        """Leave."""
        if dist.is_initialized():
            dist.destroy_process_group()
