"""GShard's mixture of experts: top-k gating with capacity, and dispatch and combine as einsums."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from .parts import Projection
from .transformer import GPT, Block, Mlp

__all__ = ["Experts", "MoE", "top_k_gate"]


def top_k_gate(probabilities: Tensor, top_k: int, capacity: int) -> Tensor:
    """Combine weights of GShard's gate (Algorithm 1, without the random second choice).

    Parameters
    ----------
    probabilities : Tensor
        [group, token, expert].
    top_k : int
        Experts of a token.
    capacity : int
        Places of an expert in a group.

    Returns
    -------
    Tensor
        [group, token, expert, place]: the token's share where it has the place, else 0. First choices take their
        places before second ones, each in the order of the tokens; choices beyond the capacity are dropped.
    """
    left, masks, shares = probabilities, list[Tensor](), list[Tensor]()
    for _ in range(top_k):
        mask = nn.functional.one_hot(left.argmax(-1), left.shape[-1])
        masks.append(mask)
        shares.append((probabilities * mask).sum(-1))
        left = left.masked_fill(mask.bool(), -1.0)
    total = torch.stack(shares).sum(0)
    taken = torch.zeros_like(masks[0][:, :1])
    combined = torch.zeros((*probabilities.shape, capacity), dtype=probabilities.dtype, device=probabilities.device)
    for mask, share in zip(masks, shares, strict=True):
        place = ((mask.cumsum(1) - mask + taken) * mask).sum(-1)
        taken = taken + mask.sum(1, keepdim=True)
        # A place at or beyond the capacity goes to a column that is cut off.
        seat = nn.functional.one_hot(place.clamp(max=capacity), capacity + 1)[..., :capacity]
        combined = combined + (share / total)[..., None, None] * mask[..., None] * seat[..., None, :]
    return combined


class Experts(nn.Module):
    """A feed-forward block for each expert; the tokens of one sequence are one group."""

    def __init__(self, hidden: int, ffn: int, experts: int, capacity: int, top_k: int) -> None:
        super().__init__()
        self.top_k, self.capacity = top_k, capacity
        self.gate = Projection("bsh,he->bse", (hidden, experts), hidden)
        self.up = Projection("ebch,ehf->ebcf", (experts, hidden, ffn), hidden, (experts, ffn), (experts, 1, 1, ffn))
        self.down = Projection(
            "ebcf,efh->ebch", (experts, ffn, hidden), ffn, (experts, hidden), (experts, 1, 1, hidden)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Send tokens to experts, run them, gather what they say."""
        weights = top_k_gate(self.gate(x).softmax(-1), self.top_k, self.capacity)
        sent = torch.einsum("bsec,bsh->ebch", (weights != 0).to(x.dtype), x)
        return torch.einsum("bsec,ebch->bsh", weights, self.down(nn.functional.gelu(self.up(sent))))


class MoE(GPT):
    """`GPT` whose every second MLP (layers 1, 3, …) is a mixture of experts.

    Parameters
    ----------
    experts : int
        Experts of a layer.
    ffn : int
        Hidden size of the MLP and of one expert; 0: 8 x hidden.
    top_k, capacity_factor
        An expert takes ceil(capacity_factor x top_k x seq / experts) tokens of a sequence.
    **shape
        As for `GPT`.
    """

    def __init__(
        self, *, experts: int, hidden: int, seq: int, ffn: int = 0, top_k: int = 2, capacity_factor: float = 1.0,
        **shape: int,
    ) -> None:  # fmt: skip
        self.experts, self.top_k = experts, top_k
        self.capacity = math.ceil(capacity_factor * top_k * seq / experts)
        super().__init__(hidden=hidden, seq=seq, ffn=ffn or 8 * hidden, **shape)  # pyright: ignore[reportArgumentType]

    def block(self, i: int, hidden: int, heads: int, ffn: int, fused: bool) -> Block:
        """Layer `i`."""
        if i % 2 == 0:
            return Block(hidden, heads, Mlp(hidden, ffn), fused=fused)
        return Block(hidden, heads, Experts(hidden, ffn, self.experts, self.capacity, self.top_k), "moe", fused)
