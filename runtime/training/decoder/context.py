"""Attention over tokens that are cut over ranks: keys come round in a ring, or heads are dealt out (Ulysses)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import _functional_collectives as collectives

from .model import causal

__all__ = ["all_to_all_attention", "positions_of", "ring_attention"]


def positions_of(rank: int, ranks: int, seq: int, context: str) -> list[int]:
    """Positions of a rank's tokens in the sequence.

    In a ring piece `rank` of 2 x `ranks`, and the one that lies as far from the end: together every rank's tokens see
    as many keys (Brandon et al. 2023, "Striped Attention", balance otherwise; this is Megatron's and torch's way).
    Where heads are dealt out every rank sees all tokens, and pieces follow each other.
    """
    if ranks == 1 or context == "all_to_all":
        size = seq // ranks
        return list(range(rank * size, (rank + 1) * size))
    size = seq // (2 * ranks)
    late = 2 * ranks - 1 - rank
    return [*range(rank * size, (rank + 1) * size), *range(late * size, (late + 1) * size)]


def ring_attention(q: Tensor, k: Tensor, v: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Causal attention of this rank's queries over the keys of all ranks, which come round."""
    return _Ring.apply(q, k, v, group)


def all_to_all_attention(q: Tensor, k: Tensor, v: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Causal attention of a share of the heads over all tokens, and back to this rank's tokens (Jacobs et al. 2023)."""
    whole = causal(*(_dealt(x, 1, 2, group) for x in (q, k, v)))
    return _dealt(whole, 2, 1, group)


def _dealt(x: Tensor, cut: int, joined: int, group: dist.ProcessGroup) -> Tensor:
    """Dimension `cut` is cut over the ranks of the group, dimension `joined` is put together from them."""
    ranks = group.size()
    parts = torch.stack(x.chunk(ranks, cut)).flatten(0, 1).contiguous()
    sizes = [x.shape[0]] * ranks
    came = collectives.all_to_all_single_autograd(parts, sizes, sizes, group)
    came = came.wait() if isinstance(came, collectives.AsyncCollectiveTensor) else came
    return torch.cat(came.unflatten(0, (ranks, -1)).unbind(0), joined)


class _Ring(torch.autograd.Function):
    """Blockwise softmax (Liu et al. 2023, "Ring Attention"): results are added up by their logarithms' sums.

    Backward, keys, values and their gradients go round together; after a whole round each is at home.
    """

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, group: dist.ProcessGroup) -> Tensor:
        many = q.shape[1] // k.shape[1]
        rank, ranks = group.rank(), group.size()
        out, total = torch.zeros_like(q), q.new_full(q.shape[:3], -math.inf)
        held, source = torch.stack([k, v]), rank
        for turn in range(ranks):
            coming, waits = (None, []) if turn == ranks - 1 else _passed(held, group)
            for mine, theirs, same in _pairs(rank, source, ranks, q.shape[2]):
                keys, values = (x[:, :, theirs].repeat_interleave(many, 1) for x in held)
                scores = _scores(q[:, :, mine], keys, same)
                sums = scores.logsumexp(-1)
                both = torch.logaddexp(total[:, :, mine], sums)
                out[:, :, mine] = (
                    out[:, :, mine] * (total[:, :, mine] - both).exp().unsqueeze(-1)
                    + (scores - both.unsqueeze(-1)).exp() @ values
                )
                total[:, :, mine] = both
            if coming is not None:
                for wait in waits:
                    wait.wait()
                held, source = coming, (source - 1) % ranks
        ctx.save_for_backward(q, k, v, out, total)
        ctx.group = group
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        (given,) = gradients
        q, k, v, out, total = ctx.saved_tensors
        group: dist.ProcessGroup = ctx.group
        many = q.shape[1] // k.shape[1]
        rank, ranks = group.rank(), group.size()
        drift = (given * out).sum(-1)
        dq = torch.zeros_like(q)
        held, source = torch.stack([k, v, torch.zeros_like(k), torch.zeros_like(v)]), rank
        for _ in range(ranks):
            for mine, theirs, same in _pairs(rank, source, ranks, q.shape[2]):
                keys, values = (x[:, :, theirs].repeat_interleave(many, 1) for x in held[:2])
                shares = (_scores(q[:, :, mine], keys, same) - total[:, :, mine].unsqueeze(-1)).exp()
                wanted = given[:, :, mine]
                apart = shares * (wanted @ values.transpose(-1, -2) - drift[:, :, mine].unsqueeze(-1))
                apart = apart / math.sqrt(q.shape[-1])
                dq[:, :, mine] += apart @ keys
                for x, part in ((2, apart.transpose(-1, -2) @ q[:, :, mine]), (3, shares.transpose(-1, -2) @ wanted)):
                    held[x][:, :, theirs] += part.unflatten(1, (-1, many)).sum(2)
            coming, waits = _passed(held, group)  # the last turn brings everybody's home
            for wait in waits:
                wait.wait()
            held, source = coming, (source - 1) % ranks
        return dq, held[2], held[3], None


def _scores(q: Tensor, keys: Tensor, same: bool) -> Tensor:
    """Scaled products; of one piece with itself a query sees no later key."""
    scores = q @ keys.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if same:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(hidden, -math.inf)
    return scores


def _pairs(rank: int, source: int, ranks: int, tokens: int) -> Iterator[tuple[slice, slice, bool]]:
    """Halves of this rank's queries, halves of another's keys that they see, and whether these are the same piece."""
    half = tokens // 2
    places = (slice(0, half), slice(half, tokens))
    for mine, piece in zip(places, (rank, 2 * ranks - 1 - rank), strict=True):
        for theirs, other in zip(places, (source, 2 * ranks - 1 - source), strict=True):
            if other <= piece:
                yield mine, theirs, other == piece


def _passed(held: Tensor, group: dist.ProcessGroup) -> tuple[Tensor, list[dist.Work]]:
    """What the rank before sends, on its way, while this rank's goes to the next."""
    rank, ranks = group.rank(), group.size()
    coming = torch.empty_like(held)
    to, of = (dist.get_global_rank(group, x % ranks) for x in (rank + 1, rank - 1))
    pair = [dist.P2POp(dist.isend, held.contiguous(), to, group), dist.P2POp(dist.irecv, coming, of, group)]
    return coming, dist.batch_isend_irecv(pair)
