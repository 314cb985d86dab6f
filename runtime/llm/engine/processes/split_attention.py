"""Cache parallelism: attention where every sequence's tokens are spread over processes.

Token i of a sequence is on shard ``i mod shards`` (thesis §4.4, interleaved so that growth is balanced); a block of the
scheduler's covers ``block_size`` tokens and lies in pieces of ``block_size / shards`` on every shard, so block tables
are the same everywhere. Each shard attends to its own keys; partial results (m, s, o) are gathered and merged.
"""

from __future__ import annotations

# torch is typed in part.
# pyright: standard
from collections.abc import Callable

import torch
from torch import Tensor

from .....kernels.llm import LLMKernels
from .....kernels.llm.cache_parallel import Share, local_partial
from ..batch import Batch

__all__ = ["SplitAttention", "own_slots"]

TILE = 256
"""Queries of a prompt that are scored at once: scores of a whole prompt would be quadratic memory. A guess."""


def own_slots(slots: Tensor, positions: Tensor, block_size: int, share: Share) -> Tensor:
    """Slots on a shard of the tokens that are its own; −1 for those of others."""
    size = block_size // share.size
    own = slots // block_size * size + share.place(slots % block_size)
    return torch.where(share.holds(positions) & (slots >= 0), own, -1)


class SplitAttention:
    """Attention of a batch over a cache of which this process holds a shard; see `Attend`.

    Parameters
    ----------
    kernels : LLMKernels
        Which kernels.
    scale : float
        Factor on the scores.
    block_size : int
        Tokens of a block, those of all shards.
    share : Share
        Which tokens are here.
    gather : callable
        Tensor -> those of all shards, stacked in order in a new first dimension.
    """

    def __init__(
        self, kernels: LLMKernels, scale: float, block_size: int, share: Share, gather: Callable[[Tensor], Tensor]
    ) -> None:
        self.kernels, self.scale, self.block_size = kernels, scale, block_size
        self.share, self.gather = share, gather
        self._batch: Batch | None = None
        self._slots = self._contexts = torch.empty(0)
        self._lengths: list[tuple[int, int, int]] = []

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor, batch: Batch) -> Tensor:
        """Write what is this shard's, attend to it, and merge what all shards found."""
        if batch is not self._batch:
            self._of(batch)
        n, wide = batch.layout.decodes, torch.promote_types(q.dtype, torch.float32)
        self.kernels.reshape_and_cache(k, v, keys, values, self._slots)
        parts: list[Tensor] = []
        if n:
            o, m, s = local_partial(q[:n], keys, values, batch.tables[:n], self._contexts, self.scale, self.kernels)
            parts.append(torch.cat((o.to(wide), m[..., None].to(wide), s[..., None].to(wide)), -1))
        for row, (low, high, context) in enumerate(self._lengths):
            parts.append(self._chunk(q[low:high], keys, values, batch.tables[n + row], context).to(wide))
        every = self.gather(torch.cat(parts) if len(parts) > 1 else parts[0])  # [shards, tokens, heads, width + 2]
        o, m, s = every.movedim(0, 2).split((q.shape[2], 1, 1), -1)
        return self.kernels.merge_partials(o.contiguous(), m[..., 0].contiguous(), s[..., 0].contiguous()).to(q.dtype)

    def _of(self, batch: Batch) -> None:
        """What is the same in every layer."""
        n = batch.layout.decodes
        self._slots = own_slots(batch.slots, batch.positions, self.block_size, self.share)
        self._contexts = self.share.lens(batch.contexts[:n])
        starts, contexts = batch.starts.tolist(), batch.contexts[n:].tolist()
        self._lengths = [(n + starts[i], n + starts[i + 1], context) for i, context in enumerate(contexts)]
        self._batch = batch

    def _chunk(self, q: Tensor, keys: Tensor, values: Tensor, table: Tensor, context: int) -> Tensor:
        """Partial results of a piece of a prompt, (tokens, heads, width + 2): o, m and s side by side."""
        tokens, heads, width = q.shape
        wide = torch.promote_types(q.dtype, torch.float32)
        held = int(self.share.lens(torch.tensor(context)))
        size = keys.shape[1]
        blocks = table[: -(-held // size)].long()
        k = keys[blocks].flatten(0, 1)[:held].to(wide)
        v = values[blocks].flatten(0, 1)[:held].to(wide)
        group = heads // keys.shape[2]
        at = torch.arange(held, device=q.device) * self.share.size + self.share.rank
        found = torch.empty(tokens, heads, width + 2, dtype=wide, device=q.device)
        for low in range(0, tokens, TILE):
            high = min(low + TILE, tokens)
            tile = q[low:high].to(wide).view(high - low, -1, group, width)
            score = torch.einsum("tkgd,skd->tkgs", tile, k) * self.scale
            place = torch.arange(context - tokens + low, context - tokens + high, device=q.device)
            score.masked_fill_((at[None] > place[:, None])[:, None, None], -torch.inf)
            m = score.amax(-1) if held else score.new_full(score.shape[:-1], -torch.inf)
            weight = torch.exp(score - torch.where(m.isfinite(), m, 0.0)[..., None])
            s = weight.sum(-1)
            o = torch.einsum("tkgs,skd->tkgd", weight, v) / torch.where(s > 0, s, 1.0)[..., None]
            found[low:high] = torch.cat((o, m[..., None], s[..., None]), -1).view(high - low, heads, width + 2)
        return found
