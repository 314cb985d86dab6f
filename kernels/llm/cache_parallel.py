"""Decode attention where every sequence's keys and values are spread over processes (cache parallelism, thesis ch. 4).

Each process attends to the tokens that it holds. For each query head it computes its normalised output o, the largest
score m and the sum of exponentials s. Only these are exchanged and merged, not keys and values. Attention does not
depend on the order of keys, so any way to spread the tokens gives the same result, even if a share is empty. `Share`
spreads them evenly.

Two exchanges:

- `cache_parallel_decode`: every process has the queries of all requests and wants all results; an all-gather.
- `spread_decode`: every process has the requests that are its own, as in the thesis (§4.4), where what is not attention
  is spread over requests: an all-gather of queries, an all-to-all of partial results.

Outputs travel in the queries' type, m and s in fp32 (fp64 for fp64), in one message.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from .choose import LLMKernels
from .tiles import splits_for

__all__ = ["Share", "cache_parallel_decode", "local_partial", "spread_decode"]


@dataclass(frozen=True, slots=True)
class Share:
    """Which tokens of a sequence a process holds: runs of `width` tokens are dealt to the processes in turn.

    Parameters
    ----------
    rank, size : int
        This process, and how many there are.
    width : int
        Tokens of a run: 1 spreads growth evenly (thesis §4.4); the longest context or more keeps a sequence whole.

    Raises
    ------
    ValueError
        If they do not fit.
    """

    rank: int
    size: int
    width: int = 1

    def __post_init__(self) -> None:
        if self.size < 1 or not 0 <= self.rank < self.size or self.width < 1:
            raise ValueError(
                f"Share: expected 0 <= rank < size and width >= 1 (got {self.rank}, {self.size} and {self.width})"
            )

    def holds(self, position: Tensor) -> Tensor:
        """Which tokens, given by position in their sequence, are here; bool of the same shape."""
        return position // self.width % self.size == self.rank

    def place(self, position: Tensor) -> Tensor:
        """Position here of tokens that are here, counted over those of their sequence that are."""
        return position // (self.width * self.size) * self.width + position % self.width

    def lens(self, context_lens: Tensor) -> Tensor:
        """Tokens here of sequences of these lengths, same shape and type."""
        turn = self.width * self.size
        rest = (context_lens % turn - self.rank * self.width).clamp(0, self.width)
        return context_lens // turn * self.width + rest


def local_partial(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    block_tables: Tensor,
    share_lens: Tensor,
    scale: float,
    kernels: LLMKernels,
) -> tuple[Tensor, Tensor, Tensor]:
    """Attention over the tokens that are here, as one piece per sequence.

    Parameters
    ----------
    q : Tensor, shape (batch, heads, width)
        Queries.
    k_cache, v_cache, block_tables : Tensor
        This process's cache and tables, as in `reference.paged_decode`.
    share_lens : Tensor of int32, shape (batch,)
        Tokens of each sequence that are here; may be 0.
    scale : float
        Factor on the scores.
    kernels : LLMKernels
        The set of kernels to use.

    Returns
    -------
    o : Tensor, shape (batch, heads, width)
    m, s : Tensor, shape (batch, heads)
        −inf and 0 where nothing is here.

    Raises
    ------
    ValueError
        If shapes or types do not fit.
    """
    splits = 1
    if q.is_cuda:
        room = block_tables.shape[-1] * k_cache.shape[1]
        processors = torch.cuda.get_device_properties(q.device).multi_processor_count
        splits = splits_for(len(q) * k_cache.shape[2], room, processors)
    o, m, s = kernels.paged_decode_partial(q, k_cache, v_cache, block_tables, share_lens, scale, splits)
    if splits == 1:
        return o[:, :, 0], m[..., 0], s[..., 0]
    top = m.amax(dim=-1)
    total = (s * torch.exp(m - top.masked_fill(top.isneginf(), 0.0)[..., None])).sum(dim=-1)
    return kernels.merge_partials(o, m, s), top, total


def cache_parallel_decode(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    block_tables: Tensor,
    share_lens: Tensor,
    scale: float,
    group: dist.ProcessGroup | None,
    kernels: LLMKernels,
) -> Tensor:
    """Decode attention over all processes' caches; every process has all queries and gets all results.

    Parameters
    ----------
    q, k_cache, v_cache, block_tables, share_lens, scale, kernels
        As in `local_partial`; queries and scale are the same on all processes.
    group : ProcessGroup, optional
        The processes that share each sequence; all if None.

    Returns
    -------
    Tensor, shape (batch, heads, width), of q's type
        The outputs, equal bit by bit on all processes.

    Raises
    ------
    ValueError
        If shapes or types do not fit.
    """
    o, m, s = local_partial(q, k_cache, v_cache, block_tables, share_lens, scale, kernels)
    size = dist.get_world_size(group)
    packed = _pack(o.to(q.dtype), m, s)
    every = packed.new_empty((size * packed.shape[0], *packed.shape[1:]))
    dist.all_gather_into_tensor(every, packed, group=group)
    return _merged(every.view(size, *packed.shape), q, kernels)


def spread_decode(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    block_tables: Tensor,
    share_lens: Tensor,
    scale: float,
    group: dist.ProcessGroup | None,
    kernels: LLMKernels,
    requests: Sequence[int],
) -> Tensor:
    """Decode attention over all processes' caches; every process has the queries of its own requests only.

    Parameters
    ----------
    q : Tensor, shape (own requests, heads, width)
        Queries of this process's requests.
    k_cache, v_cache, block_tables, share_lens
        As in `local_partial`, for the requests of all processes, those of process 0 first.
    scale, group, kernels
        As in `cache_parallel_decode`.
    requests : sequence of int
        Number of requests of each process; may be 0.

    Returns
    -------
    Tensor, shape (own requests, heads, width), of q's type

    Raises
    ------
    ValueError
        If the numbers of requests do not fit the processes, the queries or the tables.
    """
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    counts = list(requests)
    if len(counts) != size or min(counts) < 0 or counts[rank] != len(q) or sum(counts) != len(block_tables):
        raise ValueError(
            f"spread_decode: requests must count the requests of {size} processes, {len(q)} of them here and "
            f"{len(block_tables)} in all (got {counts})"
        )
    # all-gather of equal shapes: the most requests that a process has
    most = max(counts)
    padded = q.new_zeros((most, *q.shape[1:]))
    padded[: len(q)] = q
    gathered = q.new_empty((size * most, *q.shape[1:]))
    dist.all_gather_into_tensor(gathered, padded, group=group)
    everyone = gathered.view(size, most, *q.shape[1:])
    all_q = torch.cat([everyone[other, :count] for other, count in enumerate(counts)])
    o, m, s = local_partial(all_q, k_cache, v_cache, block_tables, share_lens, scale, kernels)
    packed = _pack(o.to(q.dtype), m, s)
    received = packed.new_empty((size * len(q), *packed.shape[1:]))
    dist.all_to_all_single(received, packed, [len(q)] * size, counts, group=group)
    return _merged(received.view(size, len(q), *packed.shape[1:]), q, kernels)


def _pack(o: Tensor, m: Tensor, s: Tensor) -> Tensor:
    """Bytes of o, m and s of each head, side by side: one message."""
    statistics = torch.stack((m, s), dim=-1).contiguous()
    return torch.cat((o.contiguous().view(torch.uint8), statistics.view(torch.uint8)), dim=-1)


def _merged(parts: Tensor, q: Tensor, kernels: LLMKernels) -> Tensor:
    """The merge of what each process found: bytes ``[processes, requests, heads, bytes]``."""
    wide = torch.promote_types(q.dtype, torch.float32)
    parts = parts.movedim(0, 2)
    cut = q.shape[-1] * q.element_size()
    o = parts[..., :cut].contiguous().view(q.dtype).to(wide)
    statistics = parts[..., cut:].contiguous().view(wide)
    if not len(q):
        return torch.empty_like(q)
    m, s = statistics[..., 0].contiguous(), statistics[..., 1].contiguous()
    return kernels.merge_partials(o, m, s).to(q.dtype)
